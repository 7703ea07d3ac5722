#!/usr/bin/env python3
"""How CPU devices share a machine with each other and with other programs: iteration time and skew on an idle host and beside
programs that each keep one core busy.

usage: busy_host.py [BUILD_FOLDER...] [options]     (default build/release; of several builds, the first is what others are compared with)
  --rounds=5          everything is measured once per round, in turn; figures are medians
  --busy=0,1,2        numbers of competing programs
  --devices=1,2       each with an equal share of the cores
  --nets=A,B          of lenet, lenet_sync_bn, cifar10_resnet20, resnet50 (default: all)
  --pin=auto          or on, off
  --iterations=40     per measurement of ResNet-20, ten times as many for LeNet, a quarter for ResNet-50
  --json=FILE         default BUILD_FOLDER/bench/busy_host.json
  --write=FOLDER      also FOLDER/busy_host.md

Each measurement is a separate process: `trainer time --cpu=N --json`, of one device with `--updates`, on synthetic data, one batch divided among the devices. A competing
program is an endless loop of usual priority, which ends with the measurement. "skew" is the part of an iteration in which a device
waits for a slower one, "exposed" all of its communication. The ratios are medians of the rounds' ratios: to the smallest number of
devices under the same load, and to the first build with the same devices and load.
"""

import contextlib
import itertools
import pathlib
import statistics
import subprocess
import sys
import tempfile

import common
import made_net

# the total batch, and iterations for each of --iterations
NETS = {
    "lenet": dict(net="lenet/train_test", shape=(64, 1, 28, 28), times=10),
    "lenet_sync_bn": dict(net="lenet/sync_bn_train_test", shape=(64, 1, 28, 28), times=10),
    "cifar10_resnet20": dict(net="cifar10_resnet20/train_test", shape=(128, 3, 32, 32), times=1),
    "resnet50": dict(net="resnet50/train", shape=(16, 3, 224, 224), times=0.25),
}
# Ends by itself if this script is killed and cannot end it.
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1000000): pass\n"


@contextlib.contextmanager
def competitors(count):
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def ratio(rounds, others):
    return f"{statistics.median(mine['iteration'] / other['iteration'] for mine, other in zip(rounds, others)):.2f}"


def share(rounds, key):
    return f"{100 * statistics.median(r[key] / r['iteration'] for r in rounds):.1f} %"


def net_rows(measured, builds, devices, busy):
    """`measured`: the rounds by (busy, devices, build)."""
    for load in busy:
        for n in devices:
            for build in builds:
                rounds = measured[load, n, build]
                times = [r["iteration"] for r in rounds]
                row = [load, f"{n} x {common.threads_of(n)}", *([build] if len(builds) > 1 else [])]
                row += [f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"]
                row += [ratio(rounds, measured[load, min(devices), build])]
                if len(builds) > 1:
                    row.append(ratio(rounds, measured[load, n, builds[0]]))
                skew = statistics.median(r["exposed_skew"] for r in rounds)
                yield [*row, share(rounds, "exposed"), f"{share(rounds, 'exposed_skew')} ({skew:.2f} ms)"]


def report(result, builds, devices, busy, options):
    about = result["from"]
    several = len(builds) > 1
    lines = [
        f"{about['date']}, {about['cpu']}, {about['cores']} cores; {about['trainer']}. Median (least to most) of {options['rounds']} "
        "alternating rounds; ratios are those of the rounds' iteration times. Busy: programs that each keep one core busy.",
    ]
    if about["busy_before"] > 0.1:
        lines[0] += f" **Disturbed**: before it, other programs used {about['busy_before']:.0%} of the processor."
    header = ["busy", "devices x threads", *(["build"] if several else []), "ms", f"/ {min(devices)} x {common.threads_of(min(devices))}"]
    header += [*(["/ first build"] if several else []), "exposed", "skew"]
    for net, measured in result["nets"].items():
        lines += ["", f"## {net}, batch {NETS[net]['shape'][0]} in all", ""]
        lines += [common.table(header, net_rows(measured, builds, devices, busy))]
    print("\n".join(lines))
    if options["write"]:
        lines += ["", "Made by `tests/bench/busy_host.py`."]
        common.save_markdown(options["write"], "busy_host", "Devices on a busy host", lines, False)


def main():
    options = {"rounds": 5, "busy": "0,1,2", "devices": "1,2", "nets": ",".join(NETS), "pin": "auto", "iterations": 40}
    options |= {"json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets = options["nets"].split(",")
    busy, devices = ([int(n) for n in options[key].split(",")] for key in ("busy", "devices"))
    if options["rounds"] < 1 or not set(nets) <= set(NETS) or min(devices) < 1 or min(busy) < 0:
        sys.exit(__doc__)
    for net in nets:
        for n in devices:
            if NETS[net]["shape"][0] % n:
                raise common.Failed(f"{net}: {NETS[net]['shape'][0]} samples cannot be shared out evenly among {n} devices")
    folders = [common.build_folder([word]) for word in words] or [common.build_folder([])]
    builds = words or ["build/release"]
    result = {"from": common.provenance(folders[0] / "bin/trainer"), "options": options, "nets": {net: {} for net in nets}}
    with tempfile.TemporaryDirectory() as folder:
        for net in nets:
            batch, *image = NETS[net]["shape"]
            for n in devices:
                made_net.write(pathlib.Path(folder) / f"{net}_{n}.prototxt", NETS[net]["net"], (batch // n, *image))
        for number in range(options["rounds"]):
            for load, net, n, (build, where) in itertools.product(busy, nets, devices, list(zip(builds, folders))):
                model = pathlib.Path(folder) / f"{net}_{n}.prototxt"
                iterations = max(2, round(options["iterations"] * NETS[net]["times"]))
                with competitors(load):
                    times = common.time_training(where / "bin/trainer", model, n, iterations, f"--pin={options['pin']}")
                result["nets"][net].setdefault((load, n, build), []).append(times)
            print(f"  round {number + 1}", file=sys.stderr)
    report(result, builds, devices, busy, options)
    for net, measured in result["nets"].items():
        result["nets"][net] = [
            {"busy": load, "devices": n, "build": build, "milliseconds": rounds} for (load, n, build), rounds in measured.items()
        ]
    common.save_json(options["json"] or folders[0] / "bench/busy_host.json", result)


if __name__ == "__main__":
    common.run_main(main)
