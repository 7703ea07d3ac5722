#!/usr/bin/env python3
"""Records what BVLC Caffe makes of random nets and solvers, for caffe_results_test.cpp.

    record.py FIRST COUNT > results.txt

draws nets of BVLC's layers with the seeds FIRST, FIRST + 1, ... and prints, for each that Caffe takes, its text,
its inputs by name, kind and shape, and a few values and the norm of every blob and gradient. Every sixth is a
solver, which makes six iterations. It needs Caffe's Python module and a CPU (Debian 11: apt-get install
python3-caffe). Inputs and parameters are not stored: made_values() here and in the test are the same.
"""
import os
import random
import re
import sys
import tempfile

os.environ["GLOG_minloglevel"] = "3"
import caffe  # noqa: E402
import numpy as np  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402
from google.protobuf import text_format  # noqa: E402

SHOWN = 6  # values of each array


# --- the same in caffe_results_test.cpp ---


def made_values(kind, count, phase):
    x, out = (phase * 7919 + 12345) & 0x7FFFFFFF, np.empty(count)
    for i in range(count):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        out[i] = (x >> 8) / 4194304.0 - 1
    if kind == "wide":
        return out
    if kind == "share":
        return 0.5 + 0.375 * out
    return np.floor((0.5 + 0.5 * out) * int(kind))  # whole numbers below it


def parameter_values(type_, slot, shape, phase):
    count = int(np.prod(shape)) if len(shape) else 1
    wide = made_values("wide", count, phase)
    if type_ == "BatchNorm":
        return [0.125 * wide, 1 + 0.5 * wide, np.ones(count)][slot]
    if len(shape) < 2:
        return 0.5 * wide
    return wide * np.sqrt(2.0 * shape[0] / count)


# --- drawing ---


