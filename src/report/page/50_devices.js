// What each device did: shares of an iteration, waiting for data, the tree with its links.

const kShares = [["compute", "compute", "--compute"], ["exposed_sync_bn", "SyncBN exchange", "--sync"], ["exposed_divisors", "loss divisors", "--divisors"],
  ["exposed_gradients", "gradients", "--gradients"], ["update", "update", "--update"], ["data", "waiting for data", "--data"], ["other", "other", "--other"]];

// One row for each iteration that was sampled on the device, in view.
function samples(run, device) {
  const sampled = run.device_column(device, "sampled"), totals = run.device_column(device, "iteration");
  const columns = Object.fromEntries([...kShares.map(([key]) => key), "hidden", "exposed_skew", "exposed"].map(key => [key, run.device_column(device, key)]));
  const xs = run.places(view.axis, run.device_columns.iteration);
  const rows = [];
  let seen = null;
  totals.forEach((total, i) => {
    if (total === null || !(total > 0) || (sampled[i] !== null && sampled[i] === seen)) return;
    seen = sampled[i];
    if (view.range && (xs[i] < view.range[0] || xs[i] > view.range[1])) return;
    const row = { x: xs[i], iteration: sampled[i] ?? run.device_columns.iteration[i], total };
    for (const key of Object.keys(columns)) row[key] = columns[key][i] ?? 0;
    rows.push(row);
  });
  return rows;
}

const mean = (rows, key) => rows.length ? sum(rows.map(row => row[key])) / rows.length : 0;

function share_bars(run) {
  const all = run.device_names.map((name, device) => ({ name, rows: samples(run, device) })).filter(one => one.rows.length);
  if (!all.length) return null;
  const longest = Math.max(...all.map(one => mean(one.rows, "total")));
  const legend = h("div", { class: "legend fixed" }, kShares.filter(([key]) => all.some(one => mean(one.rows, key) > 0))
    .map(([, title, colour]) => h("span", { class: "key" }, h("i", { style: `background:var(${colour})` }), title)));
  const bars = all.map(one => {
    const total = mean(one.rows, "total");
    const parts = kShares.map(([key, title, colour]) => {
      const value = mean(one.rows, key);
      return value > 0 ? h("i", { style: `width:${(value / longest * 100).toFixed(3)}%;background:var(${colour})`, "data-share": key, "data-value": value,
        title: `${title}: ${show(value)} ms, ${(value / total * 100).toFixed(1)} %` }) : null;
    });
    return h("div", { class: "sharerow", "data-device": one.name }, h("b", null, one.name), h("div", { class: "sharebar" }, parts),
      h("span", null, `${show(Number(total.toPrecision(4)))} ms`));
  });
  const columns = [...kShares.map(([key, title]) => ({ key, title })), { key: "total", title: "iteration" },
    { key: "exposed_skew", title: "skew", about: "part of the communication: another device was not there yet" },
    { key: "hidden", title: "hidden", about: "communication while layers ran" }];
  const table = sortable([{ title: "device", value: one => one.name }, ...columns.map(column => ({
    title: column.title, about: column.about, number: true, value: one => mean(one.rows, column.key),
    text: one => `${mean(one.rows, column.key).toFixed(3)}`
  }))], all, { name: "shares" });
  const sampled = all[0].rows.length;
  return h("section", { class: "card wide", "data-title": "shares" }, h("div", { class: "head" }, h("h3", null, "Shares of an iteration"),
    h("span", { class: "unit" }, `milliseconds, mean of ${sampled} sampled iteration${sampled === 1 ? "" : "s"}`)), legend, bars, table);
}

// Shares of one device over time, stacked to 100 %.
function share_areas(run) {
  const devices = run.device_names.map((_, device) => device).filter(device => samples(run, device).length > 1);
  if (!devices.length) return null;
  const holder = h("div", { class: "plot" });
  const draw = device => {
    const rows = samples(run, device).filter(row => row.x !== null);
    const width = Math.max(260, holder.clientWidth || 560), height = 200;
    if (rows.length < 2) return;
    const x0 = rows[0].x, x1 = last(rows).x;
    const px = x => kLeft + (x - x0) / (x1 - x0 || 1) * (width - kLeft - kRight), py = y => height - kBottom - y * (height - kTop - kBottom);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const bottom = rows.map(() => 0);
    for (const [key, title, colour] of kShares) {
      const top = rows.map((row, i) => bottom[i] + row[key] / row.total);
      const forth = rows.map((row, i) => `${px(row.x).toFixed(1)} ${py(top[i]).toFixed(1)}`);
      const back = rows.map((row, i) => `${px(row.x).toFixed(1)} ${py(bottom[i]).toFixed(1)}`).reverse();
      svg.append(s("path", { d: `M${forth.concat(back).join("L")}Z`, style: `fill:var(${colour})` }, s("title", null, title)));
      top.forEach((value, i) => { bottom[i] = value; });
    }
    for (const tick of [0, 0.25, 0.5, 0.75, 1])
      svg.append(s("text", { class: "tick", x: kLeft - 6, y: py(tick) + 3.5, "text-anchor": "end" }, `${tick * 100} %`));
    x_ticks(svg, x0, x1, px, width, height);
    holder.replaceChildren(svg);
  };
  const choose = h("select", { "aria-label": "device", onchange: event => draw(Number(event.target.value)) },
    devices.map(device => h("option", { value: device }, run.device_names[device])));
  const card = h("section", { class: "card chart", "data-title": "shares over time" },
    h("div", { class: "head" }, h("h3", null, "Shares over time"), h("span", { class: "tools" }, devices.length > 1 ? choose : run.device_names[devices[0]])), holder);
  card.redraw = () => draw(Number(choose.value || devices[0]));
  return card;
}

