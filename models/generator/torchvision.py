"""Maps for torchvision's state dicts (trainer convert --map), of the nets that have its layers in its order.

Not of ResNet-50 and -101 (strides in the first convolution of a block, torchvision: in the second), ResNeXt-50 (its
first pooling is not padded), AlexNet and GoogLeNet (torchvision's are other nets).
"""


def resnet18():
    yield from ("conv1", "bn1")
    for stage in range(1, 5):
        for block in range(2):
            parts = ["downsample.0", "downsample.1"] if stage > 1 and block == 0 else []
            yield from (f"layer{stage}.{block}.{part}" for part in parts + ["conv1", "bn1", "conv2", "bn2"])
    yield "fc"


def densenet121():
    yield from ("features.conv0", "features.norm0")
    for block, count in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, count + 1):
            for part in ("norm1", "conv1", "norm2", "conv2"):
                yield f"features.denseblock{block}.denselayer{layer}.{part}"
        if block < 4:
            yield from (f"features.transition{block}.{part}" for part in ("norm", "conv"))
    yield from ("features.norm5", "classifier")


def mobilenet_v2():
    yield from ("features.0.0", "features.0.1")
    yield from (f"features.1.conv.{part}" for part in ("0.0", "0.1", "1", "2"))
    for block in range(2, 18):
        yield from (f"features.{block}.conv.{part}" for part in ("0.0", "0.1", "1.0", "1.1", "2", "3"))
    yield from ("features.18.0", "features.18.1", "classifier.1")


def vgg16():
    yield from (f"features.{layer}" for layer in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28))
    yield from (f"classifier.{layer}" for layer in (0, 3, 6))


def squeezenet():
    yield "features.0"
    for fire in (3, 4, 6, 7, 9, 10, 11, 12):
        yield from (f"features.{fire}.{part}" for part in ("squeeze", "expand1x1", "expand3x3"))
    yield "classifier.1"


# Folder: torchvision's name, its modules with parameters in the order of our layers.
NETS = {
    "densenet121": ("densenet121", densenet121),
    "mobilenet_v2": ("mobilenet_v2", mobilenet_v2),
    "resnet18": ("resnet18", resnet18),
    "squeezenet": ("squeezenet1_1", squeezenet),
    "vgg16": ("vgg16", vgg16),
}


def blobs_of(layer, after):
    """What torchvision calls the parameters of `layer`, and where they are; `after`: the layer after it."""
    name = layer["name"]
    if layer["type"] == "BatchNorm":
        scale = after["name"]
        return [("weight", f"{scale}/0"), ("bias", f"{scale}/1"), ("running_mean", f"{name}/0"),
                ("running_var", f"{name}/1"), (None, f"{name}/2")]  # fmt: skip
    if layer["type"] == "BN":
        return [(part, f"{name}/{i}") for i, part in enumerate(("weight", "bias", "running_mean", "running_var"))]
    if layer["type"] not in ("Convolution", "InnerProduct"):
        return []
    settings = layer.get("convolution_param") or layer["inner_product_param"]
    return [("weight", f"{name}/0")] + ([("bias", f"{name}/1")] if settings.get("bias_term", True) else [])


def map_text(folder, net):
    """The map for `net`, a deploy net."""
    torch_name, modules = NETS[folder]
    lines = [
        f"# torchvision's {torch_name} (state dict as .safetensors) for the nets of this folder: trainer convert --map=THIS",
        "# IN OUT.caffemodel. torchvision takes RGB in [0, 1] less 0.485, 0.456, 0.406, divided by 0.229, 0.224, 0.225; `bgr`",
        "# makes it blue first.",
    ]
    blobs = [blobs_of(layer, after) for layer, after in zip(net.layers, net.layers[1:] + [None])]
    for module, parts in zip(modules(), filter(None, blobs), strict=True):
        for part, place in parts:
            first = len(lines) == 3
            lines.append(f"{module}.{part} {place}{' bgr' if first else ''}" if part else f"=1 {place}")
    return "\n".join(lines) + "\n"
