#!/usr/bin/env python3
"""The time of single layers, forward and backward: ours, and the same operator in PyTorch or torchvision, in turn.

usage: layers.py [BUILD_FOLDER] [options]          (default build/release)
  --rounds=5          every figure is a median over them
  --cases=A,B         only these; --cases=list prints all, --cases=none the types of layer that have no case, and why
  --shares            instead: how much of the nets in models/ each kind of layer takes (layer_shares.py)
  --nets=A,B          with --shares: only these
  --threads=2         threads of each side
  --seconds=0.5       that a side computes in each round, about
  --quick             a fifth of that: for trying the script, not for quoting
  --python=PROGRAM    the interpreter that has torch and torchvision (default: the one running this)
  --json=FILE         default BUILD_FOLDER/bench/layers.json (layer_shares.json)
  --write=FOLDER      also FOLDER/layers.md

Ours is the layer's line in `trainer time --json` of a net of that layer, whose inputs are Parameter layers with given values;
images and volumes come channels-last, as from a convolution. PyTorch's side (torch_layers.py) gets the same values and is timed
channels-last and contiguous; the faster counts. Where the sums of both sides' outputs must agree, the case ends if they do not.
"of memory": the time in which a plain copy would move as many bytes as the layer must at least move (inputs read, outputs written,
the same for the gradients), over ours. Layers that only move values can reach 1, and more if the values stay in the caches.
"""

import array
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

import common
import layer_shares

# Of the sum of the magnitudes of the outputs: both sides add up f32 values, in different orders.
TOLERANCE = 1e-4
LARGEST = 500  # iterations in a run
COPIED = 256 << 20  # bytes: more than caches hold


# ---------------------------------------------------------------- values


