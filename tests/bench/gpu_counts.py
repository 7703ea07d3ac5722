#!/usr/bin/env python3
"""What one training iteration costs on GPUs, counted on emulated ones, and its predicted time.

usage: gpu_counts.py [BUILD_FOLDER] [--nets=lenet,...] [--gpus=1,2,4] [--out=FOLDER]
       gpu_counts.py [BUILD_FOLDER] --check       compares launches, copies, allocations, waits and bytes with docs/bench/gpu_counts.json
       gpu_counts.py [BUILD_FOLDER] --record      writes that file
The build folder needs the target `tests`.

Counts: launches of our own kernels and the bytes they read and write (each byte once per launch), calls of cuDNN and cuBLAS, copies, allocations,
waits of the host and of streams, of the third iteration (tests/gpu/counts_test.cpp). `least`: the bytes that the layers'
arithmetic needs if each reads its inputs and writes its outputs once, forward and backward, and each parameter is updated once (SGD with momentum),
on the GPU that owns it, however many there are; convolutions and inner products excluded, since our own kernels do not compute them, and the sums
over GPUs.

The prediction adds up, on one GPU: each of our kernels, 2.5 us or its bytes over the memory's bandwidth; each library call, 2.5 us, its bytes over the
bandwidth, or its operations at 60 % of the peak in f32; copies by their bytes. It overlaps nothing and ignores the links between GPUs."""

import json
import pathlib
import re
import sys
import tempfile

import common
import made_net

RECORD = common.REPOSITORY / "docs/bench/gpu_counts.json"
# net file below models/, its data (a GPU's batch, channels, height, width)
NETS = {
    "lenet": ("lenet/sync_bn_train_test", (64, 1, 28, 28)),
    "resnet20": ("cifar10_resnet20/train_test", (16, 3, 32, 32)),
    "resnet50": ("resnet50/train", (2, 3, 64, 64)),  # small, since every access to memory is checked
}
# Peak in f32 without tensor cores, and memory bandwidth, from NVIDIA's data sheets.
GPUS = {"A100 80 GB": (19.5e12, 2.039e12), "H100 SXM": (66.9e12, 3.35e12), "H200": (66.9e12, 4.8e12)}
LAUNCH = 2.5e-6  # seconds
SHARE_OF_PEAK = 0.6
SOLVER = 'net: "{net}" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" random_seed: 1 display: 0 max_iter: 4 ' \
         "snapshot_after_train: false"
PAGE = """# What an iteration costs on GPUs

Counted on emulated GPUs by `tests/bench/gpu_counts.py`: one training iteration, all GPUs together, in f32. "least" is what the arithmetic of the layers
needs if each reads its inputs and writes its outputs once, and each parameter is updated once, by its owner (the script's header has the rules). Times
are predicted for one iteration from launches of 2.5 us, bytes over the memory's bandwidth, and cuDNN's and cuBLAS's operations at 60 % of the peak in f32;
nothing is overlapped, links between GPUs are left out, and **nothing here was measured on a GPU**. On multiple GPUs sums travel in chunks whose size
follows from the links' speed, here 25 GB/s and 10 us; in training it is measured.

"""
HELD = ("launches", "copies", "memsets", "cudnn calls", "cublas calls", "allocations", "host waits", "event records", "event waits")
HELD_BYTES = ("kernel bytes read", "kernel bytes written", "bytes copied")  # the first two are counted where each access is checked


def per_iteration(build, net, gpus, sync, library, shape=None):
    """Counts of one iteration: what the third adds to the totals before it."""
    model, own_shape = NETS[net]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made_net.write(folder / "net.prototxt", model, shape or own_shape)
        solver = folder / "solver.prototxt"
        solver.write_text(SOLVER.format(net=folder / "net.prototxt"))
        common.run([build / "bin/gpu_tests", "--gtest_filter=EmulatedCounts.OfOneIteration"],
                   {"LD_LIBRARY_PATH": str(build / "lib" / library), "EMULATED_CUDA": f"gpus={gpus},notes=0",
                    "BANYAN_COUNTS": f"{solver},{gpus},{sync},{folder}/counts"})
        before, after = (json.loads((folder / f"counts.{when}").read_text()) for when in ("before", "after"))
        summary = json.loads(common.run([build / "bin/trainer", "summary", f"--model={folder / 'net.prototxt'}", "--json"]).out)
    counts = {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}
    counts["copies"] = sum(n for key, n in counts.items() if key.startswith("copies "))
    counts["bytes copied"] = sum(n for key, n in counts.items() if key.startswith("bytes copied "))
    return counts, summary


def seconds(counts, gpus, peak, bandwidth):
    """Of one iteration on one of `gpus` GPUs that share the work equally."""
    total = counts.get("bytes copied", 0) / bandwidth + (counts.get("copies", 0) + counts.get("memsets", 0)) * LAUNCH
    for key, launches in counts.items():
        bucket = re.fullmatch(r"(kernels of up to 2\^\d+ bytes), launches", key)
        if bucket:
            total += max(launches * LAUNCH, counts[bucket[1] + ", bytes"] / bandwidth)
    for library in ("cudnn", "cublas"):
        total += max(counts.get(library + " calls", 0) * LAUNCH, counts.get(library + " bytes", 0) / bandwidth,
                     counts.get(library + " flops", 0) / (SHARE_OF_PEAK * peak))
    return total / gpus


