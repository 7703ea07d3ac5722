#!/usr/bin/env python3
"""Installs a build as docs/gpu_check.md says and runs gpu_check.sh there, on emulated GPUs in place of CUDA: the folder needs nothing else.

usage: gpu_check_installed_test.py BUILD_FOLDER CMAKE"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gpu_check_test import expect, passed

SKIPPED = 77


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, cmake = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if shutil.which("patchelf") is None:
        print("gpu_check_installed_test: skipped, patchelf is not installed")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve() / "F"
        done = subprocess.run([cmake, "--install", build, "--prefix", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        expect("cmake --install", done.returncode == 0, done.stdout)
        emulated = [path for path in (build / "lib/emulated/libbanyan_cuda.so", build / "lib/libbanyan_cuda.so") if path.exists()][0]
        library = folder / "lib/libbanyan_cuda.so"
        library.unlink(missing_ok=True)
        shutil.copy(emulated, library)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", library], check=True)
        for program in ("trainer", "gpu_tests", "make_digits"):
            found = subprocess.run(["ldd", folder / "bin" / program], stdout=subprocess.PIPE, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout
            expect(f"{program} uses the library beside it", f"=> {folder}/bin/../lib/libbanyan.so " in found, found)
        for part in ("hdf5", "httplib"):
            library = folder / f"lib/libbanyan_{part}.so"
            if not (build / "lib" / library.name).exists():
                continue
            found = subprocess.run(["ldd", library], stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"}).stdout
            expect(f"{library.name} uses the library beside it",
                   any(part in line.split(" => ")[0] and f" => {folder}/lib/" in line for line in found.splitlines()), found)

        report = pathlib.Path(name) / "report"
        environment = {"PATH": "/usr/bin:/bin", "HOME": name, "EMULATED_CUDA": "gpus=2,notes=0,leaks=0", "BANYAN_SLOW_GPU": "1"}
        done = subprocess.run([folder / "bin/gpu_check.sh", report, "--quick", "--minutes=60", "--only=environment,accuracy"], cwd=name, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, flush=True)
        found = json.loads((report / "report.json").read_text())
        expect("an installed folder", done.returncode == 0 and found["verdict"] == "passed", done.returncode, found["verdict"])
        for step in ("environment", "accuracy"):
            expect(f"{step} has passed checks", passed(found, step))
        expect("links were verified", "links of GPUs 0,1" in passed(found, "environment"), passed(found, "environment"))
        for table in ("accuracies", "environment"):
            expect(f"the table {table} has rows", found[table])
    print("an installed folder checks a machine by itself")


if __name__ == "__main__":
    main()
