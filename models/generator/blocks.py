"""What nets are built from. Each function adds layers to `net` and returns the name of the last blob."""

MEAN = [104, 117, 123]  # of ImageNet's images: blue, green, red


def constant(value=0):
    return {"type": "constant", "value": value} if value else {"type": "constant"}


def gaussian(std):
    return {"type": "gaussian", "std": std}


XAVIER, MSRA = {"type": "xavier"}, {"type": "msra"}
# Rates of weights and biases, as in BVLC's nets.
WEIGHT_AND_BIAS = [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}]


def square(settings, kernel, stride, pad, dilation=1):
    """kernel_size, stride and pad where they are not the defaults; lists are lengths along several axes."""
    settings["kernel_size"] = kernel
    for name, length, default in (("stride", stride, 1), ("pad", pad, 0), ("dilation", dilation, 1)):
        if length != default:
            settings[name] = length
    return settings


def conv(
    net,
    bottom,
    name,
    channels,
    kernel,
    stride=1,
    pad=0,
    group=1,
    dilation=1,
    bias=True,
    filler=XAVIER,
    bias_filler=None,
    param=WEIGHT_AND_BIAS,
    type="Convolution",
):
    settings = square({"num_output": channels}, kernel, stride, pad, dilation)
    if group > 1:
        settings["group"] = group
    if not bias:
        settings["bias_term"] = False
    settings["weight_filler"] = filler
    if bias:
        settings["bias_filler"] = bias_filler or constant()
    param = param if bias else [one for one in param[:1] if one != WEIGHT_AND_BIAS[0]]
    return net.layer(type, name, bottom, param=param, convolution_param=settings)


def relu(net, blob, name):
    return net.in_place("ReLU", name, blob)


def conv_relu(net, bottom, name, channels, kernel, relu_name, **more):
    return relu(net, conv(net, bottom, name, channels, kernel, **more), relu_name)


def norm(net, bottom, name, scale, top=None, frozen=False):
    """Batch normalization with slope and bias, in place unless `top` is given; `scale` names the Scale layer."""
    top = top or bottom
    if net.norm == "BatchNorm":
        net.layer("BatchNorm", name, bottom, top, batch_norm_param={"moving_average_fraction": 0.9})
        return net.in_place("Scale", scale, top, scale_param={"bias_term": True})
    type = "BN" if net.deploy else net.norm
    param = {"slope_filler": constant(1), "bias_filler": constant()}
    return net.layer(type, name, bottom, top, bn_param={**param, "frozen": True} if frozen else param)


def conv_norm(
    net,
    bottom,
    name,
    channels,
    kernel,
    norm_name=None,
    scale=None,
    relu_name=None,
    filler=MSRA,
    bias=False,
    frozen=False,
    **more,
):
    """Convolution, batch normalization and, if it gets a name, a ReLU."""
    norm_name = norm_name or f"{name}/bn"
    blob = conv(net, bottom, name, channels, kernel, bias=bias, filler=filler, **more)
    blob = norm(net, blob, norm_name, scale or f"{norm_name}/scale", frozen=frozen)
    return relu(net, blob, relu_name) if relu_name else blob


def inner_product(
    net, bottom, name, outputs, filler=XAVIER, bias_filler=None, param=WEIGHT_AND_BIAS, bias=True, **more
):
    settings = {"num_output": outputs, **({} if bias else {"bias_term": False}), "weight_filler": filler}
    if bias:
        settings["bias_filler"] = bias_filler or constant()
    param = param if bias else [one for one in param[:1] if one != WEIGHT_AND_BIAS[0]]
    return net.layer("InnerProduct", name, bottom, param=param, inner_product_param={**settings, **more})


def pool(net, bottom, name, method, kernel=None, stride=1, pad=0, floor=False, top=None):
    """Without a kernel: over the whole image. Sizes are rounded up as in Caffe, down with `floor`."""
    settings = {"pool": method}
    if kernel is None:
        settings["global_pooling"] = True
    else:
        square(settings, kernel, stride, pad)
    if floor:
        settings["round_mode"] = "FLOOR"
    return net.layer("Pooling", name, bottom, top, pooling_param=settings)


def dropout(net, blob, name, ratio):
    return net.in_place("Dropout", name, blob, dropout_param={"dropout_ratio": ratio})


def add(net, a, b, name, relu_name=None):
    total = net.layer("Eltwise", name, [a, b], eltwise_param={"operation": "SUM"})
    return relu(net, total, relu_name) if relu_name else total


def concat(net, blobs, name):
    return net.layer("Concat", name, blobs)


def reshape(net, bottom, name, dims):
    return net.layer("Reshape", name, bottom, reshape_param={"shape": {"dim": dims}})


def source(
    net,
    top,
    shape,
    folder,
    batch,
    test_batch,
    train=None,
    test=None,
    name="data",
    suffix="lmdb",
    data=None,
    held_out="val",
):
    """Data layers of both phases, or the Input of a deploy net, of `shape` without the batch. `train` and `test`: how
    records are transformed; `data`: more of data_param; `held_out`: what the test data are called. Training batches are
    divided among the devices. Without a `test_batch` both phases read the training data."""
    if net.deploy:
        return net.layer("Input", name, (), top[0], input_param={"shape": {"dim": [1, *shape]}})
    total = {"batch_size_is_total": True} if batch > 1 else {}
    phases = [("TRAIN", "train", batch, train, {**total, **(data or {})})]
    if test_batch:
        phases.append(("TEST", held_out, test_batch, test, data or {}))
    for phase, part, size, transform, more in phases:
        data_param = {"source": f"{folder}/{part}_{suffix}", "batch_size": size, "backend": "LMDB", **more}
        include = {"phase": phase} if test_batch else {}
        net.layer("Data", name, (), top, include=include, transform_param=transform or {}, data_param=data_param)
    return top[0]


def imagenet(net, crop=224, batch=256, test_batch=50, scale=None):
    transform = {"crop_size": crop, "mean_value": MEAN, **({"scale": scale} if scale else {})}
    return source(
        net,
        ["data", "label"],
        [3, crop, crop],
        "run/imagenet",
        batch,
        test_batch,
        {"mirror": True, **transform},
        transform,
    )


def accuracy(net, blob, name="accuracy", **settings):
    net.layer("Accuracy", name, [blob, "label"], include={"phase": "TEST"}, accuracy_param=settings)


def classes(net, scores, loss="loss", prob="prob", top_5=True):
    """Softmax loss, and accuracies in tests; probabilities in deploy nets."""
    if net.deploy:
        return net.layer("Softmax", prob, scores)
    accuracy(net, scores, "accuracy")
    if top_5:
        accuracy(net, scores, "accuracy_top5", top_k=5)
    return net.layer("SoftmaxWithLoss", loss, [scores, "label"])
