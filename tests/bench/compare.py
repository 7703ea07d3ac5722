#!/usr/bin/env python3
"""Training on synthetic data: our trainer and PyTorch (CPU, channels-last) in alternating runs, one process each.

usage: compare.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          alternating runs of each side; every figure is their median
  --nets=A,B          only these: lenet cifar10_quick cifar10_resnet20 alexnet googlenet resnet50
  --precisions=A,B    f32,bf16
  --threads=2         threads of each side
  --quick             a third of the iterations: for trying the script, not for quoting
  --net_line=TEXT     a line added to each of our nets, such as --net_line='checkpoint: "auto"'
  --scales            batch normalizations of our nets as BatchNorm and Scale, both in place
  --flags=A,B         further flags of our trainer
  --python=PROGRAM    the interpreter that has PyTorch (default: the one running this)
  --json=FILE         default BUILD_FOLDER/bench/compare.json
  --write=FOLDER      also FOLDER/compare.md and compare.svg

An iteration is forward, backward and SGD update (momentum, weight decay), the loss read every few iterations. Ours is
`trainer --solver=...` with one CPU device and a DummyData layer before the net of models/; PyTorch's is torch_train.py.
Peak memory is the kernel's figure for the whole process. "convolutions" is the share of our iteration taken by oneDNN's
convolutions alone, summed from ONEDNN_VERBOSE=1 in a run of the same round; "limit" is the ratio that would be
reached if everything else cost nothing. Alternating processes on one machine: quote ratios, not seconds.
"""

import json
import pathlib
import re
import statistics
import sys
import tempfile
import time

import common
import made_net

# batch and shape, seconds are averaged over `display` iterations, `intervals` of them are measured after a warm-up of half
# as many; the ratio to reach (against PyTorch's same precision)
NETS = {
    "lenet": dict(net="lenet/train_test", shape=(64, 1, 28, 28), display=20, intervals=20, goal={"f32": 2.2}),
    "cifar10_quick": dict(
        net="cifar10_quick/train_test", shape=(100, 3, 32, 32), display=5, intervals=12, goal={"f32": 1.3}
    ),
    "cifar10_resnet20": dict(
        net="cifar10_resnet20/train_test", shape=(128, 3, 32, 32), display=2, intervals=12, goal={"f32": 1.35}
    ),
    "alexnet": dict(net="alexnet/train", shape=(32, 3, 227, 227), display=1, intervals=8, goal={"f32": 1.3}),
    "googlenet": dict(net="googlenet/train", shape=(32, 3, 224, 224), display=1, intervals=6, goal={"f32": 1.4}),
    "resnet50": dict(
        net="resnet50/train", shape=(16, 3, 224, 224), display=1, intervals=6, goal={"f32": 1.1, "bf16": 1.1}
    ),
}
SOLVER = """base_lr: 0.0001 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" random_seed: 1 snapshot_after_train: false
net: "{folder}/net.prototxt" snapshot_prefix: "{folder}/none" display: {display} max_iter: {iterations}
"""


def write_net(folder, net, net_line="", scales=False):
    path = pathlib.Path(folder) / "net.prototxt"
    made_net.write(path, NETS[net]["net"], NETS[net]["shape"], net_line, scales=scales)
    return path


