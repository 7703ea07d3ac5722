"""Reads every NAME.prototxt with NAME.caffemodel of a folder with OpenCV, computes from the inputs in NAME.npz
("in/BLOB"), and compares what comes out with "out". Exit code 0: all agree; 1: the lines say what does not; 77: there
is no OpenCV that reads Caffe's files."""
import sys

try:
    import comparison
    import cv2
    import numpy

    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise ImportError(f"OpenCV {cv2.__version__} no longer reads Caffe's files")
except ImportError as error:
    print(error)
    sys.exit(77)


def problems(path):
    arrays = numpy.load(path.with_suffix(".npz"))
    net = cv2.dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    for key in arrays.files:
        if key.startswith("in/"):
            net.setInput(numpy.ascontiguousarray(arrays[key]), key[3:])
    found, wanted = net.forward(), arrays["out"]
    if found.squeeze().shape != wanted.squeeze().shape:  # of a scalar or a vector OpenCV makes a matrix
        yield f"shape {found.shape}, expected {wanted.shape}"
    elif off := comparison.difference(found.reshape(wanted.shape), wanted):
        yield off


comparison.run("*.prototxt", problems)
