#!/usr/bin/env python3
"""What tests_at_once.py says of tests that pass, fail, hang or are skipped, and that nothing goes on after it has ended."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).resolve().with_name("tests_at_once.py")
# Stands for a program with tests.
PROGRAM = """#!/bin/sh
for argument in "$@"; do
  case $argument in --gtest_filter=*) filter=${argument#--gtest_filter=};; --gtest_list_tests) list=1;; esac
done
if [ -n "$list" ]; then
  [ "$filter" = None.* ] || printf 'Suite.\\n'
  case $filter in Good.*) printf '  Passes\\n  PassesToo  # GetParam() = 1\\n';; All.*) printf '  Passes\\n  Fails\\n  IsSkipped\\n';; Long.*) printf '  Waits\\n';; Hanging.*) printf '  Waits\\n  Passes\\n';; Deaf.*) printf '  KillsTheGuard\\n';; esac
  exit 0
fi
case $filter in
  Suite.Passes*) echo '[  PASSED  ] 1 test.';;
  Suite.Fails) echo 'what went wrong'; exit 1;;
  Suite.IsSkipped) echo '[  PASSED  ] 0 tests.';;
  Suite.KillsTheGuard) kill -KILL $(ps -o pgid= -p $$); sh -c 'echo $$ >> pids; exec sleep 100' & sleep 1; echo '[  PASSED  ] 1 test.';;
  Suite.Waits) echo 'what it wrote'; sh -c 'echo $$ >> pids; exec sleep 100' & echo $$ >> pids; wait;;
esac
"""


def command(program, tests, *options):
    return [sys.executable, str(SCRIPT), *options, "2", str(program), "--gtest_brief=1", "--gtest_filter=" + tests]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        program = pathlib.Path(folder) / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for tests, code, expected in (("Good.*", 0, ["2 of 2 tests passed"]), ("None.*", 1, ["no tests"]),
                                      ("All.*", 1, ["1 of 3 tests passed", "what went wrong", "failed: Suite.Fails", "failed: Suite.IsSkipped"])):
            done = subprocess.run(command(program, tests), capture_output=True, text=True, timeout=60)
            text = done.stdout + done.stderr
            assert done.returncode == code and all(part in text for part in expected), f"{tests}: {done.returncode}\n{text}"
        pids = pathlib.Path("pids")

        def none_runs():
            return wait_until(lambda: not any(is_running(pid) for pid in pids.read_text().split()))

        # One that hangs is killed, with what it has started; the others run. A guard that is gone stops nothing from being killed at the end.
        for tests, options, code, expected in (
                ("Hanging.*", ["--limit=1"], 1, ["Suite.Waits: killed after 1 s", "what it wrote", "failed: Suite.Waits", "1 of 2 tests passed"]),
                ("Deaf.*", [], 0, ["1 of 1 tests passed"])):
            pids.unlink(missing_ok=True)
            done = subprocess.run(command(program, tests, *options), capture_output=True, text=True, timeout=60)
            text = done.stdout + done.stderr
            assert done.returncode == code and all(part in text for part in expected), f"{tests}: {done.returncode}\n{text}"
            assert pids.read_text().split() and none_runs(), f"{tests} leaves processes"
        for number in (signal.SIGTERM, signal.SIGKILL):
            pids.unlink(missing_ok=True)
            script = subprocess.Popen(command(program, "Long.*"))
            assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2), "nothing was started"
            script.send_signal(number)
            script.wait()
            assert none_runs(), f"{number.name} leaves processes"
    return 0


if __name__ == "__main__":
    sys.exit(main())
