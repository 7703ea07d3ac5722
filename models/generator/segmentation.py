"""Nets that classify pixels. Labels are grey images: the value of a pixel is its class, or one that is ignored."""

from .blocks import *
from .classification import VGG16, bottleneck_stages
from .registry import FIXED, model, poly, sgd

FROM_VGG = "Start from VGG-16's convolutions: --weights=VGG_ILSVRC_16_layers.caffemodel"


def images_and_labels(net, folder, shape, batch, test_batch, mean):
    """Two data sets with the same records in the same order. Nothing random may be done to the one alone."""
    blob = source(net, ["data"], [3, *shape], folder, batch, test_batch, {"mean_value": mean}, {"mean_value": mean})
    if not net.deploy:
        source(net, ["label"], [1, *shape], folder, batch, test_batch, name="label", suffix="label_lmdb")
    return blob


def pixel_classes(net, scores, ignored, **loss):
    if net.deploy:
        return net.layer("Softmax", "prob", scores)
    accuracy(net, scores, ignore_label=ignored)
    return net.layer("SoftmaxWithLoss", "loss", [scores, "label"], loss_param={"ignore_label": ignored, **loss})


@model(
    "fcn8s",
    "FCN-8s, all at once (Long et al. 2015)",
    134369567,
    "PASCAL VOC, images of any size, 21 classes",
    "data:1,3,64,64;label:1,1,64,64",
    sgd(1e-10, 300000, 0.0005, FIXED, momentum=0.99, test=(736, 4000), snapshot=4000),
    notes="One image per device and the sum over its pixels as the loss, hence the small rate.\n"
    "Start from VGG-16 with fc6 and fc7 cast to convolutions: --weights=FILE",
)
def fcn8s(net):
    """Each class is enlarged by itself (group), so that the filler gives bilinear weights; they stay as they are."""
    classes = 21

    def score(bottom, name):
        return conv(net, bottom, name, classes, 1, filler=constant())

    def enlarge(bottom, name, factor):
        return conv(
            net,
            bottom,
            name,
            classes,
            2 * factor,
            factor,
            group=classes,
            bias=False,
            type="Deconvolution",
            filler={"type": "bilinear"},
            param=[{"lr_mult": 0}],
        )

    def cut(bottom, like, name, offset):
        return net.layer("Crop", name, [bottom, like], crop_param={"axis": 2, "offset": offset})

    data = blob = images_and_labels(net, "run/voc", (500, 500), 1, 1, [104.00699, 116.66877, 122.67892])
    pools = {}
    for stage, count, channels in VGG16:
        for i in range(1, count + 1):
            blob = conv_relu(
                net,
                blob,
                f"conv{stage}_{i}",
                channels,
                3,
                f"relu{stage}_{i}",
                pad=100 if (stage, i) == (1, 1) else 1,
                filler=MSRA,
            )
        blob = pools[stage] = pool(net, blob, f"pool{stage}", "MAX", 2, 2)
    for i, kernel in ((6, 7), (7, 1)):
        blob = conv_relu(net, blob, f"fc{i}", 4096, kernel, f"relu{i}", filler=gaussian(0.005))
        blob = dropout(net, blob, f"drop{i}", 0.5)
    blob = enlarge(score(blob, "score_fr"), "upscore2", 2)
    for stage, scale, offset, name, factor in ((4, 0.01, 5, "upscore_pool4", 2), (3, 0.0001, 9, "upscore8", 8)):
        scaled = net.layer(
            "Scale", f"scale_pool{stage}", pools[stage], param=[{"lr_mult": 0}], scale_param={"filler": constant(scale)}
        )
        part = cut(score(scaled, f"score_pool{stage}"), blob, f"score_pool{stage}c", offset)
        blob = enlarge(add(net, blob, part, f"fuse_pool{stage}"), name, factor)
    pixel_classes(net, cut(blob, data, "score", 31), 255, normalize=False)