class Drawing:
    """A net while it is drawn: `at` is the blob that the next layer reads, `shape` its shape or None."""

    def __init__(self, seed, least=1):
        self.r = random.Random(seed)
        self.lines, self.inputs, self.layers = [], [], 0
        self.force = True  # all gradients, also those of inputs
        self.samples = self.r.randint(least, 4)
        self.shape = [self.samples, self.r.choice([1, 2, 3, 4, 6]), self.r.randint(4, 7), self.r.randint(4, 7)]
        self.at = self.input("data", self.shape)

    def chance(self, share):
        return self.r.random() < share

    def one_of(self, *what):
        return self.r.choice(what)

    def input(self, name, shape, kind="wide"):
        self.inputs.append((name, kind, list(shape)))
        dims = " ".join("dim: %d" % d for d in shape)
        self.lines.append("layer { name: 'in_%s' type: 'Input' top: '%s' input_param { shape { %s } } }" % (name, name, dims))
        return name

    def other(self, shape, kind="wide"):
        return self.input("other%d" % len(self.inputs), shape, kind)

    def layer(self, type_, bottoms, settings="", tops=1, in_place=False):
        self.layers += 1
        names = [bottoms[0]] if in_place else ["b%d%s" % (self.layers, "abc"[i] if i else "") for i in range(tops)]
        text = "layer { name: 'l%d' type: '%s'" % (self.layers, type_)
        text += "".join(" bottom: '%s'" % b for b in bottoms) + "".join(" top: '%s'" % t for t in names)
        self.lines.append(text + " " + settings + " }")
        return names[0] if tops == 1 else names

    def add(self, type_, settings="", more=(), **how):
        self.at = self.layer(type_, [self.at, *more], settings, **how)

    def yes(self):
        return self.one_of("true", "false")

    # Layers that keep four axes.

    def convolution(self, bias=None):
        groups = self.one_of(*[g for g in (1, 2, 3) if self.shape[1] % g == 0])
        made = groups * self.r.randint(1, 3)
        name = " param { name: 'w%d' }" % made if made == self.shape[1] and groups == 1 and self.chance(0.3) else ""
        self.add("Convolution", "convolution_param { num_output: %d kernel_size: 3 pad: 1 group: %d bias_term: %s }%s" % (made, groups, bias or self.yes(), name))
        self.shape[1] = made

    def function(self):
        type_, settings = self.one_of(
            ("ReLU", ""), ("ReLU", "relu_param { negative_slope: %g }" % self.one_of(0.1, -0.3)), ("PReLU", ""),
            ("PReLU", "prelu_param { channel_shared: true }"), ("ELU", "elu_param { alpha: %g }" % self.one_of(0.5, 1, 2)),
            ("Sigmoid", ""), ("TanH", ""), ("AbsVal", ""), ("BNLL", ""), ("Swish", self.one_of("", "swish_param { beta: 1.75 }")),
            ("Power", "power_param { power: %g scale: 0.5 shift: -0.25 }" % self.one_of(0, 1, 2, 3)), ("Clip", "clip_param { min: -0.25 max: 0.5 }"),
            ("Exp", self.one_of("", "exp_param { base: 2 scale: 0.5 shift: -0.25 }", "exp_param { scale: -0.75 }")))
        # Caffe computes wrong gradients for most functions in place over a layer that reads its output.
        fresh = re.match(r"layer .* type: '(Convolution|InnerProduct|Pooling)'", self.lines[-1])
        self.add(type_, settings, in_place=type_ == "ReLU" and "-" not in settings and bool(fresh) and self.chance(0.6))

    def root(self):
        self.add("Sigmoid")
        self.add(*self.one_of(
            ("Log", ""), ("Log", "log_param { base: 10 scale: 2 shift: 0.5 }"), ("Power", "power_param { power: 0.5 shift: 0.125 }"),
            ("Power", "power_param { power: -1.5 scale: 2 shift: 0.25 }"), ("Power", "power_param { power: 2.5 }")))

    def normalization(self):
        if self.samples * self.shape[2] * self.shape[3] < 12:
            return
        self.add("BatchNorm", self.one_of("", "batch_norm_param { eps: 0.01 moving_average_fraction: 0.9 }", "batch_norm_param { use_global_stats: true }"))
        if self.chance(0.7):
            self.add("Scale", "scale_param { bias_term: %s }" % self.yes())

    def lrn(self):
        within = self.chance(0.5)
        self.add("LRN", "lrn_param { local_size: %d alpha: %g beta: %g%s }" % (
            self.one_of(3, 5), self.one_of(0.0001, 0.5, 2), self.one_of(0.5, 0.75, 1), " norm_region: WITHIN_CHANNEL" if within else " k: %g" % self.one_of(1, 2)))

    def pooling(self):
        self.add("Pooling", "pooling_param { pool: %s kernel_size: 3 stride: 1 pad: 1 }" % self.one_of("MAX", "AVE"))

    def eltwise(self):
        more = [self.other(self.shape) for _ in range(self.r.randint(1, 2))]
        weights = " ".join("coeff: %g" % self.one_of(1, -1, 0.5) for _ in range(len(more) + 1))
        self.add("Eltwise", self.one_of("", "eltwise_param { operation: PROD }", "eltwise_param { operation: PROD stable_prod_grad: false }",
                                        "eltwise_param { operation: MAX }", "eltwise_param { operation: SUM %s }" % weights), more)

    def branch(self):
        before = self.at
        self.function()
        first, self.at = self.at, before
        if first == before:
            return
        self.function()
        if self.at != before:
            self.at = self.layer("Eltwise", [first, self.at], self.one_of("", "eltwise_param { operation: PROD }"))

    def scale(self):
        type_ = self.one_of("Scale", "Bias")
        start = self.r.randint(0, 2)
        axes = self.one_of(-1, self.r.randint(1, 4 - start))
        bias = " bias_term: %s" % self.yes() if type_ == "Scale" else ""
        if self.chance(0.5):
            self.add(type_, "%s_param { axis: %d num_axes: %d%s }" % (type_.lower(), start, axes, bias))
        else:
            end = self.r.randint(start + 1, 4)
            self.add(type_, "%s_param { axis: %d%s }" % (type_.lower(), start, bias), [self.other(self.shape[start:end])])

    # Layers after which only the samples are certain.

    def window(self, axes=2):
        how = self.r.randrange(3)
        text = ""
        for name, low, high, share in (("kernel_size", 1, 3, 1), ("stride", 1, 3, 0.6), ("pad", 0, 2, 0.6)):
            if not self.chance(share):
                continue
            values = [self.r.randint(low, high) for _ in range(axes)]
            short = name.replace("_size", "")
            text += " %s: %d" % (name, values[0]) if how == 0 else (
                " %s_h: %d %s_w: %d" % (short, values[0], short, values[1]) if how == 1 and axes == 2 else "".join(" %s: %d" % (name, v) for v in values))
        return text + (" dilation: %d" % self.r.randint(1, 2) if self.chance(0.3) else "")

    def windows(self):
        groups = self.one_of(*[g for g in (1, 2, 3, 4, 6) if self.shape[1] % g == 0])
        self.add(self.one_of("Convolution", "Deconvolution"), "convolution_param { num_output: %d group: %d bias_term: %s%s }" % (
            groups * self.r.randint(1, 3), groups, self.yes(), self.window()))

    def volume(self):
        self.inputs, self.lines, self.samples = [], [], 2
        self.at = self.input("data", [2, self.one_of(1, 2, 4), 5, 4, 5])
        self.add(self.one_of("Convolution", "Deconvolution"), "convolution_param { num_output: 3%s %s }" % (self.window(3), self.one_of("", "force_nd_im2col: true")))

    def pooled(self):
        if self.chance(0.2):
            return self.add("Pooling", "pooling_param { pool: %s global_pooling: true }" % self.one_of("MAX", "AVE"))
        kernel = self.r.randint(2, 3)
        self.add("Pooling", "pooling_param { pool: %s kernel_h: %d kernel_w: %d stride: %d pad: %d%s }" % (
            self.one_of("MAX", "AVE"), kernel, self.r.randint(2, 3), self.r.randint(1, 2), self.r.randint(0, 1), self.one_of("", " round_mode: FLOOR")))

    def mask(self):
        self.at, mask = self.layer("Pooling", [self.at], "pooling_param { pool: MAX kernel_size: 2 stride: 2 }", tops=2)

    def concat(self):
        axis = self.one_of(1, 2, 3, -1, -3)
        shape = list(self.shape)
        shape[axis] = self.r.randint(1, 3)
        self.add("Concat", self.one_of("concat_param { axis: %d }" % axis, "concat_param { concat_dim: 1 }" if axis == 1 else "concat_param { axis: %d }" % axis), [self.other(shape)])

    def slice(self):
        axes = [i for i in (1, 2, 3) if self.shape[i] >= 2]
        axis = self.r.choice(axes)
        tops = self.layer("Slice", [self.at], "slice_param { axis: %d slice_point: %d }" % (axis, self.r.randint(1, self.shape[axis] - 1)), tops=2)
        self.at = tops[self.r.randrange(2)]

    def crop(self):
        axis = self.r.randint(1, 3)
        shape = [d - (self.r.randint(0, 1) if i >= axis and d > 1 else 0) for i, d in enumerate(self.shape)]
        offsets = " ".join("offset: %d" % self.r.randint(0, self.shape[i] - shape[i]) for i in range(axis, 4)) if self.chance(0.6) else ""
        self.force = False
        self.add("Scale", "scale_param { }")
        self.add("Crop", "crop_param { axis: %d %s }" % (axis, offsets), [self.other(shape)])

    def order(self):
        self.add(*self.one_of(
            ("Flatten", self.one_of("", "flatten_param { axis: 2 }", "flatten_param { axis: 1 end_axis: 2 }", "flatten_param { axis: -3 end_axis: -2 }")),
            ("Reshape", "reshape_param { %s }" % self.one_of("shape { dim: 0 dim: -1 }", "shape { dim: 0 dim: 0 dim: -1 }", "shape { dim: %d dim: 1 } axis: 1 num_axes: 1" % self.shape[1], "shape { dim: 1 } axis: -1 num_axes: 0")),
            ("Tile", "tile_param { axis: %d tiles: %d }" % (self.one_of(1, 2, 3, -1), self.r.randint(1, 3))),
            ("Im2col", "convolution_param {%s }" % self.window()), ("SPP", "spp_param { pyramid_height: %d pool: %s }" % (self.r.randint(1, 2), self.one_of("MAX", "AVE"))),
            ("Softmax", self.one_of("", "softmax_param { axis: %d }" % self.one_of(2, 3, -1))),
            ("MVN", "mvn_param { normalize_variance: %s across_channels: %s }" % (self.yes(), self.yes())),
            ("InnerProduct", "inner_product_param { num_output: %d bias_term: %s axis: %d transpose: %s }" % (self.r.randint(1, 5), self.yes(), self.one_of(1, 2, 3, -1), self.yes()))))

    def reduction(self):
        self.add("Reduction", "reduction_param { operation: %s axis: %d coeff: %g }" % (self.one_of("SUM", "ASUM", "SUMSQ", "MEAN"), self.one_of(2, 3, -1), self.one_of(1, 0.5, -2)))

    def reindex(self):
        self.force = False
        self.add("Scale", "scale_param { }")
        count = self.r.randint(1, 5)
        self.add("BatchReindex", "", [self.other([count], str(self.samples))])
        self.samples = count

    def embed(self):
        self.force = False
        self.at = self.layer("Embed", [self.other([self.samples, *self.one_of([], [3], [2, 2])], "6")], "embed_param { num_output: 3 input_dim: 6 bias_term: %s }" % self.yes())
        if len(self.inputs[-1][2]) == 1:
            self.add("Sigmoid")

    def recurrent(self):
        self.force = False
        steps, batch, made = self.r.randint(2, 4), self.r.randint(1, 3), self.r.randint(1, 4)
        type_ = self.one_of("LSTM", "RNN")
        bottoms = [self.other([steps, batch, *self.one_of([2], [4], [2, 2])]), self.other([steps, batch], "2")]
        if self.chance(0.4):
            bottoms.append(self.other([batch, self.r.randint(1, 3)]))
        exposed, tops = self.chance(0.3), 1
        if exposed:
            tops = 3 if type_ == "LSTM" else 2
            bottoms += [self.other([1, batch, made]) for _ in range(tops - 1)]
        made_tops = self.layer(type_, bottoms, "recurrent_param { num_output: %d expose_hidden: %s }" % (made, "true" if exposed else "false"), tops=tops)
        self.at, self.samples = made_tops[0] if exposed else made_tops, steps

    def unit(self):
        self.force = False
        batch, made = self.r.randint(1, 3), self.r.randint(1, 4)
        gates = self.layer("InnerProduct", [self.other([1, batch, 3])], "inner_product_param { num_output: %d axis: 2 }" % (4 * made))
        cell = self.layer("InnerProduct", [self.other([1, batch, 2])], "inner_product_param { num_output: %d axis: 2 }" % made)
        self.at = self.layer("Concat", self.layer("LSTMUnit", [cell, gates, self.other([1, batch], "2")], tops=2), "concat_param { axis: 2 }")
        self.samples = 1

    def chosen(self):
        self.force = False
        self.layer("ArgMax", [self.at], "argmax_param { top_k: %d out_max_val: %s %s }" % (1 if self.shape[1] < 3 else self.r.randint(1, 3), self.yes(), self.one_of("", "axis: 1")))
        self.layer("Threshold", [self.at], "threshold_param { threshold: 0.125 }")

    def scores(self, made):
        return self.layer("InnerProduct", [self.at], "inner_product_param { num_output: %d }" % made)

    def loss(self):
        n = self.samples
        weight = self.one_of("", "", " loss_weight: 0.5", " loss_weight: 2")
        kind = self.r.randrange(8)
        norm = self.one_of("", "normalization: FULL", "normalization: BATCH_SIZE", "ignore_label: 1", "ignore_label: 0 normalization: VALID", "normalization: NONE")
        norm = "loss_param { %s }" % norm + weight if norm else weight
        if kind <= 2:
            scores, label = self.scores(4), self.input("label", self.one_of([n], [n, 1]), "4")
            if self.chance(0.5):
                self.force = False
                self.layer("Accuracy", [scores, label], self.one_of("", "accuracy_param { top_k: 2 }", "accuracy_param { ignore_label: 1 }"), tops=self.one_of(1, 2))
            self.layer("SoftmaxWithLoss", [scores, label], self.one_of(norm, "loss_param { normalize: false ignore_label: 2 }" + weight), tops=self.one_of(1, 2))
        elif kind == 3:
            self.layer("SigmoidCrossEntropyLoss", [self.scores(3), self.input("target", [n, 3], "2")], norm)
        elif kind == 4:
            self.layer("HingeLoss", [self.scores(4), self.input("label", [n], "4")], self.one_of("", "hinge_loss_param { norm: L2 }") + weight)
        elif kind == 5:
            scores, label = self.scores(4), self.input("label", [n], "4")
            if self.chance(0.5):
                self.layer("MultinomialLogisticLoss", [self.layer("Softmax", [scores]), label], weight)
            else:
                self.force = False
                self.layer("InfogainLoss", [scores, label, self.input("gain", [1, 1, 4, 4])], norm)
        elif kind == 6:
            self.layer("ContrastiveLoss", [self.scores(3), self.scores(3), self.input("pairs", [n], "2")],
                       self.one_of("", "contrastive_loss_param { margin: 2 }", "contrastive_loss_param { margin: 3 legacy_version: true }") + weight)
        else:
            self.layer("EuclideanLoss", [self.scores(3), self.input("target", [n, 3])], weight)

    def draw(self):
        keeping = [self.convolution, self.convolution, self.function, self.function, self.normalization, self.lrn, self.pooling, self.eltwise, self.branch, self.scale]
        ends = [self.windows, self.windows, self.windows, self.volume, self.pooled, self.pooled, self.mask, self.root, self.concat, self.slice, self.crop, self.order,
                self.order, self.order, self.order, self.order, self.reduction, self.reindex, self.embed, self.recurrent, self.recurrent, self.unit, self.chosen, *keeping]
        end = self.r.choice(ends)
        if end not in (self.volume, self.embed, self.recurrent, self.unit):
            for _ in range(self.one_of(0, 0, 1, 2, 3)):
                self.r.choice(keeping)()
        end()
        self.loss()
        return self

    def text(self):
        return ("force_backward: true\n" if self.force else "") + "\n".join(self.lines) + "\n"


