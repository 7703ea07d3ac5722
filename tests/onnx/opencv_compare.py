"""Reads every NAME.prototxt with NAME.caffemodel of a folder with OpenCV, computes from the inputs in NAME.npz
("in/BLOB"), and compares what comes out with "out". Exit code 0: all agree; 1: the lines say what does not; 77: there
is no OpenCV that reads Caffe's files."""
import pathlib
import sys

try:
    import cv2
    import numpy

    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise ImportError(f"OpenCV {cv2.__version__} no longer reads Caffe's files")
except ImportError as error:
    print(error)
    sys.exit(77)

TOLERANCE = 1e-4  # of f32 through some hundred layers; relative to the largest value where all are below 1


def problems(path):
    arrays = numpy.load(path.with_suffix(".npz"))
    net = cv2.dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    for key in arrays.files:
        if key.startswith("in/"):
            net.setInput(numpy.ascontiguousarray(arrays[key]), key[3:])
    found, wanted = net.forward(), arrays["out"]
    if found.squeeze().shape != wanted.squeeze().shape:  # of a scalar or a vector OpenCV makes a matrix
        yield f"shape {found.shape}, expected {wanted.shape}"
        return
    found = found.reshape(wanted.shape)
    if not numpy.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE * min(1, numpy.abs(wanted).max())):
        yield f"off by {numpy.abs(found - wanted).max()}"


failed = 0
for prototxt in sorted(pathlib.Path(sys.argv[1]).glob("*.prototxt")):
    try:
        found = list(problems(prototxt))
    except Exception as error:  # of a reader that refuses the file
        found = [f"{type(error).__name__}: {error}"]
    for line in found:
        print(f"{prototxt.stem}: {line}")
    failed += bool(found)
sys.exit(1 if failed else 0)
