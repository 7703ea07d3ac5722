#!/usr/bin/env python3
"""PyTorch's side of compare.py: trains a net of torch_nets.py on synthetic data and prints JSON.

usage: torch_train.py NET N,C,H,W [--iterations=20] [--display=1] [--threads=2] [--precision=f32|bf16] [--describe]

One JSON object: the seconds per iteration of each `display` iterations (forward, backward, SGD update, the loss read once),
and the memory resident before the first tensor. With --describe nothing runs: it lists the parameters and multiply-adds
of each convolution and inner product instead.
"""

import json
import sys
import time

import torch
from torch import nn

from torch_nets import NETS


def resident_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])


def describe(net, shape):
    """[parameters, multiply-adds] of each layer with weights, sorted, and the number of layers of each other kind."""
    with torch.device("meta"):
        model, images = NETS[net](), torch.empty(shape)
    layers, counts = [], {}

    def weighted(module, inputs, output):
        adds = output.numel() * module.weight[0].numel()
        layers.append([sum(p.numel() for p in module.parameters()), adds])

    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(weighted)
        for kind in (nn.BatchNorm2d, nn.LocalResponseNorm, nn.Dropout, nn.MaxPool2d):
            counts[kind.__name__] = counts.get(kind.__name__, 0) + isinstance(module, kind)
    model(images)
    return {"layers": sorted(layers), "counts": counts}


def make_updater(model):
    """Caffe's recipe: biases learn twice as fast and do not decay. One sweep over memory (fused), PyTorch's fastest."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    rate = 1e-4  # small: nothing can be learned from synthetic data, and the cost is the same
    return torch.optim.SGD(
        [{"params": weights}, {"params": others, "lr": 2 * rate, "weight_decay": 0}],
        lr=rate,
        momentum=0.9,
        weight_decay=5e-4,
        fused=True,
    )


def train(net, shape, options):
    torch.manual_seed(1)
    torch.set_num_threads(int(options["threads"]))
    at_start = resident_bytes()
    model = NETS[net]().to(memory_format=torch.channels_last).train()
    images = torch.full(shape, 0.5).to(memory_format=torch.channels_last)
    labels = torch.ones(shape[0], dtype=torch.long)
    updater, loss_of = make_updater(model), nn.CrossEntropyLoss()
    bf16 = options["precision"] == "bf16"
    display, seconds = int(options["display"]), []
    start = time.perf_counter()
    for iteration in range(1, int(options["iterations"]) + 1):
        updater.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = sum(weight * loss_of(scores, labels) for weight, scores in model(images))
        loss.backward()
        updater.step()
        if iteration % display == 0:
            loss.item()
            now = time.perf_counter()
            seconds.append((now - start) / display)
            start = now
    return {"seconds": seconds, "resident_at_start": at_start, "version": torch.__version__}


def main():
    options = {"iterations": "20", "display": "1", "threads": "2", "precision": "f32", "describe": ""}
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    for word in sys.argv[1:]:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name not in options:
                sys.exit(__doc__)
            options[name] = value or "yes"
    if len(words) != 2 or words[0] not in NETS:
        sys.exit(__doc__)
    shape = [int(n) for n in words[1].split(",")]
    print(json.dumps(describe(words[0], shape) if options["describe"] else train(words[0], shape, options)))


if __name__ == "__main__":
    main()
