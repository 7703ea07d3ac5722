#!/usr/bin/env python3
"""Training on synthetic data: our trainer and PyTorch (CPU, channels-last) in alternating runs, one process each.

usage: compare.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          alternating runs of each side; every figure is their median
  --nets=A,B          only these: lenet cifar10_quick cifar10_resnet20 alexnet googlenet resnet50 vgg16 mobilenet_v2
  --precisions=A,B    f32,bf16; without it each net runs in the precisions that it has a goal for
  --spellings=bn,scale    how our nets write batch normalization: one layer each, or BatchNorm and Scale, both in place; both are
                      measured in the same rounds
  --threads=2         threads of each side
  --budget=SECONDS    for everything: as many iterations are measured as fit, fewer for every net, at least two intervals
  --quick             a third of the iterations: for trying the script, not for quoting
  --net_line=TEXT     a line added to each of our nets, such as --net_line='checkpoint: "auto"'
  --flags=A,B         further flags of our trainer
  --python=PROGRAM    the interpreter that has PyTorch (default: the one running this)
  --json=FILE         default BUILD_FOLDER/bench/compare.json
  --write=FOLDER      also FOLDER/compare.md and compare.svg

An iteration is forward, backward and SGD update (momentum, weight decay), the loss read every few iterations. Ours is
`trainer --solver=...` with one CPU device and a DummyData layer before the net of models/; PyTorch's is torch_train.py.
Peak memory is the kernel's figure for the whole process. A short run of every side comes first: it says what the rest will
take. "convolutions" is the share of our iteration taken by oneDNN's convolutions alone, from ONEDNN_VERBOSE=1 in that
run; "limit" is the ratio that would be reached if everything else cost nothing. "over bn" is our speed in this spelling over
that with one layer. Alternating processes on one machine: quote ratios, not seconds.
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

# batch and shape; seconds are averaged over `display` iterations, `intervals` of them are measured after a warm-up of half
# as many; goals by precision: the ratio to reach against PyTorch's same precision, and the most of PyTorch's peak memory;
# how far the spellings may be apart
NETS = {
    "lenet": dict(
        net="lenet/train_test",
        shape=(64, 1, 28, 28),
        display=20,
        intervals=20,
        goal={"f32": 2.2},
        needs={"f32": "avx512"},
        memory_goal={"f32": 0.06},
    ),
    "cifar10_quick": dict(
        net="cifar10_quick/train_test", shape=(100, 3, 32, 32), display=5, intervals=12, goal={"f32": 1.3}
    ),
    "cifar10_resnet20": dict(
        net="cifar10_resnet20/train_test",
        shape=(128, 3, 32, 32),
        display=2,
        intervals=12,
        goal={"f32": 1.5, "bf16": 1.2},
        apart={"f32": 0.03},
    ),
    "alexnet": dict(net="alexnet/train", shape=(32, 3, 227, 227), display=1, intervals=8, goal={"f32": 1.3}),
    "googlenet": dict(net="googlenet/train", shape=(32, 3, 224, 224), display=1, intervals=6, goal={"f32": 1.3}),
    "resnet50": dict(
        net="resnet50/train",
        shape=(16, 3, 224, 224),
        display=1,
        intervals=6,
        goal={"f32": 1.3, "bf16": 1.2},
        memory_goal={"f32": 0.6, "bf16": 0.6},
        apart={"f32": 0.03},
    ),
    "vgg16": dict(net="vgg16", shape=(16, 3, 224, 224), display=1, intervals=6, goal={"f32": 1.3}),
    "mobilenet_v2": dict(net="mobilenet_v2", shape=(32, 3, 224, 224), display=1, intervals=6, goal={"f32": 1.3}),
}
PRECISIONS = ("f32", "bf16")
SPELLINGS = ("bn", "scale")
SOLVER = """base_lr: 0.0001 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" random_seed: 1 snapshot_after_train: false
net: "{folder}/net.prototxt" snapshot_prefix: "{folder}/none" display: {display} max_iter: {iterations}
"""
FEWEST = 2  # intervals that are measured


def goal_of(net, precision):
    """None also on a processor for which the goal was not set: without AVX-512 for LeNet's, without units for bf16."""
    settings = NETS[net]
    needed = settings.get("needs", {}).get(precision, "bf16 amx" if precision == "bf16" else "")
    if needed and not set(needed.split()) & set(common.instruction_sets()):
        return None
    return settings["goal"].get(precision)


