"""The nets of models/ with their data layer replaced by one that makes its data: no input to wait for."""

import re

import common

MADE_DATA = """layer {{ name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {{
  shape {{ {dims} }} shape {{ dim: {batch} }}
  data_filler {{ {filler} }} data_filler {{ type: "constant" value: 1 }} }} }}
"""
SOURCES = ("Data", "ImageData", "DummyData")


def without_sources(text):
    """The prototxt without its data layers. A layer's braces are counted, so its formatting does not matter."""
    kept, at = [], 0
    for start in re.finditer(r"^layer\s*\{", text, re.M):
        if start.start() < at:
            continue
        end, depth = start.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        kind = re.search(r'type:\s*"(\w+)"', text[start.start() : end])
        kept.append(text[at : start.start()] + ("" if kind and kind[1] in SOURCES else text[start.start() : end]))
        at = end
    return "".join(kept) + text[at:]


def write(path, net, shape, net_line="", filler='type: "constant" value: 0.5'):
    """Writes models/NET.prototxt with data of `shape` (a batch of each device, channels, height, width), made by `filler`, and `net_line`."""
    dims = " ".join(f"dim: {n}" for n in shape)
    text = (common.REPOSITORY / "models" / f"{net}.prototxt").read_text()
    path.write_text(f"{net_line}\n{MADE_DATA.format(dims=dims, batch=shape[0], filler=filler)}{without_sources(text)}")
