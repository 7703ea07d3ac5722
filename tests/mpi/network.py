#!/usr/bin/env python3
"""Runs of several processes, each in a network namespace of its own, over networks that are slow, lose packets, or fail.

usage: network.py [BUILD_FOLDER] [--table] [--schedules=N] [--seed=S] [--server] [--more=FLAGS]

  --table        how fast LeNet trains on two processes over networks of several kinds
  --schedules=N  N random schedules of faults (delay and loss, a slow network, kill -9, SIGSTOP, a cut link), each drawn from a seed of its own:
                 S, S + 1, ... A run must end in time, with one error on each host and a failure as mpirun's exit code if the fault was one that
                 ends it, or go on and stop when it is told to; and leave no process behind.
  --server       the schedules with a parameter server, which goes on without a worker that is stopped or cut off
  --more=FLAGS   further flags of the trainers, separated by spaces
  --keep         leave the folder of the first schedule that fails

Needs root, iproute2 (ip netns, tc) and Open MPI; exit code 77, with the reason, where one is missing."""

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

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import common  # noqa: E402

SKIPPED = 77
WATCHDOG = 3  # seconds
IN_TIME = WATCHDOG + 2
OF_MPIRUN = 6  # it waits before it kills what does not end, and longer on a busy machine
MPIRUN_ENDS = 30  # itself, when a process was killed
SILENCE = 1  # after so long a server goes on without a worker
TO_START = 20  # the least time that processes have to find each other
MOST_HOSTS = 4

NET = """
layer { name: "digits" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "DATA" batch_size: 16 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 100 weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "SyncBN" bottom: "ip1" top: "bn1" }
layer { name: "relu1" type: "ReLU" bottom: "bn1" top: "bn1" }
layer { name: "ip2" type: "InnerProduct" bottom: "bn1" top: "ip2" inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" }
"""
SOLVER = 'net: "NET" base_lr: 0.01 lr_policy: "fixed" max_iter: 100000000 display: 5 random_seed: 3 snapshot_prefix: "PREFIX"'


