#!/usr/bin/env python3
"""PyTorch's side of layers.py: for each line on standard input that names a case, a file of tensors, threads and iterations,
times the same operator, and prints a line of JSON.

The answer: milliseconds forward and backward (mean of the iterations after two to warm up), the sum of the output's values
and of their magnitudes; or "error". The line "copy THREADS BYTES" is answered with the bytes per second of copying (read and
written). Images are channels-last, or contiguous where that is faster.
"""

import json
import math
import sys
import time
import types

import torch
import torchvision
from torch.nn import functional as F
from torchvision.models.detection import _utils as detection
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.ssd import SSD

ops = torchvision.ops


def lstm(t, order=(0, 1, 2)):
    """Caffe's gates are input, forget, output, candidate; PyTorch's input, forget, candidate, output. `order`: where
    the weights of inputs, the bias and the weights of the state are."""
    weights = (t[f"measured/{place}"] for place in order)
    inputs, bias, hidden = (torch.cat([p[0], p[1], p[3], p[2]]) for p in (w.detach().chunk(4) for w in weights))
    net = torch.nn.LSTM(inputs.shape[1], hidden.shape[1])
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), (inputs, hidden, bias, torch.zeros_like(bias))):
            parameter.copy_(value)
    return lambda: net(t["x"])[0]


def rnn(t):
    net = torch.nn.RNN(t["measured/0"].shape[1], t["measured/2"].shape[1])
    parameters = net.parameters()
    with torch.no_grad():
        for key in ("measured/0", "measured/2", "measured/1"):
            next(parameters).copy_(t[key])
        next(parameters).zero_()
    return lambda: torch.tanh(F.linear(net(t["x"])[0], t["measured/3"], t["measured/4"]))


def correlation(t, reach, stride):
    def run():
        h, w = t["a"].shape[2:]
        padded = F.pad(t["b"], [reach] * 4)
        steps = range(0, 2 * reach + 1, stride)
        return torch.stack([(t["a"] * padded[:, :, y : y + h, x : x + w]).mean(1) for y in steps for x in steps], 1)

    return run


def local(t):
    """A convolution with weights of its own at each position."""
    weights, bias = t["measured/0"].squeeze(1), t["measured/1"].squeeze(0)
    return lambda: torch.einsum("nkp,mkp->nmp", F.unfold(t["x"], 3), weights) + bias


def warp(t):
    def run():
        h, w = t["x"].shape[2:]
        columns, rows = torch.arange(w) + t["flow"][:, 0], torch.arange(h)[:, None] + t["flow"][:, 1]
        inside = (columns >= 0) & (columns <= w - 1) & (rows >= 0) & (rows <= h - 1)
        grid = torch.stack([columns * 2 / (w - 1) - 1, rows * 2 / (h - 1) - 1], 3)
        return F.grid_sample(t["x"], grid, align_corners=True) * inside[:, None]

    return run


def remap(t):
    def run():
        h, w = t["x"].shape[2:]
        grid = torch.stack([t["places"][:, 0] * 2 / (w - 1) - 1, t["places"][:, 1] * 2 / (h - 1) - 1], 3)
        return F.grid_sample(t["x"], grid, align_corners=True)

    return run


def rand_bi(t):
    """As many points of each image."""

    def read(maps, rate):
        h, w = maps.shape[2:]
        places = (t["points"][:, 1:].view(len(maps), 1, -1, 2) - (rate - 1) / 2) / rate
        grid = torch.stack([places[..., 1] * 2 / (w - 1) - 1, places[..., 0] * 2 / (h - 1) - 1], 3)
        found = F.grid_sample(maps, grid, padding_mode="border", align_corners=True)
        return found.squeeze(2).permute(0, 2, 1).reshape(-1, maps.shape[1])

    return lambda: torch.cat([read(t["x"], 1), read(t["y"], 16)], 1)


def channel_select(t):
    labels = torch.cat([torch.zeros(1), t["y"].detach()[0, :, 0, 0]]).long()
    return lambda: t["x"][torch.arange(len(labels)), labels].unsqueeze(1)


def affinity(t):
    def run():
        x = t["x"][:, :1]
        here = x[:, :, :-1, :-1]
        pairs = [torch.minimum(here, x[:, :, 1:, :-1]), torch.minimum(here, x[:, :, :-1, 1:])]
        return F.pad(torch.cat(pairs, 1), (0, 1, 0, 1))

    return run


def flow_transformer(t):
    def run():
        h, w = t["x"].shape[2:]
        columns, rows = torch.arange(w) + t["flow"][:, 0], torch.arange(h)[:, None] + t["flow"][:, 1]
        grid = torch.stack([columns * 2 / (w - 1) - 1, rows * 2 / (h - 1) - 1], 3)
        return F.grid_sample(t["x"], grid, align_corners=True)

    return run


def charbonnier_loss(t):
    def run():
        terms = ((255 * t["x"]) ** 2 + 1e-6) ** 0.4
        return (t["mask"] * terms).sum() / (len(t["x"]) * t["mask"].abs().sum())

    return run


def ssim_loss(t):
    """Maps that windows of 8 cover."""
    at = torch.arange(8) - 4
    weights = torch.exp(-(at**2) / (2 * (8 / 6) ** 2))
    window = torch.outer(weights, weights)[None, None] / weights.sum() ** 2

    def run():
        n, c, h, w = t["x"].shape
        x, y = t["x"].reshape(n * c, 1, h, w), t["y"].reshape(n * c, 1, h, w)
        of_x, of_y, xx, yy, xy = (F.conv2d(maps, window, stride=8) for maps in (x, y, x * x, y * y, x * y))
        similar = (2 * of_x * of_y + 1e-4) / (of_x**2 + of_y**2 + 1e-4)
        varies = (2 * (xy - of_x * of_y) + 1e-3) / (xx - of_x**2 + yy - of_y**2 + 1e-3)
        return (1 - similar * varies).sum() / n

    return run


def spatial_transformer(t):
    """Rows before columns, from -1 for the first pixel to 1 for the one after the last."""

    def run():
        n, _, h, w = t["x"].shape
        rows, columns = torch.arange(h) * 2 / h - 1, torch.arange(w) * 2 / w - 1
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), 2)
        grid = torch.cat([grid, torch.ones(h, w, 1)], 2).view(h * w, 3)
        moved = (grid @ t["theta"].view(n, 2, 3).transpose(1, 2)).view(n, h, w, 2).flip(3)
        return F.grid_sample(t["x"], moved + torch.tensor([1 / w, 1 / h]), align_corners=False)

    return run


