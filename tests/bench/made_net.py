"""The nets of models/ with the data layer replaced by one with synthetic data: no input to wait for."""

import re

import common

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


def without_sources(text):
    return rewritten(text, lambda layer: "" if field(layer, "type") in SOURCES else layer)


def with_scales(text):
    """Each batch normalization as BVLC's users write it: BatchNorm and Scale, both in place."""

    def rewrite(layer):
        if field(layer, "type") not in ("BN", "SyncBN"):
            return layer
        name, bottom, top = (field(layer, key) for key in ("name", "bottom", "top"))
        return (
            f'layer {{ name: "{name}" type: "BatchNorm" bottom: "{bottom}" top: "{top}" }}\n'
            f'layer {{ name: "{name}_scale" type: "Scale" bottom: "{top}" top: "{top}" '
            f"scale_param {{ bias_term: true }} }}"
        )

    return rewritten(text, rewrite)


def write(path, net, shape, net_line="", filler='type: "constant" value: 0.5', scales=False):
    """Writes models/NET.prototxt with data of `shape` (a batch of each device, channels, height, width), made by `filler`, and `net_line`;
    with `scales`, batch normalizations as BatchNorm and Scale."""
    dims = " ".join(f"dim: {n}" for n in shape)
    text = without_sources((common.REPOSITORY / "models" / f"{net}.prototxt").read_text())
    if scales:
        text = with_scales(text)
    path.write_text(f"{net_line}\n{MADE_DATA.format(dims=dims, batch=shape[0], filler=filler)}{text}")
