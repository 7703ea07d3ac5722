"""Compares what layers made (NAME.npz in a folder) with torchvision's operators. Exit code 0: all agree; 1: the lines say
what does not; 77: a module is missing."""
import pathlib
import sys
import types

try:
    import numpy
    import torch
    import torchvision
    from torchvision.models.detection._utils import BoxCoder, Matcher, SSDMatcher
    from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
    from torchvision.models.detection.image_list import ImageList
    from torchvision.models.detection.ssd import SSD
except ImportError as error:
    print(error)
    sys.exit(77)

# Sums of some hundred f32 products in different orders, of values below 1, and losses, sums of as many f32 terms of one sign, each
# within some 1e-7 of itself; places in images are within 1e-7 of themselves in f32.
TOLERANCE = 1e-5


def tensor(array):
    return torch.from_numpy(numpy.asarray(array, dtype=numpy.float32))


def difference(name, found, wanted):
    if found.shape != wanted.shape:
        yield f"{name}: shape {found.shape}, torchvision's is {wanted.shape}"
    elif not numpy.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE):
        yield f"{name}: off by {numpy.abs(found - wanted).max()} in {(numpy.abs(found - wanted) > TOLERANCE).sum()} values"


def regions(name, arrays):
    x, rois = tensor(arrays["x"]).requires_grad_(), tensor(arrays["rois"])
    size, scale = tuple(arrays["y"].shape[2:]), float(arrays["scale"][0])
    if name.startswith("roi_pool"):
        y = torchvision.ops.roi_pool(x, rois, size, scale)
    elif name.startswith("roi_align"):
        y = torchvision.ops.roi_align(x, rois, size, scale, int(arrays["points"][0]), aligned=False)
    else:
        y = torchvision.ops.ps_roi_pool(x, rois + torch.tensor([0.0, 0, 0, 1, 1]), size, scale)
    y.backward(tensor(arrays["dy"]))
    yield from difference("output", arrays["y"], y.detach().numpy())
    yield from difference("gradient", arrays["dx"], x.grad.numpy())


def detections(_, arrays):
    priors, shifts, scores = (tensor(arrays[key]) for key in ("priors", "shifts", "scores"))
    if arrays["center_size"][0]:
        boxes = BoxCoder((10.0, 10.0, 5.0, 5.0)).decode_single(shifts, priors)
    else:
        boxes = priors + shifts * torch.tensor([0.1, 0.1, 0.2, 0.2])
    rows = []
    for label in range(1, scores.shape[1]):
        sure = scores[:, label] > 0.2
        kept = torchvision.ops.nms(boxes[sure], scores[sure, label], float(arrays["threshold"][0]))
        for box, score in zip(boxes[sure][kept], scores[sure, label][kept]):
            rows.append([0, label, float(score), *box.tolist()])
    order = lambda found: sorted(found, key=lambda row: (row[1], -row[2]))
    found = [row for row in arrays["kept"].tolist() if row[1] >= 0]
    yield from difference("kept boxes", numpy.array(order(found)), numpy.array(order(rows)))


def deformed(_, arrays):
    names = ["x", "offsets", "weight"] + ["bias"] * ("bias" in arrays)
    inputs = [tensor(arrays[name]).requires_grad_() for name in names]
    x, offsets, weight = inputs[:3]
    stride, pad, dilation = (int(length) for length in arrays["windows"])
    y = torchvision.ops.deform_conv2d(x, offsets, weight, inputs[3] if len(inputs) > 3 else None, stride, pad, dilation)
    y.backward(tensor(arrays["dy"]))
    yield from difference("output", arrays["y"], y.detach().numpy())
    for name, given in zip(names, inputs):
        yield from difference(f"gradient of {name}", arrays["d" + name], given.grad.numpy())


def generated(generator, arrays, dtype):
    """For a map of so many rows and columns."""
    rows, columns, height, width = (int(length) for length in arrays["lengths"])
    images = ImageList(torch.zeros(1, 3, height, width), [(height, width)])
    return torch.cat(generator(images, [torch.zeros(1, 1, rows, columns, dtype=dtype)]))


