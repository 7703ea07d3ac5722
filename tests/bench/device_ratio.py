#!/usr/bin/env python3
"""What multiple devices, SyncBN or another build cost: iteration times of the same solver in alternating runs, as ratios.

usage: device_ratio.py [--rounds=5] [--iterations=60] [--warmup=20] SOLVER [BUILD_A] ARGS_A -- [BUILD_B] ARGS_B
  device_ratio.py models/digits/solver.prototxt --cpu=1 -- --cpu=2
  device_ratio.py models/digits/solver.prototxt --cpu=2 --sync_bn=on -- --cpu=2 --sync_bn=off
  device_ratio.py models/digits/solver.prototxt build/release --cpu=1 -- build/portable --cpu=1

ARGS of joined processes begin with their number:
  device_ratio.py models/cifar10_resnet20/solver.prototxt --cpu=2 -- 2 --cpu=1 --threads_per_device=1
  device_ratio.py models/digits/solver.prototxt 3 --parameter_server --cpu=1 -- 4 --parameter_server --servers=2 --cpu=1

Prints the median milliseconds per iteration of both and the median of the rounds' ratios B / A. A build is a folder (default
build/release). Run it from the repository's folder; the solver's data must exist (tools/quickstart.sh makes the digits). Never part of a test run.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = "build/release"
DROPPED = ("max_iter", "display", "test_iter", "test_interval", "test_initialization", "snapshot", "snapshot_prefix", "snapshot_after_train")


def solver_text(path, iterations, folder):
    lines = [line for line in open(path) if line.split(":")[0].strip() not in DROPPED]
    return "".join(lines) + (f"\nmax_iter: {iterations}\ndisplay: 1\nsnapshot_after_train: false\n"
                             f'snapshot_prefix: "{folder}/none"\n')


def iteration_times(solver, arguments, warmup):
    """Milliseconds of each iteration after the warm-up."""
    build = BUILD
    if not arguments[0].startswith("-") and not arguments[0].isdigit():
        build, arguments = arguments[0], arguments[1:]
    command = [f"{build}/bin/trainer", f"--solver={solver}"]
    if arguments[0].isdigit():
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", arguments[0], *command, "--uplink=mpi"]
        arguments = arguments[1:]
    log = subprocess.run([*command, *arguments], stderr=subprocess.PIPE, text=True, check=True).stderr
    seconds = [float(s) for s in re.findall(r"Iteration \d+ \([^,]*, ([0-9.e+-]+)s/", log)]
    return [1000 * s for s in seconds[warmup:]]


def main():
    options = {"rounds": 5, "iterations": 60, "warmup": 20}
    words = sys.argv[1:]
    while words and words[0].split("=")[0].lstrip("-") in options:
        name, value = words.pop(0).lstrip("-").split("=")
        options[name] = int(value)
    if len(words) < 4 or "--" not in words[1:]:
        sys.exit(__doc__)
    split = words.index("--")
    sides = [words[1:split], words[split + 1:]]
    with tempfile.TemporaryDirectory() as folder:
        solver = f"{folder}/solver.prototxt"
        with open(solver, "w") as out:
            out.write(solver_text(words[0], options["iterations"], folder))
        medians = [[], []]
        for _ in range(options["rounds"]):
            for side, arguments in enumerate(sides):
                medians[side].append(statistics.median(iteration_times(solver, arguments, options["warmup"])))
    for name, arguments, values in zip("AB", sides, medians):
        print(f"{name}: {' '.join(arguments):40} {statistics.median(values):8.3f} ms per iteration ({min(values):.3f} to {max(values):.3f})")
    ratios = [b / a for a, b in zip(*medians)]
    print(f"B / A: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds)")


main()
