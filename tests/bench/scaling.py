#!/usr/bin/env python3
"""How training scales over virtual CPU devices: iterations of a fixed batch divided among 1, 2, 4 and 8 of them, and
the latency of the messages that SyncBN exchanges.

usage: scaling.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          every number of devices is measured once per round, in turn; figures are medians
  --devices=1,2,4,8
  --nets=A,B          of lenet, lenet_sync_bn, cifar10_resnet20 (default: all)
  --iterations=40     per measurement of ResNet-20, ten times as many for LeNet
  --python=PROGRAM    the interpreter that has matplotlib (default: the one running this)
  --json=FILE         default BUILD_FOLDER/bench/scaling.json
  --write=FOLDER      also FOLDER/scaling.md and scaling.svg

Each measurement is a separate process: `trainer time --cpu=N --json`, of one device with `--updates`, on synthetic data: forward, backward, exchange and update. The
cores are divided too, so more devices than cores only show the cost of the devices. "exposed" is the part of the iteration
in which a device waits for others, "skew" the part of that spent waiting for the slower one, "hidden" what ran alongside
backward.
Messages are those of `trainer topology --cpu=N --json`; the moments of C channels are 16 C + 8 bytes.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import common
import made_net

# the total batch, and iterations for each of --iterations
NETS = {
    "lenet": dict(net="lenet/train_test", shape=(64, 1, 28, 28), times=10),
    "lenet_sync_bn": dict(net="lenet/sync_bn_train_test", shape=(64, 1, 28, 28), times=10),
    "cifar10_resnet20": dict(net="cifar10_resnet20/train_test", shape=(128, 3, 32, 32), times=1),
}
MESSAGES = (1 << 10, 2 << 10, 16 << 10)


def measure(trainer, folder, net, devices, options):
    """`trainer time`'s milliseconds of an iteration, by name."""
    settings = NETS[net]
    batch, *image = settings["shape"]
    if batch % devices:
        raise common.Failed(f"{net}: {batch} samples cannot be shared out evenly among {devices} devices")
    model = pathlib.Path(folder) / "net.prototxt"
    made_net.write(model, settings["net"], (batch // devices, *image))
    return common.time_training(trainer, model, devices, options["iterations"] * settings["times"])


def latencies(trainer, devices):
    result = json.loads(common.run([trainer, "topology", f"--cpu={devices}", "--json"]).out)
    times = {entry["bytes"]: entry["seconds_median"] for entry in result["all_reduce"]}
    return {size: times[size] for size in MESSAGES}


def median(rounds, key):
    return statistics.median(r[key] for r in rounds)


def net_rows(net, by_devices):
    batch = NETS[net]["shape"][0]
    first = by_devices[min(by_devices)]
    for devices, rounds in by_devices.items():
        iteration = median(rounds, "iteration")
        ratio = statistics.median(mine["iteration"] / one["iteration"] for mine, one in zip(rounds, first))
        shares = [f"{100 * median(rounds, key) / iteration:.1f} %" for key in ("exposed", "exposed_skew", "hidden")]
        yield [devices, common.threads_of(devices), f"{iteration:.2f}", f"{1000 * batch / iteration:.0f}", f"{ratio:.2f}", *shares]


def report(result, options):
    about = result["from"]
    lines = [
        f"{about['date']}, {about['cpu']}, {about['cores']} cores; {about['trainer']}. Median of {options['rounds']} "
        "alternating rounds; the ratio is that of the rounds' iteration times.",
    ]
    for net, by_devices in result["nets"].items():
        header = ["devices", "threads each", "ms", "img/s", f"ms / {min(by_devices)} device's", "exposed", "skew", "hidden"]
        lines += ["", f"## {net}, batch {NETS[net]['shape'][0]} in all", "", common.table(header, net_rows(net, by_devices))]
    if result["messages"]:
        rows = [
            [devices, *(f"{1e6 * statistics.median(r[size] for r in rounds):.1f} us" for size in MESSAGES)]
            for devices, rounds in result["messages"].items()
        ]
        header = ["devices", *(f"{size >> 10} KiB ({size // 16} channels)" for size in MESSAGES)]
        lines += ["", "## One exchange of SyncBN's moments", "", common.table(header, rows)]
    print("\n".join(lines))
    if not options["write"]:
        return
    drawing = {
        "kind": "bars",
        "title": "One batch shared out among virtual devices",
        "y": "time of an iteration / one device's",
        "labels": [f"{devices} devices" for devices in next(iter(result["nets"].values()))],
        "series": {
            net: [float(row[4]) for row in net_rows(net, by_devices)] for net, by_devices in result["nets"].items()
        },
    }
    plotted = common.plot(options["write"], "scaling", options["python"], drawing)
    lines += ["", "Beside other programs that keep cores busy: `tests/bench/busy_host.py`.", "", "Made by `tests/bench/scaling.py`."]
    common.save_markdown(options["write"], "scaling", "Scaling over virtual CPU devices", lines, plotted)


def main():
    options = {"rounds": 5, "devices": "1,2,4,8", "nets": ",".join(NETS), "iterations": 40}
    options |= {"python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets = options["nets"].split(",")
    if len(words) > 1 or options["rounds"] < 1 or not set(nets) <= set(NETS):
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer, devices = build / "bin/trainer", [int(n) for n in options["devices"].split(",")]
    result = {"from": common.provenance(trainer), "options": options, "nets": {net: {} for net in nets}, "messages": {}}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options["rounds"]):
            for n in devices:
                for net in nets:
                    result["nets"][net].setdefault(n, []).append(measure(trainer, folder, net, n, options))
                if n > 1:
                    result["messages"].setdefault(n, []).append(latencies(trainer, n))
            print(f"  round {number + 1}", file=sys.stderr)
    report(result, options)
    common.save_json(options["json"] or build / "bench/scaling.json", result)


if __name__ == "__main__":
    common.run_main(main)
