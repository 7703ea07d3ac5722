#!/usr/bin/env python3
"""What metrics, early warnings, dashboard and page cost: the same solver with all of them and with none, in alternating runs, as ratios.

usage: metrics_cost.py [BUILD_FOLDER] [options]          (default build/release)
  --solver=models/digits/solver.prototxt    its data must exist (tools/quickstart.sh makes the digits); run from the repository
  --rounds=9
  --iterations=1000       of each run; the first --warmup=100 are not counted
  --display=20            iterations from one report to the next
  --histograms=100        iterations; 0: none
  --images=1000           iterations; 0: none
  --warnings=on           off: metrics only; only: warnings without metrics
  --live=off              on: also --dashboard, on a terminal of 40 x 120, and --serve=0; those without have the progress line there
  --readers=0             pages of --serve that are open meanwhile
  --devices=--cpu=2       flags that choose the devices
  --json=FILE             default BUILD_FOLDER/bench/metrics_cost.json

Prints the median of the rounds' ratios, with them to without, of the time that iterations take (from the log), and of the
processor time of the whole process, its start included, which other programs disturb less. With --live=on also which part of
that time the threads take that exist for it only: that can be told even on a busy machine, where they seem to take more than they
do, because they work by the clock.
"""

import fcntl
import os
import pty
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import urllib.request

import common

USAGE = __doc__
DROPPED = ("max_iter", "display", "test_iter", "test_interval", "test_initialization", "snapshot", "snapshot_prefix",
           "snapshot_after_train")


def solver_text(path, options, folder):
    lines = [line for line in open(path) if line.split(":")[0].strip() not in DROPPED]
    return "".join(lines) + (
        f"\nmax_iter: {options['iterations']}\ndisplay: {options['display']}\nsnapshot_after_train: false\n"
        f'snapshot_prefix: "{folder}/none"\n'
    )


def read_page(url):
    """As the page's script does, until the run ends."""
    version = -1
    try:
        urllib.request.urlopen(url).read()
        while True:
            with urllib.request.urlopen(f"{url}data?after={version}") as answer:
                text = answer.read().decode()
            if text:
                version = int(re.search(r'"version": *(\d+)', text)[1])
            if re.search(r'"ended": *true', text):
                return
    except OSError:
        return


OWN_THREADS = ("dashboard", "metrics", "serve")


def watch_threads(process, seconds, ended):
    """Fills seconds[thread] = (name, time on a processor)."""
    while not ended.wait(0.2):
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                folder = f"/proc/{process}/task/{thread}"
                name, time = open(f"{folder}/comm").read().strip(), open(f"{folder}/schedstat").read().split()[0]
                seconds[thread] = (name, int(time) / 1e9)
        except OSError:  # it has ended meanwhile
            pass


def run_in_terminal(command, readers):
    """What it writes to a terminal, and the shares of OWN_THREADS."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    log, pages, seconds, ended = b"", [], {}, threading.Event()
    watcher = threading.Thread(target=watch_threads, args=(child, seconds, ended))
    watcher.start()
    while True:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # Linux says so that the other side has closed it
            break
        log += got
        found = re.search(rb"report: (http://[\d.:]+/\w+/)", log) if len(pages) < readers else None
        while found and len(pages) < readers:
            pages.append(threading.Thread(target=read_page, args=(found[1].decode(),), daemon=True))
            pages[-1].start()
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    ended.set()
    watcher.join()
    log = log.decode(errors="replace")
    if status != 0:
        raise common.Failed(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}: {log[-1000:]}")
    total = sum(time for _, time in seconds.values())
    return log, [sum(time for name, time in seconds.values() if name == own) / total for own in OWN_THREADS]


def run(command, options):
    """Seconds per iteration after the warm-up, and of the processor; and the shares of OWN_THREADS."""
    warmup = options["warmup"]
    command = [str(word) for word in command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shares = []
    if options["live"] == "on":
        log, shares = run_in_terminal(command, options["readers"])
    else:
        log = common.run(command).err
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = [(int(i), float(s)) for i, s in re.findall(r"Iteration (\d+) \([^,]*, ([0-9.e+-]+)s/", log)]
    counted = [(i, s) for i, s in shown if i > warmup]
    iterations = counted[-1][0] - max(i for i, _ in shown if i <= warmup)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return sum(s for _, s in counted) / iterations, processor, shares


def main():
    options = {"solver": "models/digits/solver.prototxt", "rounds": 9, "iterations": 1000, "warmup": 100, "display": 20,
               "histograms": 100, "images": 1000, "warnings": "on", "live": "off", "readers": 0,
               "devices": "--cpu=2", "json": ""}
    words = common.parse(sys.argv[1:], options, USAGE)
    if options["iterations"] < options["warmup"] + options["display"] or options["warmup"] < options["display"]:
        raise common.Failed("--iterations must be at least --warmup + --display, and --warmup at least --display")
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    result = common.provenance(trainer, options=options, rounds=[])
    for _ in range(options["rounds"]):
        with tempfile.TemporaryDirectory() as folder:
            solver = f"{folder}/solver.prototxt"
            with open(solver, "w") as out:
                out.write(solver_text(options["solver"], options, folder))
            progress = [] if options["live"] == "on" else ["--progress=off"]
            plain = [trainer, f"--solver={solver}", *progress, *options["devices"].split()]
            extras = [f"--metrics={folder}/metrics", f"--histograms={options['histograms']}",
                      f"--images={options['images']}", f"--warnings={options['warnings']}"]
            if options["warnings"] == "only":
                extras = ["--warnings=on"]
            if options["live"] == "on":
                extras += ["--dashboard", "--serve=0"]
            contenders = [("without", ["--warnings=off"]), ("with", extras)]
            if len(result["rounds"]) % 2:
                contenders.reverse()
            measured = {name: run(plain + flags, options) for name, flags in contenders}
            size = 0
            if options["warnings"] != "only":
                size = subprocess.run(["du", "-sb", f"{folder}/metrics"], capture_output=True, text=True).stdout.split()[0]
            result["rounds"].append({**measured, "bytes": int(size)})
    rounds = result["rounds"]
    rows = []
    for index, what in enumerate(("iteration, ms", "processor, s")):
        scale = 1000 if index == 0 else 1
        a, b = ([scale * one[side][index] for one in rounds] for side in ("without", "with"))
        ratios = [y / x for x, y in zip(a, b)]
        rows.append([what, f"{statistics.median(a):.3f}", f"{statistics.median(b):.3f}",
                     f"{statistics.median(ratios):.4f}", f"{min(ratios):.4f} to {max(ratios):.4f}"])
    print(common.table(["median of rounds", "without", "with", "ratio", "range"], rows))
    print(f"{rounds[-1]['bytes'] / options['iterations']:.0f} bytes an iteration")
    if options["live"] == "on":
        own = [statistics.median(one["with"][2][i] for one in rounds) for i in range(len(OWN_THREADS))]
        print("threads of their own: " + ", ".join(f"{name} {100 * share:.2f} %" for name, share in zip(OWN_THREADS, own)))
    common.save_json(options["json"] or build / "bench/metrics_cost.json", result)


common.run_main(main)
