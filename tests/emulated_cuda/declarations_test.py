#!/usr/bin/env python3
"""Compares our declarations of CUDA, cuBLAS, cuDNN and NCCL (include/) with NVIDIA's: values of enumerators and macros, types of functions.

usage: declarations_test.py COMPILER NVIDIA_INCLUDE_FOLDER...

Exit code 77, with the reason, if NVIDIA's headers are not installed."""
import pathlib
import re
import subprocess
import sys
import tempfile

OURS = pathlib.Path(__file__).resolve().parent / "include"
# What is compiled together: NCCL's header brings C++ overloads of CUDA's functions.
HEADERS = (("cuda_runtime_api.h", "cublas_v2.h", "cudnn.h"), ("nccl.h",))
SKIPPED = 77
# Versions depend on what is installed, and so does the name of one of NCCL's structs, which a function takes.
DIFFER = {"CUDART_VERSION", "CUDNN_VERSION", "CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL", "CUBLAS_VERSION", "CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR",
          "CUBLAS_VER_PATCH", "NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH", "NCCL_VERSION_CODE", "ncclCommInitRankConfig"}


def declared(text):
    """Names of the enumerators, numeric macros and functions in one of our headers."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    values = re.findall(r"^\s*(\w+)\s*=\s*[-\w]+,?", text, re.M) + re.findall(r"^#define\s+(\w+)\s+\(?-?\d\w*\)?\s*$", text, re.M)
    functions = re.findall(r"\b((?:cuda|cublas|cudnn|nccl)[A-Z]\w*)\s*\(", text)
    return set(values) - DIFFER, set(functions) - DIFFER


def table(compiler, includes, headers, names):
    """What a compiler makes of the names with the headers in these folders."""
    values, functions = names
    body = "".join(f'  std::printf("%s = %lld\\n", "{n}", static_cast<long long>({n}));\n' for n in sorted(values))
    body += "".join(f'  std::printf("%s: %s\\n", "{n}", typeid(decltype(&{n})).name());\n' for n in sorted(functions))
    source = "#include <cstdio>\n#include <typeinfo>\n" + "".join(f"#include <{h}>\n" for h in headers) + "int main() {\n" + body + "}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "table"
        (pathlib.Path(folder) / "table.cpp").write_text(source)
        subprocess.run([compiler, "-std=c++20", *(f"-I{i}" for i in includes), f"{program}.cpp", "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    compiler, folders = sys.argv[1], [pathlib.Path(f) for f in sys.argv[2:]]
    compared, differ = 0, 0
    for headers in HEADERS:
        missing = [h for h in headers if not any((f / h).exists() for f in folders)]
        if missing:
            print(f"SKIPPED: NVIDIA's {missing[0]} is not installed")
            continue
        names = [set.union(*found) for found in zip(*(declared((OURS / h).read_text()) for h in headers))]
        ours, theirs = table(compiler, [OURS], headers, names), table(compiler, folders, headers, names)
        different = [(a, b) for a, b in zip(ours, theirs) if a != b]
        for a, b in different:
            print(f"ours    {a}\nNVIDIA's {b}")
        compared, differ = compared + len(ours), differ + len(different)
        if len(ours) < 20:
            sys.exit(f"only {len(ours)} declarations were found in {', '.join(headers)}")
    print(f"{compared} declarations compared, {differ} differ")
    sys.exit(SKIPPED if compared == 0 else 1 if differ else 0)


if __name__ == "__main__":
    main()
