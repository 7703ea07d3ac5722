#!/usr/bin/env python3
"""How long the trainer takes from its start to its first iteration.

usage: start.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          runs per net, in turn; figures are medians
  --nets=A,B          compare.py's names; default lenet,resnet50
  --threads=2
  --flags=A,B         further flags of the trainer
  --warm=MIB          another process touches that much memory just before each run, see below
  --json=FILE         default BUILD_FOLDER/bench/start.json
  --write=FOLDER      also FOLDER/start.md

Every run is a separate process: parse, build, fill the parameters, train a few iterations on synthetic data. "first loss" is the
time from the start of the process to the log line of the first iteration; "iteration" the median of the later ones;
"start" their difference, what starting costs, including what the first iteration creates (kernels, memory pages);
"before" ends where the first iteration begins. A machine that gives free memory back to its host pays again for every
page at its first use, many times as much as the processor's share: --warm=MIB makes another process touch that much
just before each run. Never part of a test run; no figure makes it fail.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import pathlib

import common
import compare

GOAL = {"lenet": 0.3, "resnet50": 2.0}
TOUCH = "import sys; data = bytearray(int(sys.argv[1]) << 20); data[::4096] = bytes(len(data[::4096]))"


def run(trainer, folder, net, options):
    compare.write_net(folder, net)
    solver = pathlib.Path(folder) / "solver.prototxt"
    solver.write_text(compare.SOLVER.format(folder=folder, display=1, iterations=4))
    if options["warm"]:
        subprocess.run([sys.executable, "-c", TOUCH, str(options["warm"])], check=True)
    command = [trainer, f"--solver={solver}", "--cpu=1", f"--threads_per_device={options['threads']}", "--progress=off"]
    done = common.run(command + [flag for flag in options["flags"].split(",") if flag])
    seconds = [float(s) for s in re.findall(r"Iteration \d+ \([^,]*, ([0-9.e+-]+)s/", done.err)]
    first, iteration = compare.start_seconds(done), statistics.median(seconds[1:])
    return {"first_loss": first, "iteration": iteration, "start": first - iteration, "before": first - seconds[0]}


def main():
    options = {"rounds": 5, "nets": "lenet,resnet50", "threads": 2, "flags": "", "warm": 0, "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets = options["nets"].split(",")
    if len(words) > 1 or options["rounds"] < 1 or any(net not in compare.NETS for net in nets):
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    about = common.provenance(trainer, options=options)
    runs = {net: [] for net in nets}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options["rounds"]):
            for net in nets:
                runs[net].append(run(trainer, folder, net, options))
    rows = []
    for net in nets:
        figures = [statistics.median(r[key] for r in runs[net]) for key in ("first_loss", "iteration", "start", "before")]
        rows.append(
            [f"{net} b{compare.NETS[net]['shape'][0]}", *(f"{f:.3f}" for f in figures), GOAL.get(net, "-")]
        )
    lines = [
        f"{about['date']}, {about['cpu']}, {options['threads']} threads of {about['cores']} cores; {about['trainer']}. "
        f"Medians of {options['rounds']} runs, in seconds.",
        "",
        common.table(["net", "first loss", "iteration", "start", "before", "goal"], rows),
        "",
        "*first loss*: from the start of the process to the end of its first iteration. *iteration*: a later one.",
        "*start*: the difference. *before*: to the beginning of the first iteration. Made by `tests/bench/start.py`.",
    ]
    print("\n".join(lines))
    common.save_json(options["json"] or build / "bench/start.json", {"about": about, "runs": runs})
    if options["write"]:
        common.save_markdown(options["write"], "start", "Start to first iteration", lines, False)


if __name__ == "__main__":
    common.run_main(main)
