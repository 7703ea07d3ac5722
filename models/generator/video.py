"""Nets for clips. A record holds a clip: its channels are those of the first frame, then those of the second etc."""

from .blocks import *
from .classification import alexnet_layers, inception_bn_layers
from .registry import model, multistep, sgd, step


@model(
    "c3d",
    "C3D (Tran et al. 2015)",
    78409573,
    "UCF-101, clips of 16 frames, 48 x 112 x 112",
    "data:1,48,112,112",
    sgd(0.003, 60000, 0.005, step(20000), test=(1000, 5000)),
)
def c3d(net):
    mean = {"crop_size": 112, "mean_value": [90, 98, 102] * 16}
    blob = source(net, ["data", "label"], [48, 112, 112], "run/ucf101", 30, 10, {**mean, "mirror": True}, mean)
    blob = reshape(net, blob, "frames", [0, 16, 3, 112, 112])
    blob = net.layer("Permute", "clip", blob, permute_param={"order": [0, 2, 1, 3, 4]})
    for stage, count, channels in ((1, 1, 64), (2, 1, 128), (3, 2, 256), (4, 2, 512), (5, 2, 512)):
        for i in range(count):
            name = f"{stage}{chr(ord('a') + i)}"
            blob = conv_relu(
                net,
                blob,
                f"conv{name}",
                channels,
                [3, 3, 3],
                f"relu{name}",
                pad=[1, 1, 1],
                filler=gaussian(0.01),
                bias_filler=constant(0 if stage == 1 else 1),
            )
        window = [1 if stage == 1 else 2, 2, 2]
        blob = pool(net, blob, f"pool{stage}", "MAX", window, window)
    for i in (6, 7):
        blob = relu(net, inner_product(net, blob, f"fc{i}", 4096, gaussian(0.005), constant(1)), f"relu{i}")
        blob = dropout(net, blob, f"drop{i}", 0.5)
    classes(net, inner_product(net, blob, "fc8", 101, gaussian(0.01)), top_5=False)


def tsn(net, folder, channels, transform, ratio, mirror):
    """Three snippets of a video share the net; the video's scores are the means of theirs."""
    blob = source(
        net,
        ["data", "label"],
        [3 * channels, 224, 224],
        folder,
        128,
        1,
        {"crop_size": 224, "mirror": mirror, **transform},
        {"crop_size": 224, **transform},
    )
    blob = inception_bn_layers(net, reshape(net, blob, "snippets", [-1, channels, 224, 224]), frozen=True)
    blob = inner_product(net, dropout(net, blob, "dropout", ratio), "fc-action", 101, gaussian(0.001))
    blob = pool(net, reshape(net, blob, "snippet_scores", [-1, 1, 3, 101]), "consensus", "AVE", [3, 1])
    classes(net, reshape(net, blob, "scores", [0, 101]), top_5=False)


TSN_NOTES = (
    "All normalizations but the first keep the statistics and parameters that they start with (partial BN):\n"
    "start from a net trained on ImageNet: --weights=FILE"
)


@model(
    "tsn_rgb",
    "Temporal segment networks (Wang et al. 2016), the stream that sees images",
    10373765,
    "UCF-101, 3 images per video, 9 x 224 x 224",
    "data:1,9,224,224",
    sgd(0.001, 3500, 0.0005, multistep(1500, 3000), test=(950, 500), snapshot=500, clip_gradients=40),
    norm="BN",
    notes=TSN_NOTES,
)
def tsn_rgb(net):
    tsn(net, "run/ucf101_rgb", 3, {"mean_value": MEAN * 3}, 0.8, True)


@model(
    "tsn_flow",
    "Temporal segment networks (Wang et al. 2016), the stream that sees optical flow",
    10395717,
    "UCF-101, 3 stacks of 5 fields (x, y) per video, 30 x 224 x 224",
    "data:1,30,224,224",
    sgd(0.005, 18000, 0.0005, multistep(10000, 16000), test=(950, 500), snapshot=1000, clip_gradients=20),
    norm="BN",
    notes=TSN_NOTES,
)
def tsn_flow(net):
    tsn(net, "run/ucf101_flow", 10, {"mean_value": [128] * 30}, 0.7, False)


@model(
    "lrcn",
    "LRCN for activities (Donahue et al. 2014): CaffeNet's fc6 of each frame, then an LSTM",
    44570341,
    "UCF-101, clips of 16 frames, 48 x 227 x 227",
    "clips:1,48,227,227",
    sgd(0.001, 30000, 0.005, step(20000), test=(100, 1000), snapshot=5000, clip_gradients=5),
    notes="Start from CaffeNet: --weights=bvlc_reference_caffenet.caffemodel",
)
def lrcn(net):
    """Recurrent layers want time before the batch. `cont` is 0 where a clip begins."""
    frames = 16
    if net.deploy:
        blob = net.layer("Input", "data", (), "data", input_param={"shape": {"dim": [frames, 3, 227, 227]}})
        net.layer("Input", "cont", (), "cont", input_param={"shape": {"dim": [frames, 1]}})
    else:
        transform = {"crop_size": 227, "mean_value": MEAN * frames}
        blob = source(
            net,
            ["clips", "clip_label"],
            [3 * frames, 227, 227],
            "run/ucf101",
            24,
            3,
            {**transform, "mirror": True},
            transform,
            name="clips",
        )
        blob = reshape(net, blob, "frames", [0, frames, 3, 227, 227])
        blob = net.layer("Permute", "frames_in_time", blob, permute_param={"order": [1, 0, 2, 3, 4]})
        blob = reshape(net, blob, "data", [-1, 3, 227, 227])
        row = reshape(net, "clip_label", "label_row", [1, -1])
        net.layer("Tile", "label", row, tile_param={"axis": 0, "tiles": frames})
        first = net.layer("Power", "cont_first", row, power_param={"scale": 0, "shift": 0})
        later = net.layer("Power", "cont_one", row, power_param={"scale": 0, "shift": 1})
        later = net.layer("Tile", "cont_later", later, tile_param={"axis": 0, "tiles": frames - 1})
        net.layer("Concat", "cont", [first, later], concat_param={"axis": 0})
    blob = alexnet_layers(net, blob, norm_first=False, bias=1, last=6)
    blob = reshape(net, blob, "fc6_in_time", [frames, -1, 4096])
    blob = net.layer(
        "LSTM",
        "lstm1",
        [blob, "cont"],
        recurrent_param={
            "num_output": 256,
            "weight_filler": {"type": "uniform", "min": -0.01, "max": 0.01},
            "bias_filler": constant(),
        },
    )
    blob = dropout(net, blob, "drop_lstm1", 0.5)
    blob = inner_product(net, blob, "fc8-final", 101, gaussian(0.01), axis=2)
    if net.deploy:
        return net.layer("Softmax", "prob", blob, softmax_param={"axis": 2})
    accuracy(net, blob, axis=2)
    return net.layer("SoftmaxWithLoss", "loss", [blob, "label"], softmax_param={"axis": 2})
