"""Writes nets and solvers as prototxt.

A message is a dict, a repeated field a list.
"""

WIDTH = 120
ENUM_VALUES = {"AVE", "FLOOR", "LMDB", "MAX", "QUADRUPLE", "SUM", "TEST", "TRAIN"}  # not quoted


def value(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, dict):
        return "{ " + fields(v) + " }"
    if isinstance(v, str):
        return v if v in ENUM_VALUES else f'"{v}"'
    return f"{v:g}" if isinstance(v, float) else str(v)


def field(name, v):
    if isinstance(v, list):
        if not isinstance(v[0], (dict, str)):
            return f"{name}: [{', '.join(value(one) for one in v)}]"
        return " ".join(field(name, one) for one in v)
    return f"{name} {value(v)}" if isinstance(v, dict) else f"{name}: {value(v)}"


def fields(message):
    return " ".join(field(name, v) for name, v in message.items())


def message(name, content):
    """One line if it fits; else the scalars in one line, and a line for each message."""
    line = f"{name} {{ {fields(content)} }}"
    if len(line) <= WIDTH:
        return line + "\n"

    def is_message(v):
        return isinstance(v[0] if isinstance(v, list) else v, dict)

    scalars = fields({k: v for k, v in content.items() if not is_message(v)})
    lines = [scalars] + [field(k, v) for k, v in content.items() if is_message(v)]
    return f"{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def comment(text):
    return "".join(f"# {line}\n" for line in text.splitlines())


def without_fillers(message):
    """What a deploy net says of a layer: neither initial values nor learning rates."""
    return {
        k: without_fillers(v) if isinstance(v, dict) else v
        for k, v in message.items()
        if k != "param" and not k.endswith("filler")
    }


class Net:
    """The layers of a net in the order of its file. `deploy`: the input is filled by a program, there is no loss.

    `norm` is the spelling of batch normalization: "BatchNorm" (with a Scale layer, as in BVLC's Caffe), "SyncBN" (BN in
    deploy nets, as in yjxiong's) or "BN".
    """

    def __init__(self, name, deploy=False, norm="BatchNorm"):
        self.name, self.deploy, self.norm = name, deploy, norm
        self.layers = []

    def layer(self, type, name, bottom=(), top=None, **settings):
        """Adds a layer and returns its (first) top, which is called like the layer unless `top` says otherwise."""
        as_list = lambda names: [names] if isinstance(names, str) else list(names)
        tops = as_list(name if top is None else top)
        if self.deploy:
            settings = without_fillers(settings)
        content = {"name": name, "type": type, "bottom": as_list(bottom), "top": tops, **settings}
        self.layers.append({k: v for k, v in content.items() if v != [] and v != {}})
        return tops[0] if tops else None

    def in_place(self, type, name, blob, **settings):
        return self.layer(type, name, blob, blob, **settings)

    def text(self, about):
        return comment(about) + f'name: "{self.name}"\n' + "".join(message("layer", one) for one in self.layers)


def solver_text(about, settings):
    return comment(about) + "".join(field(name, v) + "\n" for name, v in settings.items())