def priors(_, arrays):
    """In fractions of a square image: in others torchvision's squares are none."""
    side = float(arrays["lengths"][3])
    steps = arrays["step"].tolist() if arrays["step"][0] > 0 else None
    generator = DefaultBoxGenerator([arrays["ratios"].tolist()], scales=(arrays["sizes"] / side).tolist(), steps=steps, clip=False)
    yield from difference("boxes", arrays["boxes"], generated(generator, arrays, torch.float32).numpy() / side)


def shown_anchors(arrays):
    """torchvision's anchors lie around the corner of a pixel, Faster R-CNN's around its middle, and end with their last pixel.
    Computed in f64, as in the layers."""
    generator = AnchorGenerator([arrays["sizes"].tolist()], [arrays["ratios"].tolist()])
    return generated(generator, arrays, torch.float64) + float(arrays["middle"][0])


def in_order(values, each, rows, columns):
    """By row, column and anchor, as torchvision's are."""
    return torch.from_numpy(values.reshape(-1, each, rows, columns).transpose(2, 3, 0, 1).reshape(-1, each))


def anchors(_, arrays):
    rows, columns, height, width = arrays["lengths"].astype(int)
    boxes = shown_anchors(arrays)
    yield from difference("anchors", arrays["anchors"], boxes.numpy())
    by_place = lambda name, each: in_order(arrays[name], each, rows, columns)
    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    yield from difference("moved", arrays["moved"], coder.decode_single(by_place("shifts", 4), boxes).numpy())
    truth = torch.from_numpy(arrays["truth"])[:, :4] + torch.tensor([0, 0, 1, 1])
    inside = (boxes >= 0).all(1) & (boxes[:, 2] <= width) & (boxes[:, 3] <= height)
    overlaps = torchvision.ops.box_iou(truth, boxes[inside])
    matched = Matcher(0.7, 0.3, allow_low_quality_matches=True)(overlaps)
    labels = torch.full((len(boxes),), -1.0, dtype=torch.float64)
    labels[inside] = torch.where(matched >= 0, 1.0, torch.where(matched == Matcher.BELOW_LOW_THRESHOLD, 0.0, -1.0)).double()
    yield from difference("labels", by_place("labels", 1)[:, 0].numpy(), labels.numpy())
    if not all((labels == label).sum() > 3 for label in (-1, 0, 1)):
        yield "not all labels occur"
    wanted = coder.encode_single(truth[matched[matched >= 0]], boxes[labels == 1])
    yield from difference("targets", by_place("targets", 4)[labels == 1].numpy(), wanted.numpy())


