#!/usr/bin/env python3
"""Plants faults in copies of the CUDA back end's sources; the emulated GPUs must find each of them.

A mutant is one fault: texts replaced in one file (each must occur exactly once), the sources to recompile,
and a short program that runs with the resulting library. It is caught by a violation of CUDA's rules, a
failing test, a different loss than without the fault, or a program that does not end. The unmutated library
comes first and must pass everything, then copies made in the mutants' way but without a fault, of each library
and each way to trim a unit. A library that does not load, or lacks an operator, is no mutant that is caught:
everything ends. Prints one line per mutant; the exit code is 1 if one survives.

Needs a build folder made by Ninja with the library lib/emulated_checked, gpu_tests and trainer in it.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutants"))
sys.dont_write_bytecode = True
from faults import MUTANTS  # noqa: E402

NET = """
net_param {
  layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
    shape { dim: 8 dim: 1 dim: 32 dim: 32 } shape { dim: 8 }
    data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 3 } } }
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param {
    num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
  layer { name: "bn1" type: "SyncBN" bottom: "conv1" top: "conv1" }
  layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {
    pool: MAX kernel_size: 2 stride: 2 } }
  layer { name: "ip" type: "InnerProduct" bottom: "pool1" top: "ip" inner_product_param {
    num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
}
base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 max_iter: 4 display: 1 random_seed: 7
snapshot_after_train: false
"""
# What the linker says of a library with a symbol missing, Banyan of a back end that it cannot load, and a real
# CUDA library that was loaded instead of an emulated one.
NOT_LOADED = re.compile(r"symbol lookup error|error while loading shared libraries|cannot load the CUDA back end"
                        r"|this build has no CUDA back end|belongs to another build|CUDA driver version is insufficient")
# A test calls what a mutant's unit was trimmed of.
TRIMMED = re.compile(r"operator \w+ has no implementation")
FAILED = re.compile(r"Failure|[Ee]rror|failed")
LONGEST = 300  # seconds; the limit of a program without a fault, on a busy machine


def lines_at(found, text, more=0):
    """The line of what was found, and `more` after it. Not by a pattern that begins with .*: a test may print megabytes in a line."""
    begin, end = text.rfind("\n", 0, found.start()) + 1, found.end()
    for _ in range(more + 1):
        end = text.find("\n", end) + 1 or len(text)
    return text[max(begin, found.start() - 1000):min(end, found.end() + 1000)].strip()


def longest_with_a_fault(seconds_without):
    """A mutant that takes longer does not end."""
    return max(60, 10 * seconds_without)


class Build:
    """What is known about the build folder."""

    def __init__(self, source, build, library, work):
        self.source, self.build, self.library, self.work = source, build, library, work
        told = subprocess.run(["ninja", "-t", "commands", library], cwd=build, capture_output=True, text=True, check=True)
        self.compiles, self.links = {}, {}
        for line in told.stdout.splitlines():
            found = re.search(r" -o (\S+) -c (\S+)$", line)
            if found:
                self.compiles[found[1]] = (found[2], line)
            found = re.search(r" -shared .* -o (\S+\.so)\b", line)
            if found:
                self.links[pathlib.Path(found[1]).name] = (found[1], line)

    def object_of(self, unit, library):
        """The object file of a source in a library's link."""
        path, link = str(self.source / unit), self.links[library][1]
        objects = [o for o, (of, _) in self.compiles.items() if of == path and o in link.split()]
        if len(objects) != 1:
            sys.exit(f"{unit}: {len(objects)} objects in the link of {library}")
        return objects[0]

    def run(self, command):
        done = subprocess.run(command, shell=True, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{command}\n{done.stdout}{done.stderr}")

    def compile(self, mutant, copies):
        """The library with the mutant's units compiled from the copies; returns its folder."""
        folder = copies / "lib"
        folder.mkdir()
        new_objects = []
        for unit in mutant.units:
            old_object = self.object_of(unit, mutant.library)
            path, command = self.compiles[old_object]
            new_path, new_object = copies / unit, copies / (pathlib.Path(unit).name + ".o")
            command = re.sub(r" -MD -MT \S+ -MF \S+", "", command)
            command = re.sub(r" -O\d ", " -O1 -w ", command)
            command = re.sub(r" -Winvalid-pch -include \S+", "", command)  # it has headers without the fault
            command = command.replace(f" -o {old_object} -c {path}", f" -o {new_object} -c {new_path}")
            command = command.replace(" -I", f" -I{copies / 'src'} -I{copies / 'include'} -I", 1)
            self.run(command)
            new_objects.append((old_object, new_object))
        target, link = self.links[mutant.library]
        objects = ""
        for old_object, new_object in new_objects:
            link = link.replace(f" {old_object} ", " ")
            objects += f" {new_object}"
        # First, so that functions that other objects also contain are the mutant's.
        # The linker's command only: what follows it in the build writes into the build folder, which mutants share.
        [link] = [command for command in link.split(" && ") if " -shared " in command]
        link = link.replace(f" -o {target}", f" -o {folder / mutant.library}{objects}")
        self.run(link)
        for path in (self.build / self.library).parent.glob("libbanyan*.so"):
            if path.name != mutant.library:
                os.symlink(path, folder / path.name)
        os.symlink(folder / "libbanyan_cuda.so", folder / "libnccl.so.2")  # the emulated NCCL is in it
        return folder


@dataclasses.dataclass
class Outcome:
    caught_by: str  # "": it passed
    losses: list
    seconds: float = 0


def outcome_of(build, library_folder, program, settings, reference=None):
    """`reference`: that of the program without a fault."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library_folder), EMULATED_CUDA=settings, BANYAN_SLOW_GPU="1",
                       OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    command = [str(build.build / "bin" / program[0])] + [word.replace("SOLVER", str(build.work / "solver.prototxt"))
                                                          for word in program[1:]]
    try:
        done = subprocess.run(command, cwd=build.work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LONGEST if reference is None else longest_with_a_fault(reference.seconds))
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode(errors="replace")
        return Outcome("violation, then no end" if "CUDA VIOLATION" in text else "no end", [])
    text = done.stdout.decode(errors="replace")
    unusable = NOT_LOADED.search(text) or TRIMMED.search(text)
    if unusable:
        sys.exit(f"{library_folder}: {' '.join(command)}: {lines_at(unusable, text)}")
    losses = re.findall(r"Iteration \d+.*loss = (\S+)", text)
    violation = re.search(r"EMULATED CUDA VIOLATION: (.*)", text)
    if violation:
        return Outcome("violation: " + violation[1][:150], losses)
    if done.returncode != 0:
        failed = FAILED.search(text)
        said = " ".join((lines_at(failed, text, more=2) if failed else text[-200:]).split())
        return Outcome(f"exit code {done.returncode}: {said[:150]}", losses)
    if program[0] == "gpu_tests" and not re.search(r"\[  PASSED  \] [1-9]", text):
        sys.exit(f"{' '.join(command)}: no test ran\n{text}")
    if program[0] == "trainer" and not losses:
        sys.exit(f"{' '.join(command)}: no loss\n{text}")
    if reference is not None and losses != reference.losses:
        return Outcome(f"losses {' '.join(losses)} instead of {' '.join(reference.losses)}", losses)
    return Outcome("", losses)


def copies_of(build, mutant):
    """The mutant's file and units in a separate folder."""
    folder = build.work / re.sub(r"\W+", "_", mutant.name)
    for name in {mutant.file, *mutant.units}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build.source / name, folder / name)
    for name, replacements in ((mutant.file, mutant.replace), (mutant.units[0], mutant.trim)):
        text = (folder / name).read_text()
        for old, new in replacements:
            if text.count(old) != 1:
                sys.exit(f"{mutant.name}: in {name} {text.count(old)} times: {old}")
            text = text.replace(old, new)
        (folder / name).write_text(text)
    return folder


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--source", type=pathlib.Path, required=True)
    arguments.add_argument("--build", type=pathlib.Path, required=True)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--only", default="", help="mutants whose name has this")
    arguments.add_argument("--parts", type=int, default=1, help="only one of so many parts: BANYAN_PART says which (0), or all")
    options = arguments.parse_args()
    build_folder = options.build.resolve()
    work = build_folder / "tests/emulated_cuda/mutants"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "solver.prototxt").write_text(NET)
    build = Build(options.source.resolve(), build_folder, "lib/emulated_checked/libbanyan_cuda.so", work)
    mutants = [m for m in MUTANTS if options.only in m.name]
    part = os.environ.get("BANYAN_PART", "0")
    if options.parts > 1 and part != "all":
        part = int(part) % options.parts
        print(f"part {part + 1} of {options.parts}; without --parts: all {len(mutants)}", flush=True)
        mutants = mutants[part::options.parts]
    first_of = {(m.library, m.trim): m for m in reversed(mutants)}
    controls = [dataclasses.replace(m, name=f"{m.library} like \"{m.name}\", without a fault", replace=()) for m in first_of.values()]
    copies = {m.name: copies_of(build, m) for m in controls + mutants}
    if len(copies) != len(controls + mutants):
        sys.exit("two mutants of one name")

    def reference_of(test):
        begin = time.monotonic()
        outcome = outcome_of(build, (build.build / build.library).parent, *test)
        outcome.seconds = time.monotonic() - begin
        return test, outcome

    def outcome_of_mutant(mutant):
        begin = time.monotonic()
        if not copies[mutant.name].exists():
            copies_of(build, mutant)
        folder = build.compile(mutant, copies[mutant.name])
        outcome = outcome_of(build, folder, *mutant.test, reference=references[mutant.test])
        shutil.rmtree(copies[mutant.name])
        return mutant, outcome, time.monotonic() - begin

    def without_a_fault(run, items):
        """Results of what must pass. Some tests have time limits that they miss beside others on a busy machine: those get a second try, alone."""
        return [run(result[0]) if result[1].caught_by else result for result in list(pool.map(run, items))]

    references, survivors = {}, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for test, outcome in without_a_fault(reference_of, dict.fromkeys(m.test for m in mutants)):
            print(f"without a fault: {' '.join(test[0])}: {outcome.caught_by or 'passes'} ({outcome.seconds:.1f} s)", flush=True)
            if outcome.caught_by:
                return 1
            references[test] = outcome
        for control, outcome, seconds in without_a_fault(outcome_of_mutant, controls):
            print(f"{control.name}, made again: {outcome.caught_by or 'passes'} ({seconds:.1f} s)", flush=True)
            if outcome.caught_by:
                return 1
        for mutant, outcome, seconds in pool.map(outcome_of_mutant, mutants):
            print(f"{mutant.name}: {outcome.caught_by or 'SURVIVES'} ({seconds:.1f} s)", flush=True)
            survivors += outcome.caught_by == ""
    shutil.rmtree(work)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught")
    return 1 if survivors > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
