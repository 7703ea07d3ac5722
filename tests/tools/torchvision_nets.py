"""Writes what the test of the maps in models/ needs of torchvision: torchvision_nets.py FOLDER OURS=TORCHVISIONS,SIDE ...

OURS.shapes: name and lengths of each array of the state dict; where SIDE is not 0 also OURS.npz, the state dict of a net
with random weights and statistics, and OURS_run.npz: an image, blue first, of SIDE x SIDE pixels, and its scores. Exit code
77: a module is missing."""
import pathlib
import sys

try:
    import numpy
    import torch
    import torchvision
except ImportError as error:
    print(error)
    sys.exit(77)


def state_of(model):
    """What a net computes with: not the number of batches that it has seen."""
    return {name: value for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}


folder = pathlib.Path(sys.argv[1])
for argument in sys.argv[2:]:
    ours, rest = argument.split("=")
    name, side = rest.split(",")
    make = getattr(torchvision.models, name)
    with torch.device("meta"):  # no values
        state = state_of(make())
    lines = (" ".join([key, *map(str, value.shape)]) + "\n" for key, value in state.items())
    (folder / f"{ours}.shapes").write_text("".join(lines))
    if side == "0":
        continue
    torch.manual_seed(1)
    model = make().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as after some training
            for values, low, high in ((module.weight, 0.5, 1.5), (module.bias, -0.2, 0.2),
                                      (module.running_mean, -0.2, 0.2), (module.running_var, 0.5, 1.5)):  # fmt: skip
                torch.nn.init.uniform_(values, low, high)
    image = torch.rand(1, 3, int(side), int(side)) * 4 - 2
    with torch.no_grad():
        scores = model(image)
    numpy.savez(folder / f"{ours}.npz", **{key: value.numpy() for key, value in state_of(model).items()})
    numpy.savez(folder / f"{ours}_run.npz", image=image.numpy()[:, ::-1].copy(), scores=scores.numpy())
