"""Nets that classify images: ImageNet's, CIFAR-10's, faces."""

from .blocks import *
from .registry import COSINE, model, multistep, poly, sgd, step

IMAGENET = "ImageNet, 3 x {0} x {0}"
IMAGES = "data:{1},3,{0},{0}"
EPOCH = 5005  # iterations of 256 images


def imagenet_model(folder, title, parameters, solver, crop=224, **more):
    return model(folder, title, parameters, IMAGENET.format(crop), IMAGES.format(crop, 2), solver, **more)


# --- without batch normalization ---


def alexnet_layers(net, blob, norm_first, bias, last=7):
    """AlexNet's layers up to fc7 or fc6. AlexNet normalizes before it pools, CaffeNet after; `bias`: where not 0."""
    lrn = {"local_size": 5, "alpha": 0.0001, "beta": 0.75}
    # fmt: off
    rows = (
        (1, 96, 11, 4, 0, 1, 0), (2, 256, 5, 1, 2, 2, bias), (3, 384, 3, 1, 1, 1, 0), (4, 384, 3, 1, 1, 2, bias),
        (5, 256, 3, 1, 1, 2, bias),
    )
    # fmt: on
    for i, channels, kernel, stride, pad, group, at in rows:
        blob = conv_relu(
            net,
            blob,
            f"conv{i}",
            channels,
            kernel,
            f"relu{i}",
            stride=stride,
            pad=pad,
            group=group,
            filler=gaussian(0.01),
            bias_filler=constant(at),
        )
        if i in (1, 2) and norm_first:
            blob = net.layer("LRN", f"norm{i}", blob, lrn_param=lrn)
        if i in (1, 2, 5):
            blob = pool(net, blob, f"pool{i}", "MAX", 3, 2)
        if i in (1, 2) and not norm_first:
            blob = net.layer("LRN", f"norm{i}", blob, lrn_param=lrn)
    for i in range(6, last + 1):
        blob = relu(net, inner_product(net, blob, f"fc{i}", 4096, gaussian(0.005), constant(bias)), f"relu{i}")
        blob = dropout(net, blob, f"drop{i}", 0.5)
    return blob


ALEXNET_SOLVER = sgd(0.01, 450000, 0.0005, step(100000), test=(1000, 1000))


@imagenet_model(
    "alexnet",
    "AlexNet (Krizhevsky et al. 2012), one tower with groups as in BVLC's",
    60965224,
    ALEXNET_SOLVER,
    crop=227,
)
def alexnet(net):
    classes(net, inner_product(net, alexnet_layers(net, imagenet(net, 227), True, 0.1), "fc8", 1000, gaussian(0.01)))


@imagenet_model(
    "caffenet",
    "CaffeNet, BVLC's reference model: AlexNet (Krizhevsky et al. 2012) with pooling before normalization",
    60965224,
    ALEXNET_SOLVER,
    crop=227,
)
def caffenet(net):
    classes(net, inner_product(net, alexnet_layers(net, imagenet(net, 227), False, 1), "fc8", 1000, gaussian(0.01)))


VGG16 = ((1, 2, 64), (2, 2, 128), (3, 3, 256), (4, 3, 512), (5, 3, 512))  # stage, convolutions, channels


@imagenet_model(
    "vgg16",
    "VGG-16 (Simonyan & Zisserman 2014), configuration D",
    138357544,
    sgd(0.01, 370000, 0.0005, step(100000)),
    notes="The paper lowers the rate when the accuracy stalls and starts from a smaller net; here every\n"
    "100000 iterations, from MSRA's initial values.",
)
def vgg16(net):
    blob = imagenet(net)
    for stage, count, channels in VGG16:
        for i in range(1, count + 1):
            blob = conv_relu(net, blob, f"conv{stage}_{i}", channels, 3, f"relu{stage}_{i}", pad=1, filler=MSRA)
        blob = pool(net, blob, f"pool{stage}", "MAX", 2, 2)
    for i in (6, 7):
        blob = relu(net, inner_product(net, blob, f"fc{i}", 4096, gaussian(0.005)), f"relu{i}")
        blob = dropout(net, blob, f"drop{i}", 0.5)
    classes(net, inner_product(net, blob, "fc8", 1000, gaussian(0.01)))