def repeated(draw, count):
    """`count` values of which a block is drawn: drawing all would take longer than the measurement."""
    block = array.array("f", (draw() for _ in range(min(count, 100003))))
    return (block * (count // len(block) + 1))[:count]


def signed(shape, noise):
    return repeated(lambda: noise.uniform(-1, 1), math.prod(shape))


def positive(shape, noise):
    return repeated(lambda: noise.uniform(0.05, 1), math.prod(shape))


def small(shape, noise):
    return repeated(lambda: noise.uniform(-0.05, 0.05), math.prod(shape))


def zero_or_one(shape, noise):
    return repeated(lambda: noise.randrange(2), math.prod(shape))


def below(limit):
    return lambda shape, noise: repeated(lambda: noise.randrange(limit), math.prod(shape))


def above_blank(limit):
    """Classes from 1 on."""
    return lambda shape, noise: repeated(lambda: noise.randrange(1, limit), math.prod(shape))


def within(length):
    """Places from the first to the last of so many pixels."""
    return lambda shape, noise: repeated(lambda: noise.uniform(0, length - 1), math.prod(shape))


def points(images, length):
    """Rows of image, row and column, as many of each image."""

    def draw(shape, noise):
        values = array.array("f")
        for row in range(shape[0]):
            values.extend((row * images // shape[0], noise.randrange(length), noise.randrange(length)))
        return values

    return draw


def columns_of_labels(labels, limit):
    """Time steps x sequences: so many labels each, then -1."""

    def draw(shape, noise):
        values = array.array("f", (noise.randrange(limit) for _ in range(labels * shape[1])))
        values.extend([-1.0] * (math.prod(shape) - len(values)))
        return values

    return draw


def continued(shape, noise):
    """Sequences that begin with the first time step."""
    return array.array("f", [0.0] * shape[1] + [1.0] * (shape[1] * (shape[0] - 1)))


def boxes_with_classes(classes):
    """Rows of x1, y1, x2, y2, class in an image of 1000 x 600 pixels."""

    def draw(shape, noise):
        values = array.array("f")
        for _ in range(shape[0]):
            x, y = noise.randrange(0, 800), noise.randrange(0, 400)
            values.extend((x, y, x + noise.randrange(60, 199), y + noise.randrange(60, 199), noise.randrange(1, classes)))
        return values

    return draw


def detections(images, classes):
    """Rows of image, class, confidence, box, as DetectionOutput gives them."""

    def draw(shape, noise):
        values = array.array("f")
        for row in range(shape[2]):
            x, y, w, h = (noise.uniform(*bounds) for bounds in ((0, 0.5), (0, 0.5), (0.1, 0.5), (0.1, 0.5)))
            values.extend((row * images // shape[2], noise.randrange(1, classes), noise.random(), x, y, x + w, y + h))
        return values

    return draw


def image_size(shape, noise):
    return array.array("f", (608, 1008))


def image_info(shape, noise):
    return array.array("f", (608, 1008, 1))


def regions(width, height):
    def draw(shape, noise):
        values = array.array("f")
        for _ in range(shape[0]):
            x, y = noise.randrange(0, width - 200), noise.randrange(0, height - 200)
            values.extend((0, x, y, x + noise.randrange(60, 199), y + noise.randrange(60, 199)))
        return values

    return draw


def listed_boxes(shape, noise):
    """Lists of boxes, one for each sample."""
    return boxes_with_classes(2)((shape[0] * shape[1], 5), noise)


def grid_boxes(shape, noise):
    """Left, top, right and bottom from the corner of each cell."""
    values = array.array("f")
    for _ in range(shape[0]):
        for low, high in ((-60, 0), (-40, 0), (16, 80), (16, 60)):
            values.extend(noise.uniform(low, high) for _ in range(shape[2] * shape[3]))
    return values


def labelled_objects(shape, noise):
    """DetectNet's labels: a first row, then left, top, width, height, angle and class in an image of 1248 x 352 pixels."""
    values = array.array("f")
    for _ in range(shape[0]):
        values.extend((shape[2] - 1, 16, *[0] * 14))
        for _ in range(shape[2] - 1):
            values.extend((noise.randrange(1000), noise.randrange(250), noise.randrange(40, 199), noise.randrange(30, 99)))
            values.extend((0, 1, *[0] * 10))
    return values


def found_in_fields(classes):
    """What positions 8 pixels apart shall find: class, centre, width and height, overlap; one in 50 an object."""

    def draw(shape, noise):
        values, positions = array.array("f"), shape[2] * shape[3]
        for _ in range(shape[0]):
            objects = [noise.random() < 0.02 for _ in range(positions)]
            values.extend(noise.randrange(1, classes) if found else 0 for found in objects)
            for step in (lambda at: at % shape[3], lambda at: at // shape[3]):
                values.extend(8 * step(at) + noise.uniform(0, 8) for at in range(positions))
            values.extend(noise.uniform(20, 90) for _ in range(2 * positions))
            values.extend(noise.uniform(0.5, 1) if found else noise.uniform(0, 0.5) for found in objects)
        return values

    return draw


def rows_of_objects(images, classes):
    """Rows of image, x1, y1, x2, y2, class, whether it is ignored, difficult."""

    def draw(shape, noise):
        values = array.array("f")
        for row in range(shape[0]):
            x, y = noise.randrange(0, 400), noise.randrange(0, 400)
            box = (x, y, x + noise.randrange(40, 199), y + noise.randrange(40, 199))
            values.extend((row % images, *box, noise.randrange(1, classes), 0, 0))
        return values

    return draw


def boxes_of_regions(classes):
    """Rows of class, x1, y1, x2, y2, overlap."""

    def draw(shape, noise):
        values = array.array("f")
        for _ in range(shape[0]):
            x, y = noise.randrange(0, 400), noise.randrange(0, 400)
            values.extend((noise.randrange(classes), x, y, x + noise.randrange(40, 199), y + noise.randrange(40, 199), 0.6))
        return values

    return draw


def verdicts(shape, noise):
    """ScoreDetections' rows."""
    values = listed_boxes(shape, noise)
    values[4::5] = array.array("f", (noise.randrange(4) for _ in range(shape[0] * shape[1])))
    return values


def priors(shape, noise):
    """Boxes of many sizes all over the image, and Caffe's variances."""
    count, values = shape[2] // 4, array.array("f")
    for _ in range(count):
        x, y, w, h = noise.random(), noise.random(), noise.uniform(0.05, 0.5), noise.uniform(0.05, 0.5)
        values.extend((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
    values.extend((0.1, 0.1, 0.2, 0.2) * count)
    return values


def truth(images, classes):
    """Rows of image, class, number, box, difficult: the same number of boxes in each image."""

    def draw(shape, noise):
        values, each = array.array("f"), shape[2] // images
        for row in range(shape[2]):
            x, y, w, h = (noise.uniform(*bounds) for bounds in ((0, 0.5), (0, 0.5), (0.1, 0.5), (0.1, 0.5)))
            values.extend((row // each, noise.randrange(1, classes), row % each, x, y, x + w, y + h, 0))
        return values

    return draw


def objects_in_pixels(classes):
    """Rows of x1, y1, x2, y2, class in images of 416 x 416 pixels."""

    def draw(shape, noise):
        values = array.array("f")
        for _ in range(shape[0] * shape[1] // 5):
            x, y = noise.randrange(0, 216), noise.randrange(0, 216)
            values.extend((x, y, x + noise.randrange(40, 199), y + noise.randrange(40, 199), noise.randrange(classes)))
        return values

    return draw


def cell_objects(classes):
    """YOLO's labels: of the first 20 rows of each image class, centre and size."""

    def draw(shape, noise):
        values = array.array("f")
        for _ in range(shape[0]):
            for _ in range(20):
                x, y, w, h = (noise.uniform(*bounds) for bounds in ((0, 1), (0, 1), (0.05, 0.5), (0.05, 0.5)))
                values.extend((noise.randrange(classes), x, y, w, h))
            values.extend([0.0] * 5 * (shape[2] - 20))
        return values

    return draw


def probabilities(classes):
    """Of each box; background is nearly always the likeliest."""

    def draw(shape, noise):
        def box():
            scores = [noise.random() ** 12 for _ in range(classes)]
            scores[0] += 8
            return [score / sum(scores) for score in scores]

        boxes = [value for _ in range(1000) for value in box()]
        return (array.array("f", boxes) * (math.prod(shape) // len(boxes) + 1))[: math.prod(shape)]

    return draw


# ---------------------------------------------------------------- cases


class Case:
    """`tensors`: the inputs, name to (shape, values); `layer`: type, settings. `constant`: inputs without a gradient; `weights`:
    the layer's own parameters; `passes`: 1 without a backward pass; `before`: a layer that makes the input; `agrees`: compare the
    sums; `then`: layers that work in place on the output, and run as one step with the layer; `tops`: its outputs, each of which
    counts in the sum unless the layer is a loss."""

    def __init__(self, tensors, layer, constant=(), weights=(), passes=2, before="", agrees=True, then=(), tops=1):
        self.tensors, self.layer, self.constant = tensors, layer, constant
        self.weights, self.passes, self.before, self.agrees = weights, passes, before, agrees
        self.then, self.tops = then, tops

    def all_tensors(self):
        return {**self.tensors, **{f"measured/{i}": weight for i, weight in enumerate(self.weights)}}

    def net(self):
        text = ""
        for name, (shape, _) in self.tensors.items():
            dims = " ".join(f"dim: {n}" for n in shape)
            rate = 0 if name in self.constant else 1
            image = len(shape) in (4, 5) and name not in self.constant
            top = f"{name}_contiguous" if image else name
            text += (
                f'layer {{ name: "{name}" type: "Parameter" top: "{top}" param {{ lr_mult: {rate} }} '
                f"parameter_param {{ shape {{ {dims} }} }} }}\n"
            )
            if image:  # a convolution that changes nothing but the memory order, and a layer that keeps it from fusing what follows
                text += (
                    f'layer {{ name: "{name}_image" type: "DepthwiseConvolution" bottom: "{top}" top: "{name}_image" '
                    f"convolution_param {{ num_output: {shape[1]} kernel_size: 1 bias_term: false "
                    f'weight_filler {{ type: "constant" value: 1 }} }} }}\n'
                    f'layer {{ name: "{name}_end" type: "Pooling" bottom: "{name}_image" top: "{name}" '
                    f"pooling_param {{ pool: AVE kernel_size: 1 }} }}\n"
                )
        bottoms = re.findall(r'\btop: "(\w+)"', self.before) or self.tensors
        bottoms = " ".join(f'bottom: "{name}"' for name in bottoms)
        tops = ["measured", *(f"measured_top{i}" for i in range(1, self.tops))]
        others = " ".join(f'top: "{top}"' for top in tops[1:])
        text += self.before
        for number, layer in enumerate((self.layer, *self.then)):
            type, _, settings = layer.partition(" ")
            name = f"measured_{number}" if number else "measured"
            text += f'layer {{ name: "{name}" type: "{type}" {bottoms} top: "measured" {others} {settings} }}\n'
            bottoms = 'bottom: "measured"'
        # The sum is a layer by itself: adding up a layer's output and filling its gradient would else be a part of its time.
        type = self.layer.split()[0]
        for top in [] if self.passes == 1 or "Loss" in type or type == "Yolov3" else tops:
            text += f'layer {{ name: "{top}_sum" type: "Reduction" bottom: "{top}" top: "{top}_sum" loss_weight: 1 }}\n'
        return text


MAPS, ROIS = (1, 512, 38, 63), (128, 5)  # Faster R-CNN with VGG-16: an image of 600 x 1000
SSD_BOXES = 8732
IMAGE = (16, 64, 56, 56)
CLASSES_OF_PIXELS = (1, 21, 321, 321)  # DeepLab on PASCAL VOC
LABELS_OF_PIXELS = (1, 1, 321, 321)


def convolution(inputs, outputs, kernel, settings="", group=1, then=()):
    """Without a bias, as before a batch normalization."""
    layer = f"Convolution convolution_param {{ num_output: {outputs} kernel_size: {kernel} group: {group} bias_term: false {settings} }}"
    weights = (((outputs, inputs[1] // group, kernel, kernel), small),)
    return Case({"x": (inputs, signed)}, layer, weights=weights, then=then)


CASES = {
    # What most of the time of the nets in models/ goes into.
    "Convolution 7x7 /2": convolution((16, 3, 224, 224), 64, 7, "stride: 2 pad: 3"),
    "Convolution 3x3": convolution(IMAGE, 64, 3, "pad: 1"),
    "Convolution 3x3 small": convolution((16, 512, 7, 7), 512, 3, "pad: 1"),
    "Convolution 1x1": convolution((16, 256, 56, 56), 64, 1),
    "Convolution 5x5 in 2 groups": convolution((16, 96, 27, 27), 256, 5, "pad: 2", group=2),
    "Convolution 3x3 in 32 groups": convolution((16, 128, 56, 56), 128, 3, "pad: 1", group=32),
    "Convolution 1x1 in 3 groups": convolution((16, 240, 28, 28), 60, 1, group=3),
    "Convolution 1x1 in 3 groups wide": convolution((16, 60, 28, 28), 240, 1, group=3),
    "Convolution 3x3 dilated": convolution((1, 512, 60, 60), 512, 3, "pad: 4 dilation: 4"),
    "Convolution 3x3 + ReLU": convolution(IMAGE, 64, 3, "pad: 1", then=("ReLU",)),
    "InnerProduct": Case(
        {"x": ((16, 9216), signed)},
        "InnerProduct inner_product_param { num_output: 4096 }",
        weights=(((4096, 9216), small), ((4096,), small)),
    ),
    "InnerProduct small": Case(
        {"x": ((100, 784), signed)},
        "InnerProduct inner_product_param { num_output: 1000 }",
        weights=(((1000, 784), small), ((1000,), small)),
    ),
    "BatchNorm": Case({"x": (IMAGE, signed)}, "BatchNorm"),
    "BatchNorm + Scale + ReLU": Case(
        {"x": (IMAGE, signed)}, "BatchNorm", then=("Scale scale_param { bias_term: true }", "ReLU")
    ),
    "BN": Case({"x": (IMAGE, signed)}, "BN bn_param { slope_filler { value: 1 } }"),
    "SyncBN": Case({"x": (IMAGE, signed)}, "SyncBN bn_param { slope_filler { value: 1 } }"),
    "Pooling MAX": Case({"x": ((16, 64, 112, 112), signed)}, "Pooling pooling_param { kernel_size: 3 stride: 2 }"),
    "Pooling MAX 3x3 /1": Case(
        {"x": ((16, 192, 28, 28), signed)}, "Pooling pooling_param { kernel_size: 3 stride: 1 pad: 1 }"
    ),
    "Pooling AVE global": Case({"x": ((16, 1024, 7, 7), signed)}, "Pooling pooling_param { pool: AVE global_pooling: true }"),
    "Pooling AVE global 56x56": Case({"x": ((8, 256, 56, 56), signed)}, "Pooling pooling_param { pool: AVE global_pooling: true }"),
    "ReLU": Case({"x": (IMAGE, signed)}, "ReLU"),
    "Sigmoid": Case({"x": ((100, 1000), signed)}, "Sigmoid"),
    "Dropout": Case({"x": ((16, 512, 14, 14), signed)}, "Dropout", agrees=False),
    "SpatialDropout": Case({"x": ((16, 128, 64, 64), signed)}, "SpatialDropout", agrees=False),
    "GuidedDropout": Case({"x": ((16, 128, 64, 64), signed), "y": ((16, 128), signed)}, "GuidedDropout", constant=("y",)),
    "Eltwise": Case({"x": ((16, 256, 56, 56), signed), "y": ((16, 256, 56, 56), signed)}, "Eltwise"),
    "Concat": Case({name: ((16, n, 28, 28), signed) for name, n in (("a", 128), ("b", 192), ("c", 96), ("d", 64))}, "Concat"),
    "SoftmaxWithLoss": Case({"x": ((16, 1000), signed), "y": ((16,), below(1000))}, "SoftmaxWithLoss", constant=("y",)),
    "SoftmaxWithLoss of maps": Case(
        {"x": ((1, 150, 473, 473), signed), "y": ((1, 1, 473, 473), below(150))}, "SoftmaxWithLoss", constant=("y",)
    ),
    "WeightedSoftmaxWithLoss": Case(
        {"x": ((64, 1000), signed), "y": ((64,), below(1000)), "w": ((64,), positive)},
        "WeightedSoftmaxWithLoss",
        constant=("y", "w"),
    ),
    "OverlapSoftmaxWithLoss": Case(
        {"x": ((64, 1000), signed), "y": ((64,), below(1000)), "v": ((64,), positive)},
        "OverlapSoftmaxWithLoss",
        constant=("y", "v"),
    ),
    "MarginInnerProduct": Case(
        {"x": ((64, 512), signed), "y": ((64,), below(10572))},
        "MarginInnerProduct margin_inner_product_param { num_output: 10572 type: QUADRUPLE base: 5 lambda_min: 5 }",
        constant=("y",),
        weights=(((10572, 512), small),),
    ),
    "LargeMarginInnerProduct": Case(
        {"x": ((64, 512), signed), "y": ((64,), below(10572))},
        "LargeMarginInnerProduct largemargin_inner_product_param { num_output: 10572 type: QUADRUPLE base: 5 lambda_min: 5 }",
        constant=("y",),
        weights=(((10572, 512), small),),
    ),
    # What is in fewer of them, or in none.
    "LSTM": Case(
        {"x": ((16, 8, 4096), signed), "cont": ((16, 8), continued)},
        "LSTM recurrent_param { num_output: 256 }",
        constant=("cont",),
        weights=(((1024, 4096), small), ((1024,), small), ((1024, 256), small)),
    ),
    "Lstm": Case(
        {"x": ((16, 8, 4096), signed)},
        "Lstm lstm_param { num_output: 256 }",
        weights=(((1024, 4096), small), ((1024, 256), small), ((1024,), small)),
    ),
    "RNN": Case(
        {"x": ((16, 8, 1024), signed), "cont": ((16, 8), continued)},
        "RNN recurrent_param { num_output: 256 }",
        constant=("cont",),
        weights=(((256, 1024), small), ((256,), small), ((256, 256), small), ((256, 256), small), ((256,), small)),
    ),
    "ROIPooling": Case(
        {"x": (MAPS, signed), "rois": (ROIS, regions(1000, 600))},
        "ROIPooling roi_pooling_param { pooled_h: 7 pooled_w: 7 spatial_scale: 0.0625 }",
        constant=("rois",),
    ),
    "GRIDPooling": Case({"x": ((16, 256, 27, 27), signed)}, "GRIDPooling grid_pooling_param { pooled_h: 6 pooled_w: 6 }"),
    "ROIAlign": Case(
        {"x": (MAPS, signed), "rois": (ROIS, regions(1000, 600))},
        "ROIAlign roi_align_param { pooled_h: 7 pooled_w: 7 spatial_scale: 0.0625 sampling_ratio: 2 }",
        constant=("rois",),
    ),
    "ROIWarping": Case(
        {"x": (MAPS, signed), "rois": (ROIS, regions(1000, 600))},
        "ROIWarping roi_warping_param { pooled_h: 14 pooled_w: 14 spatial_scale: 0.0625 }",
        constant=("rois",),
    ),
    "PSROIPooling": Case(
        {"x": ((1, 21 * 49, 38, 63), signed), "rois": (ROIS, regions(1000, 600))},
        "PSROIPooling psroi_pooling_param { output_dim: 21 group_size: 7 spatial_scale: 0.0625 }",
        constant=("rois",),
        agrees=False,  # torchvision rounds regions to whole pixels of the maps
    ),
    "DeformablePSROIPooling": Case(
        {"x": ((1, 21 * 49, 38, 63), signed), "rois": (ROIS, regions(1000, 600)), "offsets": ((ROIS[0], 2, 7, 7), signed)},
        "DeformablePSROIPooling deformable_psroi_pooling_param { output_dim: 21 group_size: 7 spatial_scale: 0.0625 sample_per_part: 4 trans_std: 0.1 }",
        constant=("rois",),
    ),
    "Proposal": Case(
        {"scores": ((1, 18, 38, 63), positive), "loc": ((1, 36, 38, 63), small), "info": ((1, 3), image_info)},
        "Proposal",
        constant=("scores", "loc", "info"),
        passes=1,
        agrees=False,  # boxes are one pixel larger in Faster R-CNN
    ),
    "TextProposal": Case(
        {"scores": ((1, 20, 38, 63), positive), "shifts": ((1, 20, 38, 63), small), "info": ((1, 3), image_info)},
        "TextProposal proposal_param { ratio: 1 scale: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }",
        constant=("scores", "shifts", "info"),
        passes=1,
        tops=2,
    ),
    "AnchorBoxes": Case(
        {
            "scores": ((1, 20, 40, 40), positive),
            "classes": ((1, 21, 400, 40), positive),
            "loc": ((1, 40, 40, 40), small),
        },
        "AnchorBoxes proposal_param { feat_stride: 8 base_size: 32 ratio: [0.333, 0.5, 1, 2, 3] scale: [1, 2] }",
        constant=("scores", "classes", "loc"),
        passes=1,
        tops=2,
    ),
    "BoxOutput": Case(
        {"near": ((1, 9, 72, 240), signed), "far": ((1, 9, 36, 120), signed)},
        "BoxOutput box_output_param { fg_thr: 0 iou_thr: 0.65 field_w: [60, 120] field_h: [60, 120] downsample_rate: [8, 16] "
        "max_nms_num: 2000 }",
        constant=("near", "far"),
        passes=1,
    ),
    "BoxGroupOutput": Case(
        {"prob": ((9, 2, 38, 64), positive), "boxes": ((9, 4, 38, 64), small)},
        "BoxGroupOutput box_group_output_param { fg_thr: 0.005 iou_thr: 0.7 field_whr: 8 field_xyr: 1 max_nms_num: 3000 "
        "box_group_param { field_w: [176, 88, 128, 352, 176, 256, 704, 352, 512] "
        "field_h: [88, 176, 128, 176, 352, 256, 352, 704, 512] } }",
        constant=("prob", "boxes"),
        passes=1,
    ),
    "DecodeBBox": Case(
        {"boxes": ((2000, 8), small), "rois": ((2000, 5), regions(1000, 600))},
        "DecodeBBox",
        constant=("boxes", "rois"),
        passes=1,
    ),
    "PriorBox": Case(
        {"x": ((1, 16, 38, 38), signed), "image": ((1, 3, 300, 300), signed)},
        "PriorBox prior_box_param { min_size: 30 max_size: 60 aspect_ratio: 2 variance: [0.1, 0.1, 0.2, 0.2] step: 8 }",
        constant=("x", "image"),
        passes=1,
        agrees=False,  # torchvision's leave out the variances
    ),
    "MultiBoxLoss": Case(
        {
            "loc": ((8, 4 * SSD_BOXES), small),
            "conf": ((8, 21 * SSD_BOXES), signed),
            "priors": ((1, 2, 4 * SSD_BOXES), priors),
            "truth": ((1, 1, 32, 8), truth(8, 21)),
        },
        "MultiBoxLoss multibox_loss_param { num_classes: 21 code_type: CENTER_SIZE neg_pos_ratio: 3 neg_overlap: 0.5 }",
        constant=("priors", "truth"),
        agrees=False,  # torchvision also draws negatives that overlap
    ),
    "DetectionOutput": Case(
        {
            "loc": ((1, 4 * SSD_BOXES), small),
            "conf": ((1, 21 * SSD_BOXES), probabilities(21)),
            "priors": ((1, 2, 4 * SSD_BOXES), priors),
        },
        "DetectionOutput detection_output_param { num_classes: 21 nms_param { nms_threshold: 0.45 top_k: 400 } "
        "code_type: CENTER_SIZE keep_top_k: 200 confidence_threshold: 0.01 }",
        constant=("loc", "conf", "priors"),
        passes=1,
    ),
    "SqueezeDetLoss": Case(
        {
            "scores": ((4, 9 * 23 * 23, 20), positive),
            "confidence": ((4, 23, 23, 9), positive),
            "boxes": ((4, 23, 23, 36), small),
            "objects": ((4, 100), objects_in_pixels(20)),
        },
        "SqueezeDetLoss squeezedet_param { classes: 20 anchors_per_grid: 9 anchor_shapes: [377, 371, 64, 118, 129, 326, 172, 126, "
        "34, 46, 353, 204, 89, 214, 249, 361, 209, 239] pos_conf: 75 neg_conf: 100 lambda_bbox: 5 }",
        constant=("objects",),
    ),
    "Yolov3": Case(
        {"x": ((8, 75, 26, 26), signed), "objects": ((8, 1, 300, 5), cell_objects(20))},
        "Yolov3 yolov3_param { num: 3 biases: [10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319] mask: [0, 1, 2] "
        "anchors_scale: 16 thresh: 0.7 }",
        constant=("objects",),
    ),
    "RegionLoss": Case(
        {"x": ((8, 125, 13, 13), signed), "objects": ((8, 1, 300, 5), cell_objects(20))},
        "RegionLoss region_loss_param { biases: [1.08, 1.19, 3.42, 4.41, 6.63, 11.38, 9.42, 5.11, 16.62, 10.52] thresh: 0.6 }",
        constant=("objects",),
    ),
    "YoloDetectionOutput": Case(
        {"x": ((1, 125, 13, 13), signed)},
        "YoloDetectionOutput yolo_detection_output_param { "
        "biases: [1.08, 1.19, 3.42, 4.41, 6.63, 11.38, 9.42, 5.11, 16.62, 10.52] }",
        constant=("x",),
        passes=1,
    ),
    "Yolov3DetectionOutput": Case(
        {"coarse": ((1, 75, 13, 13), signed), "fine": ((1, 75, 26, 26), signed)},
        "Yolov3DetectionOutput yolov3_detection_output_param { biases: [10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319] "
        "mask: [3, 4, 5, 0, 1, 2] anchors_scale: [32, 16] }",
        constant=("coarse", "fine"),
        passes=1,
    ),
    "Normalize": Case(
        {"x": ((4, 512, 38, 38), signed)},
        "Normalize norm_param { across_spatial: false channel_shared: false }",
        weights=(((512,), positive),),
    ),
    "Permute": Case({"x": ((8, 84, 38, 38), signed)}, "Permute permute_param { order: [0, 2, 3, 1] }"),
    "SmoothL1Loss": Case({"x": ((128, 84), signed), "y": ((128, 84), signed)}, "SmoothL1Loss", constant=("y",)),
    "LRN": Case({"x": ((16, 96, 55, 55), signed)}, "LRN lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }"),
    "LRN within": Case(
        {"x": ((64, 32, 16, 16), signed)},
        "LRN lrn_param { local_size: 3 alpha: 5e-5 beta: 0.75 norm_region: WITHIN_CHANNEL }",
    ),
    "Deconvolution": Case(
        {"x": ((16, 128, 28, 28), signed)},
        "Deconvolution convolution_param { num_output: 64 kernel_size: 4 stride: 2 pad: 1 }",
        weights=(((128, 64, 4, 4), small), ((64,), small)),
    ),
    "Deconvolution x8": Case(  # of FCN-8s
        {"x": ((1, 21, 64, 64), signed)},
        "Deconvolution convolution_param { num_output: 21 group: 21 kernel_size: 16 stride: 8 bias_term: false }",
        weights=(((21, 1, 16, 16), small),),
    ),
    "Interp x8": Case({"x": ((1, 150, 60, 60), signed)}, "Interp interp_param { height: 473 width: 473 }"),
    "BilinearInterpolation": Case(
        {"x": ((1, 512, 60, 60), signed)}, "BilinearInterpolation bilinear_interpolation_param { interpolation_factor: 2 }"
    ),
    "SpatialTransformer": Case(
        {"x": ((16, 64, 56, 56), signed), "theta": ((16, 6), signed)}, "SpatialTransformer"
    ),
    "Interp": Case({"x": ((1, 512, 6, 6), signed)}, "Interp interp_param { height: 60 width: 60 }"),
    "Upsample": Case(
        {"x": (IMAGE, signed)},
        "Upsample upsample_param { scale: 2 }",
        before='layer { name: "pool" type: "Pooling" bottom: "x" top: "pooled" top: "mask" '
        "pooling_param { kernel_size: 2 stride: 2 } }\n",
    ),
    "Crop": Case(
        {"x": ((1, 21, 568, 568), signed), "like": ((1, 1, 500, 500), positive)},
        "Crop crop_param { axis: 2 offset: 19 }",
        constant=("like",),
    ),
    "MergeCrop": Case({"x": ((1, 64, 388, 388), signed), "y": ((1, 64, 568, 568), signed)}, "MergeCrop", constant=("y",)),
    "Padding": Case({"x": ((16, 64, 56, 56), signed)}, "Padding padding_param { pad_beg: 1 pad_end: 1 }"),
    "Convolution depthwise": Case(
        {"x": ((16, 144, 56, 56), signed)},
        "DepthwiseConvolution convolution_param { num_output: 144 kernel_size: 3 pad: 1 bias_term: false }",
        weights=(((144, 1, 3, 3), small),),
    ),
    "Convolution 3-D": Case(
        {"x": ((1, 64, 16, 56, 56), signed)},
        "Convolution convolution_param { num_output: 128 kernel_size: [3, 3, 3] pad: [1, 1, 1] }",
        weights=(((128, 64, 3, 3, 3), small), ((128,), small)),
    ),
    "Pooling 3-D": Case(
        {"x": ((1, 128, 16, 56, 56), signed)}, "Pooling pooling_param { kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2 }"
    ),
    "ShuffleChannel": Case({"x": ((16, 240, 28, 28), signed)}, "ShuffleChannel shuffle_channel_param { group: 3 }"),
    "Axpy": Case({"a": ((16, 256), positive), "x": ((16, 256, 56, 56), signed), "y": ((16, 256, 56, 56), signed)}, "Axpy"),
    "Clip": Case({"x": (IMAGE, signed)}, "Clip clip_param { min: 0 max: 0.5 }"),
    "Sparsify": Case({"x": (IMAGE, signed)}, "Sparsify sparsify_param { coef: 1e-8 thre: 0.1 }"),
    "SymmetricRectify": Case({"x": (IMAGE, signed)}, "SymmetricRectify", weights=(((64,), positive),)),
    "PReLU": Case({"x": (IMAGE, signed)}, "PReLU", weights=(((64,), positive),)),
    "Insanity": Case({"x": (IMAGE, signed)}, "Insanity", agrees=False),  # both draw
    "Swish": Case({"x": (IMAGE, signed)}, "Swish"),
    "HardSwish": Case({"x": (IMAGE, signed)}, "HardSwish"),
    "Mish": Case({"x": (IMAGE, signed)}, "Mish"),
    "MinReLU": Case({"x": (IMAGE, signed)}, "MinReLU"),
    "CReLU": Case({"x": (IMAGE, signed)}, "CReLU"),
    "BNLL": Case({"x": (IMAGE, signed)}, "BNLL"),
    "Exp": Case({"x": (IMAGE, signed)}, "Exp"),
    "Power": Case({"x": (IMAGE, signed)}, "Power power_param { power: 2 scale: 0.5 shift: 1 }"),
    "GroupNorm": Case({"x": (IMAGE, positive)}, "GroupNorm", "group_norm_param { group_num: 8 }"),
    "MVN": Case({"x": (IMAGE, positive)}, "MVN"),
    "Resize": Case({"x": ((64, 96, 55, 55), signed)}, "Resize resize_param { height: 10 width: 10 }"),
    "Tiling": Case({"x": ((8, 1024, 15, 20), signed)}, "Tiling tiling_param { tile_dim: 8 }"),
    "Reorg": Case({"x": (IMAGE, signed)}, "Reorg reorg_param { stride: 2 }"),
    "Local": Case(
        {"x": ((16, 16, 32, 32), signed)},
        "Local local_param { num_output: 16 kernel_size: 3 }",
        weights=(((16, 1, 144, 900), small), ((1, 1, 16, 900), small)),
    ),
    "DeformableConvolution": Case(  # of Deformable R-FCN
        {"x": ((1, 512, 38, 63), signed), "offsets": ((1, 72, 38, 63), signed)},
        "DeformableConvolution convolution_param { num_output: 512 kernel_size: 3 pad: 2 dilation: 2 deformable_group: 4 bias_term: false }",
        weights=(((512, 512, 3, 3), small),),
        agrees=False,  # within a pixel of the border, where torchvision's values fade to 0
    ),
    "Im2col": Case({"x": (IMAGE, signed)}, "Im2col convolution_param { kernel_size: 3 pad: 1 }"),
    "Embed": Case(
        {"x": ((16, 100), below(8801))},
        "Embed embed_param { num_output: 1000 input_dim: 8801 bias_term: false }",
        constant=("x",),
        weights=(((8801, 1000), small),),
    ),
    "Reduction": Case({"x": (IMAGE, signed)}, "Reduction reduction_param { axis: 1 }"),
    "Tile": Case({"x": (IMAGE, signed)}, "Tile tile_param { axis: 1 tiles: 4 }"),
    "ArgMax": Case({"x": ((1, 150, 473, 473), signed)}, "ArgMax argmax_param { axis: 1 }", constant=("x",), passes=1),
    "SPP": Case({"x": (IMAGE, signed)}, "SPP spp_param { pyramid_height: 3 pool: MAX }"),
    "SigmoidCrossEntropyLoss": Case(
        {"x": ((100, 784), signed), "y": ((100, 784), zero_or_one)}, "SigmoidCrossEntropyLoss", constant=("y",)
    ),
    "SigmoidCrossEntropyLoss balanced": Case(  # of HED and OSVOS
        {"x": ((1, 1, 480, 854), signed), "y": ((1, 1, 480, 854), zero_or_one)},
        "SigmoidCrossEntropyLoss loss_param { class_balance: 1 }",
        constant=("y",),
    ),
    "SoftmaxWithLoss weighted": Case(  # of SegNet
        {"x": ((1, 11, 360, 480), signed), "y": ((1, 1, 360, 480), below(11))},
        "SoftmaxWithLoss loss_param { weight_by_label_freqs: true class_weighting: [0.25, 0.125, 4, 0.125, 1, 0.5, 8, 2, 0.5, 6, 7] }",
        constant=("y",),
    ),
    "ConvolutionDepthwise": Case(
        {"x": ((16, 144, 56, 56), signed)},
        "ConvolutionDepthwise convolution_param { num_output: 144 kernel_size: 3 pad: 1 bias_term: false }",
        weights=(((144, 1, 3, 3), small),),
    ),
    "AbsVal": Case({"x": (IMAGE, signed)}, "AbsVal"),
    "ELU": Case({"x": (IMAGE, signed)}, "ELU"),
    "Log": Case({"x": (IMAGE, positive)}, "Log"),
    "TanH": Case({"x": (IMAGE, signed)}, "TanH"),
    "Threshold": Case({"x": (IMAGE, signed)}, "Threshold", constant=("x",), passes=1),
    "Quantize": Case({"x": (IMAGE, below(220))}, "Quantize", constant=("x",), passes=1),
    "Rescale": Case({"x": (IMAGE, below(60))}, "Rescale rescale_param { rf: 40 }", constant=("x",), passes=1),
    "Bias": Case({"x": (IMAGE, signed)}, "Bias", weights=(((64,), small),)),
    "Scale": Case(
        {"x": (IMAGE, signed)}, "Scale scale_param { bias_term: true }", weights=(((64,), positive), ((64,), small))
    ),
    "BiasChannel": Case(
        {"x": (CLASSES_OF_PIXELS, signed), "y": (LABELS_OF_PIXELS, below(21))},
        "BiasChannel bias_channel_param { label_type: PIXEL fg_bias: 4 }",
        constant=("y",),
    ),
    "Softmax": Case({"x": ((64, 1000), signed)}, "Softmax"),
    "Softmax of maps": Case({"x": (CLASSES_OF_PIXELS, signed)}, "Softmax"),
    "Flatten": Case({"x": ((16, 256, 6, 6), signed)}, "Flatten"),
    "Reshape": Case({"x": ((64, 256, 196), signed)}, "Reshape reshape_param { shape { dim: [0, -1] } }"),
    "Slice": Case({"x": ((16, 256, 28, 28), signed)}, "Slice", tops=4),
    "Split": Case({"x": (IMAGE, signed)}, "Split", tops=2),
    "Flip": Case({"x": (IMAGE, signed)}, "Flip"),
    "Reverse": Case({"x": ((64, 64, 512), signed)}, "Reverse"),
    "Transpose": Case({"x": ((16, 512, 4, 64), signed)}, "Transpose transpose_param { dim: [3, 0, 1, 2] }"),
    "GradientScaler": Case({"x": (IMAGE, signed)}, "GradientScaler gradient_scaler_param { lower_bound: 1 }"),
    "GradientReversal": Case({"x": (IMAGE, signed)}, "GradientReversal"),
    "Gather": Case({"x": (IMAGE, signed)}, "Gather"),
    "Scatter": Case({"x": (IMAGE, signed)}, "Scatter"),
    "Unpooling": Case(
        {"x": (IMAGE, signed)},
        "Unpooling unpooling_param { unpool: MAX kernel_size: 2 stride: 2 }",
        before='layer { name: "pool" type: "Pooling" bottom: "x" top: "pooled" top: "mask" '
        "pooling_param { kernel_size: 2 stride: 2 } }\n",
    ),
    "BatchReduction": Case(
        {"x": ((64, 21, 1024), signed)}, "BatchReduction batch_reduction_param { level: [1, 2, 4] reduction_param { axis: 1 operation: MEAN } }"
    ),
    "MIL": Case({"x": ((1280, 400), signed)}, "MIL mil_param { context_per_roi: 10 }"),
    "BatchReindex": Case({"x": ((256, 4096), signed), "index": ((512,), below(256))}, "BatchReindex", constant=("index",)),
    "Filter": Case({"x": ((256, 4096), signed), "keep": ((256,), zero_or_one)}, "Filter", constant=("keep",)),
    "CosineSimilarity": Case({"a": ((128, 512), signed), "b": ((128, 512), signed)}, "CosineSimilarity"),
    "LSTMUnit": Case(
        {"c": ((1, 64, 1000), signed), "gates": ((1, 64, 4000), signed), "cont": ((1, 64), zero_or_one)},
        "LSTMUnit",
        constant=("cont",),
        tops=2,
    ),
    "Accuracy": Case({"x": ((64, 1000), signed), "y": ((64,), below(1000))}, "Accuracy", constant=("x", "y"), passes=1),
    "Accuracy of maps": Case(
        {"x": (CLASSES_OF_PIXELS, signed), "y": (LABELS_OF_PIXELS, below(21))}, "Accuracy", constant=("x", "y"), passes=1
    ),
    "SegAccuracy": Case(
        {"x": (CLASSES_OF_PIXELS, signed), "y": (LABELS_OF_PIXELS, below(21))}, "SegAccuracy", constant=("x", "y"), passes=1
    ),
    "ConfusionMatrix": Case(
        {"x": (CLASSES_OF_PIXELS, signed), "y": (LABELS_OF_PIXELS, below(21))}, "ConfusionMatrix", constant=("x", "y"), passes=1
    ),
    "UniqueLabel": Case(
        {"y": ((8, 1, 321, 321), below(21))}, "UniqueLabel unique_label_param { max_labels: 21 }", constant=("y",), passes=1
    ),
    "EuclideanLoss": Case({"x": ((100, 784), signed), "y": ((100, 784), signed)}, "EuclideanLoss", constant=("y",)),
    "L1Loss": Case({"x": ((100, 784), signed), "y": ((100, 784), signed)}, "L1Loss", constant=("y",)),
    "L1Loss of locations": Case(  # of PWC-Net
        {"x": ((8, 2, 112, 192), signed), "y": ((8, 2, 112, 192), signed)},
        "L1Loss l1_loss_param { l2_per_location: true }",
        constant=("y",),
    ),
    "XCovLoss": Case({"x": ((100, 100), signed), "y": ((100, 10), signed)}, "XCovLoss"),
    "TopK": Case({"x": ((100, 1000), signed)}, "TopK topk_param { k: 100 }"),  # of k-sparse autoencoders
    "HashingLoss": Case(  # of DSH
        {"x": ((200, 48), signed), "y": ((200,), below(10))}, "HashingLoss hashing_loss_param { bi_margin: 96 }", constant=("y",)
    ),
    "PairwiseLoss": Case(  # of HashNet
        {"a": ((128, 48), signed), "a_labels": ((128, 100), zero_or_one), "b": ((128, 48), signed), "b_labels": ((128, 100), zero_or_one)},
        "PairwiseLoss pairwise_param { class_num: 100 sigmoid_param: 0.2 }",
        constant=("a_labels", "b_labels"),
    ),
    "QuantizationLoss": Case({"x": ((128, 64), signed)}, "QuantizationLoss"),  # of DHN
    "CharbonnierLoss": Case(  # of Hidden Two-Stream
        {"x": ((8, 30, 112, 112), signed), "mask": ((8, 30, 112, 112), zero_or_one)},
        "CharbonnierLoss charbonnier_loss_param { alpha: 0.4 beta: 255 }",
        constant=("mask",),
    ),
    "SSIMLoss": Case(  # of Hidden Two-Stream
        {"x": ((8, 30, 112, 112), signed), "y": ((8, 30, 112, 112), signed)},
        "SSIMLoss ssim_loss_param { kernel_size: 8 stride: 8 c1: 0.0001 c2: 0.001 }",
        constant=("y",),
    ),
    "EuclideanLossHeatmap": Case(  # of caffe-heatmap
        {"x": ((14, 7, 64, 64), signed), "y": ((14, 7, 64, 64), signed)}, "EuclideanLossHeatmap", constant=("y",)
    ),
    "K1_EuclideanLoss": Case({"x": ((128, 48), signed)}, "K1_EuclideanLoss"),  # of Caffe-DeepBinaryCode
    "K2_EuclideanLoss": Case({"x": ((128, 48), signed)}, "K2_EuclideanLoss"),
    "MMDLoss": Case(  # of DAN; PyTorch's side compares all pairs
        {"x": ((64, 4096), signed), "y": ((64, 4096), signed)}, "MMDLoss", agrees=False
    ),
    "JMMDLoss": Case(  # of JAN; PyTorch's side compares all pairs
        {"x": ((32, 256), signed), "y": ((32, 256), signed), "p": ((32, 31), positive), "q": ((32, 31), positive)},
        "JMMDLoss jmmd_param { label_kernel_mode: PROB_RBF label_back_propagate: true sigma: 1.3 label_kernel_num: 1 }",
        agrees=False,
    ),
    "EntropyLoss": Case({"x": ((64, 1000), positive)}, "EntropyLoss"),
    "SoftmaxCrossEntropyLoss": Case(  # of Colorization
        {"x": ((8, 313, 56, 56), signed), "y": ((8, 313, 56, 56), positive)}, "SoftmaxCrossEntropyLoss", constant=("y",)
    ),
    "ScaleTanH": Case({"x": (IMAGE, signed)}, "ScaleTanH"),
    "SignedSqrt": Case({"x": ((16, 8192), signed)}, "SignedSqrt"),
    "OuterProduct": Case({"a": ((64, 4096), signed), "b": ((64, 31), signed)}, "OuterProduct"),
    "CompactBilinear": Case(  # of cub200; PyTorch's side by Fourier transforms, with hashes of its own
        {"a": ((8, 512, 28, 28), signed), "b": ((8, 512, 28, 28), signed)},
        "CompactBilinear compact_bilinear_param { num_output: 8192 }",
        agrees=False,
    ),
    "MultiStageMeanfield": Case(  # of CRF-RNN; the colours are noise, which gives the lattice the most vertices
        {"x": (CLASSES_OF_PIXELS, signed), "first": (CLASSES_OF_PIXELS, signed), "image": ((1, 3, 321, 321), below(256))},
        "MultiStageMeanfield multi_stage_meanfield_param { num_iterations: 5 theta_alpha: 160 theta_beta: 3 theta_gamma: 3 }",
        constant=("image",),
        weights=(((1, 1, 21, 21), small), ((1, 1, 21, 21), small), ((1, 1, 21, 21), small)),
    ),
    "DenseCRF": Case(  # of DeepLab
        {"x": (CLASSES_OF_PIXELS, signed), "size": ((1, 2), below(322)), "image": ((1, 3, 321, 321), below(256))},
        "DenseCRF dense_crf_param { pos_w: 3 pos_xy_std: 3 bi_w: 4 bi_xy_std: 67 bi_rgb_std: 3 }",
        constant=("x", "size", "image"),
        passes=1,
    ),
    "ColorConv": Case(
        {"x": ((32, 3, 227, 227), positive)}, "ColorConv color_conv_param { output: Lab }", constant=("x",), passes=1
    ),
    "LpqLoss": Case(
        {"x": ((8, 2, 112, 192), signed), "y": ((8, 2, 112, 192), signed)}, "LpqLoss lpq_loss_param { p: 1 q: 0.4 }", constant=("y",)
    ),
    "CrossCorrelation": Case(  # of SiamFC
        {"x": ((1, 256, 22, 22), signed), "w": ((1, 256, 6, 6), signed)},
        "CrossCorrelation convolution_param { num_output: 1 kernel_size: 6 bias_term: false }",
        weights=(((1, 256, 6, 6), small),),
    ),
    "Correlation": Case(  # of PWC-Net
        {"a": ((8, 32, 112, 192), signed), "b": ((8, 32, 112, 192), signed)},
        "Correlation correlation_param { pad: 4 kernel_size: 1 max_displacement: 4 }",
    ),
    "Correlation of FlowNet": Case(
        {"a": ((4, 256, 40, 56), signed), "b": ((4, 256, 40, 56), signed)},
        "Correlation correlation_param { pad: 20 kernel_size: 1 max_displacement: 20 stride_2: 2 }",
    ),
    "Warp": Case({"x": ((8, 32, 112, 192), signed), "flow": ((8, 2, 112, 192), signed)}, "Warp"),
    "Remap": Case(  # of appearance flow
        {"x": ((8, 3, 224, 224), signed), "places": ((8, 2, 224, 224), within(224))}, "Remap"
    ),
    "RandBI": Case(  # of PixelNet, two of its maps
        {"x": ((5, 64, 224, 224), signed), "y": ((5, 512, 14, 14), signed), "points": ((10000, 3), points(5, 216))},
        "RandBI rand_comp_param { compression_rate: 1 compression_rate: 16 pad: true }",
        constant=("points",),
    ),
    "ChannelSelect": Case({"x": ((31, 21, 66, 66), signed), "y": ((1, 30, 1, 6), below(21))}, "ChannelSelect", constant=("y",)),
    "Affinity": Case({"x": ((1, 2, 388, 388), positive)}, "Affinity"),
    "ConnectedComponent": Case({"y": ((1, 1, 388, 388), below(2))}, "ConnectedComponent", constant=("y",), passes=1),
    "MalisLoss": Case(
        {"x": ((1, 2, 388, 388), positive), "y": ((1, 2, 388, 388), zero_or_one), "parts": ((1, 1, 388, 388), below(50))},
        "MalisLoss",
        constant=("y", "parts"),
    ),
    "NegSquare": Case({"x": ((16, 64, 56, 56), signed)}, "NegSquare"),
    "ExpMax": Case({"x": ((8, 49, 56, 96), signed)}, "ExpMax"),
    "FlowWarp": Case({"x": ((8, 3, 320, 448), signed), "flow": ((8, 2, 320, 448), signed)}, "FlowWarp"),
    "FlowTransformer": Case(  # of Hidden Two-Stream
        {"x": ((8, 3, 112, 112), signed), "flow": ((8, 2, 112, 112), signed)}, "FlowTransformer", constant=("x",)
    ),
    "Downsample": Case(
        {"x": ((8, 2, 320, 448), signed)}, "Downsample downsample_param { top_height: 80 top_width: 112 }", constant=("x",), passes=1
    ),
    "ChannelNorm": Case({"x": ((8, 3, 320, 448), signed)}, "ChannelNorm"),
    "DataAugmentation": Case(  # of PWC-Net, without colours
        {"x": ((8, 3, 384, 512), positive)},
        "DataAugmentation augmentation_param { crop_height: 320 crop_width: 448 max_multiplier: 1 translate { spread: 0.1 } "
        "rotate { spread: 0.2 } zoom { exp: true mean: 0.2 spread: 0.1 } }",
        constant=("x",),
        passes=1,
        agrees=False,  # the draws are others
    ),
    "FlowAugmentation": Case(
        {"x": ((8, 2, 384, 512), signed), "first": ((8, 42, 1, 1), small), "second": ((8, 42, 1, 1), small)},
        "FlowAugmentation augmentation_param { crop_height: 320 crop_width: 448 }",
        constant=("x", "first", "second"),
        passes=1,
    ),
    "Resample": Case({"x": ((8, 2, 80, 112), signed)}, "Resample resample_param { height: 320 width: 448 }", constant=("x",), passes=1),
    "MaskPooling": Case({"x": ((64, 512, 14, 14), signed), "mask": ((64, 1, 14, 14), positive)}, "MaskPooling"),
    "SpatialProduct": Case({"x": ((8, 512, 60, 60), signed), "map": ((8, 1, 60, 60), positive)}, "SpatialProduct"),
    "MaskResize": Case({"x": ((300, 1, 21, 21), signed)}, "MaskResize mask_resize_param { output_height: 14 output_width: 14 }"),
    "FocalLoss": Case({"x": ((64, 1000), signed), "y": ((64,), below(1000))}, "FocalLoss", constant=("y",)),
    "SoftmaxFocalLoss": Case(
        {"x": ((64, 1000), signed), "y": ((64,), below(1000))}, "SoftmaxFocalLoss", constant=("y",)
    ),
    "SoftmaxWithFocalLoss": Case(
        {"x": ((64, 1000), signed), "y": ((64,), below(1000))}, "SoftmaxWithFocalLoss", constant=("y",)
    ),
    "CTCLoss": Case(
        {"x": ((80, 32, 100), signed), "marks": ((80, 32), continued), "y": ((80, 32), columns_of_labels(20, 99))},
        "CTCLoss",
        constant=("marks", "y"),
    ),
    "WarpCTCLoss": Case(
        {"x": ((80, 32, 100), signed), "y": ((32, 20), above_blank(100))}, "WarpCTCLoss", constant=("y",)
    ),
    "CtcLoss": Case(
        {"x": ((80, 32, 100), signed), "y": ((32, 20), above_blank(100))},
        "CtcLoss ctc_loss_param { alphabet_size: 100 time_step: 80 }",
        constant=("y",),
    ),
    "CTCGreedyDecoder": Case({"x": ((80, 32, 100), signed)}, "CTCGreedyDecoder", constant=("x",), passes=1),
    "LabelsequenceAccuracy": Case(
        {"x": ((32, 80, 100), signed), "y": ((32, 20), above_blank(100))},
        "LabelsequenceAccuracy",
        constant=("x", "y"),
        passes=1,
    ),
    "LabelSpecificAdd": Case(
        {"x": ((64, 10000), signed), "y": ((64,), below(10000))},
        "LabelSpecificAdd label_specific_add_param { bias: -0.35 }",
        constant=("y",),
    ),
    "LabelSpecificRescale": Case(
        {"x": ((64, 10000), signed), "y": ((64,), below(10000))},
        "LabelSpecificRescale label_specific_rescale_param { positive_weight: 0.5 negative_weight: 2 }",
        constant=("y",),
    ),
    "GlobalLSEMargin": Case(  # of AM-Softmax
        {"x": ((256, 10516), signed), "y": ((256,), below(10516))}, "GlobalLSEMargin", constant=("y",)
    ),
    "ChannelScale": Case({"x": (IMAGE, signed), "y": ((IMAGE[0], *IMAGE[2:]), signed)}, "ChannelScale"),
    "InnerDistance": Case(
        {"x": ((64, 512), signed)},
        "InnerDistance inner_distance_param { num_output: 1000 bias_term: false }",
        weights=(((1000, 512), small),),
    ),
    "GeneralContrastiveLoss": Case(
        {"x": ((64, 10000), positive), "y": ((64,), below(10000))}, "GeneralContrastiveLoss", constant=("y",)
    ),
    "GeneralTripletLoss": Case(
        {"x": ((64, 10000), positive), "y": ((64,), below(10000))},
        "GeneralTripletLoss general_triplet_loss_param { margin: 0.1 add_center_loss: false }",
        constant=("y",),
    ),
    "HingeLoss": Case({"x": ((64, 1000), signed), "y": ((64,), below(1000))}, "HingeLoss", constant=("y",)),
    "MultinomialLogisticLoss": Case(
        {"x": ((64, 1000), positive), "y": ((64,), below(1000))}, "MultinomialLogisticLoss", constant=("y",)
    ),
    "InfogainLoss": Case(
        {"x": (CLASSES_OF_PIXELS, signed), "y": (LABELS_OF_PIXELS, below(21)), "gains": ((21, 21), positive)},
        "InfogainLoss",
        constant=("y", "gains"),
    ),
    "ContrastiveLoss": Case(
        {"a": ((128, 256), small), "b": ((128, 256), small), "y": ((128,), zero_or_one)}, "ContrastiveLoss", constant=("y",)
    ),
    "DoubleMarginContrastiveLoss": Case(
        {"a": ((128, 256), small), "b": ((128, 256), small), "y": ((128,), zero_or_one)},
        "DoubleMarginContrastiveLoss double_margin_contrastive_loss_param { margin_gen: 0.1 margin_imp: 1 }",
        constant=("y",),
    ),
    "LiftedStructSimilaritySoftmaxLoss": Case(  # of Deep-Metric-Learning-CVPR16
        {"x": ((128, 64), signed), "y": ((128,), below(64))}, "LiftedStructSimilaritySoftmaxLoss", constant=("y",)
    ),
    "CORALLoss": Case({"x": ((128, 31), signed), "y": ((128, 31), signed)}, "CORALLoss"),  # of Office31
    "DiceCoefLoss": Case({"x": ((4, 1, 256, 256), positive), "y": ((4, 1, 256, 256), zero_or_one)}, "DiceCoefLoss"),
    "CosineLoss": Case({"x": ((8, 64, 56, 56), signed), "y": ((8, 64, 56, 56), signed)}, "CosineLoss"),
    "LabeledMatching": Case(  # of person_search
        {"x": ((256, 256), small), "y": ((256,), below(5532))},
        "LabeledMatching labeled_matching_param { num_classes: 5532 }",
        constant=("y",),
        agrees=False,  # the table moves
    ),
    "UnlabeledMatching": Case(
        {"x": ((256, 256), small), "y": ((256,), below(5532))},
        "UnlabeledMatching unlabeled_matching_param { queue_size: 5000 }",
        constant=("y",),
        agrees=False,
    ),
    "TripletLoss": Case(
        {name: ((128, 256), small) for name in ("anchor", "near", "far")}, "TripletLoss triplet_loss_param { margin: 0.2 }"
    ),
    "TripletLoss sets": Case(
        {"x": ((250, 256), small), "similar": ((250,), zero_or_one)},
        "TripletLoss triplet_loss_param { margin: 0.02 num_triplets: 3 }",
        constant=("similar",),
    ),
    "RankHardLoss": Case(
        {"x": ((128, 512), small), "y": ((128,), below(40))},
        "RankHardLoss rank_param { pair_size: 2 neg_num: 128 margin: 0.5 }",
        constant=("y",),
    ),
    "CenterLoss": Case(
        {"x": ((64, 512), signed), "y": ((64,), below(10572))},
        "CenterLoss center_loss_param { num_output: 10572 }",
        constant=("y",),
        weights=(((10572, 512), small),),
    ),
    "CenterCosLoss": Case(
        {"x": ((64, 512), signed), "y": ((64,), below(10572))},
        "CenterCosLoss center_cos_loss_param { num_output: 10572 }",
        constant=("y",),
        weights=(((10572, 512), small),),
    ),
    "SmoothL1LossOHEM": Case(
        {"x": ((300, 8), signed), "y": ((300, 8), signed)}, "SmoothL1LossOHEM", constant=("y",), tops=2
    ),
    "SoftmaxWithLossOHEM": Case(
        {"x": ((300, 21), signed), "y": ((300,), below(21))}, "SoftmaxWithLossOHEM", constant=("y",), tops=3
    ),
    "BoxAnnotatorOHEM": Case(
        {
            "rois": ((300, 5), regions(1000, 600)),
            "losses": ((300,), positive),
            "labels": ((300,), below(21)),
            "weights": ((300, 8), zero_or_one),
        },
        "BoxAnnotatorOHEM box_annotator_ohem_param { roi_per_img: 128 }",
        constant=("rois", "losses", "labels", "weights"),
        passes=1,
        tops=2,
    ),
    "AnchorTarget": Case(
        {"scores": ((1, 18, 38, 63), positive), "truth": ((8, 5), boxes_with_classes(21)), "info": ((1, 3), image_info)},
        "AnchorTarget",
        constant=("scores", "truth", "info"),
        passes=1,
        tops=4,
    ),
    "ProposalTarget": Case(
        {"rois": ((2000, 5), regions(1000, 600)), "truth": ((8, 5), boxes_with_classes(21))},
        "ProposalTarget proposal_target_param { num_classes: 21 batch_size: 128 }",
        constant=("rois", "truth"),
        passes=1,
        tops=5,
    ),
    "BatchProposalTarget": Case(
        {"rois": ((2000, 5), regions(1000, 600)), "truth": ((8, 8), rows_of_objects(1, 21))},
        "BatchProposalTarget proposal_target_param { cls_num: 21 num_img_per_batch: 1 img_width: 1000 img_height: 600 }",
        constant=("rois", "truth"),
        passes=1,
        tops=6,
    ),
    "ScaleRoute": Case(
        {"rois": ((2000, 5), regions(1000, 600)), "targets": ((2000, 84), signed)},
        "ScaleRoute scale_route_param { low_scale: 112 high_scale: 224 }",
        constant=("rois", "targets"),
        passes=1,
        tops=2,
    ),
    "DetectionLoss": Case(
        {"x": ((4, 7, 72, 96), signed), "y": ((4, 6, 72, 96), found_in_fields(3))},
        "DetectionLoss detection_loss_param { cls_num: 3 field_w: 40 field_h: 60 downsample_rate: 8 }",
        constant=("y",),
    ),
    "DetectionGroupLoss": Case(
        {
            "scores": ((12, 2, 38, 64), signed),
            "boxes": ((12, 4, 38, 64), small),
            "y": ((12, 6, 38, 64), found_in_fields(2)),
        },
        "DetectionGroupLoss detection_group_loss_param { cls_num: 2 field_w: [44, 88, 64] field_h: [88, 44, 64] stride: 8 "
        "batch_size: 256 bg_multiple: 1 }",
        constant=("y",),
    ),
    "DetectionAccuracy": Case(
        {"x": ((4, 7, 72, 96), signed), "y": ((4, 6, 72, 96), found_in_fields(3))},
        "DetectionAccuracy detection_accuracy_param { cls_num: 3 field_w: 40 field_h: 60 downsample_rate: 8 }",
        constant=("x", "y"),
        passes=1,
        tops=2,
    ),
    "DetectionGroupAccuracy": Case(
        {
            "scores": ((12, 2, 38, 64), signed),
            "boxes": ((12, 4, 38, 64), small),
            "y": ((12, 6, 38, 64), found_in_fields(2)),
        },
        "DetectionGroupAccuracy detection_group_accuracy_param { cls_num: 2 field_w: [44, 88, 64] field_h: [88, 44, 64] "
        "stride: 8 }",
        constant=("scores", "boxes", "y"),
        passes=1,
        tops=2,
    ),
    "FrcnnOutput": Case(
        {"scores": ((300, 21), positive), "boxes": ((300, 84), small), "rois": ((300, 5), regions(1000, 600)), "sizes": ((1, 2), image_size)},
        "FrcnnOutput frcnn_output_param { conf_thr: 0.5 max_det_num: 100 }",
        constant=("scores", "boxes", "rois", "sizes"),
        passes=1,
    ),
    "BboxAccuracy": Case(
        {"boxes": ((512, 84), small), "rois": ((512, 5), regions(1000, 600)), "truth": ((512, 6), boxes_of_regions(21))},
        "BboxAccuracy",
        constant=("boxes", "rois", "truth"),
        passes=1,
        tops=2,
    ),
    "DetectionEvaluate": Case(
        {"found": ((1, 1, 1600, 7), detections(8, 21)), "truth": ((1, 1, 32, 8), truth(8, 21))},
        "DetectionEvaluate detection_evaluate_param { num_classes: 21 }",
        constant=("found", "truth"),
        passes=1,
    ),
    "EvalDetection": Case(
        {"x": ((8, 125, 13, 13), signed), "truth": ((1, 1, 32, 8), truth(8, 21))},
        "EvalDetection eval_detection_param { side: 13 num_class: 20 num_object: 5 "
        "biases: [1.32, 1.73, 3.19, 4.01, 5.06, 8.1, 9.47, 4.84, 11.24, 10.01] }",
        constant=("x", "truth"),
        passes=1,
    ),
    "DetectNetTransformation": Case(
        {"images": ((2, 3, 384, 1248), below(256)), "labels": ((2, 1, 13, 16), labelled_objects)},
        "DetectNetTransformation detectnet_groundtruth_param { stride: 16 image_size_y: 352 }",
        constant=("images", "labels"),
        passes=1,
        tops=2,
    ),
    "ClusterDetections": Case(
        {"coverage": ((2, 1, 22, 78), positive), "boxes": ((2, 4, 22, 78), grid_boxes)},
        "ClusterDetections cluster_boxes_param { image_size_y: 352 rect_eps: 0.2 }",
        constant=("coverage", "boxes"),
        passes=1,
    ),
    "ClusterGroundtruth": Case(
        {"coverage": ((2, 1, 22, 78), zero_or_one), "boxes": ((2, 4, 22, 78), grid_boxes)},
        "ClusterGroundtruth cluster_boxes_param { image_size_y: 352 max_boxes: 1716 }",
        constant=("coverage", "boxes"),
        passes=1,
    ),
    "ScoreDetections": Case(
        {"truth": ((2, 50, 5), listed_boxes), "found": ((2, 50, 5), listed_boxes)},
        "ScoreDetections",
        constant=("truth", "found"),
        passes=1,
    ),
    "PrecisionRecall": Case(
        {"rows": ((2, 100, 5), verdicts)}, "PrecisionRecall", constant=("rows",), passes=1, tops=3
    ),
}

READS_FILES = "reads files; see input_pipeline.py"
NO_CASE = {
    **{
        type: READS_FILES
        for type in (
            "AnnotatedData", "BboxData", "CPMData", "CustomData", "Data", "DataHeatmap", "DenseImageData", "DetectionData", "DocData", "EvalData", "FrcnnRoiData", "HDF5Data", "ImageData",
            "ImageGtData", "ImageLabelData", "ImageSegData", "SegData", "SelectSegBinary", "SequenceData", "VideoData", "VideoSegmentationData", "VideoWithVoxelTruthData", "WindowData", "WindowSegData",
        )
    },
    "FLOWriter": "writes files: the disk's speed",
    "HDF5Output": "writes a file: the disk's speed",
    "ContinuationIndicator": "a source of a few constants",
    "DummyData": "a source: constants once, or random numbers",
    "GenerateAugmentationParameters": "42 numbers of each sample",
    "Grid": "constants",
    "Input": "the program writes its values",
    "MemoryData": "the program writes its values",
    "Parameter": "a parameter is its output",
    "Python": "a program of the user's",
    "AccuracyRegression": "computes what L1Loss does, without a gradient",
    "Silence": "nothing runs, but zeros are written as gradients",
}


def types_without(trainer):
    """Layer types that have neither a case nor a reason not to."""
    measured = {case.layer.split()[0] for case in CASES.values()}
    known = [layer["type"] for layer in json.loads(common.run([trainer, "layers", "--json"]).out)]
    return [type for type in known if type not in measured and type not in NO_CASE]


# ---------------------------------------------------------------- measuring


def write_tensors(path, tensors):
    """A safetensors file with blob 0 of each input's layer, and the measured layer's own blobs."""
    head, data, noise = {}, bytearray(), random.Random(1)
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += values(shape, noise).tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class Peer:
    """torch_layers.py, which answers one request after the other."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, common.HERE / "torch_layers.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        about = json.loads(self.process.stdout.readline() or "{}")
        self.version, self.cases = about.get("version", "unknown"), about.get("cases", [])

    def ask(self, *words):
        self.process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline() or '{"error": "PyTorch\'s process ended"}')
        if "error" in reply:
            raise common.Failed(f"PyTorch: {reply['error']}")
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Measurement:
    def __init__(self, trainer, peer, folder, name, options):
        self.trainer, self.peer, self.name, self.case = trainer, peer, name, CASES[name]
        self.threads, self.folder = options["threads"], folder
        self.tensors, self.net = folder / "tensors.safetensors", folder / "net.prototxt"
        tensors = self.case.all_tensors()
        write_tensors(self.tensors, tensors)
        stored = {key if "/" in key else f"{key}/0": tensor for key, tensor in tensors.items()}
        write_tensors(folder / "blobs.safetensors", stored)
        self.net.write_text(self.case.net())
        common.run([trainer, "convert", folder / "blobs.safetensors", folder / "blobs.caffemodel"])
        layers = json.loads(common.run([trainer, "summary", "--json", f"--model={self.net}", self.phase()]).out)["layers"]
        counts = {output["name"]: math.prod(output["shape"]) for layer in layers for output in layer["outputs"]}
        measured = next(layer for layer in layers if layer["name"] == "measured")
        blobs = [*measured["inputs"], *(output["name"] for output in measured["outputs"])]
        self.bytes = 4 * self.case.passes * sum(counts[blob] for blob in blobs)
        self.ours, self.theirs = [], []

    def phase(self):
        return f"--phase={'TEST' if self.case.passes == 1 else 'TRAIN'}"

    def run_ours(self, iterations):
        done = common.run(
            [
                self.trainer,
                "time",
                f"--model={self.net}",
                f"--weights={self.folder}/blobs.caffemodel",
                self.phase(),
                "--cpu=1",
                f"--threads_per_device={self.threads}",
                f"--iterations={iterations}",
                "--json",
            ]
        )
        layers = {layer["name"]: layer for layer in json.loads(done.out)["layers"]}
        loss = re.search(r"Initial loss: (\S+)", done.err)
        measured = [layer for name, layer in layers.items() if re.fullmatch(r"measured(_\d+)?", name)]
        times = {way: sum(layer[way] for layer in measured) for way in ("forward", "backward")}
        return {**times, "sum": float(loss[1]) if loss else None}

    def run_theirs(self, iterations):
        constant = ",".join(self.case.constant) or "none"
        if self.case.passes == 1:
            constant += ",-"
        return self.peer.ask(self.name, self.tensors, constant, self.threads, iterations)

    def measure(self, rounds, seconds):
        compared = self.peer is not None and self.name in self.peer.cases

        def times(run):
            one = run(2)
            return max(3, min(LARGEST, round(1000 * seconds / max(1e-3, one["forward"] + one["backward"]))))

        ours, theirs = times(self.run_ours), times(self.run_theirs) if compared else 0
        for number in range(rounds):
            sides = [(self.ours, self.run_ours, ours)] + ([(self.theirs, self.run_theirs, theirs)] if compared else [])
            for runs, run, iterations in sides if number % 2 == 0 else sides[::-1]:
                runs.append(run(iterations))
        if compared and self.case.agrees and self.case.passes == 2:
            mine, sums = self.ours[0]["sum"], self.theirs[0]
            if not abs(mine - sums["sum"]) <= TOLERANCE * sums["magnitudes"]:
                raise common.Failed(f"the outputs add up to {mine}, in PyTorch to {sums['sum']}")

    def result(self, bandwidth):
        def total(run):
            return max(1e-6, run["forward"] + run["backward"])  # ms; a view takes less than the clock can tell

        ours = statistics.median(map(total, self.ours))
        return {
            "case": self.name,
            "shapes": [shape for shape, _ in self.case.tensors.values()],
            "forward": statistics.median(run["forward"] for run in self.ours),
            "backward": statistics.median(run["backward"] for run in self.ours) if self.case.passes == 2 else None,
            "torch": statistics.median(map(total, self.theirs)) if self.theirs else None,
            "ratio": statistics.median(total(b) / total(a) for a, b in zip(self.ours, self.theirs)) if self.theirs else None,
            "of_memory": self.bytes / bandwidth / (ours / 1000) if bandwidth else None,
            "runs": {"ours": self.ours, "torch": self.theirs},
        }


HEADER = ["layer", "inputs", "forward ms", "backward ms", "PyTorch ms", "ratio", "of memory"]


# The last section of layers.md, which --shares replaces, and a measurement of the layers leaves as it is.
SHARES = "\n## Shares of the nets in models/\n"


def save(folder, layers=None, shares=None):
    """FOLDER/layers.md with new lines of one of its two parts; the other stays."""
    path = pathlib.Path(folder) / "layers.md"
    old, _, old_shares = (path.read_text() if path.exists() else "").partition(SHARES)
    if layers:
        common.save_markdown(folder, "layers", "Single layers against PyTorch", layers, False)
        old = path.read_text()
    section = "\n".join(["", *shares, ""]) if shares else old_shares
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(old + (SHARES + section if section else ""))


def report_shares(trainer, build, options):
    about = common.provenance(trainer, threads=options["threads"])
    shares = layer_shares.measure(trainer, options["threads"], options["nets"])
    lines = layer_shares.lines(shares, about, options["threads"])
    print("\n".join(lines))
    if options["write"]:
        save(options["write"], shares=lines)
    common.save_json(options["json"] or build / "bench/layer_shares.json", {"about": about, "results": shares})


def report(results, about, options):
    rows = [
        [
            r["case"],
            ", ".join("x".join(map(str, shape)) for shape in r["shapes"]),
            common.number(r["forward"], "{:.3g}"),
            common.number(r["backward"], "{:.3g}"),
            common.number(r["torch"], "{:.3g}"),
            common.number(r["ratio"], "{:.2f}"),
            common.number(r["of_memory"], "{:.2f}"),
        ]
        for r in results
    ]
    copies = about["copy_bytes_per_second"]  # measured with PyTorch
    speed = f" a copy moves {copies / 1e9:.0f} GB/s." if copies else ""
    lines = [
        f"{common.taken_where(about, options['threads'])}; PyTorch {about['torch'] or 'absent'};{speed} "
        f"Median of {options['rounds']} alternating rounds; f32.",
        "",
        common.table(HEADER, rows),
        "",
        "*PyTorch ms*: forward and backward of the same operator, or of operators that together compute it. *ratio*: how much faster",
        "ours is. *of memory*: the time in which a copy moves as many bytes as inputs, outputs and their gradients have, over ours.",
        "Made by `tests/bench/layers.py`.",
    ]
    print("\n".join(lines))
    if options["write"]:
        save(options["write"], layers=lines)


def main():
    options = {"rounds": 5, "cases": "", "threads": 2, "seconds": 0.5, "quick": False, "shares": False, "nets": ""}
    options |= {"python": "", "json": "", "write": ""}
    words = common.parse(sys.argv[1:], options, __doc__)
    if options["cases"] == "list":
        return print("\n".join(CASES))
    if options["cases"] == "none":
        print("\n".join(f"{type:22} {why}" for type, why in NO_CASE.items()))
        missing = types_without(common.build_folder(words) / "bin/trainer")
        sys.exit(f"neither a case nor a reason: {', '.join(missing)}" if missing else 0)
    names = [name for name in CASES if not options["cases"] or name in options["cases"].split(",")]
    if len(words) > 1 or options["rounds"] < 1 or not names:
        sys.exit(__doc__)
    build = common.build_folder(words)
    trainer = build / "bin/trainer"
    if options["shares"]:
        return report_shares(trainer, build, options)
    python = common.find_python("torchvision", options["python"])
    if python is None:
        common.skip("PyTorch's side, the ratios and \"of memory\"", common.how_to_get("torchvision"))
    about = common.provenance(trainer, threads=options["threads"], rounds=options["rounds"])
    peer = Peer(python) if python else None
    about["torch"] = peer.version if peer else None
    bandwidth = peer.ask("copy", options["threads"], COPIED)["bytes_per_second"] if peer else None
    about["copy_bytes_per_second"] = bandwidth
    results, failures = [], 0
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            try:
                one = Measurement(trainer, peer, pathlib.Path(place), name, options)
                one.measure(options["rounds"], options["seconds"] / (5 if options["quick"] else 1))
                results.append(one.result(bandwidth))
                print(f"  {name}", file=sys.stderr)
            except common.Failed as why:
                common.skip(name, why)
                failures += 1
    if peer:
        peer.close()
    report(results, about, options)
    common.save_json(options["json"] or build / "bench/layers.json", {"about": about, "results": results})
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    common.run_main(main)
