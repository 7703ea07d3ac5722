"""The nets: what README.md says of each, its solver, and the function that adds its layers."""

from dataclasses import dataclass
from typing import Callable

MODELS = {}


@dataclass
class Model:
    folder: str
    title: str  # with the paper
    parameters: int  # learnable values of the train net
    input: str
    data: str  # shapes that stand in for data that does not exist
    solver: dict
    build: Callable
    norm: str  # how train_val.prototxt spells batch normalization; "" if it has none
    notes: str  # comment in solver.prototxt


def model(folder, title, parameters, input, data, solver, norm="", notes=""):
    def register(build):
        MODELS[folder] = Model(folder, title, parameters, input, data, solver, build, norm, notes)
        return build

    return register


def sgd(base_lr, max_iter, weight_decay, policy, momentum=0.9, test=(1000, 5000), display=20, snapshot=10000, **more):
    """Solver settings; `policy` holds lr_policy and what belongs to it, `test` test_iter and test_interval."""
    return {
        **({"test_iter": test[0], "test_interval": test[1]} if test else {}),
        "base_lr": base_lr,
        **policy,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "max_iter": max_iter,
        "display": display,
        "average_loss": display,
        "snapshot": snapshot,
        **more,
    }


def step(stepsize, gamma=0.1):
    return {"lr_policy": "step", "gamma": gamma, "stepsize": stepsize}


def multistep(*iterations):
    return {"lr_policy": "multistep", "gamma": 0.1, "stepvalue": list(iterations)}


def poly(power=1):
    return {"lr_policy": "poly", "power": power}


FIXED, COSINE = {"lr_policy": "fixed"}, {"lr_policy": "cosine"}