def proposal(_, arrays):
    """Boxes end with their last pixel, torchvision's one further. So they are clipped to the image less one pixel, and sides and
    areas are those of boxes that end one further; what decodes shifts has that in itself. The small ones go before the best ones
    are taken (torchvision: after). Decided in f64, as in the layer: places are compared, so no choice may differ."""
    rows, columns = arrays["lengths"][:2].astype(int)
    min_size, before, threshold, after = arrays["limits"].tolist()
    further = torch.tensor([0.0, 0, 1, 1])
    f32 = lambda name: arrays[name].astype(numpy.float32).astype(float)
    rois, probabilities, filled = [], [], 0
    for image, (scores, shifts, info) in enumerate(zip(f32("scores"), f32("shifts"), arrays["infos"])):
        height, width, scale = info
        scores = in_order(scores[len(scores) // 2 :], 1, rows, columns)[:, 0]
        boxes = BoxCoder((1.0, 1.0, 1.0, 1.0)).decode_single(in_order(shifts, 4, rows, columns), shown_anchors(arrays))
        boxes = torchvision.ops.clip_boxes_to_image(boxes, (height - 1, width - 1))
        large = torchvision.ops.remove_small_boxes(boxes + further, min_size * scale)
        if not int(before) < len(large) < len(boxes):
            yield "the limits do not matter"
        best = large[scores[large].argsort(descending=True)][: int(before)]
        kept = best[torchvision.ops.nms(boxes[best] + further, scores[best], float(numpy.float32(threshold)))][: int(after)]
        rest = int(after) - len(kept)
        filled += rest
        places = torch.cat([boxes[kept], boxes[kept[:1]].expand(rest, 4)])
        rois.append(torch.cat([torch.full((int(after), 1), float(image)), places], 1))
        probabilities.append(torch.cat([scores[kept], torch.zeros(rest)]))
    yield from difference("regions", arrays["rois"], torch.cat(rois).numpy())
    yield from difference("probabilities", arrays["probabilities"], torch.cat(probabilities).numpy())
    if (filled > 0) != (threshold < 0.5):
        yield f"{filled} rows repeat the first"


def smooth_l1(_, arrays):
    """Of f64 numbers. torch turns at beta, the layer at 1 / sigma^2, with the same values on both sides. The layer divides by the
    length of axis 0, and its inside weights multiply both blobs."""
    a, b = (torch.from_numpy(arrays[name]).requires_grad_() for name in "ab")
    inside, outside = (torch.from_numpy(arrays[name]) if name in arrays else torch.ones_like(a) for name in ("inside", "outside"))
    beta = 1 / float(arrays["sigma"][0]) ** 2
    losses = torch.nn.functional.smooth_l1_loss(inside * a, inside * b, reduction="none", beta=beta)
    loss = (outside * losses).sum() / len(a)
    loss.backward()
    near = (inside * (a - b)).abs() < beta
    if not 50 < near.sum() < near.numel() - 50:
        yield f"{near.sum()} of {near.numel()} differences are before the turn"
    yield from difference("loss", arrays["loss"], loss.detach().numpy()[None])
    yield from difference("gradient of the first", arrays["da"], a.grad.numpy())
    yield from difference("gradient of the second", arrays["db"], b.grad.numpy())


def multibox(_, arrays):
    """In fractions of an image, in which overlaps and codes are those of pixels, and in f64. Both divide by the matches of the batch.
    Where two objects have one best prior, torchvision leaves one of them without (SSD: it gets its next best), and where negatives
    are too few, torchvision takes matched ones again: such scenes cannot be compared."""
    priors = torch.from_numpy(arrays["priors"])
    shifts, scores = (torch.from_numpy(arrays[name]).requires_grad_() for name in ("shifts", "scores"))
    targets, matches = [], []
    for image in range(len(shifts)):
        own = torch.from_numpy(arrays["truth"][arrays["truth"][:, 0] == image])
        targets.append({"boxes": own[:, 3:7], "labels": own[:, 1].long()})
        matches.append(torch.full((len(priors),), -1))
        if len(own) == 0:
            continue
        overlaps = torchvision.ops.box_iou(own[:, 3:7], priors)
        matches[-1] = SSDMatcher(0.5)(overlaps)
        if len(set(overlaps.argmax(1).tolist())) < len(own) or (matches[-1] >= 0).sum() * 4 > len(priors):
            yield "the scene is none that torchvision treats as SSD does"
    network = types.SimpleNamespace(box_coder=BoxCoder((10.0, 10.0, 5.0, 5.0)), neg_to_pos_ratio=3)
    losses = SSD.compute_loss(network, targets, {"bbox_regression": shifts, "cls_logits": scores}, [priors] * len(shifts), matches)
    loss = losses["bbox_regression"] + losses["classification"]
    loss.backward()
    yield from difference("loss", arrays["loss"], loss.detach().numpy()[None])
    yield from difference("gradient of the shifts", arrays["dshifts"], shifts.grad.numpy())
    yield from difference("gradient of the scores", arrays["dscores"], scores.grad.numpy())


COMPARISONS = {
    "detections": detections, "deform": deformed, "priors": priors, "anchors": anchors,
    "proposal": proposal, "smooth": smooth_l1, "multibox": multibox,
}
failed = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
    compare = COMPARISONS.get(path.stem.split("_")[0], regions)
    for line in compare(path.stem, numpy.load(path)):
        print(f"{path.stem}: {line}")
        failed += 1
sys.exit(1 if failed else 0)
