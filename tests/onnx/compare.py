"""Runs every NAME.onnx of a folder with onnxruntime on the inputs in NAME.npz ("in/BLOB") and compares what comes
out with "out/BLOB". Exit code 0: all agree; 1: the lines say what does not; 77: a module is missing."""
import sys

try:
    import comparison
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(error)
    sys.exit(77)


def problems(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    arrays = numpy.load(path.with_suffix(".npz"))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = session.get_inputs() + session.get_overridable_initializers()  # those that need not be given too
    feeds = {value.name: arrays["in/" + value.name] for value in inputs}
    names = [value.name for value in session.get_outputs()]
    expected = {key[4:] for key in arrays.files if key.startswith("out/")}
    if set(names) != expected:
        yield f"outputs {names}, expected {sorted(expected)}"
        return
    for name, found in zip(names, session.run(names, feeds)):
        wanted = arrays["out/" + name]
        if found.shape != wanted.shape:
            yield f"{name}: shape {found.shape}, expected {wanted.shape}"
        elif off := comparison.difference(found, wanted):
            yield f"{name}: {off}"


comparison.run("*.onnx", problems)
