"""Compares what layers made (NAME.npz in a folder) with torchvision's operators. Exit code 0: all agree; 1: the lines say
what does not; 77: a module is missing."""
import pathlib
import sys

try:
    import numpy
    import torch
    import torchvision
    from torchvision.models.detection._utils import BoxCoder, Matcher
    from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
    from torchvision.models.detection.image_list import ImageList
except ImportError as error:
    print(error)
    sys.exit(77)

# Sums of some hundred f32 products in different orders, of values below 1; and places in images, which are within 1e-7 of
# themselves in f32.
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


def anchors(_, arrays):
    """torchvision's anchors lie around the corner of a pixel, Faster R-CNN's around its middle, and end with their last pixel.
    Computed in f64, as in the layers."""
    rows, columns, height, width = arrays["lengths"].astype(int)
    generator = AnchorGenerator([arrays["sizes"].tolist()], [arrays["ratios"].tolist()])
    boxes = generated(generator, arrays, torch.float64) + float(arrays["middle"][0])
    yield from difference("anchors", arrays["anchors"], boxes.numpy())
    # By row, column and anchor, as torchvision's are.
    by_place = lambda name, each: torch.from_numpy(arrays[name].reshape(-1, each, rows, columns).transpose(2, 3, 0, 1).reshape(-1, each))
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


failed = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
    compare = {"detections": detections, "deform": deformed, "priors": priors, "anchors": anchors}.get(path.stem.split("_")[0], regions)
    for line in compare(path.stem, numpy.load(path)):
        print(f"{path.stem}: {line}")
        failed += 1
sys.exit(1 if failed else 0)