def quietly(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def must(*words):
    done = quietly(*words)
    if done.returncode != 0:
        raise common.Failed(f"{' '.join(str(word) for word in words)}: {done.stderr.strip()}")


def why_not(build):
    """Why nothing can be run here; "": it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "tc", "mpirun", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if "Open MPI" not in quietly("mpirun", "--version").stdout:
        return "mpirun is not Open MPI's"
    if not (build / "lib/libbanyan_mpi.so").exists():
        return "this build has no MPI library"
    name = f"bynprobe{os.getpid()}"
    made = quietly("ip", "netns", "add", name)
    quietly("ip", "netns", "del", name)
    return "" if made.returncode == 0 else f"no network namespaces here: {made.stderr.strip()}"


def has_netem():
    """Can tc delay and lose packets? Some kernels can only limit rates."""
    name = f"bynprobe{os.getpid()}"
    must("ip", "netns", "add", name)
    try:
        return quietly("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms").returncode == 0
    finally:
        quietly("ip", "netns", "del", name)


class Network:
    """Hosts 0, 1, ...: network namespaces on one bridge."""

    def __init__(self, hosts, folder, far=False):
        """`far`: the processes of different hosts do not find out that they are on one machine, and see less of each other."""
        self.tag = f"byn{os.getpid() % 100000}"
        self.hosts, self.folder, self.far = hosts, folder, far
        self.agent = folder / "agent"
        try:
            self.make()
        except common.Failed:
            self.close()
            raise

    def make(self):
        must("ip", "netns", "add", self.hub())
        must("ip", "-n", self.hub(), "link", "add", "bridge", "type", "bridge")
        must("ip", "-n", self.hub(), "link", "set", "bridge", "up")
        for host in range(self.hosts):
            must("ip", "netns", "add", self.name(host))
            must("ip", "-n", self.hub(), "link", "add", f"port{host}", "type", "veth", "peer", "name", "net0", "netns", self.name(host))
            must("ip", "-n", self.hub(), "link", "set", f"port{host}", "master", "bridge", "up")
            must("ip", "-n", self.name(host), "addr", "add", f"{self.address(host)}/24", "dev", "net0")
            for device in ("lo", "net0"):
                must("ip", "-n", self.name(host), "link", "set", device, "up")
        # On host N: ... agent PREFIX.(N + 1) PROGRAM. mpirun starts a program on another host by this instead of ssh. Each host has a name of
        # its own, and where it is far a boot ID.
        away = 'echo far$host > "$0.boot$host"; mount --bind "$0.boot$host" /proc/sys/kernel/random/boot_id; ' if self.far else ""
        self.agent.write_text(
            "#!/bin/bash\nexport host=$((${1##*.} - 1)); shift\n"
            f"exec ip netns exec {self.tag}h$host unshare --uts --mount bash -c 'hostname host$host; {away}exec bash -c \"$*\"' \"$0\" \"$@\"\n"
        )
        self.agent.chmod(0o755)

    def close(self):
        for host in range(self.hosts):
            quietly("ip", "netns", "del", self.name(host))
        quietly("ip", "netns", "del", self.hub())

    def hub(self):
        return f"{self.tag}hub"

    def name(self, host):
        return f"{self.tag}h{host}"

    def address(self, host):
        return f"10.209.77.{host + 1}"

    def shape(self, host, *words):
        """What leaves the host is limited to a rate, or treated by tc's netem; no words: as it comes."""
        quietly("tc", "-n", self.name(host), "qdisc", "del", "dev", "net0", "root")
        if words[:1] == ("rate",) and len(words) == 2:
            must("tc", "-n", self.name(host), "qdisc", "add", "dev", "net0", "root", "tbf", *words, "burst", "128kb", "latency", "100ms")
        elif words:
            must("tc", "-n", self.name(host), "qdisc", "add", "dev", "net0", "root", "netem", "limit", 100000, *words)

    def cut(self, host):
        must("ip", "-n", self.hub(), "link", "set", f"port{host}", "down")

    def mend(self, host):
        must("ip", "-n", self.hub(), "link", "set", f"port{host}", "up")

    def mpirun(self, trainer, flags, log):
        subnet = f"{self.address(0).rsplit('.', 1)[0]}.0/24"
        words = [str(self.agent), self.address(0), "exec", "mpirun", "--allow-run-as-root", "--bind-to", "none"]
        # What ends the others kills them after a second otherwise, on a busy machine before they have said why.
        words += ["--mca", "odls_base_sigkill_timeout", "2", "--mca", "plm_rsh_agent", str(self.agent)]
        # mpirun passes on no output any more when the process beside it has died.
        words += ["--output-filename", str(self.folder / "said")]
        words += ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", subnet, "--mca", "oob_tcp_if_include", subnet]
        words += ["-H", ",".join(f"{self.address(host)}:1" for host in range(self.hosts)), "-np", str(self.hosts)]
        words += [str(trainer), *flags]
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=self.folder)


