#!/usr/bin/env python3
"""All-reduce of floats with PyTorch's gloo among processes of this machine: gloo_all_reduce.py DEVICES BYTES...

Prints one line per size: bytes, median seconds of rank 0. One thread per process.
"""

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def work(rank, devices, sizes, meeting_file):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=rank, world_size=devices)
    for size in sizes:
        values = torch.zeros(size // 4)
        repeats = min(100, max(5, 2**28 // size))
        seconds = []
        for i in range(repeats + repeats // 10 + 1):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(values)
            seconds.append(time.perf_counter() - start)
        if rank == 0:
            print(size, f"{statistics.median(seconds[-repeats:]):.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(
            work, (int(sys.argv[1]), [int(size) for size in sys.argv[2:]], f"{folder}/meeting"), nprocs=int(sys.argv[1])
        )
