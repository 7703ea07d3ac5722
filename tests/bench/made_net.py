"""The nets of models/ with the data layer replaced by one with synthetic data: no input to wait for."""

import functools
import pathlib
import re
import sys
import tempfile

import common

MODELS = common.REPOSITORY / "models"

MADE_DATA = """layer {{ name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {{
  shape {{ {dims} }} shape {{ dim: {batch} }}
  data_filler {{ {filler} }} data_filler {{ type: "constant" value: 1 }} }} }}
"""
SOURCES = ("Data", "ImageData", "DummyData")


def layers_of(text):
    """Start and end of each layer of a prototxt. Braces are counted, so its formatting does not matter."""
    at = 0
    for start in re.finditer(r"^layer\s*\{", text, re.M):
        if start.start() < at:
            continue
        at, depth = start.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield start.start(), at


def rewritten(text, rewrite):
    """The prototxt with each layer's text as `rewrite` returns it."""
    kept, at = [], 0
    for start, end in layers_of(text):
        kept += [text[at:start], rewrite(text[start:end])]
        at = end
    return "".join(kept) + text[at:]


def field(layer, name):
    found = re.search(rf'\b{name}:\s*"([^"]*)"', layer)
    return found[1] if found else ""


def without_sources(text, sources=SOURCES):
    return rewritten(text, lambda layer: "" if field(layer, "type") in sources else layer)


@functools.lru_cache(maxsize=None)
def generated(name):
    """The files that models/generate.py writes for a net, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        common.run([sys.executable, MODELS / "generate.py", f"--out={folder}", name])
        return {file.name: file.read_text() for file in pathlib.Path(folder, name).iterdir()}


def text_of(net):
    """models/NET.prototxt; or, of a net that models/generate.py writes, the train net with one layer for each normalization."""
    path = MODELS / f"{net}.prototxt"
    if path.exists():
        return path.read_text()
    files = generated(net)
    return files.get("sync_bn_train_val.prototxt") or files["train_val.prototxt"]


def is_norm(layer):
    return field(layer, "type") in ("BN", "SyncBN")


def has_norms(text):
    return any(is_norm(text[start:end]) for start, end in layers_of(text))


def with_scales(text):
    """Each batch normalization as BVLC's users write it: BatchNorm and Scale, both in place where nothing else reads the input."""
    bottom_or_top = re.compile(r'\b(bottom|top):\s*"([^"]*)"')
    readers = [name for kind, name in bottom_or_top.findall(text) if kind == "bottom"]
    renamed = {}  # the output of a normalization that was not in place: the blob it is now

    def rewrite(layer):
        layer = bottom_or_top.sub(lambda found: f'{found[1]}: "{renamed.get(found[2], found[2])}"', layer)
        if not is_norm(layer):
            return layer
        name, bottom, top = (field(layer, key) for key in ("name", "bottom", "top"))
        if readers.count(bottom) == 1:
            renamed[top] = top = bottom
        return (
            f'layer {{ name: "{name}" type: "BatchNorm" bottom: "{bottom}" top: "{top}" }}\n'
            f'layer {{ name: "{name}_scale" type: "Scale" bottom: "{top}" top: "{top}" '
            f"scale_param {{ bias_term: true }} }}"
        )

    return rewritten(text, rewrite)


def write(path, net, shape, net_line="", filler='type: "constant" value: 0.5', scales=False):
    """Writes the net `net` (text_of) with data of `shape` (a batch of each device, channels, height, width), made by `filler`, and
    `net_line`; with `scales`, batch normalizations as BatchNorm and Scale."""
    dims = " ".join(f"dim: {n}" for n in shape)
    text = without_sources(text_of(net))
    if scales:
        text = with_scales(text)
    path.write_text(f"{net_line}\n{MADE_DATA.format(dims=dims, batch=shape[0], filler=filler)}{text}")
