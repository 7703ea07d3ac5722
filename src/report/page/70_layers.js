// Layers and parameters.

function layer_table(run) {
  const times = run.layer_times(), layers = run.start.layers || [];
  const known = new Set(layers.map(layer => layer.name));
  const rows = [...layers, ...[...times.keys()].filter(name => !known.has(name)).map(name => ({ name }))].map((layer, i) => {
    const time = times.get(layer.name);
    return { number: i, layer, forward: time ? time.forward : null, backward: time ? time.backward : null, total: time ? time.forward + time.backward : null };
  });
  if (!rows.length) return null;
  const all = sum(rows.map(row => row.total || 0));
  const sampled = Math.max(0, ...[...times.values()].map(time => time.sampled));
  const timed = sampled > 0, ms = value => value === null ? "" : value.toFixed(3);
  const columns = [{ title: "#", number: true, value: row => row.number }, { title: "layer", value: row => row.layer.name },
    { title: "type", value: row => row.layer.type || "" },
    { title: "output", value: row => (row.layer.outputs || []).map(output => shape(output.shape)).join(", ") },
    { title: "parameters", number: true, value: row => numeric(row.layer.parameters), text: row => row.layer.parameters ? show(numeric(row.layer.parameters)) : "" },
    { title: "multiply-adds", number: true, value: row => numeric(row.layer.multiply_adds), text: row => row.layer.multiply_adds ? count(numeric(row.layer.multiply_adds)) : "" },
    { title: "memory", number: true, bar: true, value: row => numeric(row.layer.output_bytes), text: row => row.layer.in_place ? "in place" : row.layer.output_bytes ? bytes(numeric(row.layer.output_bytes)) : "" }];
  if (timed)
    columns.push({ title: "forward ms", number: true, value: row => row.forward, text: row => ms(row.forward) },
      { title: "backward ms", number: true, value: row => row.backward, text: row => ms(row.backward) },
      { title: "both ms", number: true, bar: true, value: row => row.total, text: row => ms(row.total) },
      { title: "%", number: true, value: row => row.total, text: row => row.total === null || !all ? "" : (row.total / all * 100).toFixed(1) });
  const foot = h("tr", null, columns.map(column => {
    if (column.title === "layer") return h("td", null, `${rows.length} layers`);
    if (column.title === "parameters") return h("td", { class: "number" }, show(sum(rows.map(row => numeric(row.layer.parameters) || 0))));
    if (column.title === "multiply-adds") return h("td", { class: "number" }, count(sum(rows.map(row => numeric(row.layer.multiply_adds) || 0))));
    const key = { "forward ms": "forward", "backward ms": "backward", "both ms": "total" }[column.title];
    return h("td", { class: column.number ? "number" : null }, key ? ms(sum(rows.map(row => row[key] || 0))) : "");
  }));
  return h("section", { class: "card wide", "data-title": "layers" }, h("div", { class: "head" }, h("h3", null, "Layers"),
    h("span", { class: "unit" }, timed ? `times: mean of ${sampled} sampled iterations` : "")), sortable(columns, rows, { name: "layers", foot }));
}

function parameter_table(run) {
  const list = run.data.parameters.list, columns = run.data.parameters.columns;
  if (!list.length) return null;
  const curve = (i, key) => (columns[`${i}.${key}`] || []).map(numeric);
  const final = (i, key) => last(curve(i, key).filter(value => value !== null)) ?? null;
  const rows = list.map((entry, i) => ({ entry, i, norm: final(i, "norm"), gradient: final(i, "gradient_norm"), ratio: final(i, "update_ratio") }));
  const spark = row => {
    const values = curve(row.i, "update_ratio").filter(value => value !== null && value > 0 && Number.isFinite(value)).map(Math.log);
    if (values.length < 2) return "";
    const low = Math.min(...values), high = Math.max(...values);
    const points = values.map((value, i) => `${(i / (values.length - 1) * 96 + 2).toFixed(1)} ${(18 - (value - low) / (high - low || 1) * 14).toFixed(1)}`);
    return s("svg", { class: "spark", width: 100, height: 20 }, s("path", { class: "curve", stroke: run.colour, d: `M${points.join("L")}` }));
  };
  return h("section", { class: "card wide", "data-title": "parameters" }, h("div", { class: "head" }, h("h3", null, "Parameters"),
    h("span", { class: "unit" }, `norms after iteration ${last(columns.iteration) ?? "\u2013"}`)), sortable([
    { title: "parameter", value: row => row.entry.name }, { title: "elements", number: true, value: row => numeric(row.entry.count), text: row => show(numeric(row.entry.count)) },
    { title: "norm", number: true, value: row => row.norm, text: row => show(row.norm) }, { title: "gradient norm", number: true, value: row => row.gradient, text: row => show(row.gradient) },
    { title: "update / norm", number: true, value: row => row.ratio, text: row => show(row.ratio), about: "norm of the last update over the norm before it; about 0.001 is usual" },
    { title: "update / norm so far (log)", value: () => null, text: spark }], rows, { name: "parameters" }));
}
