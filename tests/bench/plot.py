"""Draws a benchmark's plot as SVG: plot.py FILE.svg with a drawing as JSON on standard input.

{"kind": "bars", "title", "y", "labels": [...], "series": {name: [value or null, ...]}, "marks": {name: [value or null, ...]}}
{"kind": "lines", "title", "x", "y", "series": {name: [[x, y], ...]}}   both axes logarithmic
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "banyan"  # the same figures give the same file
from matplotlib import pyplot


def bars(axes, drawing):
    count = len(drawing["series"])
    for i, (name, values) in enumerate(drawing["series"].items()):
        places = [at + (i - (count - 1) / 2) * 0.8 / count for at in range(len(values))]
        shown = axes.bar(places, [v or 0 for v in values], 0.8 / count, label=name)
        axes.bar_label(shown, [f"{v:.2f}" if v else "" for v in values], fontsize=7)
    for name, values in drawing.get("marks", {}).items():
        at = [i for i, v in enumerate(values) if v]
        axes.hlines([values[i] for i in at], [i - 0.45 for i in at], [i + 0.45 for i in at], colors="black", label=name)
    axes.set_xticks(range(len(drawing["labels"])), drawing["labels"])


def lines(axes, drawing):
    for name, points in drawing["series"].items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(drawing["x"])


drawing = json.load(sys.stdin)
figure, axes = pyplot.subplots(figsize=(9, 4.5))
(bars if drawing["kind"] == "bars" else lines)(axes, drawing)
axes.set_ylabel(drawing["y"])
axes.set_title(drawing["title"])
axes.grid(True, axis="y", alpha=0.3)
axes.legend(fontsize=8)
figure.tight_layout()
figure.savefig(sys.argv[1], metadata={"Date": None})
