// The page.

const kDashes = [null, "6 3", "2 3", "8 3 2 3", "1 4"];
const several = runs.length > 1;
const run_title = run => several ? `${run.name}: ` : "";

// The curves that `find` gives for each run.
function series_of(find) {
  const series = runs.flatMap(run => find(run).filter(one => one.values.some(value => value !== null)).map(one => ({ run, colour: run.colour, ...one })));
  // One run: colours tell curves apart; several: colours tell runs apart and dashes curves.
  const kinds = [...new Set(series.map(one => one.name))];
  for (const one of series) {
    const kind = kinds.indexOf(one.name);
    if (several) one.dash = one.dash ?? kDashes[kind % kDashes.length];
    else one.colour = `var(--c${kind % kColours})`;
    one.label = !several ? one.name : kinds.length > 1 ? run_title(one.run) + one.name : one.run.name;
  }
  return series;
}

const train_curve = (name, column, more) => run => [{ name, iterations: run.iterations, times: run.times, values: run.column(column), ...more }];

function loss_curves(run) {
  return [{ name: "training", iterations: run.iterations, times: run.times, values: run.column("loss"), smooth: true },
    ...run.tests().map(test => ({ name: run.data.tests.length > 1 ? test.name : "test", iterations: test.iterations, times: test.times, values: test.loss, points: true }))];
}

// Each name is a chart of its own. The only weighted output of a net is its loss, which the first chart shows.
function output_names() {
  const names = new Set();
  for (const run of runs)
    for (const outputs of [run.outputs(), ...run.tests().map(test => test.results)]) {
      const weighted = outputs.filter(output => numeric(output.weight));
      for (const output of outputs)
        if (weighted.length !== 1 || output !== weighted[0]) names.add(output.label);
    }
  return [...names].slice(0, 24);
}
function output_curves(label) {
  return run => [...run.outputs().filter(output => output.label === label)
    .map(output => ({ name: "training", iterations: run.iterations, times: run.times, values: output.values, smooth: true })),
  ...run.tests().flatMap(test => test.results.filter(output => output.label === label).map(output =>
    ({ name: run.data.tests.length > 1 ? test.name : "test", iterations: test.iterations, times: test.times, values: output.values, points: true })))];
}

const kMostDevices = several ? 8 : 16;
const of_devices = unit => Math.max(...runs.map(run => run.device_names.length)) > kMostDevices ? `${unit}, the first ${kMostDevices} devices` : unit;
const device_curves = (key, scale = 1) => run => run.device_names.slice(0, kMostDevices).map((name, device) => ({
  name, iterations: run.device_columns.iteration, times: null,
  values: run.device_column(device, key).map(value => value === null ? null : value * scale)
}));

// The best result of the tests: of accuracies and the like the largest, of losses the least. Where the loss is
// not finite, an accuracy means nothing: Caffe's takes scores that are not numbers for right.
function best_results(run) {
  return run.tests().flatMap(test => test.results.map(output => {
    const is_loss = /loss|error/i.test(output.label) || (numeric(output.weight) || 0) !== 0;
    let best = null;
    output.values.forEach((value, i) => {
      if (value === null || !Number.isFinite(value)) return;
      if (test.loss[i] !== undefined && test.loss[i] !== null && !Number.isFinite(test.loss[i])) return;
      if (best === null || (is_loss ? value < best.value : value > best.value)) best = { value, iteration: test.iterations[i] };
    });
    return best && { ...best, name: run.data.tests.length > 1 ? `${test.name} ${output.label}` : output.label, is_loss, latest: last(output.values) };
  })).filter(Boolean);
}

const states = { finished: "finished", stopped: "stopped", failed: "failed", running: "no end yet" };
const badge = run => h("span", { class: `badge ${run.state in states ? run.state : "stopped"}`, "data-state": run.state }, states[run.state] || run.state);

