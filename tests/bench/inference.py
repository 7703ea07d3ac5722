#!/usr/bin/env python3
"""Inference of deploy nets: our trainer and ONNX Runtime's CPU provider in alternating runs, one process each.

usage: inference.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          alternating runs of each side; every figure is their median
  --nets=A,B          nets of models/generate.py with one image as input; default resnet50,googlenet,mobilenet_v2
  --batches=1,16
  --threads=2         threads of each side
  --seconds=4         that a side computes in each round, about
  --quick             a quarter of that: for trying the script, not for quoting
  --flags=A,B         further flags of `trainer time`, such as --flags=--fold=off
  --python=PROGRAM    the interpreter that has onnxruntime (default: the one running this)
  --json=FILE         default BUILD_FOLDER/bench/inference.json
  --write=FOLDER      also FOLDER/inference.md

Each net is trained for a few iterations on made images, so that weights and running statistics are not those of a new net.
`trainer convert` writes it as ONNX. Both sides first compute the same images, and the run ends where the outputs differ by
more than TOLERANCE. Ours is `trainer time --phase=TEST --model=deploy.prototxt`, normalizations folded into the
convolutions as always in test nets; ONNX Runtime does the same when it loads the file.
"""

import array
import json
import pathlib
import random
import re
import statistics
import struct
import sys
import tempfile
import zlib

import common
import made_net

NETS = ("resnet50", "googlenet", "mobilenet_v2")
GOAL = 1.0
SIDE, IMAGES, MEAN, SCALE = 224, 16, 127, 0.0625  # exact in f32
# Of the range of the outputs. Both sides compute in f32, in different orders and with normalizations folded in, which is off
# by a few 1e-6 of the range (and the log has six digits); a wrong pad, mean or pooling is off by more than 1e-2.
TOLERANCE = 1e-4
SOLVER = """net: "{folder}/train.prototxt" snapshot_prefix: "{folder}/weights" base_lr: 0.001 momentum: 0.9
lr_policy: "fixed" random_seed: 1 display: 0 max_iter: 6
"""
SOURCE = """layer {{ name: "data" type: "ImageData" top: "data" {label}
  image_data_param {{ source: "{folder}/images.txt" batch_size: {batch} threads: 1 }}
  transform_param {{ mean_value: {mean} scale: {scale} }} }}
"""


