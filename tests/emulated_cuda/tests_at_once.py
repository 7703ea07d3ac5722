#!/usr/bin/env python3
"""Runs each test of a GoogleTest program in a process of its own, several at a time: for tests that mostly wait.

usage: tests_at_once.py NUMBER PROGRAM [--gtest_filter=FILTER] [ARGUMENT...]

Prints what the tests wrote that failed. The exit code is 1 if a test fails or does not run (it is skipped, or none
matches the filter), or if the program lists none. However this script ends, no process that it has started goes on.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from filters_test import tests_of  # noqa: E402


class Processes:
    """A process group. It is killed when this process is gone, which the guard learns from the end of its input."""

    def __init__(self):
        self.guard = subprocess.Popen(["/bin/sh", "-c", "read line; kill -KILL 0"], stdin=subprocess.PIPE, preexec_fn=os.setpgrp)

    def start(self, command):
        output = tempfile.TemporaryFile("w+", errors="replace")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: os.setpgid(0, self.guard.pid))
        process.output = output
        return process

    def end(self):
        self.guard.stdin.close()
        self.guard.wait()


def text_of(process):
    process.output.seek(0)
    return process.output.read()


def run(processes, number, command, tests):
    """The tests that failed."""
    waiting, running, failed = list(reversed(tests)), {}, []
    while waiting or running:
        while waiting and len(running) < number:
            test = waiting.pop()
            running[test] = processes.start([*command, "--gtest_filter=" + test])
        time.sleep(0.01)
        for test in [test for test, process in running.items() if process.poll() is not None]:
            process = running.pop(test)
            text = text_of(process)
            if process.returncode != 0 or not re.search(r"\[  PASSED  \] 1 test\b", text):
                print(f"{test}: exit code {process.returncode}\n{text}", flush=True)
                failed.append(test)
    return failed


def main():
    number, program, *arguments = sys.argv[1:]
    wanted = [argument for argument in arguments if argument.startswith("--gtest_filter=")]
    tests = tests_of(program, *wanted)
    if not tests:
        sys.exit(f"{program} {' '.join(wanted)}: no tests")
    processes = Processes()
    try:
        failed = run(processes, int(number), [program, *(a for a in arguments if a not in wanted)], tests)
    finally:
        processes.end()
    print(f"{len(tests) - len(failed)} of {len(tests)} tests passed")
    for test in failed:
        print(f"failed: {test}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
