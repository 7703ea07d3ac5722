"""Nets for MNIST's digits: run/mnist is made by convert_mnist."""

from .blocks import *
from .registry import model, sgd, step


@model(
    "mnist_siamese",
    "Siamese net (Hadsell et al. 2006), as in BVLC's example",
    431102,
    "MNIST, pairs of 1 x 28 x 28",
    "data:4,1,28,28;data_p:4,1,28,28",
    sgd(
        0.01,
        50000,
        0,
        {"lr_policy": "inv", "gamma": 0.0001, "power": 0.75},
        test=(100, 500),
        display=100,
        snapshot=5000,
    ),
    notes="Pairs are drawn by reading the digits in two random orders: one in ten is similar.",
)
def mnist_siamese(net):
    """Both towers have the same parameters; deploy nets have one. The loss needs 1 for pairs of the same digit."""

    def tower(end):
        def names(layer, *blobs):
            if net.deploy:
                return {}
            return [{"name": f"{layer}_{blob}", "lr_mult": rate} for blob, rate in zip(blobs, (1, 2))]

        blob = source(
            net,
            [f"data{end}", f"label{end}"],
            [1, 28, 28],
            "run/mnist",
            64,
            100,
            {"scale": 0.00390625},
            {"scale": 0.00390625},
            name=f"data{end}",
            data={"shuffle": True},
            held_out="test",
        )
        for i, channels in ((1, 20), (2, 50)):
            blob = conv(net, blob, f"conv{i}{end}", channels, 5, param=names(f"conv{i}", "w", "b"))
            blob = pool(net, blob, f"pool{i}{end}", "MAX", 2, 2)
        blob = relu(net, inner_product(net, blob, f"ip1{end}", 500, param=names("ip1", "w", "b")), f"relu1{end}")
        blob = inner_product(net, blob, f"ip2{end}", 10, param=names("ip2", "w", "b"))
        return inner_product(net, blob, f"feat{end}", 2, param=names("feat", "w", "b"))

    one = tower("")
    if net.deploy:
        return
    other = tower("_p")
    blob = net.layer(
        "Eltwise", "difference", ["label", "label_p"], eltwise_param={"operation": "SUM", "coeff": [1, -1]}
    )
    blob = net.layer("AbsVal", "distance", blob)
    blob = net.layer("Threshold", "different", blob, threshold_param={"threshold": 0.5})
    similar = net.layer("Power", "similar", blob, power_param={"scale": -1, "shift": 1})
    net.layer("ContrastiveLoss", "loss", [one, other, similar], contrastive_loss_param={"margin": 1})


@model(
    "mnist_autoencoder",
    "Autoencoder (Hinton & Salakhutdinov 2006), as in BVLC's example",
    2837314,
    "MNIST, 1 x 28 x 28",
    "data:4,1,28,28",
    sgd(0.01, 65000, 0.0005, step(10000), test=(100, 500), display=100),
)
def mnist_autoencoder(net):
    """Deploy nets end with the 30 values of the code and the image made from them."""
    sparse = {"type": "gaussian", "std": 1, "sparse": 15}
    scale = {"scale": 0.0039215684}
    blob = source(net, ["data"], [1, 28, 28], "run/mnist", 100, 100, scale, scale, held_out="test")
    flat = blob = net.layer("Flatten", "flatdata", blob)
    param = [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 1, "decay_mult": 0}]
    layers = [
        ("encode1", 1000),
        ("encode2", 500),
        ("encode3", 250),
        ("encode4", 30),
        ("decode4", 250),
        ("decode3", 500),
        ("decode2", 1000),
        ("decode1", 784),
    ]
    for name, outputs in layers:
        blob = inner_product(net, blob, name, outputs, sparse, param=param)
        if name not in ("encode4", "decode1"):
            blob = net.layer("Sigmoid", f"{name}neuron", blob)
    result = net.layer("Sigmoid", "decode1neuron", blob)
    if not net.deploy:
        net.layer("SigmoidCrossEntropyLoss", "loss", [blob, flat], "cross_entropy_loss", loss_weight=1)
        net.layer("EuclideanLoss", "l2_error", [result, flat], loss_weight=0)