def intervals(net, options):
    """(warm-up, measured) intervals of `display` iterations."""
    measured = max(2, NETS[net]["intervals"] // (3 if options["quick"] else 1))
    return max(1, measured // 2), measured


def run_ours(trainer, folder, net, precision, options, convolutions=0):
    """One run; with the number of the net's convolutions, also their time according to oneDNN."""
    warmup, measured = intervals(net, options)
    display = NETS[net]["display"]
    iterations = display * (warmup + measured) + 1  # iteration 0 prints its own line
    write_net(folder, net, options["net_line"], options["scales"])
    solver = pathlib.Path(folder) / "solver.prototxt"
    solver.write_text(SOLVER.format(folder=folder, display=display, iterations=iterations))
    flags = [flag for flag in options["flags"].split(",") if flag]
    done = common.run(
        [
            trainer,
            f"--solver={solver}",
            "--cpu=1",
            f"--threads_per_device={options['threads']}",
            f"--precision={precision}",
            "--progress=off",
            *flags,
        ],
        {"ONEDNN_VERBOSE": "1"} if convolutions else {},
    )
    seconds = [float(s) / display for s in re.findall(r"Iteration [1-9]\d* \([^,]*, ([0-9.e+-]+)s/", done.err)]
    if len(seconds) != warmup + measured:
        raise common.Failed(f"expected {warmup + measured} timed lines in the trainer's log, found {len(seconds)}")
    return {
        "seconds": statistics.median(seconds[warmup:]),
        "peak_bytes": done.peak_bytes,
        "start_seconds": start_seconds(done),
        "convolutions": convolution_seconds(done.out, iterations, convolutions) if convolutions else None,
    }


def start_seconds(done):
    """From the start of the process to the end of its first iteration, by the clock of its log."""
    hours, minutes, seconds = re.search(r"^I\d+ (\d+):(\d+):([0-9.]+) .*Iteration 0 ", done.err, re.M).groups()
    began = time.localtime(done.began)
    midnight = done.began % 1 + began.tm_sec + 60 * (began.tm_min + 60 * began.tm_hour)
    return (float(seconds) + 60 * (int(minutes) + 60 * int(hours)) - midnight) % 86400


def run_torch(python, net, precision, options):
    warmup, measured = intervals(net, options)
    settings = NETS[net]
    done = common.run(
        [
            python,
            common.HERE / "torch_train.py",
            net,
            ",".join(map(str, settings["shape"])),
            f"--iterations={settings['display'] * (warmup + measured)}",
            f"--display={settings['display']}",
            f"--threads={options['threads']}",
            f"--precision={precision}",
        ]
    )
    result = json.loads(done.out)
    return {
        "seconds": statistics.median(result["seconds"][warmup:]),
        "peak_bytes": done.peak_bytes,
        "resident_at_start": result["resident_at_start"],
        "version": result["version"],
    }


def convolution_seconds(verbose, iterations, convolutions):
    """Seconds per iteration in oneDNN's convolutions: the median over the later half of the iterations. None, after reporting why,
    where not every convolution of the net runs in oneDNN. After the last iteration there may be one more forward pass.
    """
    rows = [
        line.split(",") for line in verbose.splitlines() if line.startswith("onednn_verbose") and ",exec,cpu," in line
    ]
    rows = [row for row in rows if row[row.index("exec") + 2] == "convolution"]
    forward = ["forward" in row[row.index("exec") + 4] for row in rows]
    each = convolutions + forward.count(False) // iterations
    starts = range(0, each * iterations, each)
    # All gradients but that of the data, which the first convolution does not need.
    whole = forward.count(False) >= (2 * convolutions - 1) * iterations
    whole = whole and sum(forward) in (convolutions * iterations, convolutions * (iterations + 1))
    if not whole or any(sum(forward[at : at + each]) != convolutions for at in starts):
        return common.skip("the roofline", "not every convolution runs in oneDNN")
    sums = [sum(float(row[-1]) for row in rows[at : at + each]) for at in starts]
    return statistics.median(sums[iterations // 2 :]) / 1000


def describe(trainer, net, options):
    """The layers of our net, as `trainer summary` lists them."""
    with tempfile.TemporaryDirectory() as folder:
        model = write_net(folder, net, options["net_line"], options["scales"])
        return json.loads(common.run([trainer, "summary", f"--model={model}", "--json"]).out)["layers"]


def check_same(ours, python, net):
    """Raises Failed unless both sides have the same convolutions, inner products, batch norms, LRNs and dropouts."""
    shape = ",".join(map(str, NETS[net]["shape"]))
    theirs = json.loads(common.run([python, common.HERE / "torch_train.py", net, shape, "--describe"]).out)
    weighted = sorted(
        [l["parameters"], l["multiply_adds"]] for l in ours if l["type"] in ("Convolution", "InnerProduct")
    )
    if weighted != theirs["layers"]:
        different = [pair for pair in zip(weighted, theirs["layers"]) if pair[0] != pair[1]]
        raise common.Failed(f"torch_nets.py and models/ differ in a convolution or inner product: {different[:3]}")
    for kinds, count in (
        (("BN", "SyncBN", "BatchNorm"), "BatchNorm2d"),
        (("LRN",), "LocalResponseNorm"),
        (("Dropout",), "Dropout"),
    ):
        mine = sum(layer["type"] in kinds for layer in ours)
        if mine != theirs["counts"][count]:
            raise common.Failed(
                f"{mine} layers of {'/'.join(kinds)} in models/, {theirs['counts'][count]} in torch_nets.py"
            )


def measure(trainer, python, net, precision, options):
    """Both sides' runs of one net; PyTorch's list stays empty where there is no PyTorch."""
    layers = describe(trainer, net, options)
    convolutions = sum(layer["type"] == "Convolution" for layer in layers)
    if python:
        check_same(layers, python, net)
    runs = {"ours": [], "torch": [], "roofline": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options["rounds"]):
            runs["ours"].append(run_ours(trainer, folder, net, precision, options))
            if python:
                runs["torch"].append(run_torch(python, net, precision, options))
            runs["roofline"].append(run_ours(trainer, folder, net, precision, options, convolutions))
            print(
                f"  {net} {precision} round {number + 1}: {1000 * runs['ours'][-1]['seconds']:.1f} ms"
                + (f", PyTorch {1000 * runs['torch'][-1]['seconds']:.1f} ms" if python else ""),
                file=sys.stderr,
            )
    return {
        "net": net,
        "precision": precision,
        "batch": NETS[net]["shape"][0],
        "runs": runs,
        **evaluate(net, precision, runs),
    }


def median_of(runs, key):
    return statistics.median(run[key] for run in runs) if runs else None


def evaluate(net, precision, runs):
    ours, torch = runs["ours"], runs["torch"]
    pairs = list(zip(ours, torch))
    result = {
        "seconds": median_of(ours, "seconds"),
        "peak_bytes": median_of(ours, "peak_bytes"),
        "start_seconds": median_of(ours, "start_seconds"),
        "torch_seconds": median_of(torch, "seconds"),
        "torch_peak_bytes": median_of(torch, "peak_bytes"),
        "goal": NETS[net]["goal"].get(precision),
        "convolution_share": None,
        "limit": None,
        "ratio": None,
        "memory_ratio": None,
    }
    if pairs:
        result["ratio"] = statistics.median(t["seconds"] / o["seconds"] for o, t in pairs)
        result["memory_ratio"] = statistics.median(o["peak_bytes"] / t["peak_bytes"] for o, t in pairs)
    roofs = [r for r in runs["roofline"] if r["convolutions"]]
    if roofs:
        result["convolution_share"] = statistics.median(r["convolutions"] / r["seconds"] for r in roofs)
        result["limit"] = result["ratio"] and result["ratio"] / result["convolution_share"]
    return result


def number(value, form):
    return "-" if value is None else form.format(value)


def rows_of(results):
    for r in results:
        yield [
            f"{r['net']} b{r['batch']}",
            r["precision"],
            number(r["batch"] / r["seconds"], "{:.0f}"),
            number(r["torch_seconds"] and r["batch"] / r["torch_seconds"], "{:.0f}"),
            number(r["ratio"], "{:.2f}"),
            number(r["goal"], "{:.2f}"),
            number(r["convolution_share"], "{:.0%}"),
            number(r["limit"], "{:.2f}"),
            number(r["peak_bytes"] / 1e6, "{:.0f}"),
            number(r["torch_peak_bytes"] and r["torch_peak_bytes"] / 1e6, "{:.0f}"),
            number(r["memory_ratio"], "{:.2f}"),
            number(r["start_seconds"], "{:.2f}"),
        ]


HEADER = [
    "net",
    "precision",
    "img/s",
    "PyTorch img/s",
    "ratio",
    "goal",
    "convolutions",
    "limit",
    "peak MB",
    "PyTorch peak MB",
    "memory ratio",
    "start s",
]


def report(results, about, options):
    print(common.table(HEADER, rows_of(results)))
    if not options["write"]:
        return
    drawing = {
        "kind": "bars",
        "title": "Training on the CPU: img/s over PyTorch's",
        "y": "ratio (higher is faster)",
        "labels": [f"{r['net']}\n{r['precision']} b{r['batch']}" for r in results],
        "series": {"measured": [r["ratio"] for r in results]},
        "marks": {"goal": [r["goal"] for r in results]},
    }
    plotted = common.plot(options["write"], "compare", options["python"], drawing)
    lines = [
        f"{about['date']}, {about['cpu']}, {options['threads']} threads of {about['cores']} cores; {about['trainer']}; "
        f"PyTorch {about['torch'] or 'absent'}, channels-last. "
        f"Median of {options['rounds']} alternating rounds; forward, backward and update.",
        "",
        common.table(HEADER, rows_of(results)),
        "",
        "*convolutions*: the part of our iteration inside oneDNN's convolutions. *limit*: the ratio if all else cost",
        "nothing. *memory ratio*: our peak resident memory over PyTorch's. *start*: from the start of our process to the",
        "end of its first iteration. A net has no limit where some convolution, or one of its gradients, does not run in",
        "oneDNN's convolutions. Made by `tests/bench/compare.py`.",
    ]
    common.save_markdown(options["write"], "compare", "Training on the CPU against PyTorch", lines, plotted)


def main():
    options = {"rounds": 5, "nets": ",".join(NETS), "precisions": "f32,bf16", "threads": 2, "quick": False}
    options |= {"net_line": "", "scales": False, "flags": "", "python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets = options["nets"].split(",")
    if len(words) > 1 or options["rounds"] < 1 or any(net not in NETS for net in nets):
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    python = common.find_python("torch", options["python"])
    if python is None:
        common.skip("PyTorch's side and all ratios", common.how_to_get("torch"))
    about = common.provenance(trainer, threads=options["threads"], rounds=options["rounds"])
    results = []
    for precision in options["precisions"].split(","):
        for net in nets:
            try:
                results.append(measure(trainer, python, net, precision, options))
            except common.Failed as why:
                common.skip(f"{net} {precision}", why)
    about["torch"] = next((r["runs"]["torch"][0]["version"] for r in results if r["runs"]["torch"]), None)
    report(results, about, options)
    common.save_json(options["json"] or build / "bench/compare.json", {"about": about, "results": results})
    if len(results) < len(nets):
        sys.exit(1)


if __name__ == "__main__":
    common.run_main(main)