@imagenet_model(
    "googlenet",
    "GoogLeNet (Szegedy et al. 2014) with its two auxiliary classifiers, as in BVLC's",
    13378280,
    sgd(0.01, 2400000, 0.0002, poly(0.5), test=(1000, 4000), display=40, snapshot=40000),
    notes="BVLC's quick solver: 60 epochs with batches of 32.",
)
def googlenet(net):
    fill = dict(bias_filler=constant(0.2))
    lrn = {"local_size": 5, "alpha": 0.0001, "beta": 0.75}

    def cr(bottom, prefix, kind, channels, kernel, **more):
        return conv_relu(net, bottom, f"{prefix}/{kind}", channels, kernel, f"{prefix}/relu_{kind}", **fill, **more)

    def auxiliary(bottom, name):
        if net.deploy:
            return
        blob = pool(net, bottom, f"{name}/ave_pool", "AVE", 5, 3)
        blob = conv_relu(net, blob, f"{name}/conv", 128, 1, f"{name}/relu_conv", **fill)
        blob = relu(net, inner_product(net, blob, f"{name}/fc", 1024, **fill), f"{name}/relu_fc")
        blob = inner_product(net, dropout(net, blob, f"{name}/drop_fc", 0.7), f"{name}/classifier", 1000)
        net.layer("SoftmaxWithLoss", f"{name}/loss", [blob, "label"], loss_weight=0.3)

    blob = imagenet(net, batch=32)
    blob = cr(blob, "conv1", "7x7_s2", 64, 7, stride=2, pad=3)
    blob = pool(net, blob, "pool1/3x3_s2", "MAX", 3, 2)
    blob = net.layer("LRN", "pool1/norm1", blob, lrn_param=lrn)
    blob = cr(blob, "conv2", "3x3_reduce", 64, 1)
    blob = cr(blob, "conv2", "3x3", 192, 3, pad=1)
    blob = net.layer("LRN", "conv2/norm2", blob, lrn_param=lrn)
    blob = pool(net, blob, "pool2/3x3_s2", "MAX", 3, 2)
    # fmt: off
    rows = (
        ("3a", 64, (96, 128), (16, 32), 32), ("3b", 128, (128, 192), (32, 96), 64),
        ("4a", 192, (96, 208), (16, 48), 64), ("4b", 160, (112, 224), (24, 64), 64),
        ("4c", 128, (128, 256), (24, 64), 64), ("4d", 112, (144, 288), (32, 64), 64),
        ("4e", 256, (160, 320), (32, 128), 128),
        ("5a", 256, (160, 320), (32, 128), 128), ("5b", 384, (192, 384), (48, 128), 128),
    )
    # fmt: on
    for name, one, three, five, pooled in rows:
        prefix = f"inception_{name}"
        parts = [cr(blob, prefix, "1x1", one, 1)]
        for kind, pad, (reduced, channels) in (("3x3", 1, three), ("5x5", 2, five)):
            reduced = cr(blob, prefix, f"{kind}_reduce", reduced, 1)
            parts.append(cr(reduced, prefix, kind, channels, 2 * pad + 1, pad=pad))
        parts.append(cr(pool(net, blob, f"{prefix}/pool", "MAX", 3, 1, 1), prefix, "pool_proj", pooled, 1))
        blob = concat(net, parts, f"{prefix}/output")
        if name in ("4a", "4d"):
            auxiliary(blob, "loss1" if name == "4a" else "loss2")
        if name in ("3b", "4e"):
            blob = pool(net, blob, f"pool{name[0]}/3x3_s2", "MAX", 3, 2)
    blob = dropout(net, pool(net, blob, "pool5/7x7_s1", "AVE", 7), "pool5/drop_7x7_s1", 0.4)
    classes(net, inner_product(net, blob, "loss3/classifier", 1000), "loss3/loss3")