def write_net(folder, net, net_line="", scales=False):
    path = pathlib.Path(folder) / "net.prototxt"
    made_net.write(path, NETS[net]["net"], NETS[net]["shape"], net_line, scales=scales)
    return path


def warm_up(measured):
    return max(1, measured // 2)


def run_ours(trainer, folder, net, precision, spelling, measured, options, convolutions=0):
    """One run of `measured` intervals of `display` iterations; with the number of the net's convolutions, also their time
    according to oneDNN."""
    display, all_intervals = NETS[net]["display"], warm_up(measured) + measured
    iterations = display * all_intervals + 1  # iteration 0 prints its own line
    write_net(folder, net, options["net_line"], spelling == "scale")
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
    if len(seconds) != all_intervals:
        raise common.Failed(f"expected {all_intervals} timed lines in the trainer's log, found {len(seconds)}")
    return {
        "seconds": statistics.median(seconds[warm_up(measured) :]),
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


def run_torch(python, net, precision, measured, options):
    settings = NETS[net]
    done = common.run(
        [
            python,
            common.HERE / "torch_train.py",
            net,
            ",".join(map(str, settings["shape"])),
            f"--iterations={settings['display'] * (warm_up(measured) + measured)}",
            f"--display={settings['display']}",
            f"--threads={options['threads']}",
            f"--precision={precision}",
        ]
    )
    result = json.loads(done.out)
    return {
        "seconds": statistics.median(result["seconds"][warm_up(measured) :]),
        "peak_bytes": done.peak_bytes,
        "resident_at_start": result["resident_at_start"],
        "version": result["version"],
    }


def convolution_seconds(verbose, iterations, convolutions):
    """Seconds per iteration in oneDNN's convolutions: the median over the later half of the iterations. None where not
    every convolution of the net runs in oneDNN. After the last iteration there may be one more forward pass.
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
        return None
    sums = [sum(float(row[-1]) for row in rows[at : at + each]) for at in starts]
    return statistics.median(sums[iterations // 2 :]) / 1000


def describe(trainer, net, options, spelling):
    """The layers of our net, as `trainer summary` lists them."""
    with tempfile.TemporaryDirectory() as folder:
        model = write_net(folder, net, options["net_line"], spelling == "scale")
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


class Case:
    """A net in a precision: its sides, what a short run of each said, and then the runs."""

    def __init__(self, trainer, python, net, precision, options):
        self.trainer, self.python, self.net, self.precision, self.options = trainer, python, net, precision, options
        if made_net.has_norms(made_net.text_of(NETS[net]["net"])):
            self.spellings = options["spellings"].split(",")
        else:
            self.spellings = ["-"]
        self.sides = self.spellings + (["PyTorch"] if python else [])
        self.runs = {side: [] for side in self.sides}
        self.fixed, self.interval, self.shares = {}, {}, {}  # seconds of a process apart from intervals; of an interval

    def run(self, side, measured, convolutions=0):
        if side == "PyTorch":
            return run_torch(self.python, self.net, self.precision, measured, self.options)
        with tempfile.TemporaryDirectory() as folder:
            return run_ours(
                self.trainer, folder, self.net, self.precision, side, measured, self.options, convolutions
            )

    def try_out(self):
        """Are the nets the same on both sides? What does an iteration take?"""
        for spelling in self.spellings:
            layers = describe(self.trainer, self.net, self.options, spelling)
            if self.python:
                check_same(layers, self.python, self.net)
        convolutions = sum(layer["type"] == "Convolution" for layer in layers)
        for side in self.sides:
            print(f"  trying {self.net} {self.precision}: {side}", file=sys.stderr)
            began = time.monotonic()
            run = self.run(side, FEWEST, convolutions)
            took = time.monotonic() - began
            self.interval[side] = run["seconds"] * NETS[self.net]["display"]
            self.fixed[side] = max(0, took - (warm_up(FEWEST) + FEWEST) * self.interval[side])
            if run.get("convolutions"):
                self.shares[side] = run["convolutions"] / run["seconds"]

    def seconds(self, measured):
        """An estimate for all rounds."""
        intervals = warm_up(measured) + measured
        return self.options["rounds"] * sum(self.fixed[side] + intervals * self.interval[side] for side in self.sides)

    def measure(self, measured):
        for number in range(self.options["rounds"]):
            order = self.sides if number % 2 == 0 else self.sides[::-1]  # a drift of the machine favours nobody
            for side in order:
                self.runs[side].append(self.run(side, measured))
            times = ", ".join(f"{side} {1000 * self.runs[side][-1]['seconds']:.1f} ms" for side in self.sides)
            print(f"  {self.net} {self.precision} round {number + 1}: {times}", file=sys.stderr)
        return [self.result(spelling, measured) for spelling in self.spellings]

    def result(self, spelling, measured):
        ours, torch = self.runs[spelling], self.runs.get("PyTorch", [])
        plain = self.runs.get("bn", []) if spelling == "scale" else []
        settings = NETS[self.net]
        result = {
            "net": self.net,
            "precision": self.precision,
            "spelling": spelling,
            "batch": settings["shape"][0],
            "measured_iterations": measured * settings["display"],
            "seconds": median_of(ours, "seconds"),
            "peak_bytes": median_of(ours, "peak_bytes"),
            "start_seconds": median_of(ours, "start_seconds"),
            "torch_seconds": median_of(torch, "seconds"),
            "torch_peak_bytes": median_of(torch, "peak_bytes"),
            "ratio": median_ratio(torch, ours, "seconds"),
            "goal": goal_of(self.net, self.precision),
            "memory_ratio": median_ratio(ours, torch, "peak_bytes"),
            "memory_goal": settings.get("memory_goal", {}).get(self.precision),
            "over_bn": median_ratio(plain, ours, "seconds"),
            "apart_goal": settings.get("apart", {}).get(self.precision) if plain else None,
            "convolution_share": self.shares.get(spelling),
            "runs": {"ours": ours, "torch": torch},
        }
        result["limit"] = result["ratio"] and self.shares.get(spelling) and result["ratio"] / self.shares[spelling]
        return result


def median_of(runs, key):
    return statistics.median(run[key] for run in runs) if runs else None


def median_ratio(above, below, key):
    """The median of the rounds' ratios; None if a side was not measured."""
    ratios = [a[key] / b[key] for a, b in zip(above, below)]
    return statistics.median(ratios) if ratios else None


def intervals_of(cases, seconds, quick):
    """The intervals to measure of each case: all of NETS, or as large a share of them as takes at most `seconds` (0: any)."""

    def scaled(share):
        return [max(FEWEST, round(share * NETS[case.net]["intervals"])) for case in cases]

    def total(measured):
        return sum(case.seconds(each) for case, each in zip(cases, measured))

    shares = [share / 40 for share in range(40, 0, -1) if not quick or share <= 40 / 3]
    fitting = [scaled(share) for share in shares if not seconds or total(scaled(share)) <= seconds]
    chosen = fitting[0] if fitting else scaled(0)
    if not fitting:
        print(f"the rest of the budget, {seconds:.0f} s, is not enough: the least is measured", file=sys.stderr)
    for case, measured in zip(cases, chosen):
        display = NETS[case.net]["display"]
        each = ", ".join(f"{side} {1000 * case.interval[side] / display:.0f} ms" for side in case.sides)
        print(
            f"  {case.net} {case.precision}: {each}; {case.options['rounds']} rounds with "
            f"{display * measured} iterations after {display * warm_up(measured)}: about {case.seconds(measured):.0f} s",
            file=sys.stderr,
        )
    print(f"all together about {total(chosen) / 60:.0f} minutes", file=sys.stderr)
    return chosen


HEADER = [
    "net",
    "precision",
    "spelling",
    "img/s",
    "PyTorch img/s",
    "ratio",
    "goal",
    "over bn",
    "convolutions",
    "limit",
    "peak MB",
    "PyTorch peak MB",
    "memory ratio",
    "memory goal",
    "start s",
]


def rows_of(results):
    for r in results:
        yield [
            f"{r['net']} b{r['batch']}",
            r["precision"],
            r["spelling"],
            common.number(r["batch"] / r["seconds"], "{:.0f}"),
            common.number(r["torch_seconds"] and r["batch"] / r["torch_seconds"], "{:.0f}"),
            common.number(r["ratio"], "{:.2f}"),
            common.number(r["goal"], "{:.2f}"),
            common.number(r["over_bn"], "{:.2f}"),
            common.number(r["convolution_share"], "{:.0%}"),
            common.number(r["limit"], "{:.2f}"),
            common.number(r["peak_bytes"] / 1e6, "{:.0f}"),
            common.number(r["torch_peak_bytes"] and r["torch_peak_bytes"] / 1e6, "{:.0f}"),
            common.number(r["memory_ratio"], "{:.2f}"),
            common.number(r["memory_goal"], "{:.2f}"),
            common.number(r["start_seconds"], "{:.2f}"),
        ]


def bounds(results):
    """A line for each goal of what was measured: is it reached? (Not a test: times do not fail.)"""
    for r in results:
        name = f"{r['net']} {r['precision']}" + ("" if r["spelling"] == "-" else f" {r['spelling']}")
        if r["goal"] and r["ratio"]:
            yield r["ratio"] >= r["goal"], f"{name}: {r['ratio']:.2f} times PyTorch (>= {r['goal']})"
        if r["memory_goal"] and r["memory_ratio"]:
            memory = f"{name}: {r['memory_ratio']:.3f} of PyTorch's memory (<= {r['memory_goal']})"
            yield r["memory_ratio"] <= r["memory_goal"], memory
        if r["apart_goal"]:
            apart = abs(1 - r["over_bn"])
            yield apart <= r["apart_goal"], f"{name}: {r['over_bn']:.3f} times bn (within {r['apart_goal']:.0%})"


def report(results, about, options):
    head = (
        f"{common.taken_where(about, options['threads'])}; PyTorch {about['torch'] or 'absent'}, channels-last. "
        f"Median of {options['rounds']} alternating rounds; forward, backward and update."
    )
    table = common.table(HEADER, rows_of(results))
    verdicts = [f"{'met' if met else 'MISSED'}: {line}" for met, line in bounds(results)]
    print("\n".join([head, "", table, "", *verdicts]))
    if not options["write"]:
        return
    drawing = {
        "kind": "bars",
        "title": "Training on the CPU: img/s over PyTorch's",
        "y": "ratio (higher is faster)",
        "labels": [f"{r['net']}\n{r['precision']} b{r['batch']} {r['spelling'].strip('-')}" for r in results],
        "series": {"measured": [r["ratio"] for r in results]},
        "marks": {"goal": [r["goal"] for r in results]},
    }
    plotted = common.plot(options["write"], "compare", options["python"], drawing)
    lines = [
        head,
        "",
        table,
        "",
        "*spelling*: batch normalization as one layer (bn), or as BatchNorm and Scale, both in place (scale); *over bn*: how fast",
        "the second is relative to the first. *convolutions*: the part of our iteration inside oneDNN's convolutions. *limit*:",
        "the ratio if all else cost nothing. *memory ratio*: our peak resident memory over PyTorch's. *start*: from the start of",
        "our process to the end of its first iteration. A net has no limit where some convolution, or one of its gradients, does",
        "not run in oneDNN's convolutions. Made by `tests/bench/compare.py`.",
        "",
        *(f"- {verdict}" for verdict in verdicts),
    ]
    common.save_markdown(options["write"], "compare", "Training on the CPU against PyTorch", lines, plotted)


def main():
    began = time.monotonic()
    options = {"rounds": 5, "nets": ",".join(NETS), "precisions": "", "spellings": ",".join(SPELLINGS), "threads": 2}
    options |= {"budget": 0.0, "quick": False, "net_line": "", "flags": "", "python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    nets, precisions = options["nets"].split(","), [p for p in options["precisions"].split(",") if p]
    known = all(name in names for chosen, names in ((nets, NETS), (precisions, PRECISIONS)) for name in chosen)
    if len(words) > 1 or options["rounds"] < 1 or not known or set(options["spellings"].split(",")) - set(SPELLINGS):
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    python = common.find_python("torch", options["python"])
    if python is None:
        common.skip("PyTorch's side and all ratios", common.how_to_get("torch"))
    about = common.provenance(trainer, threads=options["threads"], rounds=options["rounds"])
    cases, results, failures = [], [], 0
    for precision in PRECISIONS:
        for net in nets:
            if precision not in (precisions or NETS[net]["goal"]):
                continue
            case = Case(trainer, python, net, precision, options)
            try:
                case.try_out()
                cases.append(case)
            except common.Failed as why:
                common.skip(f"{net} {precision}", why)
                failures += 1
    rest = options["budget"] and max(1, options["budget"] - (time.monotonic() - began))
    for case, measured in zip(cases, intervals_of(cases, rest, options["quick"])):
        try:
            results += case.measure(measured)
        except common.Failed as why:
            common.skip(f"{case.net} {case.precision}", why)
            failures += 1
    about["torch"] = next((r["runs"]["torch"][0]["version"] for r in results if r["runs"]["torch"]), None)
    report(results, about, options)
    common.save_json(options["json"] or build / "bench/compare.json", {"about": about, "results": results})
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    common.run_main(main)
