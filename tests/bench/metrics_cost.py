#!/usr/bin/env python3
"""What metrics and early warnings cost: the same solver with all of them and with none, in alternating runs, as ratios.

usage: metrics_cost.py [BUILD_FOLDER] [options]          (default build/release)
  --solver=models/digits/solver.prototxt    its data must exist (tools/quickstart.sh makes the digits); run from the repository
  --rounds=9
  --iterations=1000       of each run; the first --warmup=100 are not counted
  --display=20            iterations from one report to the next
  --histograms=100        iterations; 0: none
  --images=1000           iterations; 0: none
  --warnings=on           off: metrics only; only: warnings without metrics
  --devices=--cpu=2       flags that choose the devices
  --json=FILE             default BUILD_FOLDER/bench/metrics_cost.json

Prints the median of the rounds' ratios, with them to without, of the time that iterations take (from the log), and of the
processor time of the whole process, which other programs disturb less.
"""

import re
import resource
import statistics
import subprocess
import sys
import tempfile

import common

USAGE = __doc__
DROPPED = ("max_iter", "display", "test_iter", "test_interval", "test_initialization", "snapshot", "snapshot_prefix",
           "snapshot_after_train")


def solver_text(path, options, folder):
    lines = [line for line in open(path) if line.split(":")[0].strip() not in DROPPED]
    return "".join(lines) + (
        f"\nmax_iter: {options['iterations']}\ndisplay: {options['display']}\nsnapshot_after_train: false\n"
        f'snapshot_prefix: "{folder}/none"\n'
    )


def run(command, warmup):
    """Seconds per iteration after the warm-up, and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    log = common.run(command).err
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = [(int(i), float(s)) for i, s in re.findall(r"Iteration (\d+) \([^,]*, ([0-9.e+-]+)s/", log)]
    counted = [(i, s) for i, s in shown if i > warmup]
    iterations = counted[-1][0] - max(i for i, _ in shown if i <= warmup)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return sum(s for _, s in counted) / iterations, processor


def main():
    options = {"solver": "models/digits/solver.prototxt", "rounds": 9, "iterations": 1000, "warmup": 100, "display": 20,
               "histograms": 100, "images": 1000, "warnings": "on", "devices": "--cpu=2", "json": ""}
    words = common.parse(sys.argv[1:], options, USAGE)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    result = common.provenance(trainer, options=options, rounds=[])
    for _ in range(options["rounds"]):
        with tempfile.TemporaryDirectory() as folder:
            solver = f"{folder}/solver.prototxt"
            with open(solver, "w") as out:
                out.write(solver_text(options["solver"], options, folder))
            plain = [trainer, f"--solver={solver}", "--progress=off", *options["devices"].split()]
            extras = [f"--metrics={folder}/metrics", f"--histograms={options['histograms']}",
                      f"--images={options['images']}", f"--warnings={options['warnings']}"]
            if options["warnings"] == "only":
                extras = ["--warnings=on"]
            contenders = [("without", ["--warnings=off"]), ("with", extras)]
            if len(result["rounds"]) % 2:
                contenders.reverse()
            measured = {name: run(plain + flags, options["warmup"]) for name, flags in contenders}
            size = 0
            if options["warnings"] != "only":
                size = subprocess.run(["du", "-sb", f"{folder}/metrics"], capture_output=True, text=True).stdout.split()[0]
            result["rounds"].append({**measured, "bytes": int(size)})
    rounds = result["rounds"]
    rows = []
    for index, what in enumerate(("iteration, ms", "processor, s")):
        scale = 1000 if index == 0 else 1
        a, b = ([scale * one[side][index] for one in rounds] for side in ("without", "with"))
        ratios = [y / x for x, y in zip(a, b)]
        rows.append([what, f"{statistics.median(a):.3f}", f"{statistics.median(b):.3f}",
                     f"{statistics.median(ratios):.4f}", f"{min(ratios):.4f} to {max(ratios):.4f}"])
    print(common.table(["median of rounds", "without", "with", "ratio", "range"], rows))
    print(f"{rounds[-1]['bytes'] / options['iterations']:.0f} bytes an iteration")
    common.save_json(options["json"] or build / "bench/metrics_cost.json", result)


common.run_main(main)
