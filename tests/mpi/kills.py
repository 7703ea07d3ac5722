#!/usr/bin/env python3
"""Runs with a parameter server whose workers are killed at random times, under an mpirun that goes on without them (Open MPI 5 with ULFM).

usage: kills.py [BUILD_FOLDER] [--runs=N] [--seed=S] [--mpirun=FLAGS] [--keep]

  --runs=N        N runs (20), each drawn from a seed of its own: S, S + 1, ... One or two servers, or a tree; two to four workers, of which some may be
                  spare and some or all are killed. A run must go on to its last iteration and leave its last snapshot; or, if all were killed, end with one error.
  --mpirun=FLAGS  further flags of mpirun, separated by spaces, such as "--mca btl tcp,self"
  --keep          leave the folder of the first run that fails

Exit code 77, with the reason, where mpirun has no ULFM."""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import network
from network import common

SKIPPED = 77
WATCHDOG, SILENCE = 4, 1
ITERATIONS = 1500
IN_TIME = 60  # for a run on a busy machine


def why_not():
    info = network.quietly("sh", "-c", "ompi_info | grep 'FT MPI support: yes'")
    return "" if info.returncode == 0 else "mpirun has no ULFM (Open MPI 5 has)"


class Plan:
    """What is started, and who is killed when, in seconds after the processes have found each other."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.servers = draw.choice([1, 1, 2])
        self.inner = draw.choice([0, 0, 2]) if self.servers == 1 else 0
        self.workers = draw.randint(2, 4)
        self.spares = draw.randint(0, self.workers - 1) if self.inner == 0 else 0  # of the workers
        self.needed = self.servers + self.inner
        self.processes = self.needed + self.workers
        victims = draw.sample(range(self.needed, self.processes), draw.randint(1, self.workers))
        self.kills = sorted((draw.choice([draw.uniform(0, 0.4), draw.uniform(0, 3)]), victim) for victim in victims)
        self.flags = draw.choice([[], ["--wait_time=0", "--staleness=4"], ["--compress=topk:0.1"]])

    def __str__(self):
        form = f"{self.servers} servers" if self.servers > 1 else "a tree" if self.inner else "1 server"
        kills = ", ".join(f"process {victim} after {when:.2f} s" for when, victim in self.kills)
        return f"{form}, {self.workers} workers, {self.spares} of them spare, {' '.join(self.flags) or 'all wait'}; kills {kills}"


def carry_out(plan, build, folder, more):
    """Starts the run and kills; returns the process, its log, and the kills that met a process."""
    log = folder / "log"
    marker = f"--solver={folder}/solver.prototxt"
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", *more,
             "-np", str(plan.processes), str(build / "bin/trainer"), marker, "--parameter_server", "--cpu=1", "--threads_per_device=1",
             f"--servers={plan.servers}", f"--server_tree={plan.inner}", f"--spare_workers={plan.spares}", f"--watchdog={WATCHDOG}", f"--silence={SILENCE}", *plan.flags]
    with open(log, "w") as out:
        run = subprocess.Popen(words, stdout=out, stderr=out)
    network.wait_until(lambda: "processes with" in log.read_text() or run.poll() is not None, 30)
    since = time.time()
    killed = []
    for when, victim in plan.kills:
        time.sleep(max(0.0, since + when - time.time()))
        pid = network.trainers(marker).get(victim)
        if pid is not None and run.poll() is None:
            killed.append((victim, pid))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                killed.pop()
    return run, log, killed, marker


def complaint(plan, run, log, killed, marker, folder):
    """What is wrong with how the run has ended; "": nothing."""
    try:
        code = run.wait(IN_TIME)
    except subprocess.TimeoutExpired:
        run.kill()
        for pid in network.trainers(marker).values():
            os.kill(pid, signal.SIGKILL)
        return f"has not ended after {IN_TIME} s"
    text = log.read_text(errors="replace")
    errors = re.findall(r"^trainer: .*", text, re.M)
    done = "Optimization Done." in text
    if network.trainers(marker):
        return "has left processes behind"
    if not done and len(killed) < plan.workers:
        return f"has not gone on: exit code {code}, {errors}"
    if done:
        if code != 0 or errors:
            return f"was done, but exit code {code}, {errors}"
        if not re.search(rf"Parameter server: {ITERATIONS} updates of ", text):
            return "has another number of updates"
        training = plan.workers - plan.spares
        if "--wait_time=0" not in plan.flags and killed and len(killed) <= plan.spares and text.count(", a spare worker, takes the place of") == 0 \
                and any(victim < plan.needed + training for victim, _ in killed):
            return "has not replaced a worker by a spare one"
        if not (folder / f"run_iter_{ITERATIONS}.solverstate").exists():
            return "has left no last snapshot"
    elif code != 1 or len(errors) != 1 or not re.search("all workers of the parameter server have ended|has not heard of any worker", errors[0]):
        return f"exit code {code}, {errors}"
    if text.count("; it is taken out") > len(killed):
        return "has taken out more workers than were killed"
    return ""


def main():
    options = {"runs": 20, "seed": 1, "mpirun": "", "keep": False}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) > 1:
        sys.exit(__doc__)
    build = common.build_folder(words)
    if why_not():
        print(f"Skipped: {why_not()}")
        sys.exit(SKIPPED)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="banyan_kills_") as name:
        common.run([build / "bin/make_digits", name, "--train=2000", "--test=1"])
        for seed in range(options["seed"], options["seed"] + options["runs"]):
            plan, folder = Plan(seed), pathlib.Path(name) / "run"
            folder.mkdir()
            solver = network.SOLVER.replace("max_iter: 100000000", f"max_iter: {ITERATIONS} snapshot: 500").replace("display: 5", "display: 100")
            network.write_files(folder, pathlib.Path(name) / "train_lmdb", solver=solver)
            since = time.time()
            wrong = complaint(plan, *carry_out(plan, build, folder, options["mpirun"].split()), folder)
            print(f"seed {seed}: {plan}: {'WRONG: ' + wrong if wrong else f'ok, {time.time() - since:.1f} s'}", flush=True)
            if wrong:
                failed += 1
                if options["keep"] and failed == 1:
                    shutil.copytree(folder, f"/tmp/banyan_kills_{seed}", dirs_exist_ok=True)
                    print(f"kept in /tmp/banyan_kills_{seed}")
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    common.run_main(main)