function tiles(run) {
  const losses = run.column("loss"), finite = losses.filter(value => value !== null && Number.isFinite(value));
  const tile = (key, title, value, note, raw) => value === null ? null
    : h("div", { class: "tile", "data-tile": key, "data-value": raw }, h("span", null, title), h("b", null, value), note ? h("small", null, note) : null);
  const devices = run.start.devices || [];
  const smallest = finite.length ? Math.min(...finite.map(Number)) : null;
  const best = best_results(run).filter(result => !result.is_loss).slice(0, 2);
  return h("div", { class: "tiles" },
    tile("iteration", "iteration", grouped(run.done), h("span", null, `of ${grouped(run.start.max_iter)}`, h("progress", { max: run.start.max_iter || 1, value: run.done })), run.done),
    tile("loss", "loss", losses.length ? show(last(losses)) : null, smallest === null ? null : `lowest ${show(smallest)}`, last(losses)),
    best.map(result => tile(`best ${result.name}`, `best ${result.name}`, show(result.value), `iteration ${grouped(result.iteration)}, last ${show(result.latest)}`, result.value)),
    tile("speed", "samples/s", run.speed === null ? null : show(Number(run.speed.toPrecision(4))), run.start.samples_per_iteration ? `${show(numeric(run.start.samples_per_iteration))} per iteration` : null, run.speed),
    tile("time", "time", duration(run.seconds), run.left !== null ? `about ${duration(run.left)} left` : `since ${moment(run.first.time)}`, run.seconds),
    tile("devices", "devices", devices.length ? String(devices.length) : null, devices.length ? devices.map(device => device.name).slice(0, 4).join(", ") + (devices.length > 4 ? " \u2026" : "") : null, devices.length));
}

function run_table(update) {
  return h("section", { class: "card wide", "data-title": "runs" }, h("div", { class: "head" }, h("h3", null, "Runs")), sortable([
    { title: "", value: run => run.index, text: run => h("label", { class: "pick" }, h("input", { type: "checkbox", checked: run.shown, "aria-label": `show ${run.name}`, onchange: event => {
      run.shown = event.target.checked;
      update();
    } }), h("i", { style: `background:${run.colour}` })) },
    { title: "run", value: run => run.name }, { title: "state", value: run => run.state, text: badge },
    { title: "iteration", number: true, value: run => run.done, text: run => grouped(run.done) },
    { title: "loss", number: true, value: run => last(run.column("loss")) ?? null, text: run => show(last(run.column("loss")) ?? null) },
    { title: "best of the tests", value: run => (best_results(run).find(result => !result.is_loss) || {}).value ?? null, text: run => best_results(run).filter(result => !result.is_loss).map(result => `${result.name} ${show(result.value)}`).join(", ") },
    { title: "samples/s", number: true, value: run => run.speed, text: run => run.speed === null ? "" : show(Number(run.speed.toPrecision(4))) },
    { title: "time", number: true, value: run => run.seconds, text: run => duration(run.seconds) },
    { title: "devices", value: run => (run.start.devices || []).map(device => device.name).join(" ") },
    { title: "precision", value: run => run.start.precision || "" }, { title: "seed", value: run => run.start.seed || "" }], runs, { name: "runs" }));
}

// Lines of the solvers, and other settings, that are not the same in all runs.
function differences() {
  const settings = runs.map(run => {
    const map = new Map([["devices", (run.start.devices || []).map(device => device.name).join(" ")], ["precision", run.start.precision || ""], ["version", run.start.version],
      ["samples per iteration", show(numeric(run.start.samples_per_iteration))], ["command line", (run.start.command_line || []).join(" ")]]);
    for (const line of ((run.start.solver || {}).text || "").split("\n")) {
      const found = /^\s*([a-z_0-9]+)\s*:\s*(.*)$/.exec(line);
      if (found) map.set(found[1], map.has(found[1]) ? `${map.get(found[1])}, ${found[2]}` : found[2]);
    }
    for (const net of run.start.nets || []) map.set(`net ${net.name}`, net.text || "");
    return map;
  });
  const rows = [...new Set(settings.flatMap(map => [...map.keys()]))].map(name => [name, settings.map(map => map.get(name) ?? "")])
    .filter(([, values]) => values.some(value => value !== values[0]))
    .map(([name, values]) => [name, ...values.map((value, i) => name.startsWith("net ") ? (value === values[0] ? "as in the first" : i ? "another text" : "") : value)]);
  if (!rows.length) return null;
  return h("section", { class: "card wide", "data-title": "differences" }, h("div", { class: "head" }, h("h3", null, "What differs")), plain_table(["", ...runs.map(run => run.name)], rows, "differences"));
}

