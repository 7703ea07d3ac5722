#!/usr/bin/env python3
"""Instructions of one training iteration, by Callgrind: a figure that does not depend on the load of the machine.

usage: callgrind.py BUILD_FOLDER [options]
  --nets=lenet        comma-separated list of compare.py's names
  --iterations=4      the difference of two runs, of 1 + this and of 1 iterations, is divided by it
  --record            write the figures into docs/bench/callgrind.json (with date and versions); without it they are
                      compared with those, and the script exits with 1 if one is more than 2 % higher
  --tolerance=0.02    that limit
  --json=FILE         default BUILD_FOLDER/bench/callgrind.json

Valgrind does not support AVX-512: BUILD_FOLDER must have been configured with -DBANYAN_NATIVE=OFF, and the libraries are
told to use AVX2. One thread, one CPU device, synthetic data. Figures from other compilers and library versions are not
comparable: both are recorded, and differences are reported.
"""

import json
import pathlib
import re
import shutil
import sys
import tempfile

import common
import compare

RECORDED = common.REPOSITORY / "docs/bench/callgrind.json"
NO_AVX512 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OMP_NUM_THREADS": "1",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-EVEX_Preferred",
}


def instructions(trainer, folder, net, iterations):
    """Number of instructions of a whole run."""
    compare.write_net(folder, net)
    solver = pathlib.Path(folder) / "solver.prototxt"
    solver.write_text(compare.SOLVER.format(folder=folder, display=0, iterations=iterations))
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", trainer, f"--solver={solver}"]
    command += ["--cpu=1", "--threads_per_device=1", "--pin=off", "--progress=off", "--watchdog=0"]
    try:
        done = common.run(command, NO_AVX512)
    except common.Failed as why:
        if "SIGILL" in str(why) or "-4:" in str(why) or "132" in str(why):
            raise common.Failed(f"{trainer} has instructions that Valgrind does not know: configure with -DBANYAN_NATIVE=OFF")
        raise
    return int(re.search(r"Collected : (\d+)", done.err)[1])


def measure(trainer, net, iterations):
    with tempfile.TemporaryDirectory() as folder:
        one = instructions(trainer, folder, net, 1)
        more = instructions(trainer, folder, net, 1 + iterations)
    return {"start": one, "iteration": round((more - one) / iterations)}


def versions(trainer):
    lines = common.run([trainer, "--version"], NO_AVX512).out.splitlines()
    return ", ".join(line for line in lines if not line.startswith(("CPU", "GPU", "CUDA")))


def judge(now, then, tolerance):
    """Prints the comparison; True if something got worse."""
    worse = False
    rows = []
    for net, figures in now["instructions"].items():
        before = then.get("instructions", {}).get(net, {}).get("iteration")
        ratio = figures["iteration"] / before if before else None
        worse = worse or (ratio is not None and ratio > 1 + tolerance)
        rows.append([net, f"{figures['iteration']:,}", f"{before:,}" if before else "-", f"{ratio:.4f}" if ratio else "-"])
    print(common.table(["net", "instructions of an iteration", "recorded", "ratio"], rows))
    if then and then["versions"] != now["versions"]:
        print(f"\nrecorded with other versions: {then['versions']}\nnow:                          {now['versions']}")
    if worse:
        print(f"\nMORE than {tolerance:.0%} above the figures of {then['date']} in {RECORDED}")
    return worse


def main():
    options = {"nets": "lenet", "iterations": 4, "record": False, "tolerance": 0.02, "json": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) != 1 or options["iterations"] < 1:
        sys.exit(__doc__)
    if shutil.which("valgrind") is None:
        common.skip("instruction counts", "valgrind is not installed (apt-get install valgrind)")
        return
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    now = {
        "date": common.datetime.date.today().isoformat(),
        "versions": versions(trainer),
        "instructions": {net: measure(trainer, net, options["iterations"]) for net in options["nets"].split(",")},
    }
    then = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    common.save_json(options["json"] or build / "bench/callgrind.json", now)
    worse = judge(now, then, options["tolerance"])
    if options["record"]:
        common.save_json(RECORDED, now)
    elif worse:
        sys.exit(1)


if __name__ == "__main__":
    common.run_main(main)
