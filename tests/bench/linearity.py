#!/usr/bin/env python3
"""Does the time of an iteration grow linearly in batch and depth? CIFAR ResNets of several depths at several batches.

usage: linearity.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5              every point is measured once per round, in turn; figures are medians
  --batches=16,32,64,128,256    of --depth=20
  --depths=20,32,44,56,110      at --batch=32; a depth is 6 n + 2
  --iterations=6          iterations per measurement, after two to warm up
  --threads=2
  --checkpoint=off        of the nets: off, auto or a number
  --python=PROGRAM        the interpreter that has matplotlib (default: the one running this)
  --json=FILE             default BUILD_FOLDER/bench/linearity.json
  --write=FOLDER          also FOLDER/linearity.md and linearity.svg

Each measurement is a separate process: `trainer time --json` on one CPU device, forward and backward on synthetic data. The line is
the least-squares fit of milliseconds = a + b x; "off the line" is the largest distance of a point from it, as a fraction of the
point. Memory is what `trainer summary --json` plans for activations and gradients.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import common

USAGE = __doc__


def convolution(name, bottom, outputs, stride=1, kernel=3):
    return (
        f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" convolution_param {{ num_output: '
        f"{outputs} kernel_size: {kernel} pad: {kernel // 2} stride: {stride} bias_term: false weight_filler {{ type: "
        f'"msra" }} }} }}\n'
        f'layer {{ name: "{name}_bn" type: "BN" bottom: "{name}" top: "{name}_bn" bn_param {{ slope_filler {{ value: 1 }} '
        f"}} }}\n"
    )


def relu(blob):
    return f'layer {{ name: "{blob}_relu" type: "ReLU" bottom: "{blob}" top: "{blob}" }}\n'


def resnet(depth, batch, checkpoint):
    """He et al. 2015 for CIFAR: three stages of (depth - 2) / 6 blocks; the last two widen by a projection."""
    text = (
        f'name: "ResNet{depth}" checkpoint: "{checkpoint}"\nlayer {{ name: "data" type: "DummyData" top: "data" top: '
        f'"label" dummy_data_param {{ shape {{ dim: {batch} dim: 3 dim: 32 dim: 32 }} shape {{ dim: {batch} }} '
        f'data_filler {{ value: 0.5 }} data_filler {{ value: 1 }} }} }}\n'
    )
    text += convolution("conv0", "data", 16) + relu("conv0_bn")
    bottom = "conv0_bn"
    for stage, width in enumerate((16, 32, 64)):
        for block in range((depth - 2) // 6):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            text += convolution(f"{name}c1", bottom, width, stride) + relu(f"{name}c1_bn")
            text += convolution(f"{name}c2", f"{name}c1_bn", width)
            if stride == 2:
                text += convolution(f"{name}p", bottom, width, 2, 1)
                bottom = f"{name}p_bn"
            text += f'layer {{ name: "{name}" type: "Eltwise" bottom: "{name}c2_bn" bottom: "{bottom}" top: "{name}" }}\n'
            text += relu(name)
            bottom = name
    return text + (
        f'layer {{ name: "pool" type: "Pooling" bottom: "{bottom}" top: "pool" pooling_param {{ pool: AVE global_pooling: '
        f'true }} }}\nlayer {{ name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param {{ num_output: '
        f'10 weight_filler {{ type: "msra" }} }} }}\nlayer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: '
        f'"label" top: "loss" }}\n'
    )


def fit(points):
    """(a, b, R^2, largest relative distance) of y = a + b x."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    b = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    a = mean_y - b * mean_x
    residual = sum((y - a - b * x) ** 2 for x, y in points)
    total = sum((y - mean_y) ** 2 for _, y in points)
    return a, b, 1 - residual / total, max(abs(y - a - b * x) / y for x, y in points)


def measure(trainer, folder, depth, batch, options):
    model = pathlib.Path(folder) / f"{depth}_{batch}.prototxt"
    model.write_text(resnet(depth, batch, options["checkpoint"]))
    done = common.run(
        [
            trainer,
            "time",
            f"--model={model}",
            "--cpu=1",
            f"--threads_per_device={options['threads']}",
            f"--iterations={options['iterations']}",
            "--json",
        ]
    )
    return json.loads(done.out)["milliseconds"]["iteration"]


def planned_bytes(trainer, folder, depth, batch, options):
    model = pathlib.Path(folder) / f"{depth}_{batch}.prototxt"
    model.write_text(resnet(depth, batch, options["checkpoint"]))
    return json.loads(common.run([trainer, "summary", f"--model={model}", "--json"]).out)["activation_bytes"]


def main():
    options = {
        "rounds": 5,
        "batches": "16,32,64,128,256",
        "depth": 20,
        "depths": "20,32,44,56,110",
        "batch": 32,
        "iterations": 6,
        "threads": 2,
        "checkpoint": "off",
        "python": "",
        "json": "",
        "write": "",
    }
    build = common.build_folder(common.parse(sys.argv[1:], options, USAGE))
    trainer = build / "bin/trainer"
    rows = {
        "batch": [(int(b), options["depth"], int(b)) for b in options["batches"].split(",")],
        "depth": [(int(d), int(d), options["batch"]) for d in options["depths"].split(",")],
    }
    result = {"from": common.provenance(trainer), "options": options, "series": {}}
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        for _ in range(options["rounds"]):
            for points in rows.values():
                for _, depth, batch in points:
                    times.setdefault((depth, batch), []).append(measure(trainer, folder, depth, batch, options))
        for name, points in rows.items():
            result["series"][name] = [
                {
                    name: x,
                    "milliseconds": statistics.median(times[depth, batch]),
                    "bytes": planned_bytes(trainer, folder, depth, batch, options),
                }
                for x, depth, batch in points
            ]
    lines, drawing = [], {"kind": "fits", "title": "Time of an iteration, CIFAR ResNets", "y": "ms", "panels": []}
    source = result["from"]
    lines.append(
        f"{source['date']}, {source['cpu']}, {options['threads']} threads, checkpoint {options['checkpoint']}; medians of "
        f"{options['rounds']} rounds."
    )
    for name, points in result["series"].items():
        a, b, r2, off = fit([(p[name], p["milliseconds"]) for p in points])
        result[f"fit_{name}"] = {"a": a, "b": b, "r2": r2, "off": off}
        fixed = f"ResNet-{options['depth']}" if name == "batch" else f"batch {options['batch']}"
        lines += ["", f"{fixed}: {a:.2f} ms + {b:.3f} ms per unit of {name}; R² {r2:.4f}, {off:.1%} off the line", ""]
        rows_shown = [
            (p[name], f"{p['milliseconds']:.1f}", f"{a + b * p[name]:.1f}", f"{p['bytes'] / 2**20:.1f}") for p in points
        ]
        lines.append(common.table([name, "ms", "line", "activations and gradients, MiB"], rows_shown))
        drawing["panels"].append(
            {"x": f"{name} ({fixed})", "points": [[p[name], p["milliseconds"]] for p in points], "line": [a, b]}
        )
    print("\n".join(lines))
    common.save_json(options["json"] or build / "bench/linearity.json", result)
    if options["write"]:
        plotted = common.plot(options["write"], "linearity", options["python"], drawing)
        common.save_markdown(options["write"], "linearity", "Time against batch and depth", lines, plotted)


common.run_main(main)