function snapshots(run) {
  if (!run.data.snapshots.length) return null;
  return h("section", { class: "card wide", "data-title": "snapshots" }, h("div", { class: "head" }, h("h3", null, "Snapshots")), sortable([
    { title: "iteration", number: true, value: line => line.iteration, text: line => grouped(line.iteration) }, { title: "model", value: line => line.model || "" },
    { title: "state", value: line => line.state || "" }, { title: "size", number: true, value: line => numeric(line.bytes), text: line => bytes(numeric(line.bytes)) },
    { title: "took", number: true, value: line => numeric(line.seconds), text: line => duration(numeric(line.seconds)) },
    { title: "written", value: line => line.time, text: line => moment(line.time) }], run.data.snapshots, { name: "snapshots" }));
}

function warnings(run) {
  const lines = run.data.warnings, failed = run.data.ends.filter(end => end.reason === "failed");
  if (!lines.length && !failed.length && !run.data.notes.length) return null;
  return h("section", { class: "card wide", "data-title": "warnings" }, h("div", { class: "head" }, h("h3", null, "Warnings"),
    h("span", { class: "unit" }, run.data.warning_count > lines.length ? `the first ${lines.length} of ${grouped(run.data.warning_count)}` : "")),
  h("ul", { class: "warnings" }, failed.map(end => h("li", { class: "error" }, h("b", null, `iteration ${grouped(end.iteration)}: failed`), h("pre", null, end.error || ""))),
    run.data.notes.map(note => h("li", null, note)),
    lines.map(line => h("li", null, h("b", null, `iteration ${grouped(line.iteration)}`), h("span", null, line.text || ""), line.advice ? h("em", null, line.advice) : null))));
}

function history(run) {
  if (run.data.starts.length < 2) return null;
  return h("section", { class: "card wide", "data-title": "history" }, h("div", { class: "head" }, h("h3", null, "Starts and ends")), plain_table(["when", "iteration", "", ""],
    [...run.data.starts.map(start => ({ ...start, what: start.resumed_from ? "resumed" : "started", more: start.resumed_from || "" })), ...run.data.ends.map(end => ({ ...end, what: end.reason, more: end.error || "" }))]
      .sort((a, b) => a.time - b.time).map(line => [moment(line.time), grouped(line.iteration), line.what, line.more]), "history"));
}

function about(run) {
  const start = run.start, host = start.host || {};
  const text = (title, body) => body ? h("details", { class: "text" }, h("summary", null, title), h("pre", null, body)) : null;
  return h("section", { class: "card wide", "data-title": "run" }, h("div", { class: "head" }, h("h3", null, "Run")), facts([
    ["folder", run.data.folder], ["started", moment(run.first.time)], ["last line", page_data.live === undefined ? moment(run.data.last_time) : null], ["program", `Banyan ${start.version}`],
    ["command", (start.command_line || []).join(" ")], ["in", start.working_directory], ["host", [host.name, host.processor, host.cores ? `${host.cores} cores` : null, numeric(host.memory) ? bytes(host.memory) : null].filter(Boolean).join(", ")],
    ["seed", start.seed], ["precision", start.precision], ["weights", (start.weights || []).join(", ")], ["resumed from", start.resumed_from],
    ["data", (start.datasets || []).map(set => `${set.net}: ${set.source}${numeric(set.records) ? `, ${grouped(set.records)} records` : ""}`).join("; ")]]),
  text(`Solver ${(start.solver || {}).path || ""}`, (start.solver || {}).text), (start.nets || []).map(net => text(`Net ${net.name} ${net.path || ""}`, net.text)));
}

// [title, curves, options] of all charts that may be.
function chart_list() {
  return [["Loss", loss_curves], ...output_names().map(label => [`Output ${label}`, output_curves(label)]),
    ["Learning rate", train_curve("rate", "rate")], ["Gradient norm", train_curve("norm", "gradient_norm", { smooth: true })],
    ["Throughput", train_curve("samples/s", "samples_per_second"), { unit: "samples/s", zero: true }],
    ["Waiting for data", device_curves("waiting_for_data", 100), { unit: of_devices("% of the time"), zero: true }], ["Memory in use", device_curves("in_use", 1 / 2 ** 20), { unit: of_devices("MiB"), zero: true }],
    ["Peak of memory", device_curves("peak", 1 / 2 ** 20), { unit: of_devices("MiB"), zero: true }]];
}