def moved_votes(t):
    """DeformablePSROIPooling of one image with 7 x 7 groups and bins, 4 x 4 points in each."""

    def run():
        h, w = t["x"].shape[2:]
        corners = t["rois"][:, 1:].round()
        first, last = corners[:, :2] / 16 - 0.5, (corners[:, 2:] + 1) / 16 - 0.5
        side = (last - first).clamp(min=0.1)  # right, down
        bins = torch.arange(28) / 28
        moves = t["offsets"].repeat_interleave(4, 2).repeat_interleave(4, 3) * 0.1
        columns = first[:, 0, None, None] + (bins + moves[:, 0]) * side[:, 0, None, None]
        rows = first[:, 1, None, None] + (bins[:, None] + moves[:, 1]) * side[:, 1, None, None]
        inside = (columns >= -0.5) & (columns <= w - 0.5) & (rows >= -0.5) & (rows <= h - 0.5)
        grid = torch.stack([columns.clamp(0, w - 1) * 2 / (w - 1) - 1, rows.clamp(0, h - 1) * 2 / (h - 1) - 1], 3)
        by_bin = t["x"].view(21, 49, h, w).transpose(0, 1)
        regions = len(grid)
        grid = grid.view(regions, 7, 4, 7, 4, 2).permute(1, 3, 0, 2, 4, 5).reshape(49, regions * 4, 4, 2)
        count = inside.view(regions, 7, 4, 7, 4).permute(1, 3, 0, 2, 4).reshape(49, 1, regions, 16)
        values = F.grid_sample(by_bin, grid, align_corners=True).view(49, 21, regions, 16) * count
        return (values.sum(3) / count.sum(3).clamp(min=1)).permute(2, 1, 0).reshape(regions, 21, 7, 7)

    return run


def cut_images(t):
    angles = torch.linspace(-0.2, 0.2, len(t["x"]))
    cosines, sines, moves = angles.cos() * 0.7, angles.sin() * 0.7, angles / 4
    turns = torch.stack([cosines, -sines, moves, sines, cosines, -moves], 1).view(-1, 2, 3)
    shape = (*t["x"].shape[:2], 320, 448)
    return lambda: F.grid_sample(t["x"], F.affine_grid(turns, shape, align_corners=True), padding_mode="border", align_corners=True)


def cut_flow(t):
    height, width = 320, 448
    whole_height, whole_width = t["x"].shape[2:]

    def places(rows):
        row = rows.flatten(1).T
        across, down, sign = row[4].exp(), row[5].exp(), torch.where(row[0] != 0, -1.0, 1.0)
        xx, xy = sign * row[3].cos() / across, -row[3].sin() / across
        yx, yy = sign * row[3].sin() / down, row[3].cos() / down
        x = row[1] * width / across - (xx * width + xy * height - whole_width) / 2
        y = row[2] * height / down - (yx * width + yy * height - whole_height) / 2
        return [part[:, None, None] for part in (xx, xy, x, yx, yy, y)]

    def run():
        columns, rows = torch.arange(width)[None, None], torch.arange(height)[None, :, None]
        a, b = places(t["first"]), places(t["second"])
        x, y = a[0] * columns + a[1] * rows + a[2], a[3] * columns + a[4] * rows + a[5]
        nearest = (y + 0.5).floor().clamp(0, whole_height - 1) * whole_width + (x + 0.5).floor().clamp(0, whole_width - 1)
        flow = t["x"].flatten(2).gather(2, nearest.long().flatten(1)[:, None].expand(-1, 2, -1)).unflatten(2, (height, width))
        right, under = x + flow[:, 0] - b[2], y + flow[:, 1] - b[5]
        area = b[0] * b[4] - b[1] * b[3]
        return torch.stack([(b[4] * right - b[1] * under) / area - columns, (b[0] * under - b[3] * right) / area - rows], 1)

    return run


def between(points, length):
    """How much each of so many pixels counts at points between them, the last pixel beyond itself."""
    return (1 - (points.clamp(max=length - 1)[:, None] - torch.arange(length)).abs()).clamp(min=0)


def downsample(t):
    def weights(length, made):
        scale = (length - 1) / (made - 1)
        near = (1 - (torch.arange(made)[:, None] * scale - torch.arange(length)).abs() / scale).clamp(min=0)
        return near / near.sum(1, keepdim=True)

    rows, columns = weights(320, 80), weights(448, 112).T
    return lambda: rows @ t["x"] @ columns


def smooth_resize(t):
    """Appearance flow's: linear interpolation between means, whose weights fall to 0 at the distance of two points."""
    length, made = 55, 10
    apart = (length - 1) / (made - 1)
    reach = torch.arange(-int(apart), int(apart) + 1)
    near = (torch.arange(length)[:, None] + reach).clamp(0, length - 1)
    means = torch.zeros(length, length).scatter_add(1, near, (apart - reach.abs()).expand(near.shape))
    weights = between(torch.arange(made) * apart, length) @ (means / means.sum(1, keepdim=True))
    return lambda: weights @ t["x"] @ weights.T


