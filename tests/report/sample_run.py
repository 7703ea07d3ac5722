"""Writes the metrics of a made-up training run, in the form of docs/metrics.md: sample_run.py FOLDER [SEED] [--going].

The page's test and pictures in docs/ need a run with all kinds of lines; none of this was measured.
"""

import json
import math
import os
import random
import sys

MIB = 1 << 20


def layers_of_net():
    """A residual net for 32 x 32 images: (name, type, outputs' shape, parameters, multiply-adds)."""
    layers = [("data", "Data", [128, 3, 32, 32], 0, 0)]
    channels, side, last = 3, 32, "data"

    def add(name, kind, filters, kernel, to_side):
        nonlocal channels, side
        side = to_side
        parameters = filters * channels * kernel * kernel if kernel else 4 * filters if kind == "SyncBN" else 0
        work = 128 * filters * side * side * (channels * kernel * kernel if kernel else 1)
        layers.append((name, kind, [128, filters, side, side], parameters, work))
        channels = filters

    add("conv1", "Convolution", 16, 3, 32)
    add("bn1", "SyncBN", 16, 0, 32)
    add("relu1", "ReLU", 16, 0, 32)
    for stage, filters in enumerate((16, 32, 64), 2):
        for block in "abc":
            to = side // 2 if stage > 2 and block == "a" else side
            for k in (1, 2):
                add(f"res{stage}{block}_conv{k}", "Convolution", filters, 3, to)
                add(f"res{stage}{block}_bn{k}", "SyncBN", filters, 0, to)
                if k == 1:
                    add(f"res{stage}{block}_relu1", "ReLU", filters, 0, to)
            add(f"res{stage}{block}", "Eltwise", filters, 0, to)
            add(f"res{stage}{block}_relu", "ReLU", filters, 0, to)
    layers.append(("pool", "Pooling", [128, 64, 1, 1], 0, 128 * 64 * 64))
    layers.append(("ip", "InnerProduct", [128, 10], 650, 128 * 640))
    layers.append(("loss", "SoftmaxWithLoss", [], 0, 1280))
    return layers


def bytes_of(shape):
    return 4 * math.prod(shape) if shape else 4


def plan_of(layers):
    """Each output lives from its forward step to the backward step of the next layer; gradients shortly."""
    steps = [{"work": "forward", "layer": i} for i in range(len(layers))]
    steps += [{"work": "backward", "layer": i} for i in reversed(range(len(layers)))]
    wanted = []
    for i, (name, kind, shape, _, _) in enumerate(layers[1:], 1):
        if kind in ("ReLU", "Eltwise", "SoftmaxWithLoss"):
            continue
        back = 2 * len(layers) - 1 - i
        wanted.append((bytes_of(shape), name, False, [[i, back]]))
        wanted.append((bytes_of(shape), name, True, [[back - 2, back]]))
    blocks, placed = [], []
    for size, name, gradient, spans in sorted(wanted, key=lambda block: -block[0]):
        offset = 0
        for start, end in sorted((o, o + s) for o, s, other in placed
                                 if other[0] <= spans[0][1] and spans[0][0] <= other[1]):
            if start < offset + size and offset < end:
                offset = end
        placed.append((offset, size, spans[0]))
        blocks.append({"name": name, "gradient": gradient, "offset": offset, "bytes": size, "spans": spans})
    return {"steps": steps, "backward": len(layers), "blocks": blocks}


def start_line(seed, time, iteration, max_iter):
    layers = layers_of_net()
    devices = [{"name": f"gpu:{i}", "kind": "gpu", "description": "NVIDIA A100-SXM4-40GB", "batch": 128} for i in range(4)]
    plan = plan_of(layers)
    links = [(0, 1, "NV12", 2.3e-6, 231e9), (0, 2, "PIX", 6.1e-6, 24.6e9), (2, 3, "NV12", 2.2e-6, 229e9)]
    classes = [["", "NV12", "PIX", "SYS"], ["NV12", "", "SYS", "PIX"], ["PIX", "SYS", "", "NV12"], ["SYS", "PIX", "NV12", ""]]
    line = {
        "kind": "start", "iteration": iteration, "time": time, "format": 1, "version": "0.1.0", "max_iter": max_iter,
        "command_line": ["trainer", "--solver=solver.prototxt", "--gpu=0,1,2,3", "--metrics=run"], "working_directory": "/home/you/cifar10",
        "process": 4711, "host": {"name": "box", "processor": "AMD EPYC 7742 64-Core Processor", "cores": 64, "memory": 512 << 30},
        "seed": str(seed), "precision": "f32", "display": 20, "average_loss": 20, "iter_size": 1,
        "solver": {"path": "solver.prototxt", "text": f"net: \"net.prototxt\"\nbase_lr: {0.1 * seed}\nlr_policy: \"cosine\"\nmax_iter: {max_iter}\nmomentum: 0.9\nweight_decay: 0.0005\n"},
        "nets": [{"name": "train", "path": "net.prototxt", "text": "name: \"resnet20\"\nlayer { name: \"data\" type: \"Data\" }\n"}],
        "devices": devices,
        "tree": {"parents": [-1, 0, 0, 2], "direct": False, "text": "gpu:0\n", "classes": classes,
                 "links": [{"from": a, "to": b, "class": c, "latency_seconds": l, "bytes_per_second": r} for a, b, c, l, r in links]},
        "samples_per_iteration": 512,
        "datasets": [{"net": "train", "layer": "data", "source": "LMDB \"run/cifar10/train_lmdb\"", "records": 50000}],
        "layers": [{"name": name, "type": kind, "inputs": [], "outputs": [{"name": name, "shape": shape}], "parameters": parameters,
                    "shared_parameters": 0, "multiply_adds": work, "in_place": kind == "ReLU", "output_bytes": 0 if kind == "ReLU" else bytes_of(shape)}
                   for name, kind, shape, parameters, work in layers],
        "memory": {"parameters": 1087528, "gradients": 1087528, "optimizer": 1087528,
                   "activations": max(block["offset"] + block["bytes"] for block in plan["blocks"]), "activations_unshared": sum(block["bytes"] for block in plan["blocks"])},
        "plan": plan,
    }
    if iteration:
        line["resumed_from"] = f"run/resnet20_iter_{iteration}.solverstate"
    return line