// Those that have a curve; one that is there already gets its new ones.
function charts() {
  return chart_list().map(([title, find, options]) => {
    const series = series_of(find);
    if (!series.length) return null;
    const known = view.charts.find(one => one.title === title);
    if (!known) return new Chart(title, series, options);
    known.series = series;
    return known;
  }).filter(Boolean);
}

const head = () => h("header", null, h("h1", null, several ? `${runs.length} runs` : runs[0].name, " ", several ? null : badge(runs[0])),
  h("p", null, [...new Set(runs.map(run => `Banyan ${run.start.version}`))].join(", "), several ? "" : `, ${moment(runs[0].first.time)}`));

const thinned = () => h("div", null, runs.filter(run => run.data.train.rows > run.iterations.length)
  .map(run => h("p", { class: "note" }, `${run_title(run)}${grouped(run.iterations.length)} of ${grouped(run.data.train.rows)} lines are shown: the extremes of each interval.`)));

// What a page that follows its run replaces.
const parts = {};

function redraw_details() {
  for (const card of parts.details.children) if (card.redraw) card.redraw();
}

function details_of(run) {
  const cards = [share_bars(run), share_areas(run), tree_picture(run), device_table(run), memory_bar(run), plan_picture(run), layer_table(run), parameter_table(run), snapshots(run), warnings(run), history(run), about(run)];
  return cards.filter(Boolean);
}

function build() {
  let chosen = 0;
  const fill = () => {
    parts.details.replaceChildren(...details_of(runs[chosen]));
    redraw_details();
  };
  const axes = ["iteration", ...(runs.some(run => run.has("epoch")) ? ["epoch"] : []), "hours"];
  const smoothing = h("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: view.smoothing, id: "smoothing", oninput: event => {
    view.smoothing = Number(event.target.value);
    redraw();
  } });
  const controls = h("div", { class: "controls" },
    h("label", null, "over ", h("select", { id: "axis", onchange: event => {
      view.axis = event.target.value;
      zoom(null);
    } }, axes.map(axis => h("option", { value: axis }, axis === "iteration" ? "iterations" : axis === "epoch" ? "epochs" : "hours")))),
    h("label", null, "smoothing ", smoothing), h("button", { type: "button", id: "reset", disabled: true, onclick: () => zoom(null) }, "whole run"),
    h("span", { class: "hint" }, "drag to zoom, double-click for the whole run"));
  const picker = several ? h("h2", { class: "picker" }, h("select", { id: "run", "aria-label": "run", onchange: event => {
    chosen = Number(event.target.value);
    fill();
  } }, runs.map((run, i) => h("option", { value: i }, run.name))), " in detail") : null;
  document.title = `${runs.map(run => run.name).join(", ")} \u2013 Banyan`;
  Object.assign(parts, { head: head(), top: several ? h("div", { class: "grid" }, run_table(redraw), differences()) : tiles(runs[0]),
    charts: h("div", { class: "grid", id: "charts" }, charts().map(one => one.card)), thinned: thinned(), details: h("div", { class: "grid", id: "details" }) });
  document.body.append(parts.head, h("main", null, parts.top, controls, parts.charts, parts.thinned, picker, parts.details),
    h("footer", null, `${page_data.live === undefined ? "Written by trainer report" : "Served by trainer --serve"}, Banyan ${page_data.version}`));
  redraw();
  fill();
  view.listeners.push(() => {
    const bars = parts.details.querySelector('[data-title="shares"]');
    const now = bars && share_bars(runs[chosen]);
    if (now) bars.replaceWith(now);
  });
  let width = document.body.clientWidth;
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    redraw();
    redraw_details();
  });
  // Paper has another width.
  for (const event of ["beforeprint", "afterprint"])
    addEventListener(event, () => {
      redraw();
      redraw_details();
    });
}

build();