def trainers(marker):
    """{number: process ID} of the trainers that have this among their arguments and still run."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if marker.encode() not in words or not words[0].endswith(b"trainer") or state in "ZX":
                continue
            values = dict(pair.partition(b"=")[::2] for pair in (entry / "environ").read_bytes().split(b"\0"))
            found[int(values.get(b"OMPI_COMM_WORLD_RANK", -1))] = int(entry.name)
        except (OSError, IndexError):
            continue
    return found


def wait_until(reached, seconds):
    """How long it took; None: longer than that."""
    began = time.monotonic()
    while not reached():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(0.02)
    return time.monotonic() - began


class Run:
    """One mpirun in a network of its own."""

    def __init__(self, build, hosts, folder, flags, server=False, far=False):
        self.folder, self.server = folder, server
        self.marker = f"--solver={folder}/solver.prototxt"
        self.network = Network(hosts, folder, far)
        self.log = folder / "log"
        mode = ["--parameter_server", f"--silence={SILENCE}"] if server else ["--uplink=mpi"]
        flags = [*mode, "--cpu=1", "--threads_per_device=1", f"--watchdog={WATCHDOG}", self.marker, *flags]
        self.mpirun = self.network.mpirun(build / "bin/trainer", flags, open(self.log, "w"))

    def text(self):
        """What mpirun and the trainers said."""
        files = [self.log, *(self.folder / "said").glob("**/stderr")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def errors(self):
        """{process: its errors}, of those that said one."""
        found = {}
        for process in range(self.network.hosts):
            for file in (self.folder / "said").glob(f"**/rank.{process}/stderr"):
                if said := re.findall(r"^trainer: .*(?:\n  .*)*", file.read_text(errors="replace"), re.MULTILINE):
                    found[process] = said
        return found

    def iterations(self):
        lines = re.findall(r"Iteration (\d+) ", self.log.read_text(errors="replace"))
        return int(lines[-1]) if lines else 0

    def gone(self):
        return not trainers(self.marker)

    def close(self):
        for pid in trainers(self.marker).values():
            os.kill(pid, signal.SIGKILL)
        if self.mpirun.poll() is None:
            self.mpirun.kill()
        self.mpirun.wait()
        self.network.close()


def write_files(folder, database, net=NET, solver=SOLVER):
    (folder / "net.prototxt").write_text(net.replace("DATA", str(database)))
    text = solver.replace("NET", str(folder / "net.prototxt")).replace("PREFIX", str(folder / "run"))
    (folder / "solver.prototxt").write_text(text)


# --- schedules of faults ---

class Fault:
    """What was done, to which process; whether the run must end, or go on without that process."""

    def __init__(self, words, process, ends=False, without=False):
        self.words, self.process, self.ends, self.without = words, process, ends, without


def harmless(draw, run):
    host = draw.randrange(run.network.hosts)
    kinds = [("rate", f"{draw.choice((5, 20, 100))}mbit")]
    if has_netem():
        kinds += [
            ("delay", f"{draw.randint(1, 30)}ms", f"{draw.randint(1, 10)}ms"),
            ("loss", f"{draw.uniform(0.1, 5):.1f}%"),
            ("delay", "5ms", "loss", "1%", "reorder", "10%"),
        ]
    words = draw.choice(kinds)
    run.network.shape(host, *words)
    return Fault(f"host {host}: {' '.join(words)}", host)


def signal_one(draw, run, number):
    pids = trainers(run.marker)
    process = draw.choice(sorted(pids))
    os.kill(pids[process], number)
    return process, pids[process]


def without(run, words, process):
    """A process that is silent for ever: a parameter server goes on without it if it is a worker, and not the last one."""
    goes_on = run.server and process > 0 and run.network.hosts > 2 and "Iteration" in run.text()
    return Fault(words, process, ends=not goes_on, without=goes_on)


def kill(draw, run):
    process, _ = signal_one(draw, run, signal.SIGKILL)
    return Fault(f"kill -9 of process {process}", process, ends=True)


def stop(draw, run):
    process, _ = signal_one(draw, run, signal.SIGSTOP)
    return without(run, f"SIGSTOP of process {process}", process)


def pause(draw, run):
    process, pid = signal_one(draw, run, signal.SIGSTOP)
    seconds = draw.uniform(0.2, WATCHDOG - 1.5)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)
    return Fault(f"process {process} stopped for {seconds:.1f} s", process)


def cut(draw, run):
    host = draw.randrange(run.network.hosts)
    run.network.cut(host)
    return without(run, f"link of host {host} cut", host)


def blink(draw, run):
    host, seconds = draw.randrange(run.network.hosts), draw.uniform(0.1, 0.5)
    run.network.cut(host)
    time.sleep(seconds)
    run.network.mend(host)
    return Fault(f"link of host {host} cut for {seconds:.1f} s", host)


FAULTS = (harmless, kill, stop, pause, cut, blink)


def wrong_errors(run, faults):
    """What is wrong with what was said when a run ended; "": nothing."""
    joined = "Iteration" in run.text()
    last = faults[-1]
    # mpirun writes what it was told a little after a process has ended.
    wait_until(lambda: run.errors(), 3)
    errors = run.errors()
    # Before they have found each other, mpirun alone knows that one was killed.
    if not errors and (joined or "the job has been aborted" not in run.text()):
        return "no error was said"
    for process, said in errors.items():
        if len(said) > 1:
            return f"process {process} said {len(said)} errors"
        # One that is cut off, or held up in MPI, can only say that it hears nobody; a slow or broken network may have been noticed before the last fault.
        blamed = {fault.process for fault in faults}
        words = [f"process {other} on " for other in blamed] + ["the message library has not returned"] + (["has not heard of any worker"] if run.server and process == 0 else [])
        if joined and process not in blamed and not any(word in said[0].replace(f"in process {process} on", "") for word in words):
            return f"process {process} blames another one than {sorted(blamed)}: {said[0]}"
    if any(word in last.words for word in ("kill", "SIGSTOP")) or not last.ends:
        if wait_until(lambda: run.mpirun.poll() is not None, MPIRUN_ENDS) is None and "cut" not in " ".join(fault.words for fault in faults):
            return f"mpirun does not end in {MPIRUN_ENDS} s"
    return "mpirun's exit code is 0" if run.mpirun.poll() == 0 else ""


def wrong_stop(run, faults):
    """What is wrong with how a run goes on that has no reason to end, and with how it stops; "": nothing."""
    before = run.iterations()
    # With 5 Mbit/s and four hosts an iteration, which sends 0.47 MB from each, takes 0.75 s.
    if wait_until(lambda: run.iterations() > before + 10 or run.gone(), 60) is None:
        return "it goes on no longer, and does not end"
    if run.gone():
        return wrong_errors(run, faults) if "has not been heard of for" in run.text() else "it ended without a reason"
    run.mpirun.send_signal(signal.SIGUSR1)
    silent = {fault.process for fault in faults if fault.without}
    if wait_until(lambda: set(trainers(run.marker)) <= silent, 20 + WATCHDOG) is None:
        return "it does not stop when it is told to"
    if not list(run.folder.glob("run_iter_*.solverstate")):
        return "it took no snapshot"
    if silent:
        return wrong_errors(run, faults)
    return "" if run.mpirun.wait(10) == 0 else "it stopped with an error"


def complaint(run, faults, since):
    """What is wrong with how the run ended; "": nothing."""
    last = faults[-1]
    if not last.ends:
        return wrong_stop(run, faults)
    limit = IN_TIME + OF_MPIRUN + (0 if "Iteration" in run.text() else TO_START)
    # A process that was stopped cannot end itself: mpirun kills it, where it still can.
    excused = {last.process} if "SIGSTOP" in last.words else set()
    if wait_until(lambda: set(trainers(run.marker)) <= excused, limit) is None:
        return f"processes {sorted(trainers(run.marker))} are left after {limit} s"
    took = time.monotonic() - since
    wrong = wrong_errors(run, faults)
    return wrong and f"{wrong} (ended after {took:.1f} s)"


def schedule(build, database, seed, flags, server):
    """Runs one; returns its words, what is wrong, and its folder."""
    draw = random.Random(seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan_network_"))
    write_files(folder, database)
    hosts, far = draw.randint(2, MOST_HOSTS), draw.random() < 0.5
    words, wrong, run = [f"{hosts} {'far ' if far else ''}hosts"], "", None
    try:
        run = Run(build, hosts, folder, flags, server, far)
        if draw.random() < 0.2:
            time.sleep(draw.uniform(0, 1.5))  # while it starts
            wait_until(lambda: len(trainers(run.marker)) == hosts, 30)
        elif wait_until(lambda: run.iterations() >= 20 or (run.gone() and "watchdog" in run.text()), 60) is None:
            return words, "it does not start", folder
        elif run.gone():
            return [*words, "the watchdog ended it before any fault: this machine is too busy"], "", folder
        else:
            time.sleep(draw.uniform(0, 1))
        faults, since = [], time.monotonic()
        for number in range(draw.randint(1, 3)):
            if faults and (faults[-1].ends or faults[-1].without or len(trainers(run.marker)) < hosts):
                break
            faults.append(draw.choice(FAULTS)(draw, run))
            since = time.monotonic()
            words.append(faults[-1].words)
        wrong = complaint(run, faults, since)
        spoken = run.errors()
        if spoken:
            words.append(f"errors from {sorted(spoken)}")
    finally:
        if run is not None:
            run.close()
    return words, wrong, folder


def run_schedules(build, database, count, first, flags, server, keep):
    failed = 0
    if not has_netem():
        common.skip("delay and loss", "this kernel's tc has no netem")
    for seed in range(first, first + count):
        words, wrong, folder = schedule(build, database, seed, flags, server)
        print(f"{seed}: {'; '.join(words)}: {wrong or 'as it should'}", flush=True)
        if wrong:
            failed += 1
            print("\n".join(line for line in (folder / "log").read_text(errors="replace").splitlines() if not line.startswith("I"))[-3000:], flush=True)
            if keep:
                sys.exit(f"left in {folder}")
        shutil.rmtree(folder)
    print(f"{count} schedules, {failed} of them wrong")
    return failed


# --- the table ---

KINDS = (
    ("as it comes", ()),
    ("1 ms", ("delay", "500us")),
    ("10 ms", ("delay", "5ms")),
    ("0.1 % lost", ("loss", "0.1%")),
    ("1 % lost", ("loss", "1%")),
    ("1 Gbit/s", ("rate", "1gbit")),
    ("100 Mbit/s", ("rate", "100mbit")),
    ("20 Mbit/s", ("rate", "20mbit")),
    ("20 Mbit/s, 20 ms", ("rate", "20mbit", "delay", "10ms")),
)


def iterations_per_second(build, database, kind, flags):
    lenet = (common.REPOSITORY / "models/lenet/train_test.prototxt").read_text()
    lenet = re.sub(r'source: "[^"]*"', f'source: "{database}"', lenet)
    with tempfile.TemporaryDirectory(prefix="banyan_network_") as name:
        folder = pathlib.Path(name)
        write_files(folder, database, lenet, SOLVER.replace("display: 5", "display: 5 average_loss: 5"))
        run = Run(build, 2, folder, flags)
        try:
            if wait_until(lambda: run.iterations() >= 20, 60) is None:
                raise common.Failed(f"no training:\n{run.text()[-2000:]}")
            for host in range(2):
                run.network.shape(host, *kind)
            time.sleep(1)
            before, began = run.iterations(), time.monotonic()
            time.sleep(8)
            return (run.iterations() - before) / (time.monotonic() - began)
        finally:
            run.close()


def print_table(build, database, flags):
    rows = []
    kinds = KINDS if has_netem() else [kind for kind in KINDS if kind[1][:1] in ((), ("rate",)) and len(kind[1]) < 3]
    if len(kinds) < len(KINDS):
        common.skip("delay and loss", "this kernel's tc has no netem")
    for name, kind in kinds:
        row = [name]
        for more in ([], ["--reduce_precision=bf16"]):
            row.append(f"{iterations_per_second(build, database, kind, [*flags, *more]):.1f}")
        rows.append(row)
        print(row, file=sys.stderr)
    print(common.table(["network", "iterations/s", "bf16 on the wire"], rows))


def main():
    options = {"table": False, "schedules": 0, "seed": 1, "server": False, "more": "", "keep": False}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) > 1 or not (options["table"] or options["schedules"]):
        sys.exit(__doc__)
    build = common.build_folder(words)
    if why := why_not(build):
        print(f"SKIPPED: {why}")
        sys.exit(SKIPPED)
    flags, failed = options["more"].split(), 0
    with tempfile.TemporaryDirectory(prefix="banyan_network_") as name:
        common.run([build / "bin/make_digits", name, "--train=2000", "--test=1"])
        database = pathlib.Path(name) / "train_lmdb"
        if options["table"]:
            print_table(build, database, flags)
        if options["schedules"]:
            failed = run_schedules(build, database, options["schedules"], options["seed"], flags, options["server"], options["keep"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    common.run_main(main)