def write(folder, seed=1, going=False, max_iter=6000):
    rng = random.Random(seed)
    lines, time, begin = [], 1_790_000_000.0 + 5000 * seed, 0.0
    begin = time
    lines.append(start_line(seed, time, 0, max_iter))
    stop = max_iter // 2 + 400 if going else max_iter
    layers = layers_of_net()
    for iteration in range(0, stop + 1, 20):
        if iteration == 3000:
            lines.append({"kind": "end", "iteration": 3000, "time": time, "reason": "stopped", "seconds": time - begin})
            time += 400
            begin = time
            lines.append(start_line(seed, time, 3000, max_iter))
        progress = iteration / max_iter
        loss = 2.3 * math.exp(-4.2 * progress ** 0.6) + 0.06 * (1 - progress) * (0.8 + 0.2 * seed)
        loss *= 1 + 0.08 * rng.gauss(0, 1) * (1 - 0.6 * progress)
        if iteration == max_iter:
            lines.append({"kind": "train", "iteration": iteration, "time": time, "loss": loss})
            break
        iterations = 20 if iteration else 1
        speed = 21500 * (1 + 0.02 * rng.gauss(0, 1)) * (0.72 if 1500 < iteration < 1700 else 1)
        time += iterations * 512 / speed
        devices = []
        for d in range(4):
            compute = 19.6 + 0.3 * d + rng.gauss(0, 0.15)
            sync, divisors, gradients = 1.1 + rng.random() * 0.2, 0.05, 0.35 + 0.1 * rng.random()
            waiting = max(0.0, rng.gauss(0.004, 0.003)) if not 1500 < iteration < 1700 else 0.27 + 0.02 * rng.random()
            data = waiting * 24
            parts = {"compute": compute, "exposed": sync + divisors + gradients, "exposed_sync_bn": sync, "exposed_divisors": divisors,
                     "exposed_gradients": gradients, "exposed_skew": 0.3, "update": 0.42, "data": data, "other": 0.25, "hidden": 2.1}
            parts["iteration"] = parts["compute"] + parts["exposed"] + parts["update"] + parts["data"] + parts["other"]
            devices.append({"name": f"gpu:{d}", "memory": {"in_use": 610 * MIB + d * MIB, "peak": 640 * MIB + d * MIB},
                            "waiting_for_data": waiting, "sampled": iteration // 100 * 100, "milliseconds": parts})
        lines.append({"kind": "train", "iteration": iteration, "time": time, "loss": "nan" if iteration == 40 and seed == 2 else loss,
                      "epoch": (iteration + 1) * 512 / 50000, "outputs": [{"name": "loss", "values": [loss * (1 + 0.1 * rng.gauss(0, 1))], "weight": 1}],
                      "rate": 0.05 * seed * (1 + math.cos(math.pi * progress)), "gradient_norm": 1.5 * loss ** 0.5 * (1 + 0.15 * rng.random()),
                      "iterations": iterations, "samples_per_second": speed, "seconds": time - begin, "devices": devices})
        if iteration % 500 == 0:
            accuracy = 0.1 + 0.815 * (1 - math.exp(-5.5 * progress ** 0.75)) + 0.006 * rng.gauss(0, 1)
            time += 1.4
            lines.append({"kind": "test", "iteration": iteration, "time": time, "net": 0, "name": "test0", "loss": 0.9 * loss + 0.16, "batches": 100, "seconds": 1.4,
                          "outputs": [{"name": "accuracy", "values": [accuracy], "weight": 0}, {"name": "loss", "values": [0.9 * loss + 0.16], "weight": 1}]})
        if iteration % 1000 == 0:
            lines.append({"kind": "layers", "iteration": iteration, "time": time, "sampled": 4, "layers": [
                {"name": name, "forward": work / 4.2e10 + 0.02 + 0.003 * rng.random(), "backward": 2.1 * work / 4.2e10 + 0.03} for name, _, _, _, work in layers]})
            lines.append({"kind": "parameters", "iteration": iteration, "time": time, "parameters": [
                {"name": f"{name}.weight", "layer": name, "index": 0, "count": count, "norm": 3 + count ** 0.3, "gradient_norm": 0.02 + 0.3 * loss, "update_ratio": 0.003 * (1 - progress) + 1e-4}
                for name, _, _, count, _ in layers if count]})
        if iteration and iteration % 1500 == 0:
            lines.append({"kind": "snapshot", "iteration": iteration, "time": time, "model": f"run/resnet20_iter_{iteration}.caffemodel",
                          "state": f"run/resnet20_iter_{iteration}.solverstate", "bytes": 3262584, "seconds": 0.21})
        if iteration == 1520:
            lines.append({"kind": "warning", "iteration": iteration, "time": time, "text": "the devices wait 27 % of the time for layer \"data\"",
                          "advice": "data_param { threads: 6 } would keep up; now there are 2"})
    if not going:
        lines.append({"kind": "end", "iteration": max_iter, "time": time, "reason": "finished", "seconds": time - begin})
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        if going:
            file.write('{"kind": "train", "iteration": 34')


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    write(words[0], int(words[1]) if len(words) > 1 else 1, "--going" in sys.argv)