@imagenet_model(
    "squeezenet",
    "SqueezeNet 1.1 (Iandola et al. 2016)",
    1235496,
    sgd(0.04, 170000, 0.0002, poly(), test=(1000, 2000), display=40),
    crop=227,
)
def squeezenet(net):
    blob = imagenet(net, crop=227, batch=512)
    blob = conv_relu(net, blob, "conv1", 64, 3, "relu_conv1", stride=2)
    blob = pool(net, blob, "pool1", "MAX", 3, 2)
    for i in range(2, 10):
        squeezed = 16 * (i // 2)
        expanded = 4 * squeezed
        squeeze = conv_relu(net, blob, f"fire{i}/squeeze1x1", squeezed, 1, f"fire{i}/relu_squeeze1x1")
        blob = concat(
            net,
            [
                conv_relu(
                    net, squeeze, f"fire{i}/expand{k}x{k}", expanded, k, f"fire{i}/relu_expand{k}x{k}", pad=k // 2
                )
                for k in (1, 3)
            ],
            f"fire{i}/concat",
        )
        if i in (3, 5):
            blob = pool(net, blob, f"pool{i}", "MAX", 3, 2)
    blob = dropout(net, blob, "drop9", 0.5)
    blob = conv_relu(net, blob, "conv10", 1000, 1, "relu_conv10", filler=gaussian(0.01))
    classes(net, pool(net, blob, "pool10", "AVE"))


# --- Inception with batch normalization ---


def inception_bn_layers(net, blob, frozen=False):
    """Up to the global pooling. The convolutions have biases, as in yjxiong's. `frozen`: all normalizations but the
    first use stored statistics (partial BN of TSN)."""

    def cn(bottom, prefix, kind, channels, kernel, frozen=frozen, **more):
        name = f"{prefix}/{kind}"
        return conv_norm(
            net,
            bottom,
            name,
            channels,
            kernel,
            f"{name}_bn",
            f"{name}_scale",
            f"{prefix}/relu_{kind}",
            bias=True,
            frozen=frozen,
            **more,
        )

    blob = cn(blob, "conv1", "7x7_s2", 64, 7, frozen=False, stride=2, pad=3)
    blob = pool(net, blob, "pool1/3x3_s2", "MAX", 3, 2)
    blob = cn(blob, "conv2", "3x3_reduce", 64, 1)
    blob = cn(blob, "conv2", "3x3", 192, 3, pad=1)
    blob = pool(net, blob, "pool2/3x3_s2", "MAX", 3, 2)
    # fmt: off
    rows = (
        ("3a", 64, (64, 64), (64, 96), "AVE", 32), ("3b", 64, (64, 96), (64, 96), "AVE", 64),
        ("3c", 0, (128, 160), (64, 96), "MAX", 0),
        ("4a", 224, (64, 96), (96, 128), "AVE", 128), ("4b", 192, (96, 128), (96, 128), "AVE", 128),
        ("4c", 160, (128, 160), (128, 160), "AVE", 128), ("4d", 96, (128, 192), (160, 192), "AVE", 128),
        ("4e", 0, (128, 192), (192, 256), "MAX", 0),
        ("5a", 352, (192, 320), (160, 224), "AVE", 128), ("5b", 352, (192, 320), (192, 224), "MAX", 128),
    )
    # fmt: on
    for name, one, three, double, pooling, pooled in rows:
        prefix = f"inception_{name}"
        stride = 1 if one else 2  # 3c and 4e halve the image
        parts = [cn(blob, prefix, "1x1", one, 1)] if one else []
        part = cn(blob, prefix, "3x3_reduce", three[0], 1)
        parts.append(cn(part, prefix, "3x3", three[1], 3, stride=stride, pad=1))
        part = cn(blob, prefix, "double_3x3_reduce", double[0], 1)
        part = cn(part, prefix, "double_3x3_1", double[1], 3, pad=1)
        parts.append(cn(part, prefix, "double_3x3_2", double[1], 3, stride=stride, pad=1))
        part = pool(net, blob, f"{prefix}/pool", pooling, 3, stride, 1 if one else 0)
        parts.append(cn(part, prefix, "pool_proj", pooled, 1) if pooled else part)
        blob = concat(net, parts, f"{prefix}/output")
    return pool(net, blob, "global_pool", "AVE")


@imagenet_model(
    "inception_bn",
    "Inception-BN (Ioffe & Szegedy 2015), as in yjxiong's",
    11295240,
    sgd(0.1, 90 * EPOCH, 0.0001, poly(), test=(1000, EPOCH)),
    norm="BatchNorm",
    notes="The paper trains asynchronously; this is a synchronous recipe of our own, of 90 epochs.",
)
def inception_bn(net):
    blob = inception_bn_layers(net, imagenet(net))
    classes(net, inner_product(net, blob, "fc", 1000))


# --- residual nets ---

RESNET_SOLVER = sgd(0.1, 120 * EPOCH, 0.0001, multistep(30 * EPOCH, 60 * EPOCH, 90 * EPOCH), test=(1000, EPOCH))


def resnet(net, blocks, bottleneck):
    """Names and places of strides as in the published nets (bottlenecks: in their first convolution)."""

    def cn(bottom, name, channels, kernel, with_relu=False, **more):
        part = name.removeprefix("res") if name.startswith("res") else f"_{name}"
        return conv_norm(
            net,
            bottom,
            name,
            channels,
            kernel,
            f"bn{part}",
            f"scale{part}",
            f"{name}_relu" if with_relu else None,
            **more,
        )

    blob = cn(imagenet(net), "conv1", 64, 7, True, stride=2, pad=3)
    blob = pool(net, blob, "pool1", "MAX", 3, 2, 1, floor=True)
    for stage, count in enumerate(blocks, 2):
        width = 64 << (stage - 2)
        for i in range(count):
            name = (
                f"res{stage}{chr(ord('a') + i)}" if max(blocks) <= 8 or i == 0 or stage in (2, 5) else f"res{stage}b{i}"
            )
            stride = 2 if i == 0 and stage > 2 else 1
            shortcut = blob
            if i == 0 and (bottleneck or stage > 2):
                shortcut = cn(blob, f"{name}_branch1", width * 4 if bottleneck else width, 1, stride=stride)
            if bottleneck:
                part = cn(blob, f"{name}_branch2a", width, 1, True, stride=stride)
                part = cn(part, f"{name}_branch2b", width, 3, True, pad=1)
                part = cn(part, f"{name}_branch2c", width * 4, 1)
            else:
                part = cn(blob, f"{name}_branch2a", width, 3, True, stride=stride, pad=1)
                part = cn(part, f"{name}_branch2b", width, 3, pad=1)
            blob = add(net, shortcut, part, name, f"{name}_relu")
    blob = pool(net, blob, "pool5", "AVE")
    classes(net, inner_product(net, blob, "fc1000", 1000))


def resnet_model(depth, parameters, blocks, bottleneck):
    imagenet_model(f"resnet{depth}", f"ResNet-{depth} (He et al. 2015)", parameters, RESNET_SOLVER, norm="BatchNorm")(
        lambda net: resnet(net, blocks, bottleneck)
    )


resnet_model(18, 11689512, (2, 2, 2, 2), False)
resnet_model(50, 25557032, (3, 4, 6, 3), True)
resnet_model(101, 44549160, (3, 4, 23, 3), True)


def bottleneck_stages(net, blob, widths, group=1, stride_in_3x3=False, squeeze_excite=False, dilations=(1, 1, 1, 1)):
    """The four stages of a ResNet-50, with the names of SENet's and PSPNet's nets. A dilated stage keeps the size."""
    for stage, count, width, dilation in zip((2, 3, 4, 5), (3, 4, 6, 3), widths, dilations):
        out = 256 << (stage - 2)
        for i in range(1, count + 1):
            name = f"conv{stage}_{i}"
            stride = 2 if i == 1 and stage > 2 and dilation == 1 else 1

            def cn(bottom, kind, channels, kernel, with_relu=False, **more):
                full = f"{name}_{kind}"
                return conv_norm(
                    net, bottom, full, channels, kernel, relu_name=f"{full}/relu" if with_relu else None, **more
                )

            part = cn(blob, "1x1_reduce", width, 1, True, stride=1 if stride_in_3x3 else stride)
            part = cn(
                part,
                "3x3",
                width,
                3,
                True,
                stride=stride if stride_in_3x3 else 1,
                pad=dilation,
                dilation=dilation,
                group=group,
            )
            part = cn(part, "1x1_increase", out, 1)
            shortcut = cn(blob, "1x1_proj", out, 1, stride=stride) if i == 1 else blob
            if squeeze_excite:
                factor = pool(net, part, f"{name}_global_pool", "AVE")
                factor = conv_relu(net, factor, f"{name}_1x1_down", out // 16, 1, f"{name}_1x1_down/relu")
                factor = conv(net, factor, f"{name}_1x1_up", out, 1)
                factor = net.layer("Sigmoid", f"{name}_prob", factor)
                blob = relu(net, net.layer("Axpy", name, [factor, part, shortcut]), f"{name}/relu")
            else:
                blob = add(net, part, shortcut, name, f"{name}/relu")
    return blob


def bottleneck_net(net, batch, **more):
    blob = imagenet(net, batch=batch)
    blob = conv_norm(net, blob, "conv1/7x7_s2", 64, 7, relu_name="conv1/relu_7x7_s2", stride=2, pad=3)
    blob = pool(net, blob, "pool1/3x3_s2", "MAX", 3, 2)
    blob = bottleneck_stages(net, blob, **more)
    classes(net, inner_product(net, pool(net, blob, "pool5", "AVE"), "classifier", 1000))


@imagenet_model("resnext50", "ResNeXt-50, 32 x 4d (Xie et al. 2016)", 25028904, RESNET_SOLVER, norm="BatchNorm")
def resnext50(net):
    bottleneck_net(net, 256, widths=(128, 256, 512, 1024), group=32, stride_in_3x3=True)


@imagenet_model(
    "se_resnet50",
    "SE-ResNet-50 (Hu et al. 2017)",
    28088024,
    sgd(0.6, 125200, 0.0001, step(37560), test=(1000, 1252)),
    norm="BatchNorm",
    notes="Batches of 1024: 1252 iterations are an epoch.",
)
def se_resnet50(net):
    bottleneck_net(net, 1024, widths=(64, 128, 256, 512), squeeze_excite=True)


@imagenet_model(
    "densenet121",
    "DenseNet-121 (Huang et al. 2016)",
    7978856,
    sgd(0.1, 90 * EPOCH, 0.0001, multistep(30 * EPOCH, 60 * EPOCH), test=(1000, EPOCH), type="Nesterov"),
    norm="BatchNorm",
    notes='checkpoint: "auto" at the top of the net needs a fifth of the memory for activations and gradients.',
)
def densenet121(net):
    def norm_relu(blob, name, relu_name):
        """With a top of its own: what is concatenated is read again."""
        return relu(net, norm(net, blob, f"{name}/bn", f"{name}/scale", top=f"{name}/bn"), relu_name)

    def plain(bottom, name, channels, kernel, **more):
        return conv(net, bottom, name, channels, kernel, bias=False, filler=MSRA, **more)

    blob = conv_norm(net, imagenet(net), "conv1", 64, 7, "conv1/bn", "conv1/scale", "relu1", stride=2, pad=3)
    blob = pool(net, blob, "pool1", "MAX", 3, 2, 1, floor=True)
    channels = 64
    for stage, count in ((2, 6), (3, 12), (4, 24), (5, 16)):
        for i in range(1, count + 1):
            name = f"conv{stage}_{i}"
            part = plain(norm_relu(blob, f"{name}/x1", f"relu{stage}_{i}/x1"), f"{name}/x1", 128, 1)
            part = plain(norm_relu(part, f"{name}/x2", f"relu{stage}_{i}/x2"), f"{name}/x2", 32, 3, pad=1)
            blob = concat(net, [blob, part], f"concat_{stage}_{i}")
            channels += 32
        blob = norm_relu(blob, f"conv{stage}_blk", f"relu{stage}_blk")
        if stage < 5:
            channels //= 2
            blob = pool(net, plain(blob, f"conv{stage}_blk", channels, 1), f"pool{stage}", "AVE", 2, 2)
    classes(net, inner_product(net, pool(net, blob, "pool5", "AVE"), "fc6", 1000))


# --- small nets for ImageNet ---

NO_DECAY = [{"decay_mult": 0}]
MOBILE_NOTES = (
    "Caffe's RMSProp has no momentum, so the papers' training cannot be repeated: SGD for 150 epochs\n"
    "on a cosine, as in other trainings that reach the published accuracy."
)
MOBILE_SOLVER = sgd(0.05, 150 * EPOCH, 0.00004, COSINE, test=(1000, EPOCH))


def depthwise(net, bottom, name, channels, **more):
    return conv_norm(
        net, bottom, name, channels, 3, f"{name}/bn", f"{name}/scale", pad=1, group=channels, param=NO_DECAY, **more
    )


@imagenet_model(
    "mobilenet_v1", "MobileNet (Howard et al. 2017)", 4231976, MOBILE_SOLVER, norm="BatchNorm", notes=MOBILE_NOTES
)
def mobilenet_v1(net):
    blob = conv_norm(
        net, imagenet(net, scale=0.017), "conv1", 32, 3, "conv1/bn", "conv1/scale", "relu1", stride=2, pad=1
    )
    channels = 32
    # fmt: off
    rows = (
        ("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2), ("4_1", 256, 1), ("4_2", 512, 2),
        *((f"5_{i}", 512, 1) for i in range(1, 6)), ("5_6", 1024, 2), ("6", 1024, 1),
    )
    # fmt: on
    for name, out, stride in rows:
        blob = depthwise(net, blob, f"conv{name}/dw", channels, relu_name=f"relu{name}/dw", stride=stride)
        blob = conv_norm(net, blob, f"conv{name}/sep", out, 1, relu_name=f"relu{name}/sep")
        channels = out
    classes(net, inner_product(net, pool(net, blob, "pool6", "AVE"), "fc7", 1000))


@imagenet_model(
    "mobilenet_v2", "MobileNetV2 (Sandler et al. 2018)", 3504872, MOBILE_SOLVER, norm="BatchNorm", notes=MOBILE_NOTES
)
def mobilenet_v2(net):
    def relu6(blob, name):
        return net.in_place("Clip", name, blob, clip_param={"min": 0, "max": 6})

    blob = relu6(conv_norm(net, imagenet(net, scale=0.017), "conv1", 32, 3, stride=2, pad=1), "relu1")
    channels = 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, out, count, first_stride) in enumerate(rows, 2):
        for i in range(1, count + 1):
            name = f"conv{stage}_{i}"
            stride = first_stride if i == 1 else 1
            part = blob
            if expansion > 1:
                part = relu6(conv_norm(net, part, f"{name}/expand", channels * expansion, 1), f"relu{stage}_{i}/expand")
            part = relu6(
                depthwise(net, part, f"{name}/dwise", channels * expansion, stride=stride), f"relu{stage}_{i}/dwise"
            )
            part = conv_norm(net, part, f"{name}/linear", out, 1)
            blob = add(net, blob, part, f"block_{stage}_{i}") if stride == 1 and channels == out else part
            channels = out
    blob = relu6(conv_norm(net, blob, "conv9", 1280, 1), "relu9")
    blob = dropout(net, pool(net, blob, "pool9", "AVE"), "drop9", 0.2)
    classes(net, inner_product(net, blob, "fc10", 1000))


@imagenet_model(
    "shufflenet_v1",
    "ShuffleNet, 3 groups (Zhang et al. 2017)",
    1865728,
    sgd(0.5, 300000, 0.00004, poly(), test=(1000, 5000)),
    norm="BatchNorm",
    notes="Batches of 1024.",
)
def shufflenet_v1(net):
    groups = 3

    def unit(blob, name, channels, out, stride, first):
        middle = out // 4
        part = conv_norm(net, blob, f"{name}_conv1", middle, 1, relu_name=f"{name}_relu1", group=1 if first else groups)
        part = net.layer("ShuffleChannel", f"{name}_shuffle", part, shuffle_channel_param={"group": groups})
        part = conv_norm(net, part, f"{name}_conv2", middle, 3, stride=stride, pad=1, group=middle, param=NO_DECAY)
        grown = out - channels if stride == 2 else out
        part = conv_norm(net, part, f"{name}_conv3", grown, 1, group=groups)
        if stride == 1:
            return add(net, blob, part, name, f"{name}_relu")
        shortcut = pool(net, blob, f"{name}_pool", "AVE", 3, 2, 1, floor=True)
        return relu(net, concat(net, [shortcut, part], name), f"{name}_relu")

    blob = conv_norm(net, imagenet(net, batch=1024), "conv1", 24, 3, relu_name="relu1", stride=2, pad=1)
    blob = pool(net, blob, "pool1", "MAX", 3, 2, 1, floor=True)
    channels = 24
    for stage, count, out in ((2, 4, 240), (3, 8, 480), (4, 4, 960)):
        for i in range(1, count + 1):
            blob = unit(blob, f"stage{stage}_{i}", channels, out, 2 if i == 1 else 1, stage == 2 and i == 1)
            channels = out
    classes(net, inner_product(net, pool(net, blob, "pool5", "AVE"), "fc", 1000))


# --- CIFAR-10, faces ---


@model(
    "cifar10_resnet56",
    "ResNet-56 for CIFAR-10 (He et al. 2015), with projections",
    855770,
    "CIFAR-10, 3 x 32 x 32",
    "data:8,3,32,32",
    sgd(0.1, 64000, 0.0001, multistep(32000, 48000), test=(100, 391), display=100, snapshot=16000),
    norm="BatchNorm",
)
def cifar10_resnet56(net):
    scaled = {"scale": 0.015625, "mean_value": [113.9, 123.0, 125.3], "crop_size": 32}
    blob = source(
        net,
        ["data", "label"],
        [3, 32, 32],
        "run/cifar10",
        128,
        100,
        {**scaled, "mirror": True, "pad": 4},
        scaled,
        held_out="test",
    )
    blob = conv_norm(net, blob, "conv1", 16, 3, relu_name="conv1/relu", pad=1)
    for stage, width in ((1, 16), (2, 32), (3, 64)):
        for i in range(1, 10):
            name = f"res{stage}_{i}"
            stride = 2 if i == 1 and stage > 1 else 1
            shortcut = conv_norm(net, blob, f"{name}_proj", width, 1, stride=stride) if stride == 2 else blob
            part = conv_norm(net, blob, f"{name}_conv1", width, 3, relu_name=f"{name}_relu1", stride=stride, pad=1)
            part = conv_norm(net, part, f"{name}_conv2", width, 3, pad=1)
            blob = add(net, shortcut, part, name, f"{name}_relu")
    classes(net, inner_product(net, pool(net, blob, "pool", "AVE"), "fc", 10), top_5=False)


@model(
    "sphereface20",
    "SphereFace-20 (Liu et al. 2017)",
    28083520,
    "CASIA-WebFace, aligned to 3 x 112 x 96",
    "data:2,3,112,96",
    sgd(0.1, 28000, 0.0005, multistep(16000, 24000), test=None, display=100, snapshot=4000),
)
def sphereface20(net):
    """Deploy nets end with fc5, the features of a face."""

    def conv_prelu(bottom, name, channels, number, **more):
        return net.in_place("PReLU", f"relu{number}", conv(net, bottom, name, channels, 3, pad=1, **more))

    blob = source(
        net,
        ["data", "label"],
        [3, 112, 96],
        "run/casia",
        512,
        0,
        {"mean_value": 127.5, "scale": 0.0078125, "mirror": True},
    )
    for stage, channels, units in ((1, 64, 1), (2, 128, 2), (3, 256, 4), (4, 512, 1)):
        blob = conv_prelu(blob, f"conv{stage}_1", channels, f"{stage}_1", stride=2)
        for unit in range(1, units + 1):
            part = blob
            for i in (2 * unit, 2 * unit + 1):
                part = conv_prelu(part, f"conv{stage}_{i}", channels, f"{stage}_{i}", filler=gaussian(0.01))
            blob = add(net, blob, part, f"res{stage}_{2 * unit + 1}")
    blob = inner_product(net, blob, "fc5", 512)
    if not net.deploy:
        margin = {"type": "QUADRUPLE", "base": 1000, "gamma": 0.12, "power": 1, "lambda_min": 5, "iteration": 0}
        margin = {"num_output": 10572, "weight_filler": XAVIER, **margin}
        blob = net.layer(
            "MarginInnerProduct", "fc6", [blob, "label"], ["fc6", "lambda"], margin_inner_product_param=margin
        )
        net.layer("SoftmaxWithLoss", "loss", [blob, "label"])
