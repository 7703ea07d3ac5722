"""Which kinds of layer take how much of an iteration of the nets in models/: the part of layers.py that `--shares` runs."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import common

MODELS = common.REPOSITORY / "models"
# Nets whose files are in models/ itself, and the batches of their solvers.
WRITTEN = {
    "lenet": "data:64,1,28,28",
    "lenet/sync_bn": "data:64,1,28,28",
    "cifar10_quick": "data:100,3,32,32",
    "cifar10_resnet20": "data:128,3,32,32",
    "digits": "data:64,1,28,28",
}
# Where README.md's shapes, chosen to run anywhere, are not what the net is trained with on a device.
BATCHES = {
    "cifar10_resnet56": "data:128,3,32,32",
    "fcn8s": "data:1,3,500,500;label:1,1,500,500",
    "mnist_autoencoder": "data:100,1,28,28",
    "mnist_siamese": "data:64,1,28,28;data_p:64,1,28,28",
    "sphereface20": "data:32,3,112,96",
}
SMALL, BATCH = "data:2,", "data:8,"
LIMIT = 0.01
SECONDS, LARGEST = 3, 100


def kind(layer):
    """What a layer computes, as finely as kernels differ: from its text in a net."""

    def numbers(*fields):
        found = [re.search(rf"\b{field}: *\[?([\d, ]+)", layer) for field in fields]
        return [int(number) for one in found if one for number in one[1].replace(",", " ").split()]

    type = re.search(r'\btype: "(\w+)"', layer)[1]
    groups, outputs = (numbers("group") or [1])[0], (numbers("num_output") or [0])[0]
    space = len(numbers("kernel_size")) == 3 or numbers("kernel_depth")
    if type in ("Convolution", "Deconvolution"):
        if groups > 1:
            return f"{type} {'depthwise' if groups == outputs else 'in groups'}"
        if max(numbers("dilation"), default=1) > 1:
            return f"{type} dilated"
    if type == "DepthwiseConvolution":
        return "Convolution depthwise"
    if "global_pooling: true" in layer:
        return f"{type} global"
    if "WITHIN_CHANNEL" in layer:
        return f"{type} within"
    return f"{type} 3-D" if space else type


def nets(folder):
    """Names of all nets, their files and the shapes of their data."""
    subprocess.run([sys.executable, "-B", MODELS / "generate.py", f"--out={folder}"], check=True)
    listed = common.run([sys.executable, "-B", MODELS / "generate.py", "--list"]).out
    for row in re.findall(r"^\| `(\w+)`.*`([^`]+)` \|$", listed, re.M):
        yield row[0], folder / row[0] / "train_val.prototxt", BATCHES.get(row[0], row[1].replace(SMALL, BATCH))
    for name, shape in WRITTEN.items():
        place, _, prefix = name.partition("/")
        yield name, MODELS / place / f"{prefix + '_' if prefix else ''}train_test.prototxt", shape


def shares_of(trainer, file, shape, threads):
    """Kind of layer to its share of forward and backward passes; what runs as a part of another layer counts there."""

    def times(iterations):
        words = [f"--model={file}", f"--shape={shape}", "--cpu=1", f"--threads_per_device={threads}"]
        return json.loads(common.run([trainer, "time", *words, f"--iterations={iterations}", "--json"]).out)

    one = times(1)["milliseconds"]["iteration"]
    layers = times(max(1, min(LARGEST, round(1000 * SECONDS / one))))["layers"]
    kinds = {re.search(r'name: "([^"]+)"', text)[1]: kind(text) for text in file.read_text().split("\nlayer {")[1:]}
    sums = {}
    for layer in layers:
        what = kinds.get(layer["name"], "Split")
        sums[what] = sums.get(what, 0) + layer["forward"] + layer["backward"]
    total = sum(sums.values())
    return {what: sum / total for what, sum in sums.items()}


def measure(trainer, threads, names):
    """Of the nets of this comma list, or of all."""
    with tempfile.TemporaryDirectory() as place:
        shares = {}
        for name, file, shape in nets(pathlib.Path(place)):
            if names and name not in names.split(","):
                continue
            shares[name] = {"shape": shape, "shares": shares_of(trainer, file, shape, threads)}
            print(f"  {name}", file=sys.stderr)
        return shares


def lines(nets, about, threads):
    """The section of layers.md."""
    of_kind = {}
    for name, net in nets.items():
        for what, share in net["shares"].items():
            of_kind.setdefault(what, []).append((share, name))
    most = sorted((sorted(found, reverse=True) + [what] for what, found in of_kind.items()), reverse=True)
    rows = [
        [what, f"{100 * found[0][0]:.3g}", "yes" if found[0][0] > LIMIT else "no",
         ", ".join(f"{name} {100 * share:.2g}" for share, name in found if share > LIMIT) or found[0][1]]
        for *found, what in most
    ]  # fmt: skip
    return [
        f"{common.taken_where(about, threads)}. Shares of the time of all layers of an iteration (`trainer time`), {len(nets)} nets.",
        "",
        common.table(["kind of layer", "most of a net, %", "more than 1 %", "where, %"], rows),
        "",
        "Batches: " + ", ".join(f"{name} {net['shape']}" for name, net in nets.items()) + ".",
        "What runs as a part of another layer (a ReLU after a convolution) counts there. Split: sums of gradients of blobs that several",
        "layers read.",
        "Made by `tests/bench/layers.py --shares`.",
    ]
