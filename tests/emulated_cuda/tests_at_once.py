#!/usr/bin/env python3
"""Runs each test of a GoogleTest program in a process of its own, several at a time: for tests that mostly wait.

usage: tests_at_once.py [--limit=SECONDS] NUMBER PROGRAM [--gtest_filter=FILTER] [ARGUMENT...]

Prints what the tests wrote that failed. A test that takes longer than the limit (600 s) is killed and counts as failed.
The exit code is 1 if a test fails or does not run (it is skipped, or none matches the filter), or if the program lists
none. However this script ends, no process that it has started goes on.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from filters_test import tests_of  # noqa: E402


DEFAULT_LIMIT = 600  # less than ctest's TIMEOUT of the whole, so that the output tells which test hangs


class Processes:
    """A process group. It is killed when this process is gone, which the guard learns from the end of its input."""

    def __init__(self):
        self.guard = subprocess.Popen(["/bin/sh", "-c", "read line; kill -KILL 0"], stdin=subprocess.PIPE, preexec_fn=os.setpgrp)

    def start(self, command):
        output = tempfile.TemporaryFile("w+", errors="replace")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: os.setpgid(0, self.guard.pid))
        process.output = output
        process.begun = time.monotonic()
        return process

    def end(self):
        os.killpg(self.guard.pid, signal.SIGKILL)  # the guard may be dead already; the group has its number until wait()
        self.guard.stdin.close()
        self.guard.wait()


def children_of(pid):
    """Of processes that have not ended."""
    try:
        return [int(child) for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_with_children(process):
    """Those whose parents are gone go on until Processes.end()."""
    pids = [process.pid]
    for pid in pids:  # which grows
        try:
            os.kill(pid, signal.SIGSTOP)  # no more children from now on
            pids.extend(children_of(pid))
        except ProcessLookupError:
            pass
    for pid in reversed(pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def text_of(process):
    process.output.seek(0)
    return process.output.read()


def run(processes, number, command, tests, limit):
    """The tests that failed."""
    waiting, running, failed = list(reversed(tests)), {}, []
    while waiting or running:
        while waiting and len(running) < number:
            test = waiting.pop()
            running[test] = processes.start([*command, "--gtest_filter=" + test])
        time.sleep(0.01)
        for test, process in running.items():
            if process.poll() is None and time.monotonic() - process.begun > limit:
                kill_with_children(process)
                print(f"{test}: killed after {limit:g} s", flush=True)
        for test in [test for test, process in running.items() if process.poll() is not None]:
            process = running.pop(test)
            text = text_of(process)
            if process.returncode != 0 or not re.search(r"\[  PASSED  \] 1 test\b", text):
                print(f"{test}: exit code {process.returncode}\n{text}", flush=True)
                failed.append(test)
    return failed


def main():
    limit, given = DEFAULT_LIMIT, sys.argv[1:]
    if given and given[0].startswith("--limit="):
        limit = float(given.pop(0).removeprefix("--limit="))
    number, program, *arguments = given
    wanted = [argument for argument in arguments if argument.startswith("--gtest_filter=")]
    tests = tests_of(program, *wanted)
    if not tests:
        sys.exit(f"{program} {' '.join(wanted)}: no tests")
    processes = Processes()
    try:
        failed = run(processes, int(number), [program, *(a for a in arguments if a not in wanted)], tests, limit)
    finally:
        processes.end()
    print(f"{len(tests) - len(failed)} of {len(tests)} tests passed")
    for test in failed:
        print(f"failed: {test}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
