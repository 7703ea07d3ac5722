#!/usr/bin/env python3
"""Is training bit-identical in two builds? Compares model and state after 20 iterations, byte by byte.

usage: same_bytes.py --record=FILE [BUILD_FOLDER] [--only=REGEX]       trains every case and records the result
       same_bytes.py --against=FILE [BUILD_FOLDER] [--only=REGEX]      the same with another build, and compares

Cases: every net of models/ on synthetic data (1, 2, 3 CPU devices; f32, f64, bf16; plain, checkpoint, in_place_abn, iter_size, clipping; the larger
nets in fewer ways), the smaller ones on emulated GPUs too, and every training run of test_train's promises, checkpoints and in-place ABN.
The build folder needs the target `tests`. For changes that must be bit-identical: record before, compare after. A different processor, compiler or number of threads gives different bits.
If any bit differs, the exit code is 1."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import common
import made_net

ITERATIONS = 20
SOLVER = 'net: "{folder}/net.prototxt" snapshot_prefix: "{folder}/out" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" ' \
         "random_seed: 1 display: 0 max_iter: {iterations} average_loss: {iterations} "
# File in models/, a device's batch and the shape of an image.
SMALL = {
    "lenet/train_test": (6, 1, 28, 28),
    "lenet/sync_bn_train_test": (6, 1, 28, 28),
    "digits/train_test": (6, 1, 28, 28),
    "cifar10_quick/train_test": (4, 3, 32, 32),
    "cifar10_resnet20/train_test": (4, 3, 32, 32),
    "cifar10_resnet20/train_test_no_sync": (4, 3, 32, 32),
}
LARGE = {
    "alexnet/train": (2, 3, 227, 227),
    "googlenet/train": (2, 3, 224, 224),
    "resnet50/train": (2, 3, 224, 224),
}
VARIANTS = {  # line in the net, in the solver
    "plain": ("", ""),
    "checkpoint": ('checkpoint: "auto"', ""),
    "in_place_abn": ("in_place_abn: true", ""),
    "iter_size": ("", "iter_size: 2 "),
    "clipped": ("", "clip_gradients: 0.5 "),
}
TESTS = "*NDevicesTest*:*RepeatTest*:*Checkpoint*:*InPlaceAbn*"


def cases():
    for net, shape in SMALL.items():
        for precision in ("f32", "f64", "bf16"):
            for devices in (1, 2, 3):
                for variant in VARIANTS if precision == "f32" or devices == 2 else ("plain",):
                    yield net, shape, precision, f"--cpu={devices}", variant
        for variant in VARIANTS:
            for gpus in ("0", "0,1"):
                yield net, shape, "f32", f"--gpu={gpus}", variant
    for net, shape in LARGE.items():
        for devices, variant in ((1, "plain"), (2, "plain"), (2, "checkpoint")):
            yield net, shape, "f32", f"--cpu={devices}", variant


def train(build, net, shape, precision, devices, variant):
    """A checksum of each file left after the last iteration."""
    net_line, solver_line = VARIANTS[variant]
    # The name becomes part of the files' bytes.
    folder = pathlib.Path(tempfile.gettempdir(), "banyan_same_bytes")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    made_net.write(folder / "net.prototxt", net, shape, net_line, filler='type: "gaussian" std: 1')
    (folder / "solver.prototxt").write_text(SOLVER.format(folder=folder, iterations=ITERATIONS) + solver_line)
    library = build / "lib" / ("emulated" if devices.startswith("--gpu") else "")
    common.run([build / "bin/trainer", f"--solver={folder}/solver.prototxt", devices, f"--precision={precision}", "--threads_per_device=1"],
               {"LD_LIBRARY_PATH": str(library), "EMULATED_CUDA": "gpus=2,notes=0"})
    sums = {file.suffix[1:]: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in folder.glob(f"out_iter_{ITERATIONS}.*")}
    assert len(sums) == 2, f"{sorted(sums)} instead of a model and a state"
    return sums


def record(build, only):
    found = {}
    for case in cases():
        name = " ".join(str(word) for word in (case[0], *case[2:]))
        if not only.search(name):
            continue
        print(name, file=sys.stderr)
        found[name] = train(build, *case)
    if only.search("tests"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "sums")
            print(f"test_train {TESTS}", file=sys.stderr)
            subprocess.run([build / "bin/test_train", "--gtest_brief=1", f"--gtest_filter={TESTS}"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "BANYAN_RECORD": str(file)})
            for line in file.read_text().splitlines():
                name, model, state = line.rsplit(" ", 2)
                found[f"tests {name}"] = {"caffemodel": model, "solverstate": state}
    return found


def compare(before, now):
    different = [name for name in before if name in now and before[name] != now[name]]
    for name in different:
        print(f"{name}: other bytes: {', '.join(file for file in before[name] if before[name][file] != now[name].get(file))}")
    for name in sorted(before.keys() ^ now.keys()):
        print(f"{name}: {'not trained now' if name in before else 'not recorded'}")
    print(f"{sum(name in before for name in now) - len(different)} of {len(now)} cases have the same bytes")
    return not different


def main():
    options = {"record": "", "against": "", "only": ""}
    build = common.build_folder(common.parse(sys.argv[1:], options, __doc__))
    if bool(options["record"]) == bool(options["against"]):
        sys.exit(__doc__)
    found = record(build, re.compile(options["only"]))
    if options["record"]:
        return common.save_json(options["record"], found)
    before = {name: sums for name, sums in json.loads(pathlib.Path(options["against"]).read_text()).items() if re.search(options["only"], name)}
    if not compare(before, found):
        sys.exit(1)


if __name__ == "__main__":
    common.run_main(main)
