"""Draws a benchmark's plot as SVG: plot.py FILE.svg with a drawing as JSON on standard input.

{"kind": "bars", "title", "y", "labels": [...], "series": {name: [value or null, ...]}, "marks": {name: [value or null, ...]}}
{"kind": "lines", "title", "x", "y", "series": {name: [[x, y], ...]}}   both axes logarithmic
{"kind": "fits", "title", "y", "panels": [{"x", "points": [[x, y], ...], "line": [a, b]}, ...]}   side by side, from 0
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
    many = sum(map(len, drawing["labels"])) > 120  # too many letters for one line
    axes.set_xticks(range(len(drawing["labels"])), drawing["labels"], rotation=25 if many else 0, ha="right" if many else "center")


def lines(axes, drawing):
    for name, points in drawing["series"].items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(drawing["x"])


def fit(axes, panel):
    axes.plot(*zip(*panel["points"]), "o", label="measured")
    end = 1.05 * max(x for x, _ in panel["points"])
    a, b = panel["line"]
    axes.plot([0, end], [a, a + b * end], label=f"{a:.1f} + {b:.2f} x")
    axes.set_xlim(0, end)
    axes.set_ylim(0)
    axes.set_xlabel(panel["x"])


drawing = json.load(sys.stdin)
panels = drawing.get("panels", [drawing])
figure, row = pyplot.subplots(1, len(panels), figsize=(9, 4.5), squeeze=False)
for axes, panel in zip(row[0], panels):
    {"bars": bars, "lines": lines, "fits": fit}[drawing["kind"]](axes, panel)
    axes.set_ylabel(drawing["y"])
    axes.grid(True, axis="y", alpha=0.3)
    axes.legend(fontsize=8)
if len(panels) == 1:
    row[0][0].set_title(drawing["title"])
else:
    figure.suptitle(drawing["title"])
figure.tight_layout()
figure.savefig(sys.argv[1], metadata={"Date": None})
