#!/usr/bin/env python3
"""Forward and backward passes: BVLC Caffe's against Banyan's, one net at a time, alternating, on all cores.

    caffe_time.py [BUILD] --caffe="COMMAND" [--nets=lenet,resnet50] [--rounds=N] [--folder=DIR] [--write=DIR]

COMMAND is Caffe's program with all that it needs before its `time` (such as "env OPENBLAS_NUM_THREADS=2 caffe", or a
chroot of Debian 11, which has it, with python3-caffe). Nets of models/ with made data, batch normalizations as
BatchNorm and Scale; --folder: where both programs find them under the same path.
"""

import pathlib
import re
import shlex
import statistics
import sys
import tempfile

import common
import made_net

# Name: net, shape of a batch, iterations of a round of Caffe's and of ours.
NETS = {
    "lenet": ("lenet/train_test", (64, 1, 28, 28), 20, 100),
    "quick": ("cifar10_quick/train_test", (100, 3, 32, 32), 8, 40),
    "resnet20": ("cifar10_resnet20/train_test", (64, 3, 32, 32), 6, 30),
    "alexnet": ("alexnet/train", (32, 3, 227, 227), 2, 8),
    "googlenet": ("googlenet/train", (16, 3, 224, 224), 2, 8),
    "resnet50": ("resnet50/train", (8, 3, 224, 224), 2, 6),
}


def milliseconds(command, pattern):
    done = common.run(command)
    return float(re.search(pattern, done.out + done.err)[1])


def main():
    options = {"caffe": "caffe", "nets": ",".join(NETS), "rounds": 3, "folder": "", "write": ""}
    build = common.build_folder(common.parse(sys.argv[1:], options, __doc__))
    trainer = build / "bin/trainer"
    about = common.provenance(trainer)
    rows = []
    with tempfile.TemporaryDirectory(dir=options["folder"] or None) as folder:
        pathlib.Path(folder).chmod(0o755)
        for net in options["nets"].split(","):
            source, shape, caffe_iterations, iterations = NETS[net]
            model = pathlib.Path(folder, f"{net}.prototxt")
            made_net.write(model, source, shape, scales=True)
            times = {"caffe": [], "ours": []}
            for _ in range(int(options["rounds"])):
                times["caffe"].append(
                    milliseconds(
                        [*shlex.split(options["caffe"]), "time", f"--model={model}", f"--iterations={caffe_iterations}"],
                        r"Average Forward-Backward: ([\d.]+) ms",
                    )
                )
                times["ours"].append(
                    milliseconds(
                        [trainer, "time", f"--model={model}", f"--iterations={iterations}", "--cpu=1"],
                        r"Average Forward-Backward: ([\d.]+) ms",
                    )
                )
            caffe, ours = (statistics.median(times[side]) for side in ("caffe", "ours"))
            ratio = statistics.median(a / b for a, b in zip(times["caffe"], times["ours"]))
            rows.append([net, shape[0], f"{caffe:.1f}", f"{ours:.1f}", f"{ratio:.1f}"])
            print(net, *rows[-1][1:], flush=True)
    header = ["net", "batch", "Caffe ms", "Banyan ms", "Caffe / Banyan"]
    lines = [common.taken_where(about, common.threads_of(1)) + f". Medians of {options['rounds']} alternating rounds.", "", common.table(header, rows), "", "Made by `tests/bench/caffe_time.py`."]
    if options["write"]:
        common.save_markdown(options["write"], "caffe_time", "Forward and backward, BVLC Caffe against Banyan", lines, None)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    common.run_main(main)
