"""Reads a folder written by --metrics with TensorBoard's own classes and compares it with metrics.jsonl. Exit code 0: they
agree; 1: the lines say what does not; 77: TensorBoard is missing."""
import collections
import json
import pathlib
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.backend.event_processing import plugin_event_multiplexer
    from tensorboard.compat.proto import graph_pb2
except ImportError as error:
    print(error)
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
of_kind = collections.defaultdict(list)
for line in lines:
    of_kind[line["kind"]].append(line)

problems = []


def expect(found, wanted, what):
    if found != wanted:
        problems.append(f"{what}: found {found}, expected {wanted}")


# --- as one run, with everything kept ---
run = event_accumulator.EventAccumulator(str(folder), size_guidance={
    event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0, event_accumulator.IMAGES: 0,
    event_accumulator.TENSORS: 0, event_accumulator.COMPRESSED_HISTOGRAMS: 1})
run.Reload()
tags = run.Tags()


def curve(tag):
    return [(event.step, event.value) for event in run.Scalars(tag)] if tag in tags["scalars"] else []


def close(tag, wanted):
    found = curve(tag)
    expect([step for step, _ in found], [step for step, _ in wanted], f"steps of {tag}")
    for (step, value), (_, expected) in zip(found, wanted):
        if abs(value - expected) > 1e-6 * max(1, abs(expected)):  # floats of 32 bits
            problems.append(f"{tag} at {step}: {value}, expected {expected}")


def of_lines(kind, value):
    return [(line["iteration"], value(line)) for line in of_kind[kind] if value(line) is not None]


close("train/loss", of_lines("train", lambda line: line["loss"]))
close("train/learning_rate", of_lines("train", lambda line: line.get("rate")))
close("train/gradient_norm", of_lines("train", lambda line: line.get("gradient_norm")))
close("speed/samples_per_second", of_lines("train", lambda line: line.get("samples_per_second")))
close("test0/loss", of_lines("test", lambda line: line["loss"]))
for device in range(len(of_kind["start"][0]["devices"])):
    name = of_kind["start"][0]["devices"][device]["name"]
    for key in ("compute", "exposed", "exposed_sync_bn", "exposed_divisors", "exposed_gradients", "exposed_skew", "update",
                "data", "other", "iteration", "hidden"):
        close(f"time/{name}/{key}", of_lines("train", lambda line: line.get("devices", [{}] * 8)[device].get(
            "milliseconds", {}).get(key)))
for index, parameter in enumerate(of_kind["parameters"][0]["parameters"]):
    name = parameter["name"]
    close(f"norm/{name}", of_lines("parameters", lambda line: line["parameters"][index]["norm"]))
    statistic = "running" in name
    histograms = run.Histograms(("statistics/" if statistic else "values/") + name)
    expect([event.step for event in histograms], [line["iteration"] for line in of_kind["parameters"]], f"histograms of {name}")
    for event in histograms:
        sampled = sum(event.histogram_value.bucket)  # all values of small parameters
        if not 0.9 * min(parameter["count"], 16384) <= sampled <= parameter["count"]:
            problems.append(f"{sampled} values in the histogram of {name}, which has {parameter['count']}")
    if not statistic:
        expect(len(run.Histograms("gradients/" + name)), len(histograms), f"histograms of gradients of {name}")
for tag in ("input/data", "filters/conv"):
    images = run.Images(tag)
    steps = [image.step for image in images]
    if not steps or steps != sorted(set(steps)):
        problems.append(f"steps of {tag}: {steps}")
    for image in images:
        expect(image.encoded_image_string[:8], b"\x89PNG\r\n\x1a\n", f"beginning of {tag}")
        expect(int.from_bytes(image.encoded_image_string[16:20], "big"), image.width, f"width of {tag}")
graph = graph_pb2.GraphDef.FromString(run.Graph().SerializeToString())
expect(sorted(node.name for node in graph.node),
       sorted(layer["name"] for layer in of_kind["start"][0]["layers"] if layer["type"] != "Split"), "nodes of the graph")
names = {node.name for node in graph.node}
for node in graph.node:
    for source in node.input:
        if source.split(":")[0] not in names:
            problems.append(f"{node.name} reads {source}, which is no node")

# --- as the program reads it, which brings everything into its newest form ---
multiplexer = plugin_event_multiplexer.EventMultiplexer()
multiplexer.AddRunsFromDirectory(str(folder))
multiplexer.Reload()
content = multiplexer.PluginRunToTagToContent
for plugin, tag in (("scalars", "train/loss"), ("histograms", "values/conv.weight"), ("images", "input/data"),
                    ("text", "solver"), ("text", "train_net")):
    if tag not in content(plugin).get(".", {}):
        problems.append(f"the plugin {plugin} does not see {tag}, but {sorted(content(plugin).get('.', {}))}")
texts = multiplexer.Tensors(".", "solver")
solver = texts[0].tensor_proto.string_val[0].decode()
for line in of_kind["start"][0]["solver"]["text"].splitlines():
    if line not in solver:
        problems.append(f"the solver's text lacks {line!r}")

print("\n".join(problems))
sys.exit(1 if problems else 0)
