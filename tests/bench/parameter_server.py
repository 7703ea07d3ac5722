#!/usr/bin/env python3
"""Accuracy by the way of training: one process, synchronous ones, and a parameter server's workers.

usage: parameter_server.py [options] SOLVER [BUILD_FOLDER]          (default build/release)
  --updates=942       of every row
  --workers=8         of a parameter server
  --seeds=1,2,3       an accuracy for each; the other columns are of the last (default 1)
  --only=TEXT,TEXT    rows whose name has one of the texts in it; "1 process" is the first row's
  --set=FIELDS        instead of those of the solver: --set="momentum: 0; base_lr: 0.2"
  --title=TEXT        of the page and the plot
  --python=PROGRAM    the interpreter that has matplotlib (default: the one running this)
  --write=FILE        a page in Markdown, FILE.md, with a plot, FILE.svg

Every row trains the same solver for the same number of updates. The batch of an update is that of the net: synchronous
processes divide it among them; a worker of the asynchronous rows has all of it, and an update has the differences that
are there, mostly one or two. Prints a table in Markdown. Run it from the repository's folder; the solver's data must exist
(tools/quickstart.sh makes the digits). The net must divide its batch among devices (batch_size_is_total). Never part of a test run.
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import common

DROPPED = ("random_seed", "max_iter", "display", "test_interval", "test_initialization", "snapshot", "snapshot_prefix", "snapshot_after_train")


def solver_text(path, updates, fields, seed):
    given = [field.strip() for field in fields.split(";") if field.strip()]
    dropped = [*DROPPED, *(field.split(":")[0] for field in given)]
    lines = [line for line in open(path) if line.split(":")[0].strip() not in dropped]
    return "".join(lines) + "\n" + "\n".join(given) + (f"\nrandom_seed: {seed}\nmax_iter: {updates}\ndisplay: {updates}\ntest_interval: {updates}\ntest_initialization: false\n"
                             "snapshot_after_train: false\n")


def rows(workers):
    server = ["--parameter_server"]
    now = [*server, "--wait_time=0"]
    yield "1 process", 1, []
    yield "4 processes, synchronous", 4, ["--uplink=mpi"]
    yield "2 processes, synchronous", 2, ["--uplink=mpi"]
    for short in ("bf16", "f16"):
        yield f"2 processes, synchronous, {short}", 2, ["--uplink=mpi", f"--reduce_precision={short}"]
    for staleness in (0, 2, 4, 8, 16):
        yield f"{workers} workers, staleness {staleness}", workers + 1, [*now, f"--staleness={staleness}"]
    yield f"{workers} workers, staleness 8, 2 servers", workers + 2, [*now, "--staleness=8", "--servers=2"]
    yield f"{workers} workers, staleness 8, tree of 2", workers + 3, [*now, "--staleness=8", "--server_tree=2"]
    yield f"{workers} workers, staleness 8, bf16", workers + 1, [*now, "--staleness=8", "--reduce_precision=bf16"]
    for share, name in (("0.1", "10 %"), ("0.01", "1 %")):
        yield f"{workers} workers, staleness 8, top {name}", workers + 1, [*now, "--staleness=8", f"--compress=topk:{share}"]


def train(build, solver, processes, flags, threads=1):
    """What the trainer logs; each process has a device with so many threads."""
    command = [f"{build}/bin/trainer", f"--solver={solver}", "--cpu=1", f"--threads_per_device={threads}", *flags]
    if processes > 1:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(processes), *command]
    finished = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {finished.returncode}: {finished.stderr[-2000:]}")
    return finished.stderr


def accuracy_in(log, what):
    """The one that was logged last."""
    found = re.findall(r"Test net output #\d+: accuracy = ([0-9.e-]+)", log)
    if not found:
        sys.exit(f"{what}: no accuracy was logged: {log[-2000:]}")
    return float(found[-1])


def counts_in(log):
    """Cells of the columns that only a parameter server has: its last report, of all differences."""
    counts = re.findall(r"Parameter server: \d+ updates of (\d+) differences, by age([ 0-9:]*); (\d+) dropped.*; "
                        r"([0-9.e+]+) MB received(?:, ([0-9.e+]+) MB saved)?", log)
    if not counts:
        return ["", "", "", "", ""]
    used, ages, dropped, received, saved = counts[-1]
    by_age = [[int(n) for n in pair.split(":")] for pair in ages.split()]
    mean = sum(age * n for age, n in by_age) / max(1, int(used))
    return [used, dropped, f"{mean:.1f}", received, f"{float(received) + float(saved or 0):.1f}"]


def write(options, solver, made):
    """The page with all rows, and a bar for each row's mean accuracy, with the lowest of several seeds as a line."""
    path = pathlib.Path(options["write"])
    title = options["title"] or "Accuracy by the way of training"
    means = [round(sum(accuracies) / len(accuracies), 2) for _, accuracies, _ in made]
    least = [round(min(accuracies), 2) for _, accuracies, _ in made]
    drawing = {"kind": "bars", "title": title, "y": "accuracy, %", "labels": [name for name, _, _ in made]}
    if "," in options["seeds"]:
        drawing |= {"series": {"mean of the seeds": means}, "marks": {"lowest": least}}
    else:
        drawing |= {"series": {f"random seed {options['seeds']}": means}}
    plotted = common.plot(path.parent, path.name, options["python"], drawing)
    fields = f', with `{options["set"]}`' if options["set"] else ""
    about = (f"{datetime.date.today().isoformat()}, {common.cpu_name()}, {len(os.sched_getaffinity(0))} cores. {solver}{fields}: "
             f"{options['updates']} updates, random {'seeds' if ',' in options['seeds'] else 'seed'} {options['seeds']}; a thread for each process.")
    cells = [[name, ", ".join(f"{value:.2f}" for value in accuracies), *counts] for name, accuracies, counts in made]
    header = ["", "accuracy, %, by seed", "differences used", "dropped", "mean age", "received MB", "of"]
    common.save_markdown(path.parent, path.name, title, [about, "", common.table(header, cells), "", "Made by `tests/bench/parameter_server.py`."],
                         plotted)


def main():
    options = {"updates": 942, "workers": 8, "seeds": "1", "only": "", "set": "", "title": "", "python": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    if not 1 <= len(words) <= 2:
        sys.exit(__doc__)
    build = common.build_folder(words[1:])
    made = []
    print("| | accuracy | differences used | dropped | mean age | received MB | of |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        solver = f"{folder}/solver.prototxt"
        for name, processes, flags in rows(options["workers"]):
            if not any(text in name for text in options["only"].split(",")):
                continue
            accuracies = []
            for seed in options["seeds"].split(","):
                pathlib.Path(solver).write_text(solver_text(words[0], options["updates"], options["set"], seed))
                log = train(build, solver, processes, flags)
                accuracies.append(100 * accuracy_in(log, f"{name}, seed {seed}"))
            made.append((name, accuracies, counts_in(log)))
            print(f"| {name} | {', '.join(f'{value:.2f} %' for value in accuracies)} | {' | '.join(made[-1][2])} |", flush=True)
    if options["write"]:
        write(options, words[0], made)


if __name__ == "__main__":
    common.run_main(main)