def pyramid(t):
    """SPP of 1, 2 and 4 windows along each axis."""
    side = t["x"].shape[2]
    return lambda: torch.cat([F.max_pool2d(t["x"], side // windows).flatten(1) for windows in (1, 2, 4)], 1)


def mask_resize(t):
    weights = between(torch.arange(14) * 21 / 14, 21)
    return lambda: weights @ t["x"] @ weights.T


def lengths(t):
    return ((t["x"] - t["y"]) ** 2).sum(1).add(0.01).sqrt().sum() / len(t["x"])


def ssd_boxes(loc, priors, variances):
    """Boxes from offsets in Caffe's CENTER_SIZE code."""
    sizes = priors[:, 2:] - priors[:, :2]
    centers = (priors[:, :2] + priors[:, 2:]) / 2
    middle = loc[:, :2] * variances[:, :2] * sizes + centers
    extent = torch.exp(loc[:, 2:] * variances[:, 2:]) * sizes
    return torch.cat([middle - extent / 2, middle + extent / 2], 1)


def detection_output(t):
    def run():
        priors, variances = t["priors"].view(2, -1, 4)
        results = []
        for loc, scores in zip(t["loc"], t["conf"]):
            boxes, scores = ssd_boxes(loc.view(-1, 4), priors, variances), scores.view(len(priors), -1)
            kept = []
            for label in range(1, scores.shape[1]):
                chosen = (scores[:, label] > 0.01).nonzero().flatten()
                values, order = scores[chosen, label].topk(min(400, len(chosen)))
                some = boxes[chosen[order]]
                which = ops.nms(some, values, 0.45)
                kept.append(torch.cat([torch.full((len(which), 1), label), values[which, None], some[which]], 1))
            every = torch.cat(kept)
            results.append(every[every[:, 1].topk(min(200, len(every))).indices])
        return torch.cat(results)

    return run


def multibox_loss(t):
    """torchvision's SSD: its matching, its offsets, its mining of negatives."""
    of_ssd = types.SimpleNamespace(
        box_coder=detection.BoxCoder((10.0, 10.0, 5.0, 5.0)), neg_to_pos_ratio=3, proposal_matcher=detection.SSDMatcher(0.5)
    )
    priors = t["priors"].view(2, -1, 4)[0]
    images = len(t["loc"])
    rows = t["truth"].view(-1, 8)
    targets = []
    for image in range(images):
        mine = rows[rows[:, 0] == image]
        targets.append({"boxes": mine[:, 3:7].contiguous(), "labels": mine[:, 1].long()})
    anchors = [priors] * images

    def run():
        matched = [of_ssd.proposal_matcher(ops.box_iou(one["boxes"], priors)) for one in targets]
        outputs = {
            "bbox_regression": t["loc"].view(images, -1, 4),
            "cls_logits": t["conf"].view(images, len(priors), -1),
        }
        losses = SSD.compute_loss(of_ssd, targets, outputs, anchors, matched)
        return losses["bbox_regression"] + losses["classification"]

    return run


def prior_box(t):
    boxes = DefaultBoxGenerator([[2]], scales=[0.1, 0.2], steps=[8])
    images = ImageList(t["image"], [tuple(t["image"].shape[2:])])
    return lambda: torch.cat(boxes(images, [t["x"]]))


def proposal(t):
    """Faster R-CNN's regions: offsets from anchors, the best 6000, non-maximum suppression, the best 300."""
    height, width = t["scores"].shape[2:]
    anchors = []
    for ratio in (0.5, 1, 2):
        across = round(math.sqrt(16 * 16 / ratio))
        for scale in (8, 16, 32):
            half = torch.tensor([(across * scale - 1) / 2, (round(across * ratio) * scale - 1) / 2])
            anchors.append(torch.cat([7.5 - half, 7.5 + half]))
    y, x = torch.meshgrid(16.0 * torch.arange(height), 16.0 * torch.arange(width), indexing="ij")
    every = (torch.stack([x, y, x, y], 2)[:, :, None] + torch.stack(anchors)).view(-1, 4)

    def run():
        scores = t["scores"][0, 9:].permute(1, 2, 0).reshape(-1)
        loc = t["loc"][0].view(9, 4, height, width).permute(2, 3, 0, 1).reshape(-1, 4)
        sizes = every[:, 2:] - every[:, :2] + 1
        middle = loc[:, :2] * sizes + every[:, :2] + sizes / 2
        extent = torch.exp(loc[:, 2:]) * sizes
        boxes = ops.clip_boxes_to_image(
            torch.cat([middle - extent / 2, middle + extent / 2], 1), (16 * height, 16 * width)
        )
        kept = ops.remove_small_boxes(boxes, 16)
        values, order = scores[kept].topk(min(6000, len(kept)))
        boxes = boxes[kept[order]]
        return boxes[ops.nms(boxes, values, 0.7)[:300]]

    return run


def lrn_within(t):
    def run():
        squares = F.avg_pool2d(t["x"] * t["x"], 3, 1, 1)
        return t["x"] * (1 + 5e-5 * squares) ** -0.75

    return run


def guided_dropout(t):
    def run():
        mask = (t["y"] > 0).to(t["x"].dtype)
        return t["x"] * (mask * (mask.shape[1] / mask.sum(1, keepdim=True)))[:, :, None, None]

    return run


def mask_unpool(t):
    with torch.no_grad():
        pooled, places = F.max_pool2d(t["x"], 2, 2, return_indices=True)
    pooled = pooled.requires_grad_()
    return lambda: F.max_unpool2d(pooled, places, 2, 2)


def shuffle(t):
    n, c, h, w = t["x"].shape
    return lambda: t["x"].view(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w)


def rois(t):
    """As torchvision wants them: contiguous, without gradient."""
    return t["rois"].detach().contiguous()


def images_by_channel(t):
    return t["measured/0"].view(1, -1, 1, 1)


def convolution(t, stride=1, pad=0, dilation=1, groups=1):
    return lambda: F.conv2d(t["x"], t["measured/0"], None, stride, pad, dilation, groups)


def then_relu(run):
    return lambda: F.relu(run())


def batch_norm(t, learned=True):
    """Slopes are 1, biases 0, as ours are filled."""
    channels = t["x"].shape[1]
    slope = torch.ones(channels, requires_grad=True) if learned else None
    bias = torch.zeros(channels, requires_grad=True) if learned else None
    mean, variance = torch.zeros(channels), torch.ones(channels)
    return lambda: F.batch_norm(t["x"], mean, variance, slope, bias, True)


def margin_inner_product(t, unit_rows=True):
    """SphereFace's: of the label's class |x| cos(4 angle), continued so that it falls, and lambda = 5 parts of |x| cos(angle).
    Without unit rows that of L-Softmax: |w| times as much."""
    labels = t["y"].long()

    def run():
        weights = t["measured/0"]
        lengths = t["x"].norm(dim=1, keepdim=True)
        if unit_rows:
            weights = F.normalize(weights)
        else:
            lengths = lengths * weights.norm(dim=1)[labels][:, None]
        scores = F.linear(t["x"], weights)
        cosine = scores.gather(1, labels[:, None]) / lengths
        quarter = (4 * cosine.detach().clamp(-1, 1).acos() / math.pi).floor()
        powers = cosine * cosine
        margin = (1 - 2 * (quarter % 2)) * (8 * powers * powers - 8 * powers + 1) - 2 * quarter
        return scores.scatter(1, labels[:, None], lengths * (5 * cosine + margin) / 6)

    return run


def sums_per_sample(values):
    return values.flatten(1).sum(1)


def focal_loss(t):
    def loss():
        own = F.log_softmax(t["x"], 1).gather(1, t["y"].long()[:, None])
        return (-0.25 * (1 - own.exp()) ** 2 * own).mean()

    return loss


def overlap_loss(t):
    def loss():
        own = F.log_softmax(t["x"], 1).gather(1, t["y"].long()[:, None])[:, 0]
        drawn = ((2 * own).exp() / t["v"] ** 0.25 - 1) / 2
        return (torch.where(t["y"] > 0, drawn, 0) - own).mean()

    return loss


def ctc_loss(labels, blank):
    """The mean of the sequences; labels: sequences x labels."""

    def of(t):
        steps, sequences, _ = t["x"].shape
        targets = labels(t["y"]).long().contiguous()
        lengths = [torch.full((sequences,), length) for length in (steps, targets.shape[1])]
        return lambda: F.ctc_loss(F.log_softmax(t["x"], 2), targets, *lengths, blank, reduction="none").mean()

    return of


def best_paths(scores, blank):
    """Of sequences x time steps x classes: the classes, and which of them are labels."""
    best = scores.argmax(2)
    return best, (best != blank) & (best != F.pad(best, (1, 0), value=-1)[:, :-1])


def label_specific_add(t):
    def add():
        own = F.one_hot(t["y"].long(), t["x"].shape[1]).bool() & (t["x"] > 0.35)
        return torch.where(own, t["x"] - 0.35, t["x"])

    return add


def global_lse_margin(t):
    """The margin is the mean of a batch's differences; as it is negative here, it is not subtracted."""
    own = F.one_hot(t["y"].long(), t["x"].shape[1]).bool()
    scale = torch.tensor(30.0, requires_grad=True)

    def run():
        x = t["x"].detach()
        lse = torch.logsumexp((scale.detach() * x).masked_fill(own, -torch.inf), 1) / scale.detach()
        margin = (x[own] - lse).mean().clamp(min=0)
        return scale * torch.where(own, t["x"] - margin, t["x"])

    return run


def label_specific_rescale(t):
    own = F.one_hot(t["y"].long(), t["x"].shape[1]).bool()
    return lambda: torch.where(own, t["x"] * 0.5, t["x"] * 2)


def general_contrastive_loss(t):
    own = F.one_hot(t["y"].long(), t["x"].shape[1]).bool()
    return lambda: torch.where(own, F.relu(t["x"]).clamp(max=4), F.relu(1 - t["x"])).sum() / len(t["x"])


def general_triplet_loss(t):
    """The gradient of the label's distance is that of all others that cost, which takes no less time than one number."""
    labels = t["y"].long()[:, None]

    def run():
        above = t["x"].gather(1, labels) + 0.1 - t["x"]
        return F.relu(above.scatter(1, labels, 0)).sum() / len(t["x"])

    return run


def covariances(t):
    x, y = (t[name] - t[name].mean(0) for name in ("x", "y"))
    return x.T @ y / len(x)


def top_k(x, k):
    values, places = x.topk(k, 1)
    return torch.zeros_like(x).scatter(1, places, values)


def hashing_loss(t):
    labels = t["y"]
    same = labels[:, None] == labels[None]

    def run():
        squares = ((t["x"][:, None] - t["x"]) ** 2).sum(2)
        pairs = torch.where(same, squares, F.relu(96 - squares)).triu(1).sum() / 2
        return pairs / len(labels) / (len(labels) - 1) + 0.01 * ((t["x"].abs() - 1).abs()).sum() / len(labels)

    return run


def pairwise_loss(t):
    alike = (t["a_labels"] @ t["b_labels"].T > 0).float()
    weights = 1 + 99 * alike

    def run():
        products = 0.2 * (t["a"] @ t["b"].T)
        return 2 / 0.2 * (weights * (F.softplus(products) - alike * products)).sum() / weights.sum()

    return run


def kernels(a, b, widths):
    squares = torch.cdist(a, b) ** 2
    return sum(torch.exp(-squares / width) for width in widths)


def discrepancy(t, joint):
    def run():
        a, b = t["x"], t["y"]
        both = torch.cat([a, b]).detach()
        mean = torch.cdist(both, both).square().sum() / (len(both) ** 2 - len(both))
        widths = [mean * 2**k for k in range(-2, 3)]
        parts = [kernels(m, n, widths) for m, n in ((a, a), (b, b), (a, b))]
        if joint:
            p, q = t["p"], t["q"]
            parts = [part * kernels(m, n, [1.3]) for part, (m, n) in zip(parts, ((p, p), (q, q), (p, q)))]
        return parts[0].mean() + parts[1].mean() - 2 * parts[2].mean()

    return run


def compact_bilinear(t):
    places = [torch.randint(8192, (512,)) for _ in range(2)]
    signs = [2.0 * torch.randint(2, (512,)) - 1 for _ in range(2)]

    def sketch(x, place, sign):
        rows = (x * sign[:, None, None]).permute(0, 2, 3, 1).flatten(0, 2)
        return torch.fft.rfft(torch.zeros(len(rows), 8192).index_add(1, place, rows))

    def run():
        product = sketch(t["a"], places[0], signs[0]) * sketch(t["b"], places[1], signs[1])
        return torch.fft.irfft(product.unflatten(0, (8, -1)).sum(1), 8192)

    return run


def lab(t):
    matrix = torch.tensor([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
    white = torch.tensor([0.95074, 1, 1.08883]).view(1, 3, 1, 1)

    def run():
        v = t["x"].flip(1) / 255
        light = torch.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
        shares = torch.einsum("ij,njhw->nihw", matrix, light) / white
        x, y, z = torch.where(shares > 0.008867, shares ** (1 / 3), (903.3 * shares + 16) / 116).unbind(1)
        return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)

    return run


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.view_as(x)

    @staticmethod
    def backward(_, gradient):
        return -gradient


def hinge_loss(t):
    labels = t["y"].long()

    def run():
        signs = 2 * F.one_hot(labels, t["x"].shape[1]) - 1
        return F.relu(1 - signs * t["x"]).sum() / len(labels)

    return run


def infogain_loss(t):
    labels = t["y"][:, 0].long()

    def run():
        return -(t["gains"][labels].permute(0, 3, 1, 2) * F.log_softmax(t["x"], 1)).sum() / labels.numel()

    return run


def contrastive_loss(t):
    def run():
        distance = (t["a"] - t["b"]).norm(dim=1)
        return (t["y"] * distance**2 + (1 - t["y"]) * F.relu(1 - distance) ** 2).sum() / 2 / len(t["y"])

    return run


def double_margin_contrastive_loss(t):
    def run():
        distance = (t["a"] - t["b"]).norm(dim=1)
        return (t["y"] * F.relu(distance - 0.1) ** 2 + (1 - t["y"]) * F.relu(1 - distance) ** 2).sum() / 2 / len(t["y"])

    return run


def lifted_structure_loss(t):
    same = t["y"][:, None] == t["y"][None]
    first, second = torch.triu(same, 1).nonzero(as_tuple=True)

    def run():
        products = t["x"] @ t["x"].T
        squares = products.diagonal()
        distances = (squares[:, None] + squares[None] - 2 * products).clamp(min=1e-12).sqrt()
        others = torch.logsumexp((1 - distances).masked_fill(same, -torch.inf), 1)
        values = torch.logaddexp(others[first], others[second]) + distances[first, second]
        return F.relu(values).square().mean() / 2

    return run


def coral_loss(t):
    return lambda: (t["x"].T.cov() - t["y"].T.cov()).square().mean() / 4


def dice_coef_loss(t):
    def run():
        x, y = t["x"].flatten(1), t["y"].flatten(1)
        return (1 - (2 * (x * y).sum(1) + 1) / ((x * x).sum(1) + (y * y).sum(1) + 1)).sum()

    return run


def matching(rows):
    """The scores, without what the memory becomes."""

    def make(t):
        memory = torch.zeros(rows, t["x"].shape[1])
        return lambda: t["x"] @ memory.T

    return make


def triplet_loss(t):
    def run():
        near, far = (sums_per_sample((t["anchor"] - t[name]) ** 2) for name in ("near", "far"))
        return F.relu(0.2 + near - far).sum() / 2 / len(near)

    return run


def triplet_sets_loss(t):
    def run():
        sets = t["x"].view(50, 5, -1)
        squares = ((sets[:, :1] - sets[:, 1:]) ** 2).sum(2)
        near, far = squares[:, :1], squares[:, 1:]
        return (near.sum() + F.relu(1 - far / (near + 0.02)).sum()) / 2 / len(sets)

    return run


def rank_hard_loss(t):
    """With all samples of another label as candidates."""
    labels = t["y"]
    other = labels[::2, None] != labels[None]

    def run():
        products = t["x"] @ t["x"].T
        pair = products.diagonal(1)[::2, None]
        first, second = (products[begin::2] - pair + 0.5 for begin in (0, 1))
        return ((F.relu(first) + F.relu(second)) * (other & (first > 0))).sum() / len(labels) ** 2

    return run


def center_loss(t):
    labels = t["y"].long()
    return lambda: ((t["x"] - F.embedding(labels, t["measured/0"])) ** 2).sum() / 2 / len(labels)


def center_cos_loss(t):
    labels = t["y"].long()
    return lambda: -F.cosine_similarity(t["x"], F.embedding(labels, t["measured/0"])).mean()


def lstm_unit(t):
    def run():
        i, f, o, g = t["gates"].chunk(4, -1)
        c = t["cont"][..., None] * torch.sigmoid(f) * t["c"] + torch.sigmoid(i) * torch.tanh(g)
        return c, torch.sigmoid(o) * torch.tanh(c)

    return run


def bias_channel(t):
    labels = t["y"].long()
    return lambda: t["x"].scatter_add(1, labels, torch.full_like(t["y"], 4))


def accuracy(t):
    labels = t["y"].long().view(len(t["y"]), *t["x"].shape[2:])
    return lambda: (t["x"].argmax(1) == labels).float().mean()


def seg_accuracy(t):
    labels = t["y"][:, 0].long()

    def run():
        pairs = 21 * labels + t["x"].argmax(1)
        counts = torch.bincount(pairs.flatten(), minlength=21 * 21).view(21, 21).float()
        right, true, found = counts.diagonal(), counts.sum(1), counts.sum(0)
        return torch.stack([right.sum() / counts.sum(), (right / true).mean(), (right / (true + found - right)).mean()])

    return run


def confusion_matrix(t):
    labels = t["y"][:, 0].long()

    def run():
        counts = torch.bincount((21 * labels + t["x"].argmax(1)).flatten(), minlength=21 * 21).view(21, 21).float()
        return counts / counts.sum(1, keepdim=True)

    return run


def weighted_loss(t):
    labels = t["y"][:, 0].long()
    weights = torch.tensor([0.25, 0.125, 4, 0.125, 1, 0.5, 8, 2, 0.5, 6, 7])
    return lambda: F.cross_entropy(t["x"], labels, weights, reduction="sum") / labels.numel()


def balanced_loss(t):
    """Of HED; all targets are 0 or 1."""

    def loss():
        positive = t["y"].mean(dim=(1, 2, 3), keepdim=True)
        weights = torch.where(t["y"] == 1, 1 - positive, positive)
        return F.binary_cross_entropy_with_logits(t["x"], t["y"], weights, reduction="sum") / len(t["x"])

    return loss


CASES = {
    "Convolution 7x7 /2": lambda t: convolution(t, 2, 3),
    "Convolution 3x3": lambda t: convolution(t, pad=1),
    "Convolution 3x3 small": lambda t: convolution(t, pad=1),
    "Convolution 1x1": convolution,
    "Convolution 5x5 in 2 groups": lambda t: convolution(t, pad=2, groups=2),
    "Convolution 3x3 in 32 groups": lambda t: convolution(t, pad=1, groups=32),
    "Convolution 1x1 in 3 groups": lambda t: convolution(t, groups=3),
    "Convolution 1x1 in 3 groups wide": lambda t: convolution(t, groups=3),
    "Convolution 3x3 dilated": lambda t: convolution(t, pad=4, dilation=4),
    "Convolution 3x3 + ReLU": lambda t: then_relu(convolution(t, pad=1)),
    "InnerProduct": lambda t: lambda: F.linear(t["x"], t["measured/0"], t["measured/1"]),
    "InnerProduct small": lambda t: lambda: F.linear(t["x"], t["measured/0"], t["measured/1"]),
    "BatchNorm": lambda t: batch_norm(t, learned=False),
    "BatchNorm + Scale + ReLU": lambda t: then_relu(batch_norm(t)),
    "BN": batch_norm,
    "SyncBN": batch_norm,
    "Pooling MAX": lambda t: lambda: F.max_pool2d(t["x"], 3, 2, ceil_mode=True),
    "Pooling MAX 3x3 /1": lambda t: lambda: F.max_pool2d(t["x"], 3, 1, 1),
    "SPP": pyramid,
    "Pooling AVE global": lambda t: lambda: F.adaptive_avg_pool2d(t["x"], 1),
    "Pooling AVE global 56x56": lambda t: lambda: F.adaptive_avg_pool2d(t["x"], 1),
    "ReLU": lambda t: lambda: F.relu(t["x"]),
    "Sigmoid": lambda t: lambda: torch.sigmoid(t["x"]),
    "Dropout": lambda t: lambda: F.dropout(t["x"]),
    "SpatialDropout": lambda t: lambda: F.dropout2d(t["x"]),
    "GuidedDropout": guided_dropout,
    "Eltwise": lambda t: lambda: t["x"] + t["y"],
    "Concat": lambda t: lambda: torch.cat([t["a"], t["b"], t["c"], t["d"]], 1),
    "SoftmaxWithLoss": lambda t: lambda: F.cross_entropy(t["x"], t["y"].long()),
    "SoftmaxWithLoss of maps": lambda t: lambda: F.cross_entropy(t["x"], t["y"][:, 0].long()),
    "WeightedSoftmaxWithLoss": lambda t: lambda: (
        t["w"] * F.cross_entropy(t["x"], t["y"].long(), reduction="none")
    ).mean(),
    "OverlapSoftmaxWithLoss": overlap_loss,
    "MarginInnerProduct": margin_inner_product,
    "LargeMarginInnerProduct": lambda t: margin_inner_product(t, unit_rows=False),
    "LSTM": lstm,
    "Lstm": lambda t: lstm(t, (0, 2, 1)),
    "RNN": rnn,
    "ROIPooling": lambda t: lambda: ops.roi_pool(t["x"], rois(t), 7, 1 / 16),
    "GRIDPooling": lambda t: lambda: F.adaptive_max_pool2d(t["x"], 6),
    "ROIAlign": lambda t: lambda: ops.roi_align(t["x"], rois(t), 7, 1 / 16, 2),
    "DeformablePSROIPooling": moved_votes,
    "PSROIPooling": lambda t: lambda: ops.ps_roi_pool(t["x"], rois(t), 7, 1 / 16),
    "Proposal": proposal,
    "PriorBox": prior_box,
    "MultiBoxLoss": multibox_loss,
    "DetectionOutput": detection_output,
    "Normalize": lambda t: lambda: F.normalize(t["x"]) * images_by_channel(t),
    "Permute": lambda t: lambda: t["x"].permute(0, 2, 3, 1).contiguous(),
    "SmoothL1Loss": lambda t: lambda: F.smooth_l1_loss(t["x"], t["y"], reduction="sum") / len(t["x"]),
    "LRN": lambda t: lambda: F.local_response_norm(t["x"], 5, 1e-4, 0.75, 1.0),
    "LRN within": lrn_within,
    "Deconvolution": lambda t: lambda: F.conv_transpose2d(t["x"], t["measured/0"], t["measured/1"], 2, 1),
    "Deconvolution x8": lambda t: lambda: F.conv_transpose2d(t["x"], t["measured/0"], None, 8, groups=21),
    "Interp x8": lambda t: lambda: F.interpolate(t["x"], size=(473, 473), mode="bilinear", align_corners=True),
    "BilinearInterpolation": lambda t: lambda: F.interpolate(t["x"], scale_factor=2, mode="bilinear", align_corners=True),
    "SpatialTransformer": spatial_transformer,
    "Interp": lambda t: lambda: F.interpolate(t["x"], size=(60, 60), mode="bilinear", align_corners=True),
    "Upsample": mask_unpool,
    "MergeCrop": lambda t: lambda: torch.cat([t["x"], t["y"][:, :, 90:478, 90:478]], 1),
    "Crop": lambda t: lambda: t["x"][:, :, 19:519, 19:519].contiguous(),
    "Padding": lambda t: lambda: F.pad(t["x"], (1, 1, 1, 1)),
    "Convolution depthwise": lambda t: lambda: F.conv2d(t["x"], t["measured/0"], None, 1, 1, 1, 144),
    "Convolution 3-D": lambda t: lambda: F.conv3d(t["x"], t["measured/0"], t["measured/1"], 1, 1),
    "Pooling 3-D": lambda t: lambda: F.max_pool3d(t["x"], 2, 2),
    "ShuffleChannel": shuffle,
    "Axpy": lambda t: lambda: t["a"].view(*t["a"].shape, 1, 1) * t["x"] + t["y"],
    "Clip": lambda t: lambda: F.hardtanh(t["x"], 0, 0.5),
    "Sparsify": lambda t: lambda: F.softshrink(t["x"], 0.1),
    "SymmetricRectify": lambda t: lambda: t["x"].sign() * F.relu(t["x"].abs() - t["measured/0"].view(1, -1, 1, 1)),
    "PReLU": lambda t: lambda: F.prelu(t["x"], t["measured/0"]),
    "Insanity": lambda t: lambda: F.rrelu(t["x"], 1 / 10, 1 / 5, training=True),
    "Swish": lambda t: lambda: F.silu(t["x"]),
    "HardSwish": lambda t: lambda: F.hardswish(t["x"]),
    "Mish": lambda t: lambda: F.mish(t["x"]),
    "MinReLU": lambda t: lambda: t["x"].clamp(max=0),
    "CReLU": lambda t: lambda: torch.cat([F.relu(t["x"]), F.relu(-t["x"])], 1),
    "BNLL": lambda t: lambda: F.softplus(t["x"]),
    "Exp": lambda t: lambda: torch.exp(t["x"]),
    "Power": lambda t: lambda: (1 + 0.5 * t["x"]) ** 2,
    "GroupNorm": lambda t: lambda: F.group_norm(t["x"], 8, eps=1e-5),
    "MVN": lambda t: lambda: F.instance_norm(t["x"], eps=1e-9),
    "Tiling": lambda t: lambda: F.pixel_shuffle(t["x"], 8),
    "Reorg": lambda t: lambda: F.pixel_unshuffle(t["x"], 2),
    "Local": local,
    "Im2col": lambda t: lambda: F.unfold(t["x"], 3, padding=1),
    "Embed": lambda t: lambda: F.embedding(t["x"].long(), t["measured/0"]),
    "Reduction": lambda t: lambda: t["x"].sum(dim=(1, 2, 3)),
    "Tile": lambda t: lambda: t["x"].repeat(1, 4, 1, 1),
    "SigmoidCrossEntropyLoss": lambda t: lambda: F.binary_cross_entropy_with_logits(t["x"], t["y"], reduction="sum")
    / len(t["x"]),
    "SigmoidCrossEntropyLoss balanced": balanced_loss,
    "SoftmaxWithLoss weighted": weighted_loss,
    "ConvolutionDepthwise": lambda t: lambda: F.conv2d(t["x"], t["measured/0"], None, 1, 1, 1, 144),
    "AbsVal": lambda t: lambda: t["x"].abs(),
    "ELU": lambda t: lambda: F.elu(t["x"]),
    "Log": lambda t: lambda: t["x"].log(),
    "TanH": lambda t: lambda: torch.tanh(t["x"]),
    "ArgMax": lambda t: lambda: t["x"].argmax(1),
    "Quantize": lambda t: lambda: torch.bucketize(t["x"], torch.tensor([1.0, 12, 36, 80, 200]), right=True) % 5,
    "Rescale": lambda t: lambda: torch.where((t["x"] > 0) & (t["x"] < 40), t["x"] / 20 - 1, 0.0),
    "Threshold": lambda t: lambda: (t["x"] > 0).float(),
    "Bias": lambda t: lambda: t["x"] + images_by_channel(t),
    "Scale": lambda t: lambda: t["x"] * images_by_channel(t) + t["measured/1"].view(1, -1, 1, 1),
    "BiasChannel": bias_channel,
    "Softmax": lambda t: lambda: F.softmax(t["x"], 1),
    "Softmax of maps": lambda t: lambda: F.softmax(t["x"], 1),
    "Flatten": lambda t: lambda: t["x"].flatten(1),
    "Reshape": lambda t: lambda: t["x"].reshape(len(t["x"]), -1),
    "Slice": lambda t: lambda: [part.clone() for part in t["x"].chunk(4, 1)],
    "Split": lambda t: lambda: [t["x"].view_as(t["x"]), t["x"].view_as(t["x"])],
    "Flip": lambda t: lambda: t["x"].flip(3),
    "Reverse": lambda t: lambda: t["x"].flip(0),
    "Transpose": lambda t: lambda: t["x"].permute(3, 0, 1, 2).contiguous(),
    "GradientScaler": lambda t: lambda: Reversal.apply(t["x"]),
    "GradientReversal": lambda t: lambda: Reversal.apply(t["x"]),
    "Gather": lambda t: lambda: t["x"].clone(),
    "Scatter": lambda t: lambda: t["x"].clone(),
    "Unpooling": mask_unpool,
    "MIL": lambda t: lambda: t["x"].view(128, 10, 400).max(1)[0],
    "BatchReduction": lambda t: lambda: torch.stack([part.mean(1) for part in t["x"].split([1, 4, 16], 1)], 1),
    "BatchReindex": lambda t: lambda: t["x"].index_select(0, t["index"].long()),
    "Filter": lambda t: lambda: t["x"].index_select(0, t["keep"].nonzero().flatten()),
    "CosineSimilarity": lambda t: lambda: F.cosine_similarity(t["a"], t["b"]),
    "LSTMUnit": lstm_unit,
    "Accuracy": accuracy,
    "Accuracy of maps": accuracy,
    "SegAccuracy": seg_accuracy,
    "ConfusionMatrix": confusion_matrix,
    "UniqueLabel": lambda t: lambda: torch.cat([labels.unique() for labels in t["y"]]),
    "EuclideanLoss": lambda t: lambda: F.mse_loss(t["x"], t["y"], reduction="sum") / 2 / len(t["x"]),
    "EuclideanLossHeatmap": lambda t: lambda: F.mse_loss(t["x"], t["y"], reduction="sum") / 2,
    "L1Loss": lambda t: lambda: F.l1_loss(t["x"], t["y"], reduction="sum") / len(t["x"]),
    "L1Loss of locations": lambda t: lambda: lengths(t),
    "XCovLoss": lambda t: lambda: covariances(t).square().sum() / 2,
    "TopK": lambda t: lambda: top_k(t["x"], 100),
    "HashingLoss": hashing_loss,
    "PairwiseLoss": pairwise_loss,
    "K1_EuclideanLoss": lambda t: lambda: -((t["x"] - 0.5) ** 2).sum() / (2 * t["x"].numel() * len(t["x"])),
    "K2_EuclideanLoss": lambda t: lambda: (t["x"].mean() - 0.5) ** 2 / (2 * len(t["x"])),
    "QuantizationLoss": lambda t: lambda: (t["x"].abs() - 1).cosh().log().sum() / len(t["x"]),
    "MMDLoss": lambda t: discrepancy(t, False),
    "JMMDLoss": lambda t: discrepancy(t, True),
    "EntropyLoss": lambda t: lambda: -(t["x"] * t["x"].log()).sum() / len(t["x"]),
    "SoftmaxCrossEntropyLoss": lambda t: lambda: F.kl_div(F.log_softmax(t["x"], 1), t["y"], reduction="batchmean"),
    "ScaleTanH": lambda t: lambda: torch.tanh(t["x"]),
    "SignedSqrt": lambda t: lambda: t["x"].sign() * t["x"].abs().sqrt(),
    "OuterProduct": lambda t: lambda: (t["a"][:, :, None] * t["b"][:, None])[:, None],
    "CompactBilinear": compact_bilinear,
    "ColorConv": lab,
    "LpqLoss": lambda t: lambda: ((t["x"] - t["y"]).abs().sum(1) + 0.01).pow(0.4).sum() / len(t["x"]),
    "CrossCorrelation": lambda t: lambda: F.conv2d(t["x"], t["w"]),
    "Correlation": lambda t: correlation(t, 4, 1),
    "Correlation of FlowNet": lambda t: correlation(t, 20, 2),
    "DeformableConvolution": lambda t: lambda: ops.deform_conv2d(t["x"], t["offsets"], t["measured/0"], padding=2, dilation=2),
    "Warp": warp,
    "FlowWarp": warp,
    "NegSquare": lambda t: lambda: -t["x"].square(),
    "Remap": remap,
    "RandBI": rand_bi,
    "ChannelSelect": channel_select,
    "Affinity": affinity,
    "ExpMax": lambda t: lambda: (t["x"] - t["x"].detach().amax(1, keepdim=True)).exp(),
    "FlowTransformer": flow_transformer,
    "CharbonnierLoss": charbonnier_loss,
    "SSIMLoss": ssim_loss,
    "Downsample": downsample,
    "ChannelNorm": lambda t: lambda: t["x"].norm(dim=1, keepdim=True),
    "DataAugmentation": cut_images,
    "FlowAugmentation": cut_flow,
    "Resample": lambda t: lambda: F.interpolate(t["x"], size=(320, 448), mode="bilinear"),
    "MaskPooling": lambda t: lambda: t["x"] * t["mask"],
    "SpatialProduct": lambda t: lambda: t["x"] * t["map"],
    "MaskResize": mask_resize,
    "Resize": smooth_resize,
    "FocalLoss": focal_loss,
    "SoftmaxFocalLoss": focal_loss,
    "SoftmaxWithFocalLoss": focal_loss,
    "LabelSpecificAdd": label_specific_add,
    "GlobalLSEMargin": global_lse_margin,
    "LabelSpecificRescale": label_specific_rescale,
    "ChannelScale": lambda t: lambda: t["x"] * t["y"][:, None],
    "InnerDistance": lambda t: lambda: ((t["x"][:, None] - t["measured/0"]) ** 2).sum(2),
    "GeneralContrastiveLoss": general_contrastive_loss,
    "GeneralTripletLoss": general_triplet_loss,
    "CTCLoss": ctc_loss(lambda y: y[:20].T, 99),
    "WarpCTCLoss": ctc_loss(lambda y: y, 0),
    "CtcLoss": ctc_loss(lambda y: y, 0),
    "CTCGreedyDecoder": lambda t: lambda: best_paths(t["x"].transpose(0, 1), 0)[0],
    "LabelsequenceAccuracy": lambda t: lambda: best_paths(t["x"], 0)[1].sum(1),
    "HingeLoss": hinge_loss,
    "MultinomialLogisticLoss": lambda t: lambda: F.nll_loss(t["x"].log(), t["y"].long()),
    "InfogainLoss": infogain_loss,
    "ContrastiveLoss": contrastive_loss,
    "DoubleMarginContrastiveLoss": double_margin_contrastive_loss,
    "LiftedStructSimilaritySoftmaxLoss": lifted_structure_loss,
    "CORALLoss": coral_loss,
    "DiceCoefLoss": dice_coef_loss,
    "CosineLoss": lambda t: lambda: (1 - F.cosine_similarity(t["x"], t["y"])).mean(),
    "LabeledMatching": matching(5532),
    "UnlabeledMatching": matching(5000),
    "TripletLoss": triplet_loss,
    "TripletLoss sets": triplet_sets_loss,
    "RankHardLoss": rank_hard_loss,
    "CenterLoss": center_loss,
    "CenterCosLoss": center_cos_loss,
    "SmoothL1LossOHEM": lambda t: lambda: F.smooth_l1_loss(t["x"], t["y"], reduction="none").sum(1).mean(),
    "SoftmaxWithLossOHEM": lambda t: lambda: F.cross_entropy(t["x"], t["y"].long(), reduction="none").mean(),
}


def read(path):
    """The tensors of a safetensors file."""
    data = bytearray(open(path, "rb").read())
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, about in head.items():
        begin, end = about["data_offsets"]
        values = torch.frombuffer(data, dtype=torch.float32, offset=8 + length + begin, count=(end - begin) // 4)
        tensors[name] = values.view(about["shape"]).clone()
    return tensors


CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def timed(name, path, constant, iterations, channels_last):
    tensors = read(path)
    for key, tensor in tensors.items():
        if channels_last and tensor.dim() in CHANNELS_LAST and not key.startswith("measured/") and key not in constant:
            tensors[key] = tensor = tensor.contiguous(memory_format=CHANNELS_LAST[tensor.dim()])
        tensor.requires_grad_(key not in constant and "-" not in constant)
    run = CASES[name](tensors)
    forward = backward = 0
    for iteration in range(2 + iterations):
        for tensor in tensors.values():
            tensor.grad = None
        start = time.perf_counter()
        outputs = run()
        middle = time.perf_counter()
        if isinstance(outputs, torch.Tensor):
            outputs = [outputs]
        if outputs[0].requires_grad:
            if iteration == 0:
                ones = [torch.ones_like(output) for output in outputs]
                middle = time.perf_counter()
            torch.autograd.backward(outputs, ones)
        end = time.perf_counter()
        if iteration >= 2:
            forward, backward = forward + middle - start, backward + end - middle
    values = torch.cat([output.detach().double().flatten() for output in outputs])
    return {
        "forward": 1000 * forward / iterations,
        "backward": 1000 * backward / iterations,
        "sum": values.sum().item(),
        "magnitudes": values.abs().sum().item(),
    }


def answer(words):
    if words[0] == "copy":
        torch.set_num_threads(int(words[1]))
        source = torch.zeros(int(words[2]) // 4)
        target = torch.zeros_like(source)
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            target.copy_(source)
            seconds.append(time.perf_counter() - start)
        return {"bytes_per_second": 2 * int(words[2]) / sorted(seconds)[3]}
    name, path, constant, threads, iterations = words
    torch.set_num_threads(int(threads))
    both = [timed(name, path, constant.split(","), int(iterations), channels_last) for channels_last in (True, False)]
    return min(both, key=lambda one: one["forward"] + one["backward"])


def main():
    print(json.dumps({"version": torch.__version__, "cases": list(CASES)}), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # the case is skipped, and the message says why
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
