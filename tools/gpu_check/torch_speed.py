#!/usr/bin/env python3
"""PyTorch's side of gpu_check.sh's times: trains a net of torch_nets.py on synthetic data on GPU 0.

usage: torch_speed.py NET N,C,H,W f32|tf32|bf16 ITERATIONS INTERVALS

Prints the seconds of each interval's iteration, one a line, after an interval to warm up. The loss is read once an
interval, as our trainer does. f32 computes as precisely as our back end; tf32 lets convolutions and products round
their factors to TF32; bf16 is autocast's, with f32 parameters.
"""

import sys
import time

import torch
from torch import nn

from torch_nets import NETS
from torch_train import make_updater


def main():
    net, shape, precision, iterations, intervals = sys.argv[1:]
    if net not in NETS or precision not in ("f32", "tf32", "bf16"):
        sys.exit(__doc__)
    shape = [int(n) for n in shape.split(",")]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    model = NETS[net]().cuda().to(memory_format=torch.channels_last).train()
    images = torch.full(shape, 0.5, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.ones(shape[0], dtype=torch.long, device="cuda")
    updater, loss_of = make_updater(model), nn.CrossEntropyLoss()
    for interval in range(1 + int(intervals)):
        start = time.perf_counter()
        for _ in range(int(iterations)):
            updater.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
                loss = sum(weight * loss_of(scores, labels) for weight, scores in model(images))
            loss.backward()
            updater.step()
        loss.item()
        if interval > 0:
            print((time.perf_counter() - start) / int(iterations))


if __name__ == "__main__":
    main()
