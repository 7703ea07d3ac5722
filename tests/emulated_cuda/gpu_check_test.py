#!/usr/bin/env python3
"""Runs tools/gpu_check.sh on emulated GPUs, in a folder with the layout of an installed one: a GPU that works, one that does not, none.

usage: gpu_check_test.py SOURCE BUILD_FOLDER

compute-sanitizer is a script of ours that reports nothing, and gpu_tests is cut down to a few tests: what is tested is the script."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = ("environment", "gpu_tests", "sanitizer", "promises", "accuracy", "times")
# Prints what the script asks for, runs nothing.
SANITIZER = """#!/bin/sh
case $1 in
  --version) echo "Version 0.0" ;;
  --help) echo "  --kernel-name arg" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
"""


def installed(source, build, folder):
    """The programs refer to their libraries by their own place, so links are enough; the script looks for everything around itself."""
    (folder / "bin").mkdir()
    for program in ("trainer", "make_digits", "gpu_tests", "convert_mnist"):
        (folder / "bin" / program).symlink_to(build / "bin" / program)
    script = folder / "bin/gpu_check.sh"
    script.write_bytes((source / "tools/gpu_check.sh").read_bytes())
    script.chmod(0o755)
    share = folder / "share/banyan"
    share.mkdir(parents=True)
    (share / "models").symlink_to(source / "models")
    (folder / "tools").mkdir()
    sanitizer = folder / "tools/compute-sanitizer"
    sanitizer.write_text(SANITIZER)
    sanitizer.chmod(0o755)
    return script


def check(script, build, report, settings, *options, **environment):
    """Exit code and report."""
    more = {"LD_LIBRARY_PATH": str(build / "lib/emulated"), "EMULATED_CUDA": settings + ",notes=0,leaks=0", "BANYAN_SLOW_GPU": "1",
            "PATH": f"{script.parent.parent / 'tools'}:{os.environ['PATH']}", **environment}
    done = subprocess.run([script, report, "--quick", "--minutes=60", *options], env={**os.environ, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done.returncode, json.loads((report / "report.json").read_text()), (report / "report.md").read_text()


def expect(what, truth, *shown):
    if not truth:
        sys.exit(f"gpu_check_test: {what}: {' '.join(map(str, shown))}")


def passed(report, step):
    """Of the checks of a step."""
    return [c["check"] for c in report["checks"] if c["step"] == step and c["status"] == "passed"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script = installed(source, build, folder)

        code, report, page = check(script, build, folder / "works", "gpus=2", "--jobs=3", GTEST_FILTER="CudaDevices.*:CudaStreams.*")
        expect("two GPUs that work", code == 0 and report["verdict"] == "passed", code, report["verdict"])
        expect("failed checks", not [c for c in report["checks"] if c["status"] == "failed"])
        for step in STEPS:
            expect(f"{step} has passed checks", passed(report, step))
        expect("links were verified", "links of GPUs 0,1" in passed(report, "environment"), passed(report, "environment"))
        expect("results of tests", {"passed"} <= {t["status"] for t in report["gpu_tests"]} <= {"passed", "skipped"}, report["gpu_tests"])
        expect("a run without SyncBN is told apart", "LeNet on gpu 0,0 without SyncBN is told apart" in passed(report, "promises"))
        for table in ("losses", "accuracies", "times", "layers", "shares", "environment"):
            expect(f"the table {table} has rows", report[table])
        expect("the page has its sections", all(f"## {title}\n" in page for title in ("Environment", "gpu_tests", "Accuracy", "Times", "All checks")))

        # The first product of every run fails.
        code, report, page = check(script, build, folder / "fails", "gpus=1,fail=cublasSgemm_64:1", "--only=accuracy")
        expect("a GPU that fails", code == 1 and report["verdict"] == "FAILED", code, report["verdict"])
        expect("the reason is cited", "the matrix product (cublas gemm) failed" in page.split("## Failed\n")[1], page)

        code, report, page = check(script, build, folder / "none", "gpus=0")
        expect("no GPU", code == 2 and "no GPU can be used" in report["verdict"], code, report["verdict"])
        expect("no step was tried", not report["losses"] and not report["times"])
    print("gpu_check.sh reports what works, what fails and what is missing")


if __name__ == "__main__":
    main()
