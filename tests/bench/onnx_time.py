#!/usr/bin/env python3
"""ONNX Runtime's side of inference.py: runs a net on its CPU provider and prints JSON.

usage: onnx_time.py FILE.onnx [--threads=2] [--iterations=10] [--input=FILE]

One JSON object: the seconds of each pass after two to warm up, and the version; with --input, a file with the f32 values of
the net's one input, instead of the times the values of its one output.
"""

import json
import sys
import time

import numpy
import onnxruntime


def session_of(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main():
    options = {"threads": "2", "iterations": "10", "input": ""}
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    for word in sys.argv[1:]:
        name, _, value = word[2:].partition("=")
        if word.startswith("--") and name not in options:
            sys.exit(__doc__)
        if word.startswith("--"):
            options[name] = value
    if len(words) != 1:
        sys.exit(__doc__)
    session = session_of(words[0], int(options["threads"]))
    source = session.get_inputs()[0]
    if options["input"]:
        values = numpy.fromfile(options["input"], numpy.float32).reshape(source.shape)
        print(json.dumps({"output": session.run(None, {source.name: values})[0].ravel().tolist()}))
        return
    values, seconds = numpy.full(source.shape, 0.5, numpy.float32), []
    for _ in range(2 + int(options["iterations"])):
        start = time.perf_counter()
        session.run(None, {source.name: values})
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds[2:], "version": onnxruntime.__version__}))


if __name__ == "__main__":
    main()
