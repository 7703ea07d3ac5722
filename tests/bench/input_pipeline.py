#!/usr/bin/env python3
"""Input alone (read, decode, augment, batch): our sources and torchvision's DataLoader on the same JPEG files.

usage: input_pipeline.py [BUILD_FOLDER] [options]          (default build/release)
  --list=FILE --root=FOLDER/   image list (one "path label" per line) and the prefix of each path; default: synthetic
  --count=5000 --size=32       number and side of the synthetic images
  --crop=32 --pad=4 --batch=128    the augmentation: pad, crop at random, mirror, subtract means, scale
  --cores=1                    both sides run on this many cores
  --rounds=5 --seconds=3       alternating rounds; about this long each
  --python=PROGRAM             the interpreter that has torchvision (default: the one running this)
  --json=FILE                  default BUILD_FOLDER/bench/input_pipeline.json
  --write=FOLDER               also FOLDER/input_pipeline.md and input_pipeline.svg

Ours are the ImageData layer on the files and the Data layer on an LMDB of the files' bytes and on one of raw pixels. Files
come from the page cache. The figures are for whole layers, with batches ready for the first convolution.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile

import common

GOAL = 5  # ImageData over torchvision's default reader, per core
TRANSFORM = "transform_param { mean_value: 125 mean_value: 122 mean_value: 115 scale: 0.0156 mirror: true crop_size: %d pad: %d }"
NET = 'layer { name: "data" type: "%s" top: "data" top: "label" %s %s }\nlayer { name: "end" type: "Silence" bottom: "data" bottom: "label" }\n'


def our_nets(folder, root, listing, options):
    """{name: prototxt} of the sources to time; writes the LMDB folders next to them."""
    tool, batch, cores = options["build"] / "bin/convert_imageset", options["batch"], options["cores"]
    transform = TRANSFORM % (options["crop"], options["pad"])
    sources = {
        "ImageData": (
            "ImageData",
            f'image_data_param {{ source: "{listing}" root_folder: "{root}" batch_size: {batch} shuffle: true threads: {cores} }}',
        )
    }
    for name, flags in (("LMDB of JPEG", ["--encoded"]), ("LMDB of pixels", [])):
        database = f"{folder}/{'_'.join(name.split())}"
        common.run([tool, "--shuffle", *flags, root, listing, database])
        sources[name] = (
            "Data",
            f'data_param {{ source: "{database}" backend: LMDB batch_size: {batch} threads: {cores} }}',
        )
    return {name: NET % (kind, settings, transform) for name, (kind, settings) in sources.items()}


def our_rate(trainer, folder, net, cores, options):
    """Samples per second of our source with its own threads, as it measures itself."""
    model = pathlib.Path(folder) / "net.prototxt"
    model.write_text(net)
    batches = 200
    while True:
        out = common.run(
            [trainer, "time", "--data", "--json", f"--model={model}", f"--iterations={batches}", "--cpu=1"], cores=cores
        ).out
        rate = json.loads(out)["layers"][0]["samples_per_second"]["pipeline"]
        wanted = int(rate * options["seconds"] / options["batch"])
        if batches >= wanted / 2:
            return rate
        batches = wanted


def torch_rate(python, root, listing, reader, cores, options):
    workers = 0 if len(cores) == 1 else len(cores)
    return float(
        common.run(
            [
                python,
                common.HERE / "torch_input.py",
                "rate",
                root,
                listing,
                reader,
                options["batch"],
                options["crop"],
                options["pad"],
                workers,
                options["seconds"],
            ],
            cores=cores,
        ).out
    )


def contenders(folder, root, listing, python, options):
    """{name: function() -> samples per second}"""
    cores = set(sorted(os.sched_getaffinity(0))[: options["cores"]])
    trainer, run = options["build"] / "bin/trainer", {}
    for name, net in our_nets(folder, root, listing, options).items():
        run[name] = lambda net=net: our_rate(trainer, folder, net, cores, options)
    for reader, name in (("pil", "torchvision (PIL)"), ("io", "torchvision (io, v2)")):
        if python:
            run[name] = lambda reader=reader: torch_rate(python, root, listing, reader, cores, options)
    return run


def measure(root, listing, python, options):
    """{name: [samples per second of each round]}"""
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        if not listing:
            common.run(
                [python, common.HERE / "torch_input.py", "make", f"{folder}/images", options["count"], options["size"]]
            )
            root, listing = f"{folder}/images/", f"{folder}/images/list.txt"
        run = contenders(folder, root, listing, python, options)
        for number in range(options["rounds"]):
            for name in list(run):
                try:
                    rates.setdefault(name, []).append(run[name]())
                except common.Failed as why:
                    common.skip(name, why)
                    del run[name]
            print(
                f"  round {number + 1}: "
                + ", ".join(f"{name} {values[-1]:.0f}" for name, values in rates.items() if values),
                file=sys.stderr,
            )
    return {name: values for name, values in rates.items() if values}


def ratio(rates, name):
    """Median of the rounds' ratios to torchvision's default reader; None without it."""
    pairs = list(zip(rates[name], rates.get("torchvision (PIL)", [])))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def report(rates, about, options):
    over = {name: ratio(rates, name) for name in rates}
    rows = [
        [name, f"{statistics.median(values):.0f}", f"{over[name]:.2f}" if over[name] else "-"]
        for name, values in rates.items()
    ]
    cores = f"{options['cores']} core{'s' if options['cores'] > 1 else ''}"
    shown = common.table(["source", f"samples/s on {cores}", "over torchvision (PIL)"], rows)
    print(shown)
    if over.get("ImageData"):
        verdict = "met" if over["ImageData"] >= GOAL else "MISSED"
        print(f"\n{verdict}: ImageData over torchvision (PIL): {over['ImageData']:.2f} (>= {GOAL})")
    if not options["write"]:
        return
    medians = [statistics.median(values) for values in rates.values()]
    drawing = {
        "kind": "bars",
        "title": f"Input alone, {cores}",
        "y": "samples/s",
        "labels": list(rates),
        "series": {"median": medians},
    }
    plotted = common.plot(options["write"], "input_pipeline", options["python"], drawing)
    head = (
        f"{about['date']}, {about['cpu']}, {cores}; {about['trainer']}; {about['images']}; "
        f"crop {options['crop']}, pad {options['pad']}, mirror. Median of {options['rounds']} alternating rounds."
    )
    lines = [head, "", shown, "", "Made by `tests/bench/input_pipeline.py`."]
    common.save_markdown(options["write"], "input_pipeline", "Input pipeline against torchvision", lines, plotted)


def main():
    options = {"list": "", "root": "", "count": 5000, "size": 32, "crop": 32, "pad": 4, "batch": 128, "cores": 1}
    options |= {"rounds": 5, "seconds": 3.0, "python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    if len(words) > 1 or options["rounds"] < 1 or options["cores"] < 1:
        sys.exit(__doc__)
    build = options["build"] = common.build_folder(words)
    python = common.find_python("torchvision", options["python"])
    if python is None:
        common.skip("torchvision's side", common.how_to_get("torchvision"))
        if not options["list"]:
            sys.exit("without torchvision no images can be made: give --list and --root")
    images = "the given list" if options["list"] else f"{options['count']} made JPEG files of {options['size']} pixels"
    about = common.provenance(build / "bin/trainer", cores_used=options["cores"], images=images)
    rates = measure(options["root"], options["list"], python, options)
    report(rates, about, options)
    result = {"about": about, "samples_per_second": rates}
    common.save_json(options["json"] or build / "bench/input_pipeline.json", result)


if __name__ == "__main__":
    common.run_main(main)
