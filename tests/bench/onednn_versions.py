#!/usr/bin/env python3
"""What another version of oneDNN would give: what the trainer has oneDNN compute for a net, timed with both versions.

usage: onednn_versions.py [BUILD_FOLDER] --other=FOLDER [options]          (default build/release)
  --other=FOLDER      holds include/ and lib/ of the other oneDNN, version 2 or 3
  --rounds=5          alternating runs of each; every figure is the median over their ratios
  --nets=A,B          default resnet50,cifar10_resnet20,mobilenet_v2
  --variants=A,B      default f32,bf16,stored (bf16: --precision=bf16; stored: with activations in bf16 too)
  --threads=1         of oneDNN
  --repeats=3         runs in each process, of which the fastest counts
  --json=FILE         default BUILD_FOLDER/bench/onednn_versions.json
  --write=FOLDER      also FOLDER/onednn_versions.md

PyPI has recent versions for OpenMP: pip install --prefix=FOLDER onednn-cpu-gomp onednn-devel-cpu-gomp
It is compared with the system's. oneDNN's log (ONEDNN_VERBOSE=1) of a run of the trainer lists the convolutions of
images and, in bf16, the products of inner products; onednn_problems.cpp, compiled against each version, times them and
the conversions of the weights. With one thread it is processor time, which other programs disturb little.
"""

import collections
import os
import pathlib
import re
import statistics
import sys
import tempfile

import common
import compare
import made_net

# Nets that models/generate.py writes: batch and shape.
GENERATED = {"mobilenet_v2": (16, 3, 224, 224)}
VARIANTS = {"f32": ("f32", ""), "bf16": ("bf16", ""), "stored": ("bf16", "storage: BF16")}
PARTS = {
    "forward_training": "forward",
    "backward_data": "data gradients",
    "backward_weights": "weight gradients",
    "matmul": "inner products",
}
AXIS = r"_i{0}(\d+)o{0}(\d+)k{0}(\d+)s{0}(\d+)d{0}(\d+)p{0}(\d+)"
CONVOLUTION = re.compile(r"(?:g(\d+))?mb(\d+)_ic(\d+)oc(\d+)" + AXIS.format("h") + AXIS.format("w") + "$")
TENSOR = re.compile(r"\b(src|wei|bia|dst)_(\w+):\w*:\w*:?(\w*):+f")
PRODUCT = re.compile(r"(\d+)x(\d+):\d+x(\d+)(?::\d+x\d+)?$")


def write_net(folder, net, variant):
    if net in GENERATED:
        common.run([sys.executable, common.REPOSITORY / "models/generate.py", f"--out={folder}", net])
        source, shape = pathlib.Path(folder) / net / "train_val", GENERATED[net]
    else:
        source, shape = compare.NETS[net]["net"], compare.NETS[net]["shape"]
    path = pathlib.Path(folder) / "net.prototxt"
    made_net.write(path, source, shape, VARIANTS[variant][1])
    return path


def problem_of(line):
    """A line of oneDNN's log as one for onednn_problems; "" if it is nothing to time, None if it cannot be repeated."""
    fields = line.split(",")
    kind, direction = (fields[fields.index("exec") + offset] for offset in (2, 4))
    if kind not in ("convolution", "matmul"):
        return ""
    tensors = {name: (dtype, tag) for name, dtype, tag in TENSOR.findall(line)}
    types = " ".join(tensors[name][0] for name in ("src", "wei", "dst"))
    if kind == "matmul":
        shape = PRODUCT.match(fields[-2])
        if not shape:
            return None
        m, k, n = shape.groups()
        transposed = (int(tensors[name][1] == "ba") for name in ("src", "wei"))
        return " ".join(map(str, [kind, types, m, n, k, *transposed, int("sum" in line)]))
    shape = CONVOLUTION.match(fields[-2])
    if not shape:
        return None
    bias = int(tensors.get("bia", ("undef",))[0] != "undef")
    return " ".join([direction, types, str(bias), shape[1] or "1", *shape.groups()[1:]])


