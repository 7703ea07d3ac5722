#!/usr/bin/env python3
"""Writes the nets that models/README.md lists: run/models/NAME/{solver,train_val,deploy}.prototxt, and for nets with
batch normalization the same with SyncBN layers: sync_bn_*.prototxt; for some {,sync_bn_}torchvision.map. Run it from
the repository's folder.

  python3 models/generate.py              all nets
  python3 models/generate.py vgg16 c3d    only these
  python3 models/generate.py --out=DIR    into DIR instead of run/models
  python3 models/generate.py --list       writes nothing, prints the table of models/README.md
"""

import argparse
import pathlib
import sys

from generator import classification, digits, segmentation, torchvision, video  # noqa: F401 (they register their nets)
from generator.prototxt import Net, solver_text
from generator.registry import MODELS


def files_of(model, folder):
    """Names and contents of a net's files, which will be in `folder`."""
    spellings = [("", model.norm)]
    if model.norm == "BatchNorm":
        spellings.append(("sync_bn_", "SyncBN"))
    for prefix, norm in spellings:
        origin = f"{model.title}.\nWritten by models/generate.py."
        for name, deploy in (("train_val", False), ("deploy", True)):
            net = Net(f"{model.folder}{'_sync_bn' if prefix else ''}", deploy, norm)
            model.build(net)
            yield f"{prefix}{name}.prototxt", net.text(origin)
        if model.folder in torchvision.NETS:
            yield f"{prefix}torchvision.map", torchvision.map_text(model.folder, net)
        about = f"{origin} From the repository's folder:\n  trainer --solver={folder}/{prefix}solver.prototxt --gpu=all"
        settings = {"net": f"{folder}/{prefix}train_val.prototxt", **model.solver}
        if "test_iter" in settings:
            settings["test_initialization"] = False  # a test of initial values says nothing
        settings["snapshot_prefix"] = f"run/{model.folder}/{prefix}{model.folder}"
        yield f"{prefix}solver.prototxt", solver_text("\n".join(filter(None, (about, model.notes))), settings)


def table():
    """The table of README.md."""
    rows = [("NAME", "net", "parameters", "data", "SHAPE"), ("---", "---", "---:", "---", "---")]
    rows += [
        (f"`{one.folder}`", one.title, f"{one.parameters:,}", one.input, f"`{one.data}`") for one in MODELS.values()
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="run/models", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.list:
        print(table(), end="")
        return
    for name in arguments.names:
        if name not in MODELS:
            sys.exit(f"generate.py: there is no net {name!r}; there are {', '.join(sorted(MODELS))}")
    for name in arguments.names or MODELS:
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files_of(MODELS[name], folder):
            (folder / file).write_text(text)


if __name__ == "__main__":
    main()
