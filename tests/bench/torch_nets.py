"""The nets of models/ in PyTorch: the same layers, pads, groups, normalizations and dropouts as the prototxt files, or those
that models/generate.py writes.

Each net maps images (channels-last) to a list of (loss weight, class scores). Pooling rounds sizes up unless the prototxt
says FLOOR, as Caffe does. compare.py checks parameters and multiply-adds of every convolution and inner product against
`trainer summary`, so the two sides cannot drift apart.
"""

import torch
from torch import nn
from torch.nn import functional as F


def pool(kernel, stride, pad=0, ceil=True):
    return nn.MaxPool2d(kernel, stride, pad, ceil_mode=ceil)


def average(kernel, stride):
    return nn.AvgPool2d(kernel, stride, ceil_mode=True)


def local_response():
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


def conv_relu(inputs, outputs, kernel, **more):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, **more), nn.ReLU(inplace=True))


def conv_bn(inputs, outputs, kernel, stride=1, groups=1):
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class OneLoss(nn.Module):
    """A net with one loss."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return [(1.0, self.layers(images))]


def lenet():
    return OneLoss(
        nn.Conv2d(1, 20, 5),
        pool(2, 2),
        nn.Conv2d(20, 50, 5),
        pool(2, 2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(inplace=True),
        nn.Linear(500, 10),
    )


def cifar10_quick():
    return OneLoss(
        nn.Conv2d(3, 32, 5, padding=2),
        pool(3, 2),
        nn.ReLU(inplace=True),
        conv_relu(32, 32, 5, padding=2),
        average(3, 2),
        conv_relu(32, 64, 5, padding=2),
        average(3, 2),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.Linear(64, 10),
    )


def alexnet():
    return OneLoss(
        conv_relu(3, 96, 11, stride=4),
        local_response(),
        pool(3, 2),
        conv_relu(96, 256, 5, padding=2, groups=2),
        local_response(),
        pool(3, 2),
        conv_relu(256, 384, 3, padding=1),
        conv_relu(384, 384, 3, padding=1, groups=2),
        conv_relu(384, 256, 3, padding=1, groups=2),
        pool(3, 2),
        nn.Flatten(),
        nn.Linear(9216, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    )


def vgg16():
    layers, inputs = [], 3
    for outputs, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers.append(conv_relu(inputs, outputs, 3, padding=1))
            inputs = outputs
        layers.append(pool(2, 2))
    layers.append(nn.Flatten())
    for inputs in (25088, 4096):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    return OneLoss(*layers, nn.Linear(4096, 1000))


class Residual(nn.Module):
    """A residual block: its branch plus its input, projected where the shape changes."""

    def __init__(self, branch, projection=None):
        super().__init__()
        self.branch, self.projection = branch, projection

    def forward(self, x):
        return F.relu(self.branch(x) + (x if self.projection is None else self.projection(x)), inplace=True)


def basic_block(inputs, outputs, stride):
    branch = nn.Sequential(conv_bn(inputs, outputs, 3, stride), nn.ReLU(inplace=True), conv_bn(outputs, outputs, 3))
    return Residual(branch, conv_bn(inputs, outputs, 1, stride) if inputs != outputs else None)


def bottleneck(inputs, width, stride):
    branch = nn.Sequential(
        conv_bn(inputs, width, 1),
        nn.ReLU(inplace=True),
        conv_bn(width, width, 3, stride),
        nn.ReLU(inplace=True),
        conv_bn(width, 4 * width, 1),
    )
    return Residual(branch, conv_bn(inputs, 4 * width, 1, stride) if inputs != 4 * width else None)


def cifar10_resnet20():
    blocks, inputs = [], 16
    for outputs in (16, 32, 64):
        for i in range(3):
            blocks.append(basic_block(inputs, outputs, 2 if i == 0 and outputs > 16 else 1))
            inputs = outputs
    return OneLoss(
        conv_bn(3, 16, 3), nn.ReLU(inplace=True), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )


def resnet50():
    blocks, inputs = [], 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            blocks.append(bottleneck(inputs, width, 2 if i == 0 and width > 64 else 1))
            inputs = 4 * width
    return OneLoss(
        conv_bn(3, 64, 7, 2),
        nn.ReLU(inplace=True),
        pool(3, 2, 1, ceil=False),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, 1000)
    )


class InvertedResidual(nn.Module):
    """Sandler et al. 2018: widens, filters each channel by itself, narrows; adds its input where the shape stays."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        width = inputs * expansion
        layers = [conv_bn(inputs, width, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        layers += [conv_bn(width, width, 3, stride, groups=width), nn.ReLU6(inplace=True), conv_bn(width, outputs, 1)]
        self.branch, self.adds = nn.Sequential(*layers), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.branch(x) if self.adds else self.branch(x)


def mobilenet_v2():
    layers, inputs = [conv_bn(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
    # expansion, channels, blocks, stride of the first block
    for expansion, outputs, count, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(count):
            layers.append(InvertedResidual(inputs, outputs, stride if i == 0 else 1, expansion))
            inputs = outputs
    layers += [conv_bn(320, 1280, 1), nn.ReLU6(inplace=True)]
    return OneLoss(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


class Inception(nn.Module):
    def __init__(self, inputs, one, reduce3, three, reduce5, five, projected):
        super().__init__()
        self.branches = nn.ModuleList(
            [
                conv_relu(inputs, one, 1),
                nn.Sequential(conv_relu(inputs, reduce3, 1), conv_relu(reduce3, three, 3, padding=1)),
                nn.Sequential(conv_relu(inputs, reduce5, 1), conv_relu(reduce5, five, 5, padding=2)),
                nn.Sequential(pool(3, 1, 1), conv_relu(inputs, projected, 1)),
            ]
        )

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def auxiliary(inputs):
    return nn.Sequential(
        average(5, 3),
        conv_relu(inputs, 128, 1),
        nn.Flatten(),
        nn.Linear(2048, 1024),
        nn.ReLU(inplace=True),
        nn.Dropout(0.7),
        nn.Linear(1024, 1000),
    )


class GoogLeNet(nn.Module):
    """Szegedy et al. 2014, with both auxiliary classifiers at weight 0.3."""

    def __init__(self):
        super().__init__()
        self.to_4a = nn.Sequential(
            conv_relu(3, 64, 7, stride=2, padding=3),
            pool(3, 2),
            local_response(),
            conv_relu(64, 64, 1),
            conv_relu(64, 192, 3, padding=1),
            local_response(),
            pool(3, 2),
            Inception(192, 64, 96, 128, 16, 32, 32),
            Inception(256, 128, 128, 192, 32, 96, 64),
            pool(3, 2),
            Inception(480, 192, 96, 208, 16, 48, 64),
        )
        self.to_4d = nn.Sequential(
            Inception(512, 160, 112, 224, 24, 64, 64),
            Inception(512, 128, 128, 256, 24, 64, 64),
            Inception(512, 112, 144, 288, 32, 64, 64),
        )
        self.to_end = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128),
            pool(3, 2),
            Inception(832, 256, 160, 320, 32, 128, 128),
            Inception(832, 384, 192, 384, 48, 128, 128),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.4),
            nn.Linear(1024, 1000),
        )
        self.auxiliary1, self.auxiliary2 = auxiliary(512), auxiliary(528)

    def forward(self, images):
        at_4a = self.to_4a(images)
        at_4d = self.to_4d(at_4a)
        return [(1.0, self.to_end(at_4d)), (0.3, self.auxiliary1(at_4a)), (0.3, self.auxiliary2(at_4d))]


NETS = {
    "lenet": lenet,
    "cifar10_quick": cifar10_quick,
    "cifar10_resnet20": cifar10_resnet20,
    "alexnet": alexnet,
    "googlenet": GoogLeNet,
    "resnet50": resnet50,
    "vgg16": vgg16,
    "mobilenet_v2": mobilenet_v2,
}