def mib(number):
    return f"{number / 2**20:.1f}"


def table(build, nets, gpus):
    lines = ["| net, images of a GPU | GPUs | SyncBN | launches | own kernels read + write, MiB | least, MiB | cuDNN | cuBLAS | copies | "
             "allocations | host waits | event waits | " + " | ".join(f"{name}, ms" for name in GPUS) + " |",
             "| --- " + "| ---: " * (11 + len(GPUS)) + "|"]
    for net in nets:
        for number in gpus:
            for sync in ("on", "off"):
                counts, summary = per_iteration(build, net, number, sync, "emulated_checked")
                get = lambda key: counts.get(key, 0)
                row = [f"{net}, {'x'.join(map(str, NETS[net][1]))}", number, sync, f"{get('launches'):.0f}",
                       mib(get("kernel bytes read") + get("kernel bytes written")), mib(least_bytes(summary, number)),
                       f"{get('cudnn calls'):.0f}", f"{get('cublas calls'):.0f}", f"{get('copies'):.0f}", f"{get('allocations'):.0f}",
                       f"{get('host waits'):.0f}", f"{get('event waits'):.0f}"]
                row += [f"{1e3 * seconds(counts, number, *gpu):.2f}" for gpu in GPUS.values()]
                lines.append("| " + " | ".join(str(cell) for cell in row) + " |")
                print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def least_bytes(summary, gpus):
    """Of all GPUs together. Forward: a layer reads its inputs and writes its outputs. Backward: it reads the gradients of its outputs and the data
    of its inputs, and writes the gradients of its inputs. In-place layers can be part of their neighbours, a sum's gradient is that of its output,
    and layers that only rename or pass on (Split, Reshape, ...) need none."""
    nothing = {"Split", "Reshape", "Flatten", "Silence", "DummyData", "Data", "Convolution", "InnerProduct"}
    size, total = {}, 0
    for layer in summary["layers"]:
        outputs = {output["name"]: number_of(output["shape"]) for output in layer["outputs"]}
        read, written = sum(size[name] for name in layer["inputs"]), sum(outputs.values())
        size.update(outputs)
        if layer["type"] in nothing or layer["in_place"]:
            continue
        total += read + written
        if layer["type"] != "Eltwise":
            total += written + 2 * read
    # Per parameter: read weight, gradient, history; write weight, history.
    return 4 * (gpus * total + 5 * summary["parameters"])


def number_of(shape):
    number = 1
    for length in shape:
        number *= length
    return number


def record(build):
    """What the test checks: small batches and images, since the number of calls does not depend on them; two nets on two devices, and ResNet-50,
    which takes the emulator longer, on one. The bytes of two nets: sums over GPUs move the same ones in however many chunks."""
    small = (("lenet", (4, 1, 28, 28)), ("resnet20", (2, 3, 32, 32)))
    cases = [(net, shape, gpus, sync) for net, shape in small for gpus in (1, 2) for sync in ("on", "off")]
    held = {}
    for net, shape, gpus, sync in [*cases, ("resnet50", (1, 3, 16, 16), 1, "on")]:
        counts, _ = per_iteration(build, net, gpus, sync, "emulated", shape)
        entry = held[f"{net}, {gpus} GPUs, SyncBN {sync}"] = {key: counts.get(key, 0) for key in HELD}
        if net == "lenet" or (net, gpus, sync) == ("resnet20", 1, "on"):
            counts, _ = per_iteration(build, net, gpus, sync, "emulated_checked", shape)
            entry.update({key: counts.get(key, 0) for key in HELD_BYTES})
    return held


def check(build):
    expected, found, worse = json.loads(RECORD.read_text()), record(build), False
    for case, counts in found.items():
        for key, number in counts.items():
            before = expected.get(case, {}).get(key)
            if number != before:
                worse = True
                print(f"{case}: {key}: {number} an iteration, recorded are {before}")
    if worse:
        sys.exit(f"the counts have changed; if that is meant: gpu_counts.py --record writes {RECORD.relative_to(common.REPOSITORY)}")
    print(f"{sum(len(counts) for counts in found.values())} counts are as recorded")


def main():
    options = {"nets": ",".join(NETS), "gpus": "1,2,3,4", "out": str(common.REPOSITORY / "docs/bench"), "check": False, "record": False}
    build = common.build_folder(common.parse(sys.argv[1:], options, __doc__))
    if options["check"]:
        return check(build)
    if options["record"]:
        return RECORD.write_text(json.dumps(record(build), indent=1) + "\n")
    text = table(build, options["nets"].split(","), [int(n) for n in options["gpus"].split(",")])
    pathlib.Path(options["out"], "gpu_counts.md").write_text(PAGE + text + "\n")
    print(text)


if __name__ == "__main__":
    common.run_main(main)
