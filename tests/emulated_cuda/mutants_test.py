#!/usr/bin/env python3
"""What mutants.py says of outputs."""
import re
import sys
import time

sys.dont_write_bytecode = True
from mutants import FAILED, NOT_LOADED, lines_at  # noqa: E402


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"mutants_test: {what}: {found!r} instead of {expected!r}")


def test_lines():
    text = "begins\nthe test: Failure of it\n  expected: 1\n  actual: 2\nends\n"
    expect("its line", lines_at(FAILED.search(text), text), "the test: Failure of it")
    expect("two more", lines_at(FAILED.search(text), text, more=2), "the test: Failure of it\n  expected: 1\n  actual: 2")
    expect("the first and only line", lines_at(re.search("b", "abc"), "abc", more=2), "abc")
    expect("what a real driver says", NOT_LOADED.search("x (Cuda failure 'CUDA driver version is insufficient for CUDA runtime version')") is None, False)
    begin = time.monotonic()
    long = "x" * 5_000_000 + " failed " + "y" * 5_000_000
    expect("a part of a long line", len(lines_at(FAILED.search(long), long)) < 3000, True)
    expect("none in a long line", FAILED.search(long.replace("failed", "passed")), None)
    expect("that takes no time", time.monotonic() - begin < 10, True)


if __name__ == "__main__":
    test_lines()
    print("outputs are cited")
