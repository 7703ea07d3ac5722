#!/usr/bin/env python3
"""Runs of several processes, each in a network namespace of its own, over networks that are slow, lose packets, or fail.

usage: network.py [BUILD_FOLDER] [--table] [--schedules=N] [--seed=S] [--server] [--relay] [--more=FLAGS]

  --table        how fast LeNet trains on two processes, and with a parameter server and two workers, over networks of several kinds
  --schedules=N  N random schedules of faults (delay and loss, a slow network, kill -9, SIGSTOP, a cut link), each drawn from a seed of its own:
                 S, S + 1, ... A run must end in time, with one error on each host and a failure as mpirun's exit code if the fault was one that
                 ends it, or go on and stop when it is told to; and leave no process behind.
  --server       the schedules with a parameter server, which goes on without a worker that is stopped or cut off; some of them with two servers
                 (--servers=2), some with a tree (--server_tree), some with spare workers (--spare_workers)
  --relay        the network is a program of our own (relay.cpp), as it is anyway where the kernel's tc cannot delay and lose packets
  --more=FLAGS   further flags of the trainers, separated by spaces
  --keep         leave the folder of the first schedule that fails

Needs root, iproute2 (ip netns, tc) and Open MPI, and a C++ compiler and /dev/net/tun where tc has no netem; exit code 77, with the reason, where
one is missing."""

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
MOST_HOSTS, MOST_OF_TREE = 4, 5
HELD_UP = "the message library has not returned"

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


def compile_relay(folder):
    """The relay's program; None after saying why there is none."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None or not pathlib.Path("/dev/net/tun").exists():
        print("SKIPPED: the kernel's tc has no netem, and what would do instead needs a C++ compiler and TAP devices (/dev/net/tun)")
        return None
    program = pathlib.Path(folder) / "relay"
    common.run([compiler, "-std=c++20", "-O2", HERE / "relay.cpp", "-o", program])
    return program


def has_netem():
    """Can tc delay and lose packets? Not every kernel's can."""
    name = f"bynprobe{os.getpid()}"
    must("ip", "netns", "add", name)
    try:
        return quietly("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms").returncode == 0
    finally:
        quietly("ip", "netns", "del", name)


class Link:
    """What happens to packets that leave a host; as it is: nothing."""

    def __init__(self, delay=0, jitter=0, loss=0, reorder=0, rate=0):
        """Milliseconds, milliseconds more or less, percent, percent that overtake the others, Mbit/s (0: as fast as it goes)."""
        self.delay, self.jitter, self.loss, self.reorder, self.rate = delay, jitter, loss, reorder, rate

    def __str__(self):
        parts = [f"{self.delay:g} ms +- {self.jitter:g}" if self.jitter else f"{self.delay:g} ms"] if self.delay else []
        parts += [f"{self.loss:g} % lost"] if self.loss else []
        parts += [f"{self.reorder:g} % overtake"] if self.reorder else []
        parts += [f"{self.rate:g} Mbit/s"] if self.rate else []
        return ", ".join(parts) or "as it comes"

    def of_netem(self):
        # The buffer of a switch: 0.1 s, and what is on its way.
        packets = int((100 + self.delay + self.jitter) * self.rate * 1000 / 8 / 1500) + 1 if self.rate else 100000
        words = ["limit", packets, "delay", f"{self.delay}ms", f"{self.jitter}ms", "loss", f"{self.loss}%"]
        words += ["reorder", f"{self.reorder}%"] if self.reorder else []
        return [*words, "rate", f"{self.rate}mbit"] if self.rate else words

    def of_relay(self):
        return f"{1000 * self.delay} {1000 * self.jitter} {self.loss / 100} {self.reorder / 100} {1e6 * self.rate}"


