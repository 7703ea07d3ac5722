#!/usr/bin/env python3
"""What mutants.py says of outputs, and which part of the faults it plants for which commit."""
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from mutants import FAILED, NOT_LOADED, lines_at, part_of_commit  # noqa: E402


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


def test_parts():
    def git(folder, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as place:
        expect("no repository", part_of_commit(place, 3), 0)
        source = place + "/source"
        git(place, "init", source)
        parts = []
        for i in range(4):
            git(source, "commit", "--allow-empty", "-m", str(i))
            parts.append(part_of_commit(source, 3))
        expect("of the first four commits", parts, [1, 2, 0, 1])
        git(place, "clone", "--depth=1", "file://" + source, place + "/shallow")
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=source, check=True, capture_output=True, text=True).stdout
        expect("without history", part_of_commit(place + "/shallow", 3), int(commit, 16) % 3)


if __name__ == "__main__":
    test_lines()
    if shutil.which("git"):
        test_parts()
    print("outputs are cited, and the parts take turns")