@model(
    "segnet",
    "SegNet (Badrinarayanan et al. 2015)",
    29449355,
    "CamVid, 3 x 360 x 480, 11 classes; label 11 is ignored",
    "data:1,3,360,480;label:1,1,360,480",
    sgd(0.1, 40000, 0.0005, FIXED, test=(233, 1000), snapshot=4000),
    norm="BatchNorm",
    notes=FROM_VGG + "\nClasses are weighted by the median of their frequencies in CamVid over each: other data need other weights.",
)
def segnet(net):
    def cn(bottom, name, channels):
        return conv_norm(
            net,
            bottom,
            name,
            channels,
            3,
            f"{name}_bn",
            f"{name}_scale",
            f"relu{name.removeprefix('conv')}",
            bias=True,
            pad=1,
            param=WEIGHT_AND_BIAS,
        )

    blob = images_and_labels(net, "run/camvid", (360, 480), 12, 1, [104, 117, 123])
    for stage, count, channels in VGG16:
        for i in range(1, count + 1):
            blob = cn(blob, f"conv{stage}_{i}", channels)
        blob = pool(net, blob, f"pool{stage}", "MAX", 2, 2, top=[f"pool{stage}", f"pool{stage}_mask"])
    sizes = {5: (23, 30), 4: (45, 60), 3: (90, 120), 2: (180, 240), 1: (360, 480)}
    narrower = {5: 512, 4: 256, 3: 128, 2: 64}
    for stage, count, channels in reversed(VGG16):
        height, width = sizes[stage]
        blob = net.layer(
            "Upsample",
            f"upsample{stage}",
            [blob, f"pool{stage}_mask"],
            upsample_param={"upsample_h": height, "upsample_w": width},
        )
        for i in range(count, 0, -1):
            if (stage, i) == (1, 1):
                blob = conv(net, blob, "conv1_1_D", 11, 3, pad=1, filler=MSRA)
            else:
                blob = cn(blob, f"conv{stage}_{i}_D", channels if i > 1 else narrower[stage])
    weights = [0.2595, 0.1826, 4.5640, 0.1417, 0.9051, 0.3826, 9.6446, 1.8418, 0.6823, 6.2478, 7.3614]
    pixel_classes(net, blob, 11, weight_by_label_freqs=True, class_weighting=weights)


@model(
    "pspnet50",
    "PSPNet-50 (Zhao et al. 2016) with its auxiliary loss",
    49180908,
    "ADE20K, 3 x 473 x 473, 150 classes",
    "data:1,3,473,473;label:1,1,473,473",
    sgd(0.01, 150000, 0.0001, poly(0.9), test=(2000, 10000)),
    norm="BatchNorm",
    notes="Batches of 16 in all: synchronize the batch normalization (sync_bn_solver.prototxt, or --sync_bn=on).",
)
def pspnet50(net):
    classes = 150

    def cn(bottom, name, channels, kernel, relu_name=None, **more):
        return conv_norm(net, bottom, name, channels, kernel, relu_name=relu_name or f"{name}/relu", **more)

    def enlarged_scores(blob, name):
        return net.layer("Interp", f"{name}_interp", conv(net, blob, name, classes, 1), interp_param={"zoom_factor": 8})

    blob = images_and_labels(net, "run/ade20k", (473, 473), 16, 1, [103.939, 116.779, 123.68])
    blob = cn(blob, "conv1_1_3x3_s2", 64, 3, stride=2, pad=1)
    blob = cn(blob, "conv1_2_3x3", 64, 3, pad=1)
    blob = cn(blob, "conv1_3_3x3", 128, 3, pad=1)
    blob = pool(net, blob, "pool1_3x3_s2", "MAX", 3, 2, 1)
    blob = bottleneck_stages(net, blob, (64, 128, 256, 512), dilations=(1, 1, 2, 4))
    if not net.deploy:
        aux = dropout(net, cn("conv4_6", "conv_aux", 256, 3, pad=1), "conv_aux_dropout", 0.1)
        net.layer(
            "SoftmaxWithLoss",
            "loss_aux",
            [enlarged_scores(aux, "conv_aux_score"), "label"],
            loss_weight=0.4,
            loss_param={"ignore_label": 255},
        )
    parts = [blob]
    for bins in (1, 2, 3, 6):
        name = f"conv5_3_pool{bins}"
        part = cn(pool(net, blob, name, "AVE", 60 // bins, 60 // bins), f"{name}_conv", 512, 1)
        parts.append(net.layer("Interp", f"{name}_interp", part, interp_param={"height": 60, "width": 60}))
    blob = dropout(net, cn(concat(net, parts, "conv5_3_concat"), "conv5_4", 512, 3, pad=1), "conv5_4_dropout", 0.1)
    pixel_classes(net, enlarged_scores(blob, "conv6"), 255)
