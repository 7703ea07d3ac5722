#!/usr/bin/env python3
"""Do the filters of the tests on emulated GPUs still name tests?

usage: filters_test.py GPU_TESTS FILTER...

Each pattern of each filter (GoogleTest's: wanted ones, then '-' and those left out) must match at least one test of the
program, or a suite that has been given another name would no longer run, or no longer be left out."""
import fnmatch
import subprocess
import sys


def tests_of(program, *arguments):
    listed = subprocess.run([program, "--gtest_list_tests", *arguments], capture_output=True, text=True, check=True).stdout
    names, suite = [], None
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()  # the rest is the value of a parameter
        if not line.startswith(" "):
            suite = name if name.endswith(".") else None
        elif suite is not None and name:
            names.append(suite + name.strip())
    return names


def main():
    program, *filters = sys.argv[1:]
    names = tests_of(program)
    if not names or not filters:
        sys.exit(f"filters_test.py: {len(names)} tests, {len(filters)} filters")
    patterns = sorted({pattern for one in filters for half in one.split("-", 1) for pattern in half.split(":") if pattern})
    idle = [pattern for pattern in patterns if not any(fnmatch.fnmatchcase(name, pattern) for name in names)]
    for pattern in idle:
        print(f"no test matches {pattern}")
    print(f"{len(patterns)} patterns, {len(names)} tests")
    return 1 if idle else 0


if __name__ == "__main__":
    sys.exit(main())
