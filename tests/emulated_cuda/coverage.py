#!/usr/bin/env python3
"""Which lines of the CUDA half run in the tests on emulated GPUs.

usage: coverage.py BUILD_FOLDER [--quick]

Builds the target banyan_cuda_coverage, runs gpu_tests on it in several settings, and prints a Markdown table (file, lines that can run,
share that ran) and the lines that did not. --quick: operators in one setting and one short training run."""
import json
import os
import pathlib
import subprocess
import sys

OPERATORS = "-GpuTraining.*:Gpu/*:RandomFailures.*:*EveryFailure*:Failure.*:*StalledDevice*:NcclTraining.*:*OnAnyTeam:Layouts/Bf16Storage.*"
TRAINING = "GpuTraining.*:Gpu/*Plain:Gpu/GpuModels*/LeNet"
RUNS = [
    # settings, filter, more environment
    ("gpus=2", OPERATORS, {}),
    ("gpus=2", TRAINING, {}),
    ("gpus=2,peers=none", TRAINING, {}),
    ("gpus=1", OPERATORS, {"BANYAN_SMALL_INDEX_LIMIT": "1"}),
    ("gpus=1,cudnn=contiguous", "*Convolution*-Gpu/*", {}),
    ("gpus=1,cudnn=last", "*Convolution*-Gpu/*", {}),
    ("gpus=1,cudnn=none", "*Convolution*-Gpu/*", {}),
    ("gpus=0", "Cuda*", {}),
    ("gpus=4,leaks=0", "RandomFailures.*", {"BANYAN_SCHEDULES": "200"}),
    ("gpus=2,leaks=0", "Gpu/FailingCalls.*", {}),
    ("gpus=4,leaks=0", "NcclTraining.*", {}),
]


def run_tests(build, runs):
    for settings, tests, more in runs:
        environment = dict(os.environ, LD_LIBRARY_PATH=str(build / "lib/emulated_coverage"), EMULATED_CUDA="notes=0," + settings,
                           BANYAN_SLOW_GPU="1", **more)
        print(f"gpu_tests on {settings}, {tests} {more or ''}", file=sys.stderr)
        run = subprocess.run([build / "bin/gpu_tests", "--gtest_brief=1", "--gtest_filter=" + tests], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.exit(f"{run.stdout}\ncoverage.py: gpu_tests failed with {run.returncode} on {settings}, {tests}")


def lines_that_ran(build):
    """{file: {line: times}} of src/*/cuda, with all instances of a template combined."""
    files = {}
    objects = build / "tests/emulated_cuda/CMakeFiles/banyan_cuda_coverage.dir"
    for data in objects.rglob("*.gcda"):
        report = subprocess.run(["gcov", "--json-format", "--stdout", data], capture_output=True, check=True, cwd=build).stdout
        for line in report.splitlines():
            for file in json.loads(line)["files"]:
                name = os.path.normpath(os.path.join(build, file["file"]))
                if "/src/" not in name or "/cuda/" not in name.split("/src/")[1]:
                    continue
                counts = files.setdefault("src/" + name.split("/src/")[1], {})
                for entry in file["lines"]:
                    counts[entry["line_number"]] = counts.get(entry["line_number"], 0) + entry["count"]
    return files


def main():
    arguments = [a for a in sys.argv[1:] if a != "--quick"]
    if len(arguments) != 1 or not pathlib.Path(arguments[0], "build.ninja").exists():
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0]).resolve()
    subprocess.run(["ninja", "-C", build, "banyan_cuda_coverage", "gpu_tests"], check=True, stdout=subprocess.DEVNULL)
    for data in (build / "tests/emulated_cuda/CMakeFiles/banyan_cuda_coverage.dir").rglob("*.gcda"):
        data.unlink()
    run_tests(build, RUNS[:2] if "--quick" in sys.argv else RUNS)
    files = {name: counts for name, counts in lines_that_ran(build).items() if counts}
    total = ran = 0
    print("| file | lines | ran |\n| --- | ---: | ---: |")
    for name, counts in sorted(files.items()):
        hit = sum(1 for times in counts.values() if times > 0)
        print(f"| {name} | {len(counts)} | {100 * hit / len(counts):.1f} % |")
        total += len(counts)
        ran += hit
    print(f"| **all** | {total} | **{100 * ran / total:.1f} %** |")
    for name, counts in sorted(files.items()):
        missing = [str(line) for line, times in sorted(counts.items()) if times == 0]
        if missing:
            print(f"\n{name}: {', '.join(missing)}")


if __name__ == "__main__":
    main()