def problems_of(trainer, net, variant, threads):
    """{line for onednn_problems: how often} in a few iterations of the net."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"--model={write_net(folder, net, variant)}", f"--precision={VARIANTS[variant][0]}"]
        flags += ["--iterations=1", "--cpu=1", f"--threads_per_device={threads}"]
        log = common.run([trainer, "time", *flags], {"ONEDNN_VERBOSE": "1"}).out.splitlines()
    lines = [line for line in log if line.startswith("onednn_verbose") and ",exec,cpu," in line]
    found = collections.Counter(problem_of(line) for line in lines)
    if None in found:
        common.skip(f"{found[None]} primitives of {net} {variant}", "only convolutions of images and plain products")
    return {problem: count for problem, count in found.items() if problem}


def build_program(folder, root):
    """onednn_problems compiled against the oneDNN in `root`, or the system's."""
    program = pathlib.Path(folder) / ("other" if root else "installed")
    flags = ["-I", common.REPOSITORY / "src"]
    if not root:
        flags += ["-ldnnl"]
    else:
        headers, library = pathlib.Path(root).resolve() / "include", pathlib.Path(root).resolve() / "lib/libdnnl.so"
        for path in (headers / "oneapi/dnnl/dnnl.hpp", library):
            if not path.exists():
                raise common.Failed(f"{path} does not exist")
        # Libraries that it needs in turn may lie elsewhere (LD_LIBRARY_PATH).
        flags += ["-isystem", headers, library, f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    compiler = os.environ.get("CXX", "g++")
    common.run([compiler, "-std=c++20", "-O2", common.HERE / "onednn_problems.cpp", "-o", program, *flags])
    return program


def run_problems(program, problems, options):
    """The version, and {problem: (milliseconds of the primitive, of the weights' conversion, implementation)}"""
    threads = options["threads"]
    clock = "processor" if threads == 1 else "elapsed"
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    with tempfile.NamedTemporaryFile("w") as listed:
        listed.write("\n".join(problems) + "\n")
        listed.flush()
        command = f'exec "$0" {options["repeats"]} {clock} < "$1"'
        done = common.run(["sh", "-c", command, program, listed.name], {"OMP_NUM_THREADS": str(threads)}, cores)
    version, *lines = done.out.splitlines()
    rows = [line.split(" ", 2) for line in lines]
    return version, {p: (float(row[0]), float(row[1]), row[2]) for p, row in zip(problems, rows, strict=True)}


def sums_of(times, problems):
    """{part: milliseconds}, with the sum of all"""
    sums = collections.Counter()
    for problem, count in problems.items():
        milliseconds = count * sum(times[problem][:2])
        sums[PARTS[problem.split()[0]]] += milliseconds
        sums["all"] += milliseconds
    return sums


def measure(trainer, programs, net, variant, options):
    problems = problems_of(trainer, net, variant, options["threads"])
    rounds = []
    for number in range(options["rounds"]):
        runs = [run_problems(program, problems, options) for program in programs]
        rounds.append([sums_of(times, problems) for _, times in runs])
        print(f"  {net} {variant}, round {number + 1}", file=sys.stderr)
    ratios = {part: sorted(other[part] / installed[part] for installed, other in rounds) for part in rounds[0][0]}
    last = {problem: [times[problem] for _, times in runs] for problem in problems}
    return {"net": net, "variant": variant, "versions": [run[0] for run in runs], "ratios": ratios, "last_round": last}


def ratio_text(ratios):
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"


def main():
    options = {"other": "", "rounds": 5, "nets": "resnet50,cifar10_resnet20,mobilenet_v2"}
    options |= {"variants": ",".join(VARIANTS), "threads": 1, "repeats": 3, "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets, variants = options["nets"].split(","), options["variants"].split(",")
    known = all(net in {**compare.NETS, **GENERATED} for net in nets) and all(name in VARIANTS for name in variants)
    if len(words) > 1 or not options["other"] or options["rounds"] < 1 or not known:
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    about = common.provenance(trainer, threads=options["threads"], rounds=options["rounds"])
    with tempfile.TemporaryDirectory() as folder:
        programs = [build_program(folder, root) for root in ("", options["other"])]
        results = [measure(trainer, programs, net, variant, options) for net in nets for variant in variants]
    installed, other = results[0]["versions"]
    parts = [*PARTS.values(), "all"]
    rows = [[r["net"], r["variant"], *[ratio_text(r["ratios"].get(part)) for part in parts]] for r in results]
    plural = "" if options["threads"] == 1 else "s"
    lines = [
        f"{about['date']}, {about['cpu']}, {options['threads']} thread{plural} of {about['cores']} cores; "
        f"{about['trainer']}. Time with oneDNN {other} divided by that with {installed}: median of {options['rounds']} "
        "alternating rounds, their range in brackets; below 1 the other version is faster.",
        "",
        common.table(["net", "variant", *parts], rows),
    ]
    print("\n".join(lines))
    common.save_json(options["json"] or build / "bench/onednn_versions.json", {"about": about, "results": results})
    if options["write"]:
        lines += [
            "",
            "*bf16*: products in bf16; *stored*: activations are stored in bf16 too. Conversions of the weights are",
            "included, f32 inner products and conversions of activations are not. Made by",
            "`tests/bench/onednn_versions.py`.",
        ]
        common.save_markdown(options["write"], "onednn_versions", f"oneDNN {other} against {installed}", lines, False)


if __name__ == "__main__":
    common.run_main(main)