const link_text = link => [link.class, numeric(link.bytes_per_second) ? `${Number((link.bytes_per_second / 1e9).toPrecision(3))} GB/s` : null,
  numeric(link.latency_seconds) ? duration(link.latency_seconds) : null].filter(Boolean);

// Nodes from the root down, parents above the middle of their children.
function tree_picture(run) {
  const tree = run.start.tree, devices = run.start.devices || [];
  if (!tree || !Array.isArray(tree.parents) || tree.parents.length < 2) return null;
  const size = tree.parents.length, root = tree.parents.findIndex(parent => parent < 0);
  const parents = tree.direct ? tree.parents.map((_, i) => i === root ? -1 : root) : tree.parents;
  const children = parents.map((_, i) => parents.flatMap((parent, k) => parent === i ? [k] : []));
  const place = [], kWide = 150, kHigh = 118;
  let leaves = 0;
  const visit = (node, depth) => {
    if (depth > size || place[node]) return;
    place[node] = { x: 0, y: depth * kHigh };
    for (const child of children[node]) visit(child, depth + 1);
    const below = children[node].map(child => place[child].x);
    place[node].x = below.length ? (below[0] + last(below)) / 2 : leaves++ * kWide;
  };
  if (root < 0) return null;
  visit(root, 0);
  if (place.filter(Boolean).length !== size) return null;
  const width = leaves * kWide, height = Math.max(...place.map(at => at.y)) + 58;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const middle = node => place[node].x + kWide / 2;
  const link_of = (a, b) => (tree.links || []).find(link => (link.from === a && link.to === b) || (link.from === b && link.to === a));
  for (let node = 0; node < size; ++node) {
    if (parents[node] < 0) continue;
    const top = place[parents[node]].y + 52, bottom = place[node].y + 6, half = (top + bottom) / 2;
    svg.append(s("path", { class: "branch", d: `M${middle(parents[node])} ${top}C${middle(parents[node])} ${half} ${middle(node)} ${half} ${middle(node)} ${bottom}` }));
    const link = link_of(node, parents[node]);
    if (!link) continue;
    // On the side that the branch does not come from.
    const left = middle(node) < middle(parents[node]);
    link_text(link).forEach((line, i, lines) => svg.append(s("text", { class: "link", x: middle(node) + (left ? -6 : 6), "text-anchor": left ? "end" : "start", y: bottom - 8 - 12 * (lines.length - 1 - i),
      "data-link": `${link.from}-${link.to}` }, line)));
  }
  for (let node = 0; node < size; ++node) {
    const device = devices[node] || { name: String(node) }, x = middle(node) - 62;
    svg.append(s("rect", { class: node === root ? "device root" : "device", x, y: place[node].y + 6, width: 124, height: 46, rx: 7 }, s("title", null, device.description || device.name)),
      s("text", { class: "devicename", x: x + 10, y: place[node].y + 26 }, device.name),
      s("text", { class: "link", x: x + 10, y: place[node].y + 42 }, [device.batch !== undefined ? `batch ${device.batch}` : null, device.threads ? `${device.threads} threads` : null].filter(Boolean).join(", ")));
  }
  const matrix = Array.isArray(tree.classes) && tree.classes.length
    ? h("details", null, h("summary", null, "Classes of all links"), plain_table(["", ...devices.map(device => device.name)],
      tree.classes.map((row, i) => [devices[i] ? devices[i].name : i, ...row.map(cell => cell || "\u2013")]), "classes")) : null;
  return h("section", { class: width > 430 ? "card wide" : "card", "data-title": "device tree" }, h("div", { class: "head" }, h("h3", null, "Device tree"),
    h("span", { class: "unit" }, tree.direct ? "direct: each root is joined to all others" : "links as measured at the start")), h("div", { class: "scroll" }, svg), matrix);
}

function device_table(run) {
  const devices = run.start.devices || [];
  if (!devices.length) return null;
  const memory = devices.map((_, device) => run.device_column(device, "peak").filter(value => value !== null));
  return h("section", { class: "card", "data-title": "devices" }, h("div", { class: "head" }, h("h3", null, "Devices")),
    plain_table(...filled_columns(["device", "", "threads", "cores", "batch", "peak memory"], devices.map((device, i) => [device.name, device.description || "",
      device.threads ?? "", device.cores ? ranges(device.cores) : "", device.batch ?? "", memory[i].length ? bytes(Math.max(...memory[i])) : ""])), "devices"));
}

// [0, 1, 2, 5] as "0-2, 5".
function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length;) {
    let k = i;
    while (k + 1 < numbers.length && numbers[k + 1] === numbers[k] + 1) ++k;
    parts.push(k > i ? `${numbers[i]}-${numbers[k]}` : `${numbers[i]}`);
    i = k + 1;
  }
  return parts.join(", ");
}