class Network:
    """Hosts 0, 1, ...: network namespaces, on one bridge or, where `relay` is the program, on that."""

    def __init__(self, hosts, folder, relay, far=False):
        """`far`: the processes of different hosts do not find out that they are on one machine, and see less of each other."""
        self.tag = f"byn{os.getpid() % 100000}"
        self.hosts, self.folder, self.far = hosts, folder, far
        self.agent = folder / "agent"
        self.relay = None
        try:
            self.make(relay)
        except common.Failed:
            self.close()
            raise

    def make(self, relay):
        for host in range(self.hosts):
            must("ip", "netns", "add", self.name(host))
        if relay:
            names = [self.name(host) for host in range(self.hosts)]
            self.relay = subprocess.Popen([relay, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.answer("ready")
        else:
            self.make_bridge()
        for host in range(self.hosts):
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

    def make_bridge(self):
        must("ip", "netns", "add", self.hub())
        must("ip", "-n", self.hub(), "link", "add", "bridge", "type", "bridge")
        must("ip", "-n", self.hub(), "link", "set", "bridge", "up")
        for host in range(self.hosts):
            must("ip", "-n", self.hub(), "link", "add", f"port{host}", "type", "veth", "peer", "name", "net0", "netns", self.name(host))
            must("ip", "-n", self.hub(), "link", "set", f"port{host}", "master", "bridge", "up")

    def close(self):
        if self.relay:
            self.relay.communicate()
        for host in range(self.hosts):
            quietly("ip", "netns", "del", self.name(host))
        quietly("ip", "netns", "del", self.hub())

    def hub(self):
        return f"{self.tag}hub"

    def name(self, host):
        return f"{self.tag}h{host}"

    def address(self, host):
        return f"10.209.77.{host + 1}"

    def tell(self, *words):
        self.relay.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.relay.stdin.flush()
        self.answer("ok")

    def answer(self, expected):
        if self.relay.stdout.readline().strip() != expected:
            raise common.Failed("the relay has failed")

    def shape(self, host, link):
        if self.relay:
            self.tell("shape", host, link.of_relay())
            return
        quietly("tc", "-n", self.name(host), "qdisc", "del", "dev", "net0", "root")
        must("tc", "-n", self.name(host), "qdisc", "add", "dev", "net0", "root", "netem", *link.of_netem())

    def cut(self, host):
        if self.relay:
            self.tell("cut", host)
        else:
            must("ip", "-n", self.hub(), "link", "set", f"port{host}", "down")

    def mend(self, host):
        if self.relay:
            self.tell("mend", host)
        else:
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
        time.sleep(0.04)
    return time.monotonic() - began


class Mode:
    """How the processes train: together, or with a parameter server, of which there may be several, or a tree (`inner` servers below process 0);
    the last `spares` workers wait for the place of another one."""

    def __init__(self, server=False, servers=1, inner=0, spares=0):
        self.server, self.servers, self.inner, self.spares = server, servers, inner, spares

    def flags(self):
        if not self.server:
            return ["--uplink=mpi"]
        words = ["--parameter_server", f"--silence={SILENCE}"]
        words += [f"--servers={self.servers}"] if self.servers > 1 else []
        words += [f"--spare_workers={self.spares}"] if self.spares else []
        return words + ([f"--server_tree={self.inner}"] if self.inner else [])

    def __str__(self):
        form = f"{self.servers} servers, " if self.servers > 1 else f"a tree of {self.inner}, " if self.inner else ""
        return form + (f"{self.spares} spare, " if self.spares else "")

    def can_do_without(self, process, processes):
        """Does the run go on when this process is silent for ever?"""
        first = self.servers + self.inner
        if not self.server or process < self.servers:
            return False
        workers = range(first, processes)
        above = {worker: 1 + (worker - first) * self.inner // len(workers) for worker in workers} if self.inner else {}
        return any(process not in (worker, above.get(worker)) for worker in workers)


def draw_mode(draw, server):
    """The mode and the number of hosts."""
    if not server:
        return Mode(), draw.randint(2, MOST_HOSTS)
    kind = draw.choice(("one", "one", "several", "tree"))
    if kind == "tree":
        hosts = draw.randint(3, MOST_OF_TREE)
        return Mode(True, inner=draw.randint(1, (hosts - 1) // 2)), hosts
    servers = 1 if kind == "one" else 2
    hosts = draw.randint(servers + 1, MOST_HOSTS)
    return Mode(True, servers, spares=draw.choice((0, draw.randint(0, hosts - servers - 1)))), hosts


class Run:
    """One mpirun in a network of its own."""

    def __init__(self, build, mode, hosts, folder, flags, relay, far=False):
        self.folder, self.mode = folder, mode
        self.marker = f"--solver={folder}/solver.prototxt"
        self.network = Network(hosts, folder, relay, far)
        self.log = folder / "log"
        flags = [*mode.flags(), "--cpu=1", "--threads_per_device=1", f"--watchdog={WATCHDOG}", self.marker, *flags]
        self.mpirun = self.network.mpirun(build / "bin/trainer", flags, open(self.log, "w"))

    def text(self):
        """What mpirun and the trainers said."""
        files = [self.log, *(self.folder / "said").glob("**/stderr")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def said(self):
        """{process, or mpirun: what it wrote, but for what it logged}"""
        files = {f"process {file.parent.name.rpartition('.')[2]}": file for file in sorted((self.folder / "said").glob("**/stderr"))}
        found = {}
        for name, file in (files | {"mpirun": self.log}).items():
            found[name] = "\n".join(line for line in file.read_text(errors="replace").splitlines() if line[:1] not in "IW")
        return found

    def has_missed(self):
        """Does it say that a process, or a device, was not heard of?"""
        return "watchdog" in self.text() or "not been heard of for" in self.text()

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
    """What was done, to which process; whether the run must end, or go on without that process, or either of them, which it shows."""

    def __init__(self, words, process, ends=False, without=False, either=False):
        self.words, self.process, self.ends, self.without, self.either = words, process, ends, without, either

    def is_last(self):
        return self.ends or self.without or self.either


def harmless(draw, run):
    host = draw.randrange(run.network.hosts)
    link = draw.choice((
        Link(rate=draw.choice((5, 20, 100))),
        Link(delay=draw.randint(1, 30), jitter=draw.randint(0, 10)),
        Link(loss=round(draw.uniform(0.1, 3), 1)),
        Link(delay=5, loss=1, reorder=10),
    ))
    run.network.shape(host, link)
    return Fault(f"host {host}: {link}", host)


def signal_one(draw, run, number):
    pids = trainers(run.marker)
    process = draw.choice(sorted(pids))
    os.kill(pids[process], number)
    return process, pids[process]


def without(run, words, process):
    """A process that is silent for ever: a parameter server goes on without it if it is a worker, and not the last one. While the run starts it
    depends on how far that process has come, which is not seen from outside: all are needed until they have told each other what they are."""
    if not run.mode.can_do_without(process, run.network.hosts):
        return Fault(words, process, ends=True)
    joined = "Iteration" in run.text()
    return Fault(words, process, without=joined, either=not joined)


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
    # On every host its process says why it ends, but for those that cannot: who was killed, or is stopped for ever.
    mute = {fault.process for fault in faults if fault.words.startswith(("kill", "SIGSTOP"))}
    speakers = set(range(run.network.hosts)) - mute if joined else set()
    # While mpirun ends processes of its own host it sleeps, and writes what they have said afterwards.
    wait_until(lambda: run.errors() and speakers <= set(run.errors()) or not joined and run.mpirun.poll() is not None, 2 * OF_MPIRUN)
    errors = run.errors()
    # mpirun kills all two seconds after it has told them to end, which is too soon where other programs take the processor.
    if (silent := speakers - set(errors)) and not too_busy():
        return f"processes {sorted(silent)} said no error"
    # Before they have found each other, mpirun alone knows that one was killed.
    if not errors and (joined or "the job has been aborted" not in run.text()):
        return "no error was said"
    for process, said in errors.items():
        if len(said) > 1:
            return f"process {process} said {len(said)} errors"
        # One that is cut off, or held up in MPI, can only say that it hears nobody, and is not heard of by others; a slow or broken network may have
        # been noticed before the last fault.
        blamed = {fault.process for fault in faults} | {other for other, held_up in errors.items() if HELD_UP in held_up[0]}
        words = [HELD_UP]
        words += [f"{start}process {other}{end}" for other in blamed for start, end in (("", " on "), ("MPI: sending to ", ":"))]
        if run.mode.server:
            words.append("has not heard of any worker")
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
        return wrong_errors(run, faults) if "not been heard of for" in run.text() else "it ended without a reason"
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
    if last.either:
        wait_until(lambda: run.iterations() > 10 or set(trainers(run.marker)) <= {last.process}, IN_TIME + TO_START + OF_MPIRUN)
        last.without = run.iterations() > 10
        last.ends = not last.without
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


class Setting:
    """What all runs have in common."""

    def __init__(self, build, database, relay, flags):
        self.build, self.database, self.relay, self.flags = build, database, relay, flags

    def run(self, mode, hosts, folder, flags=(), far=False):
        return Run(self.build, mode, hosts, folder, [*self.flags, *flags], self.relay, far)


def too_busy():
    """Other programs leave a run so little that a process may well be missed: a run alone does not reach this load."""
    return os.getloadavg()[0] > 5 * os.cpu_count()


def early_end(words, run, missed, wrong):
    """What schedule() says of a run that has ended by itself; missed: because something was not heard of."""
    busy = too_busy()
    end = "the watchdog ended it early" + (": this machine is too busy" if busy else "")
    return [*words, end], "" if missed and busy else wrong, run.said()


def schedule(setting, seed, server):
    """Runs one; returns its words, what is wrong, what the processes said, and its folder."""
    draw = random.Random(seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="banyan_network_"))
    write_files(folder, setting.database)
    mode, hosts = draw_mode(draw, server)
    far = draw.random() < 0.5
    words, wrong, said, run = [f"{mode}{hosts} {'far ' if far else ''}hosts"], "", {}, None
    try:
        run = setting.run(mode, hosts, folder, far=far)
        if draw.random() < 0.2:
            time.sleep(draw.uniform(0, 1.5))  # while it starts
            wait_until(lambda: len(trainers(run.marker)) == hosts, 30)
        elif wait_until(lambda: run.iterations() >= 20 or (run.gone() and ("watchdog" in run.text() or run.errors())), 60) is None:
            return words, "it does not start", run.said(), folder
        elif run.gone():
            return *early_end(words, run, run.has_missed(), "it ends before any fault"), folder
        else:
            time.sleep(draw.uniform(0, 1))
        faults, since = [], time.monotonic()
        for number in range(draw.randint(1, 3)):
            if faults and faults[-1].is_last():
                break
            if run.gone():
                return *early_end(words, run, run.has_missed() or run.errors(), "it ends before the next fault"), folder
            faults.append(draw.choice(FAULTS)(draw, run))
            since = time.monotonic()
            words.append(faults[-1].words)
        wrong = complaint(run, faults, since)
        said = run.said()
        if spoken := run.errors():
            words.append(f"errors from {sorted(spoken)}")
    finally:
        if run is not None:
            run.close()
    return words, wrong, said, folder


def run_schedules(setting, count, first, server, keep):
    failed = busy = 0
    for seed in range(first, first + count):
        words, wrong, said, folder = schedule(setting, seed, server)
        print(f"{seed}: {'; '.join(words)}: {wrong or 'as it should'}", flush=True)
        busy += "too busy" in words[-1]
        if wrong:
            failed += 1
            for name, text in said.items():
                print(f"--- {name}:\n{text[-2000:]}", flush=True)
            if keep:
                sys.exit(f"left in {folder}")
        shutil.rmtree(folder)
    print(f"{count} schedules, {failed} of them wrong; {busy} of no use, because this machine was too busy")
    return failed


# --- the table ---

LINKS = [Link(), *(Link(delay=trip / 2, loss=loss, rate=rate) for rate in (1000, 100) for trip in (0, 1, 10, 50) for loss in (0, 0.1, 1))]
SETTLES, MEASURED = 1.5, 4  # seconds
FORGETS = 11  # TCP's congestion control may hold the shortest round trip of the last ten seconds for that of the network
MODES = (
    ("synchronous, 2 processes", Mode(), 2, []),
    ("the same, `--reduce_precision=bf16`", Mode(), 2, ["--reduce_precision=bf16"]),
    ("parameter server, 2 workers", Mode(True), 3, ["--silence=60"]),
)
SENDER = "import socket,sys; s=socket.create_connection((sys.argv[1],7)); b=bytes(1<<20)\nwhile True: s.sendall(b)"
RECEIVER = """
import socket, sys, time
listening = socket.create_server(("", 7)); print("listening", flush=True)
connection, _ = listening.accept(); into = bytearray(1 << 20)
def take(seconds):
    taken, began = 0, time.monotonic()
    while time.monotonic() - began < seconds: taken += connection.recv_into(into)
    return taken / (time.monotonic() - began)
take(float(sys.argv[1])); print(8e-6 * take(float(sys.argv[2])))
"""


def measure_link(network):
    """What one TCP connection gets from host 0 to host 1, Mbit/s."""
    inside = ["ip", "netns", "exec"]
    with subprocess.Popen([*inside, network.name(1), sys.executable, "-c", RECEIVER, str(SETTLES), str(MEASURED)], stdout=subprocess.PIPE, text=True) as receiver:
        receiver.stdout.readline()
        with subprocess.Popen([*inside, network.name(0), sys.executable, "-c", SENDER, network.address(1)], stderr=subprocess.DEVNULL) as sender:
            rate = float(receiver.stdout.readline())
            sender.kill()
    return rate


def column_of_links(setting):
    with tempfile.TemporaryDirectory(prefix="banyan_network_") as name:
        network = Network(2, pathlib.Path(name), setting.relay)
        try:
            for link in LINKS:
                for host in range(2):
                    network.shape(host, link)
                yield f"{measure_link(network):.0f}"
        finally:
            network.close()


def column(setting, mode, hosts, flags):
    """Iterations per second over every kind of link, all in one run."""
    lenet = (common.REPOSITORY / "models/lenet/train_test.prototxt").read_text()
    lenet = re.sub(r'source: "[^"]*"', f'source: "{setting.database}"', lenet)
    with tempfile.TemporaryDirectory(prefix="banyan_network_") as name:
        folder = pathlib.Path(name)
        write_files(folder, setting.database, lenet, SOLVER.replace("display: 5", "display: 1"))
        run = setting.run(mode, hosts, folder, [*flags, "--watchdog=60"])
        try:
            if wait_until(lambda: run.iterations() >= 20, 60) is None:
                raise common.Failed(f"no training:\n{run.text()[-2000:]}")
            delay = 0
            for link in LINKS:
                for host in range(hosts):
                    run.network.shape(host, link)
                time.sleep(SETTLES if link.delay == delay else FORGETS)
                delay = link.delay
                before, began = run.iterations(), time.monotonic()
                time.sleep(MEASURED)
                yield f"{(run.iterations() - before) / (time.monotonic() - began):.1f}"
                if run.gone():
                    raise common.Failed(f"it ended over {link}:\n{run.text()[-2000:]}")
        finally:
            run.close()


def print_table(setting):
    head = ["each way", "one TCP connection, Mbit/s", *(name for name, *_ in MODES)]
    columns = [[str(link) for link in LINKS], list(column_of_links(setting))]
    for name, mode, hosts, flags in MODES:
        columns.append(list(column(setting, mode, hosts, flags)))
        print(name, *columns[-1], file=sys.stderr, flush=True)
    print(common.table(head, zip(*columns)))


def main():
    options = {"table": False, "schedules": 0, "seed": 1, "server": False, "relay": False, "more": "", "keep": False}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) > 1 or not (options["table"] or options["schedules"]):
        sys.exit(__doc__)
    build = common.build_folder(words)
    if why := why_not(build):
        print(f"SKIPPED: {why}")
        sys.exit(SKIPPED)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="banyan_network_") as name:
        relay = None
        if options["relay"] or not has_netem():
            relay = compile_relay(name)
            if relay is None:
                sys.exit(SKIPPED)
        common.run([build / "bin/make_digits", name, "--train=2000", "--test=1"])
        setting = Setting(build, pathlib.Path(name) / "train_lmdb", relay, options["more"].split())
        if options["table"]:
            print_table(setting)
        if options["schedules"]:
            failed = run_schedules(setting, options["schedules"], options["seed"], options["server"], options["keep"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    common.run_main(main)
