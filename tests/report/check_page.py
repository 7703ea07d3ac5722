"""Checks the page of `trainer report` in headless Chromium: check_page.py TRAINER FOLDER.

Nothing may be written to the console or loaded; what is shown must be what the metrics say, worked out here from
metrics.jsonl again. Also: `check_page.py --browser`, exit code 0 if there is a browser; `check_page.py --run FOLDER`
checks what can be of any run's report.html; `check_page.py --pictures ONE BOTH OUT` makes the pictures of docs/ from
the pages of one and of two runs.
"""

import json
import math
import os
import re
import subprocess
import sys

import browser
import sample_run

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED:", what)


def near(a, b, tolerance):
    return a is not None and b is not None and abs(a - b) <= tolerance


def read(folder):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def no_complaints(page, what):
    expect(not page.complaints(), f"{what}: the console is empty, not {page.complaints()}")
    foreign = [url for url in page.requests() if not url.startswith("file://") or not url.endswith(".html")]
    expect(not foreign, f"{what}: nothing is loaded, not {foreign}")


def chart(page, title):
    """The plot's scale and the points of its curves, back in the data's units."""
    found = page.run(f"""(() => {{
        const svg = document.querySelector('[data-title="{title}"] svg');
        if (!svg) return null;
        return {{x0: +svg.dataset.x0, x1: +svg.dataset.x1, y0: +svg.dataset.y0, y1: +svg.dataset.y1, width: svg.width.baseVal.value, height: svg.height.baseVal.value,
          curves: [...svg.querySelectorAll('path[data-series]')].map(path => ({{name: path.dataset.series, run: +path.dataset.run, d: path.getAttribute('d')}}))}};
    }})()""")
    left, right, top, bottom = 58, 12, 10, 26  # as in 30_chart.js
    found["pixel"] = ((found["x1"] - found["x0"]) / (found["width"] - left - right), (found["y1"] - found["y0"]) / (found["height"] - top - bottom))
    for curve in found["curves"]:
        numbers = [tuple(map(float, point)) for point in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", curve["d"])]
        curve["points"] = [(found["x0"] + (x - left) * found["pixel"][0], found["y0"] + (found["height"] - bottom - y) * found["pixel"][1]) for x, y in numbers]
    return found


def check_curve(found, name, xs, ys, what, run=0):
    """Every point drawn is one of the metrics', and the first, last, least and largest are drawn."""
    curve = next((one for one in found["curves"] if one["name"] == name and one["run"] == run), None)
    expect(curve is not None, f"{what}: there is a curve {name}")
    if curve is None:
        return
    at_x, at_y = found["pixel"][0] * 0.02, found["pixel"][1] * 0.02  # coordinates have two decimals
    known = [(x, y) for x, y in zip(xs, ys) if isinstance(y, (int, float))]
    for x, y in curve["points"]:
        expect(any(near(x, a, at_x) and near(y, b, at_y) for a, b in known), f"{what}: the point {x}, {y} of {name} is in the metrics")
    for wanted in (known[0], known[-1], min(known, key=lambda k: k[1]), max(known, key=lambda k: k[1])):
        expect(any(near(x, wanted[0], at_x) and near(y, wanted[1], at_y) for x, y in curve["points"]), f"{what}: {name} shows {wanted}")


def set_smoothing(page, value):
    page.run(f"{{ const r = document.getElementById('smoothing'); r.value = {value}; r.dispatchEvent(new Event('input')); }} 0")


def column(page, table, index):
    return page.run(f"[...document.querySelectorAll('[data-table=\"{table}\"] tbody tr')].map(row => row.cells[{index}].textContent)")


def check_one_run(page, folder):
    lines = read(folder)
    start, trains, tests = of_kind(lines, "start")[-1], of_kind(lines, "train"), of_kind(lines, "test")
    page.open(os.path.join(folder, "report.html"))
    no_complaints(page, "one run")
    tile = lambda key: page.run(f"document.querySelector('[data-tile=\"{key}\"]').dataset.value")
    expect(int(tile("iteration")) == start["max_iter"], "the tile shows the iterations done")
    expect(float(tile("loss")) == trains[-1]["loss"], "the tile shows the last loss")
    expect(float(tile("best accuracy")) == max(test["outputs"][0]["values"][0] for test in tests), "the tile shows the best accuracy")
    expect(page.run("document.querySelector('[data-state]').dataset.state") == of_kind(lines, "end")[-1]["reason"], "the badge shows how it ended")
    starts, ends = of_kind(lines, "start"), of_kind(lines, "end")
    worked = sum(end["time"] - begin["time"] for begin, end in zip(starts, ends))
    expect(near(float(tile("time")), worked, 1e-3), "the time is without the pause before it was resumed")
    timed = [line for line in trains if line.get("samples_per_second")][-20:]
    mean = sum(line["iterations"] for line in timed) / sum(line["iterations"] / line["samples_per_second"] for line in timed)
    expect(near(float(tile("speed")), mean, 1e-6 * mean), "the tile shows the mean speed")

    set_smoothing(page, 0)
    iterations = [line["iteration"] for line in trains]
    loss = chart(page, "Loss")
    check_curve(loss, "training", iterations, [line["loss"] for line in trains], "loss")
    check_curve(loss, "test", [line["iteration"] for line in tests], [line["loss"] for line in tests], "loss")
    accuracy = chart(page, "Output accuracy")
    check_curve(accuracy, "test", [line["iteration"] for line in tests], [line["outputs"][0]["values"][0] for line in tests], "accuracy")
    for title, name, key in (("Learning rate", "rate", "rate"), ("Gradient norm", "norm", "gradient_norm"), ("Throughput", "samples/s", "samples_per_second")):
        check_curve(chart(page, title), name, iterations, [line.get(key) for line in trains], title)
    with_devices = [line for line in trains if "devices" in line]
    check_curve(chart(page, "Waiting for data"), "gpu:2", [line["iteration"] for line in with_devices],
                [100 * line["devices"][2]["waiting_for_data"] for line in with_devices], "waiting")
    check_curve(chart(page, "Peak of memory"), "gpu:3", [line["iteration"] for line in with_devices],
                [line["devices"][3]["memory"]["peak"] / 2 ** 20 for line in with_devices], "memory")

    # Smoothing: an exponential mean without its bias.
    set_smoothing(page, 0.9)
    mean, factor, smooth = 0.0, 1.0, []
    for line in trains:
        mean, factor = 0.9 * mean + 0.1 * line["loss"], factor * 0.9
        smooth.append(mean / (1 - factor))
    check_curve(chart(page, "Loss"), "training", iterations, smooth, "smoothed loss")
    set_smoothing(page, 0)

    # Other axes.
    for axis, places in (("epoch", [line["epoch"] for line in trains if "epoch" in line]), ("hours", [(line["time"] - starts[0]["time"]) / 3600 for line in trains if "epoch" in line])):
        page.run(f"const a = document.getElementById('axis'); a.value = '{axis}'; a.dispatchEvent(new Event('change')); 0")
        check_curve(chart(page, "Learning rate"), "rate", places, [line["rate"] for line in trains if "epoch" in line], axis)
    page.run("const b = document.getElementById('axis'); b.value = 'iteration'; b.dispatchEvent(new Event('change')); 0")

    # Log scale.
    page.run("document.querySelector('[data-title=\"Loss\"] .tools button').click()")
    expect(page.run("document.querySelector('[data-title=\"Loss\"] svg').dataset.log") == "true", "the loss is on a log scale")
    page.run("document.querySelector('[data-title=\"Loss\"] .tools button').click()")

    check_devices(page, lines)
    check_layers(page, lines)
    check_plan(page, start)
    check_pointer(page, trains)
    no_complaints(page, "one run, used")


def check_devices(page, lines):
    shares = [[] for _ in range(4)]
    for line in of_kind(lines, "train"):
        for device, values in enumerate(line.get("devices", [])):
            if not shares[device] or shares[device][-1]["sampled"] != values["sampled"]:
                shares[device].append(values)
    for device, rows in enumerate(shares):
        for key in ("compute", "exposed_sync_bn", "exposed_divisors", "exposed_gradients", "update", "data", "other"):
            mean = sum(row["milliseconds"][key] for row in rows) / len(rows)
            shown = page.run(f"+document.querySelector('[data-device=\"gpu:{device}\"] [data-share=\"{key}\"]')?.dataset.value")
            expect(near(shown, mean, 1e-9 * max(1, mean)), f"gpu:{device} {key}: {shown} is {mean}")
    for link in of_kind(lines, "start")[-1]["tree"]["links"]:
        texts = page.run(f"[...document.querySelectorAll('[data-link=\"{link['from']}-{link['to']}\"]')].map(text => text.textContent)")
        expect(texts[0] == link["class"], f"the link's class is {link['class']}: {texts}")
        expect(near(float(texts[1].split()[0]), link["bytes_per_second"] / 1e9, 0.51), f"its bandwidth: {texts}")
        expect(near(float(re.match(r"[\d.]+", texts[2])[0]), link["latency_seconds"] * 1e6, 0.051), f"its latency: {texts}")


def check_layers(page, lines):
    times = {}
    for line in of_kind(lines, "layers"):
        for layer in line["layers"]:
            forward, backward, weight = times.get(layer["name"], (0, 0, 0))
            times[layer["name"]] = (forward + line["sampled"] * layer["forward"], backward + line["sampled"] * layer["backward"], weight + line["sampled"])
    names, both = column(page, "layers", 1), column(page, "layers", 9)
    expect(names == [layer["name"] for layer in of_kind(lines, "start")[-1]["layers"]], "all layers are listed in their order")
    for name, text in zip(names, both):
        forward, backward, weight = times[name]
        expect(near(float(text), (forward + backward) / weight, 0.00051), f"{name}: {text} ms")
    click = "document.querySelectorAll('[data-table=\"layers\"] th button')[{}].click()"
    page.run(click.format(9))
    order = [float(text) for text in column(page, "layers", 9)]
    expect(order == sorted(order, reverse=True), "the layers are sorted by time")
    page.run(click.format(9))
    order = [float(text) for text in column(page, "layers", 9)]
    expect(order == sorted(order), "and the other way round")
    page.run(click.format(6))
    order = page.run("[...document.querySelectorAll('[data-table=\"layers\"] tbody tr')].map(row => +row.cells[6].dataset.value)")
    expect(order == sorted(order, reverse=True), "the layers are sorted by memory")
    page.run(click.format(0))
    page.run(click.format(0))


def check_plan(page, start):
    plan = start["plan"]
    rects = page.run("[...document.querySelectorAll('[data-title=\"memory plan\"] rect.block')].map(r => [+r.getAttribute('x'), +r.getAttribute('y'), +r.getAttribute('width'), +r.getAttribute('height')])")
    spans = [(block, span) for block in plan["blocks"] for span in block["spans"]]
    expect(len(rects) == len(spans), f"the plan has {len(spans)} pieces: {len(rects)}")
    width, height = page.run("(() => { const svg = document.querySelector('[data-title=\"memory plan\"] svg'); return [svg.width.baseVal.value, svg.height.baseVal.value]; })()")
    per_step, per_byte = (width - 58 - 12) / (len(plan["steps"]) + 1), (height - 24 - 26) / max(block["offset"] + block["bytes"] for block in plan["blocks"])
    for (block, (first, last)), (x, y, wide, high) in zip(spans, rects):
        expect(near(x, 58 + first * per_step, 0.01) and near(wide, max(0.8, (last + 1 - first) * per_step), 0.01), f"{block['name']} lies at its steps")
        expect(near(y + high, height - 26 - block["offset"] * per_byte, 0.5) and near(high, max(0.4, block["bytes"] * per_byte), 0.01), f"{block['name']} lies at its place")
    for key, value in start["memory"].items():
        if key != "activations_unshared" and value > 0:
            expect(page.run(f"+document.querySelector('[data-memory=\"{key}\"]').dataset.value") == value, f"memory of {key}")


def check_pointer(page, trains):
    """Values under the pointer, zoom by dragging, and back."""
    page.run("document.querySelector('[data-title=\"Loss\"]').scrollIntoView({block: 'center'})")
    box = page.run("(() => { const b = document.querySelector('[data-title=\"Loss\"] svg').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    before = chart(page, "Loss")
    x_of = lambda iteration: box[0] + 58 + (iteration - before["x0"]) / before["pixel"][0]
    wanted = trains[len(trains) // 3]
    page.move(x_of(wanted["iteration"]), box[1] + box[3] / 2)
    tip = page.run("document.querySelector('[data-title=\"Loss\"] .tip').textContent.replace(/\\u202f/g, '')")
    expect(f"iteration {wanted['iteration']}" in tip, f"the pointer is at iteration {wanted['iteration']}: {tip}")
    expect(f"{wanted['loss']:.6g}" in tip, f"and shows its loss, {wanted['loss']:.6g}: {tip}")
    page.drag(x_of(1000), box[1] + 60, x_of(2000), box[1] + 60)
    zoomed = chart(page, "Loss")
    at = before["pixel"][0] * 1.5
    expect(near(zoomed["x0"], 1000, at) and near(zoomed["x1"], 2000, at), f"zoomed to 1000-2000: {zoomed['x0']}, {zoomed['x1']}")
    expect(chart(page, "Learning rate")["x0"] == zoomed["x0"], "all charts zoom together")
    page.run("document.getElementById('reset').click()")
    expect(chart(page, "Loss")["x1"] == before["x1"], "and back to the whole run")


def check_several_runs(page, path, folders):
    page.open(path)
    no_complaints(page, "several runs")
    set_smoothing(page, 0)
    loss = chart(page, "Loss")
    for run, folder in enumerate(folders):
        trains = of_kind(read(folder), "train")
        check_curve(loss, "training", [line["iteration"] for line in trains], [line["loss"] for line in trains], folder, run)
    expect(page.run("document.querySelectorAll('[data-title=\"Loss\"] .lost').length") >= 1, "a loss that is not finite is marked")
    rates = page.run("[...document.querySelectorAll('[data-table=\"differences\"] tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    expect(["base_lr", "0.1", "0.2"] in rates, f"what differs is listed: {rates}")
    expect(page.run("document.querySelectorAll('[data-state=\"running\"]').length") == 1, "a run that still goes on is shown as such")
    page.run("document.querySelectorAll('[data-table=\"runs\"] input')[0].click()")
    expect({curve["run"] for curve in chart(page, "Loss")["curves"]} == {1}, "a run can be hidden")
    page.run("document.querySelectorAll('[data-table=\"runs\"] input')[0].click()")
    page.run("const r2 = document.getElementById('run'); r2.value = 1; r2.dispatchEvent(new Event('change')); 0")
    expect("cut off" in page.run("document.querySelector('[data-title=\"warnings\"]').textContent"), "a cut-off last line is told of")
    no_complaints(page, "several runs, used")


def check_forms(page, path):
    for width, dark in ((360, False), (360, True), (820, True), (1600, False)):
        page.open(path, width=width, dark=dark, mobile=width < 500)
        no_complaints(page, f"{width} wide")
        wide = page.run("document.documentElement.scrollWidth")
        expect(wide <= width, f"at {width} nothing is wider than the page: {wide}")
        light = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)")
        expect((light < 200) == dark, f"the page is {'dark' if dark else 'light'}: {light}")
    page.open(path, dark=True, media="print")
    expect(page.run("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)", "paper is white")
    expect(page.run("getComputedStyle(document.querySelector('.controls')).display") == "none", "paper has no controls")


def check_evil(page, trainer, folder):
    evil = "</script><script>window.taken=1</script><img src=x onerror=\"window.taken=1\">{{DATA}}\u2028'\"&amp;\\"
    start = sample_run.start_line(1, 1000.0, 0, 10)
    start["solver"] = {"path": evil, "text": evil}
    start["nets"] = [{"name": evil, "path": evil, "text": evil}]
    start["tree"]["links"][0]["class"] = evil
    for device in start["devices"]:
        device["name"] = device["description"] = evil
    for layer in start["layers"]:
        layer["name"] = layer["type"] = evil
    lines = [start, {"kind": "train", "iteration": 0, "time": 1001.0, "loss": 1.5, "outputs": [{"name": name, "values": [1.0], "weight": 0} for name in (evil, "__proto__", "constructor", "iteration")],
                     "devices": [{"name": evil, "waiting_for_data": 0.5, "sampled": 0, "milliseconds": {"compute": 5.0, "iteration": 5.0}}]},
             {"kind": "test", "iteration": 1, "time": 1002.0, "net": 0, "name": evil, "loss": 1.0, "outputs": [{"name": evil, "values": [1.0], "weight": 0}]},
             {"kind": "parameters", "iteration": 1, "time": 1003.0, "parameters": [{"name": evil, "layer": evil, "norm": 1.0}]},
             {"kind": "layers", "iteration": 1, "time": 1003.0, "sampled": 1, "layers": [{"name": evil, "forward": 1.0, "backward": 2.0}]},
             {"kind": "snapshot", "iteration": 1, "time": 1003.0, "model": evil, "state": evil}, {"kind": "warning", "iteration": 1, "time": 1004.0, "text": evil, "advice": evil},
             {"kind": "end", "iteration": 1, "time": 1005.0, "reason": "failed", "error": evil}]
    write(folder, lines)
    subprocess.run([trainer, "report", folder], check=True, capture_output=True)
    page.open(os.path.join(folder, "report.html"))
    no_complaints(page, "evil names")
    expect(page.run("window.taken") is None, "names are not run")
    expect(page.run("document.images.length") == 0, "names are no elements")
    expect(page.run("document.scripts.length") == 2, "there are two scripts")
    expect(evil in page.run("document.querySelector('[data-title=\"warnings\"]').textContent"), "names are shown as they are")


def check_sparse(page, trainer, folder):
    """A run that has only begun, and one with members missing."""
    for i, more in enumerate(([], [{"kind": "train", "iteration": 0, "time": 101.0, "loss": "nan"}], [{"kind": "train", "iteration": 5, "time": 101.0, "loss": 1.0}, {"kind": "end", "iteration": 6, "time": 102.0, "reason": "later versions have more"}])):
        write(folder, [{"kind": "start", "iteration": 0, "time": 100.0, "format": 1, "version": "0.1.0", "max_iter": 10}] + more)
        subprocess.run([trainer, "report", folder], check=True, capture_output=True)
        page.open(os.path.join(folder, "report.html"))
        no_complaints(page, f"sparse run {i}")
        expect(page.run("document.querySelectorAll('h1').length") == 1, f"sparse run {i} is drawn")


def write(folder, lines):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def check_any_run(page, folder):
    lines = read(folder)
    trains = of_kind(lines, "train")
    page.open(os.path.join(folder, "report.html"))
    no_complaints(page, folder)
    set_smoothing(page, 0)
    check_curve(chart(page, "Loss"), "training", [line["iteration"] for line in trains], [line["loss"] for line in trains], folder)
    start = of_kind(lines, "start")[-1]
    expect(column(page, "layers", 1)[: len(start["layers"])] == [layer["name"] for layer in start["layers"]], "all layers are listed")
    check_plan(page, start)


def take_pictures(page, one, both, folder):
    page.open(both, width=1180)
    page.screenshot(os.path.join(folder, "report.png"), clip=(0, 0, 1180, 980))
    page.open(one, width=1180, dark=True)
    top = page.run("document.getElementById('details').getBoundingClientRect().top + scrollY")
    page.screenshot(os.path.join(folder, "report_dark.png"), clip=(0, math.floor(top) - 10, 1180, 1320))
    page.open(one, width=390, mobile=True)
    page.screenshot(os.path.join(folder, "report_phone.png"), clip=(0, 0, 390, 844))


def check_sample_runs(page, trainer, folder):
    one, two, both = (os.path.join(folder, name) for name in ("baseline", "double_rate", "both.html"))
    sample_run.write(one, 1)
    sample_run.write(two, 2, going=True)
    subprocess.run([trainer, "report", one], check=True, capture_output=True)
    subprocess.run([trainer, "report", one, two, "--out=" + both], check=True, capture_output=True)
    check_one_run(page, one)
    check_several_runs(page, both, [one, two])
    check_forms(page, os.path.join(one, "report.html"))
    check_evil(page, trainer, os.path.join(folder, "evil"))
    check_sparse(page, trainer, os.path.join(folder, "sparse"))


def main():
    words = sys.argv[1:]
    if words == ["--browser"]:
        sys.exit(0 if browser.find() else 1)
    with browser.Browser(patience=150) as page:
        if words[0] == "--run":
            check_any_run(page, words[1])
        elif words[0] == "--pictures":
            take_pictures(page, *words[1:])
        else:
            check_sample_runs(page, os.path.abspath(words[0]), os.path.abspath(words[1]))
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
