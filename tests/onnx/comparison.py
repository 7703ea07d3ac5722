"""What compare.py and opencv_compare.py share: the tolerance, and what they print and exit with."""
import pathlib
import sys

import numpy

TOLERANCE = 1e-4  # of f32 through some hundred layers; relative to the largest value where all are below 1


def difference(found, wanted):
    """How far off the values are, as text; "" within the tolerance."""
    if numpy.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE * min(1, numpy.abs(wanted).max())):
        return ""
    return f"off by {numpy.abs(found - wanted).max()}"


def run(pattern, problems):
    """Prints problems(path) of all files of the folder that the command line names, and exits."""
    paths = sorted(pathlib.Path(sys.argv[1]).glob(pattern))
    if not paths:
        sys.exit(f"{sys.argv[1]} has no {pattern}")
    failed = 0
    for path in paths:
        try:
            found = list(problems(path))
        except Exception as error:  # of a program that refuses the file
            found = [f"{type(error).__name__}: {error}"]
        for line in found:
            print(f"{path.stem}: {line}")
        failed += bool(found)
    sys.exit(1 if failed else 0)