def drawn_solver(seed):
    """The text of a solver, and the net's drawing."""
    # Of one sample, Caffe's Scale forgets the gradients of earlier passes of an iteration. A bias before a
    # normalization has no gradient but rounding.
    net = Drawing(seed, least=2)
    normalized = net.chance(0.5)
    net.convolution("false" if normalized else None)
    if normalized:
        net.normalization()
    net.add("ReLU")
    net.force = False
    net.layer("SoftmaxWithLoss", [net.scores(4), net.input("label", [net.samples], "4")])
    learns = net.one_of("", "", "param { lr_mult: 2 decay_mult: 0.5 }", "param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }")
    net.lines = [line[:-1] + learns + " }" if "InnerProduct" in line else line for line in net.lines]
    type_ = net.one_of("SGD", "SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")
    text = "type: '%s' base_lr: %g" % (type_, {"RMSProp": 0.01, "Adam": 0.01, "AdaDelta": 1}.get(type_, 0.1))
    if type_ in ("SGD", "Nesterov", "AdaDelta", "Adam"):
        text += " momentum: %g" % net.one_of(0.5, 0.9, 0.95)
    if type_ == "Adam" and net.chance(0.5):
        text += " momentum2: 0.99"
    if type_ == "RMSProp":
        text += " rms_decay: %g" % net.one_of(0.9, 0.98)
    text += net.one_of(" lr_policy: 'fixed'", " lr_policy: 'step' gamma: 0.5 stepsize: 2", " lr_policy: 'exp' gamma: 0.9", " lr_policy: 'inv' gamma: 0.1 power: 0.75",
                       " lr_policy: 'multistep' gamma: 0.3 stepvalue: 1 stepvalue: 4", " lr_policy: 'poly' power: 2", " lr_policy: 'sigmoid' gamma: 0.5 stepsize: 3")
    for share, setting in ((0.6, "weight_decay: %g" % net.one_of(0.0005, 0.01)), (0.3, "regularization_type: 'L1'"), (0.3, "clip_gradients: %g" % net.one_of(0.25, 2)),
                           (0.3, "iter_size: 2")):
        if net.chance(share):
            text += " " + setting
    return text + " max_iter: 6", net