def png(pixels):
    """A file of SIDE x SIDE pixels: bytes red, green, blue."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = 3 * SIDE
    rows = b"".join(b"\0" + pixels[at : at + row] for at in range(0, len(pixels), row))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def write_images(folder):
    """images.txt with IMAGES noisy images, and images.f32, what a net reads of them: blue, green and red planes."""
    noise, planes, listing = random.Random(1), array.array("f"), []
    for number in range(IMAGES):
        levels = [noise.randrange(40, 216) for _ in range(3)]  # images differ in colour too
        pixels = bytes(
            max(0, min(255, levels[at % 3] + value % 80 - 40))
            for at, value in enumerate(noise.randbytes(3 * SIDE * SIDE))
        )
        (folder / f"{number}.png").write_bytes(png(pixels))
        listing.append(f"{folder}/{number}.png {number}\n")
        for colour in (2, 1, 0):
            planes.extend((value - MEAN) * SCALE for value in pixels[colour::3])
    (folder / "images.txt").write_text("".join(listing))
    return planes


def source(folder, batch, label):
    top = 'top: "label"' if label else ""
    return SOURCE.format(folder=folder, batch=batch, label=top, mean=MEAN, scale=SCALE)


def train(trainer, folder, files):
    """The file of weights."""
    text = made_net.without_sources(files["train_val.prototxt"])
    (folder / "train.prototxt").write_text(source(folder, IMAGES, True) + text)
    (folder / "solver.prototxt").write_text(SOLVER.format(folder=folder))
    common.run([trainer, f"--solver={folder}/solver.prototxt", "--cpu=1", "--progress=off"])
    return folder / "weights_iter_6.caffemodel"


def with_batch(deploy, batch):
    return re.sub(r"(input_param \{ shape \{ dim: \[)1,", rf"\g<1>{batch},", deploy)


class Case:
    """A deploy net with a batch."""

    def __init__(self, tools, folder, name, deploy, weights, batch, options):
        self.trainer, self.python = tools
        self.folder, self.weights, self.batch, self.options = folder, weights, batch, options
        self.name = f"{name} b{batch}"
        self.model, self.onnx = folder / f"{batch}.prototxt", folder / f"{batch}.onnx"
        self.model.write_text(with_batch(deploy, batch))
        self.compared = folder / f"{batch}_images.prototxt"
        self.compared.write_text(source(folder, batch, False) + made_net.without_sources(deploy, ("Input",)))
        self.runs = {"ours": [], "onnxruntime": []}
        self.difference = self.folded = None

    def ours(self, command, model, *flags):
        more = [flag for flag in self.options["flags"].split(",") if flag]
        threads = f"--threads_per_device={self.options['threads']}"
        model = [f"--model={model}", f"--weights={self.weights}", "--phase=TEST"]
        return common.run([self.trainer, command, *model, "--cpu=1", threads, *flags, *more]).err

    def onnxruntime(self, *flags):
        script = common.HERE / "onnx_time.py"
        return json.loads(common.run([self.python, script, self.onnx, f"--threads={self.options['threads']}", *flags]).out)

    def compare(self, planes):
        """Converts the net; sets the largest difference of the outputs, as a share of their range."""
        common.run([self.trainer, "convert", f"--model={self.model}", f"--weights={self.weights}", self.onnx])
        values = self.folder / f"{self.batch}.f32"
        values.write_bytes(planes[: self.batch * 3 * SIDE * SIDE].tobytes())
        theirs = self.onnxruntime(f"--input={values}")["output"]
        log = self.ours("test", self.compared, "--iterations=1")
        ours = [float(value) for value in re.findall(r"\bBatch 0, \S+ = (\S+)", log)]
        self.folded = int((re.search(r"Folded (\d+) layers", log) or [0, 0])[1])
        if len(ours) != len(theirs):
            raise common.Failed(f"{self.name}: {len(ours)} outputs of ours, {len(theirs)} of ONNX Runtime's")
        worst = max(abs(a - b) for a, b in zip(ours, theirs))
        self.difference = worst / ((max(theirs) - min(theirs)) or 1)
        if not self.difference <= TOLERANCE:
            raise common.Failed(f"{self.name}: outputs differ by {self.difference:.1e} of their range")

    def seconds(self, side, iterations):
        """The median of a run."""
        if side == "onnxruntime":
            result = self.onnxruntime(f"--iterations={iterations}")
            self.version = result["version"]
            return statistics.median(result["seconds"])
        shape = f"--shape=data:{self.batch},3,{SIDE},{SIDE}"
        log = self.ours("time", self.model, shape, f"--iterations={iterations}")
        times = [float(ms) / 1000 for ms in re.findall(r"Iteration: \d+ forward time: (\S+) ms", log)]
        if len(times) != iterations:
            raise common.Failed(f"{self.name}: expected {iterations} times in the trainer's log, found {len(times)}")
        return statistics.median(times)

    def measure(self):
        seconds = self.options["seconds"] / (4 if self.options["quick"] else 1)
        sides = list(self.runs)
        each = {side: max(3, min(500, round(seconds / self.seconds(side, 3)))) for side in sides}
        for number in range(self.options["rounds"]):
            for side in sides if number % 2 == 0 else sides[::-1]:
                self.runs[side].append(self.seconds(side, each[side]))
            print(
                f"  {self.name} round {number + 1}: "
                + ", ".join(f"{side} {1000 * self.runs[side][-1]:.2f} ms ({each[side]} times)" for side in sides),
                file=sys.stderr,
            )

    def result(self):
        return {
            "net": self.name,
            "batch": self.batch,
            **{side: statistics.median(seconds) for side, seconds in self.runs.items()},
            "ratio": statistics.median(b / a for a, b in zip(self.runs["ours"], self.runs["onnxruntime"])),
            "goal": GOAL,
            "difference": self.difference,
            "folded": self.folded,
            "runs": self.runs,
        }


HEADER = ["net", "ms", "ONNX Runtime ms", "ratio", "goal", "largest difference", "layers folded"]


def report(results, about, options):
    rows = [
        [
            r["net"],
            f"{1000 * r['ours']:.2f}",
            f"{1000 * r['onnxruntime']:.2f}",
            f"{r['ratio']:.2f}",
            f"{r['goal']:.2f}",
            f"{r['difference']:.0e}",
            r["folded"],
        ]
        for r in results
    ]
    lines = [
        f"{common.taken_where(about, options['threads'])}; ONNX Runtime {about['onnxruntime']}, CPU provider. "
        f"Median of {options['rounds']} alternating rounds, each the median of its passes; f32.",
        "",
        common.table(HEADER, rows),
        "",
        "*largest difference*: between the two sides' outputs on the same images, as a share of their range. *layers folded*: by",
        "ours, into the convolutions before them. Made by `tests/bench/inference.py`.",
        "",
    ]
    verdict = {True: "met", False: "MISSED"}
    lines += [
        f"- {verdict[r['ratio'] >= r['goal']]}: {r['net']}: {r['ratio']:.2f} times ONNX Runtime (>= {r['goal']})"
        for r in results
    ]
    print("\n".join(lines))
    if options["write"]:
        common.save_markdown(options["write"], "inference", "Inference on the CPU against ONNX Runtime", lines, False)


def main():
    options = {"rounds": 5, "nets": ",".join(NETS), "batches": "1,16", "threads": 2, "seconds": 4.0, "quick": False}
    options |= {"flags": "", "python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    batches = [int(batch) for batch in options["batches"].split(",")]
    if len(words) > 1 or options["rounds"] < 1 or not all(1 <= batch <= IMAGES for batch in batches):
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer, python = build / "bin/trainer", common.find_python("onnxruntime", options["python"])
    if python is None:
        sys.exit(f"there is nothing to compare with: {common.how_to_get('onnxruntime')}")
    about = common.provenance(trainer, threads=options["threads"], rounds=options["rounds"])
    about["onnxruntime"] = "absent"
    results, failures = [], 0
    for name in options["nets"].split(","):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            planes, files = write_images(folder), made_net.generated(name)
            try:
                weights = train(trainer, folder, files)
                for batch in batches:
                    case = Case((trainer, python), folder, name, files["deploy.prototxt"], weights, batch, options)
                    case.compare(planes)
                    case.measure()
                    results.append(case.result())
                    about["onnxruntime"] = case.version
            except common.Failed as why:
                common.skip(name, why)
                failures += 1
    report(results, about, options)
    common.save_json(options["json"] or build / "bench/inference.json", {"about": about, "results": results})
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    common.run_main(main)
