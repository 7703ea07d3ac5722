#!/usr/bin/env python3
"""What fewer bits cost in accuracy: products and activations (--precision), gradients between processes (--reduce_precision).

usage: accuracy.py [BUILD_FOLDER] [options]                        (default build/release)
  --solver=FILE       default models/cifar10_resnet20/solver.prototxt; its data must exist
  --iterations=3910   of each run: learning rate policies with an end have it there, where the net is tested too
  --seeds=1,2,3
  --groups=A,B        default precision,wire (precision: one process; wire: two by mpirun, a device each)
  --threads=0         of the one process's device; 0: as many as there are cores. With two processes: one each
  --results=FOLDER    default BUILD_FOLDER/bench/accuracy: a file for each run
  --write=FOLDER      also FOLDER/accuracy.md

A run whose file is there already is not repeated, so that the script goes on where it was interrupted; files of another
solver, net or number of iterations are not taken for it. Run it from the repository's folder, where solvers find their nets
and data. Seeds differ in initial values, order of records and augmentation, so what a row differs from the first one of
its group counts only beside the spread of its seeds.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import common
import parameter_server

# By group: name, processes, flags.
GROUPS = {
    "precision": [
        ("1 process, f32", 1, []),
        ("1 process, --precision=bf16", 1, ["--precision=bf16"]),
    ],
    "wire": [
        ("2 processes, f32", 2, ["--uplink=mpi"]),
        ("2 processes, --reduce_precision=bf16", 2, ["--uplink=mpi", "--reduce_precision=bf16"]),
        ("2 processes, --reduce_precision=f16", 2, ["--uplink=mpi", "--reduce_precision=f16"]),
    ],
}


def checksum(solver, text):
    """Of what is trained: the solver as it is run, and the net that it names."""
    net = re.search(r'^\s*net:\s*"([^"]+)"', pathlib.Path(solver).read_text(), re.MULTILINE)
    return hashlib.sha256(text.encode() + (pathlib.Path(net[1]).read_bytes() if net else b"")).hexdigest()[:16]


def file_of(folder, name, seed):
    return folder / (re.sub(r"[^a-z0-9]+", "_", name.lower()) + f"_seed{seed}.json")


def earlier(path, identity):
    """The result of a run that was made before, or None."""
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    if result["identity"] == identity:
        return result
    print(f"{path} is of another solver, net or number of iterations: made again", file=sys.stderr)
    return None


def train(build, name, processes, flags, text, options):
    cores = len(os.sched_getaffinity(0))
    threads = 1 if processes > 1 else options["threads"] or cores
    with tempfile.TemporaryDirectory() as folder:
        solver = pathlib.Path(folder) / "solver.prototxt"
        solver.write_text(text)
        began = time.time()
        log = parameter_server.train(build, solver, processes, flags, threads)
        return {
            "name": name,
            "accuracy": parameter_server.accuracy_in(log, name),
            "seconds": round(time.time() - began, 1),
            "threads": threads,
            "date": datetime.date.today().isoformat(),
            "cpu": common.cpu_name(),
            "trainer": common.run([build / "bin/trainer", "--version"]).out.splitlines()[0],
        }


def save(path, result):
    """Whole or not at all, whenever the script is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def spread(values):
    return f"{statistics.stdev(values):.2f}" if len(values) > 1 else "-"


def table(rows, groups):
    """Accuracies in percent."""
    cells = []
    for group in groups:
        first = None
        for name, _, _ in GROUPS[group]:
            values = [100 * result["accuracy"] for result in rows[name]]
            mean = statistics.mean(values)
            first = mean if first is None else first
            each = ", ".join(f"{value:.2f}" for value in values)
            cells.append([name, each, f"{mean:.2f}", spread(values), f"{mean - first:+.2f}"])
    return common.table(["", "accuracy, %, by seed", "mean", "standard deviation", "mean against the first row"], cells)


def main():
    options = {
        "solver": "models/cifar10_resnet20/solver.prototxt",
        "iterations": 3910,
        "seeds": "1,2,3",
        "groups": "precision,wire",
        "threads": 0,
        "results": "",
        "write": "",
    }
    build = common.build_folder(common.parse(sys.argv[1:], options, __doc__))
    groups, seeds = options["groups"].split(","), options["seeds"].split(",")
    if not set(groups) <= set(GROUPS):
        sys.exit(__doc__)
    folder = pathlib.Path(options["results"] or build / "bench/accuracy")
    rows = {name: [] for group in groups for name, _, _ in GROUPS[group]}
    # Seed by seed: an interrupted comparison has all rows of the first ones.
    for seed in seeds:
        text = parameter_server.solver_text(options["solver"], options["iterations"], "", seed)
        identity = checksum(options["solver"], text)
        for name, processes, flags in (row for group in groups for row in GROUPS[group]):
            path = file_of(folder, name, seed)
            result = earlier(path, identity)
            if result is None:
                result = {"identity": identity, **train(build, name, processes, flags, text, options)}
                save(path, result)
            print(f"{name}, seed {seed}: {100 * result['accuracy']:.2f} % in {result['seconds']} s", flush=True)
            rows[name].append(result)
    lines = table(rows, groups)
    print(lines)
    if options["write"]:
        dates = sorted({result["date"] for results in rows.values() for result in results})
        processors = sorted({result["cpu"] for results in rows.values() for result in results})
        about = (
            f"`tests/bench/accuracy.py`: {options['solver']} with {options['iterations']} iterations, tested at their end; "
            f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, {'; '.join(processors)}."
        )
        common.save_markdown(options["write"], "accuracy", "Accuracy with fewer bits", [about, "", lines], False)


if __name__ == "__main__":
    common.run_main(main)