# --- recording ---


def fill(net, inputs):
    for phase, (name, kind, shape) in enumerate(inputs):
        net.blobs[name].data[...] = made_values(kind, int(np.prod(shape)) if shape else 1, phase).reshape(shape)
    for layer, slot, blob in own_parameters(net):
        phase = 100 * int(layer.name[1:]) + slot
        blob.data[...] = parameter_values(layer.type, slot, list(blob.data.shape), phase).reshape(blob.data.shape)


def line(kind, name, values):
    flat = np.asarray(values, np.float64).ravel()
    places = range(flat.size) if flat.size <= SHOWN else [i * (flat.size - 1) // (SHOWN - 1) for i in range(SHOWN)]
    shape = "x".join(str(d) for d in np.shape(values)) or "1"
    return "%s %s %s %.6g %s" % (kind, name, shape, np.sqrt(np.sum(flat * flat)), " ".join("%.6g" % flat[i] for i in places))


class Parsed:
    """A caffe.Net with its text."""

    def __init__(self, net, text):
        self.blobs, self.params, self.net = net.blobs, net.params, net
        self.parsed = text_format.Parse(text, caffe_pb2.NetParameter())


def own_parameters(net):
    """Layer, slot and blob of each parameter, of shared ones the first."""
    named = set()
    for layer in net.parsed.layer:
        for slot, blob in enumerate(net.params[layer.name] if layer.name in net.params else []):
            name = layer.param[slot].name if slot < len(layer.param) else ""
            if not name or name not in named:
                yield layer, slot, blob
            named.add(name)


def record_net(seed, folder):
    drawing = Drawing(seed).draw()
    text, phase = drawing.text(), "test" if seed % 8 == 3 else "train"
    path = os.path.join(folder, "net.prototxt")
    with open(path, "w") as file:
        file.write(text)
    net = Parsed(caffe.Net(path, caffe.TEST if phase == "test" else caffe.TRAIN), text)
    fill(net, drawing.inputs)
    net.net.forward()
    net.net.backward()
    lines = ["net %d %s" % (seed, phase)]
    lines += ["input %s %s %s" % (name, kind, " ".join(map(str, shape))) for name, kind, shape in drawing.inputs]
    lines += text.strip().split("\n") + ["results"]
    inputs = {name for name, _, _ in drawing.inputs}
    fixed = {name for name, kind, _ in drawing.inputs if kind != "wide"}
    in_place = {t for layer in net.parsed.layer for t in layer.top if t in layer.bottom}
    shares = {t for layer in net.parsed.layer if layer.type in ("Reshape", "Flatten") for t in (*layer.top, *layer.bottom)}
    for name, blob in net.blobs.items():
        if "_split_" in name:
            continue
        if name not in inputs:
            lines.append(line("blob", name, blob.data))
        if drawing.force and name not in in_place and name not in shares and name not in fixed:
            lines.append(line("diff", name, blob.diff))
    for layer, slot, blob in own_parameters(net):
        if layer.type != "BatchNorm":
            lines.append(line("grad", "%s/%d" % (layer.name, slot), blob.diff))
    for layer, slot, blob in own_parameters(net):
        if layer.type == "BatchNorm":
            lines.append(line("stat", "%s/%d" % (layer.name, slot), blob.data))
    return lines + ["end"]


def record_solver(seed, folder):
    settings, drawing = drawn_solver(seed)
    text = drawing.text()
    path = os.path.join(folder, "solver.prototxt")
    with open(os.path.join(folder, "net.prototxt"), "w") as file:
        file.write(text)
    with open(path, "w") as file:
        file.write("net: '%s/net.prototxt' snapshot_prefix: '%s/s' solver_mode: CPU snapshot: 6 %s\n" % (folder, folder, settings))
    solver = caffe.get_solver(path)
    net = Parsed(solver.net, text)
    fill(net, drawing.inputs)
    lines = ["solver %d %s" % (seed, settings)]
    lines += ["input %s %s %s" % (name, kind, " ".join(map(str, shape))) for name, kind, shape in drawing.inputs]
    lines += text.strip().split("\n") + ["results"]
    loss = net.parsed.layer[-1].top[0]
    losses = []
    for _ in range(6):
        solver.step(1)
        losses.append(float(net.blobs[loss].data))
    lines.append(line("loss", loss, losses))
    for layer, slot, blob in own_parameters(net):
        lines.append(line("param", "%s/%d" % (layer.name, slot), blob.data))
    return lines + ["end"]


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    caffe.set_mode_cpu()
    print("# Written by record.py; Caffe", caffe.__version__, flush=True)
    for seed in range(first, first + count):
        child = os.fork()  # Caffe ends the process at what it refuses
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with tempfile.TemporaryDirectory() as folder:
                lines = (record_solver if seed % 6 == 0 else record_net)(seed, folder)
                finite = not any(re.search(r"\b(nan|inf)\b", one) for one in lines)
                os.write(1, ("\n".join(lines) + "\n").encode() if finite else b"")
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
