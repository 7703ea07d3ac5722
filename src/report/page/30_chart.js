// Curves over iterations, epochs or hours: zoom by dragging, values under the pointer, smoothing, log scale.

const view = { axis: "iteration", smoothing: 0.6, range: null, full: [0, 1], charts: [], listeners: [] };

const kLeft = 58, kRight = 12, kTop = 10, kBottom = 26;

// Exponential mean without the bias of its first values; what is not finite is passed over.
function smoothed(values, weight) {
  let mean = 0, factor = 1;
  return values.map(value => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = mean * weight + (1 - weight) * value;
    factor *= weight;
    return mean / (1 - factor);
  });
}

function linear_ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(f => f * power).find(f => f >= rough * (1 - 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}
function log_ticks(low, high, most) {
  const ticks = [];
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((to - from) / most));
  for (let power = from; power <= to; power += every)
    for (const digit of to - from <= 2 ? [1, 2, 5] : [1]) {
      const tick = digit * 10 ** power;
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(Number(tick.toPrecision(12)));
    }
  return ticks;
}
const tick_text = value =>
  value === 0 ? "0" : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(1).replace(".0e", "e").replace("e+", "e")
    : String(Number(value.toPrecision(6)));

// Texts below a plot; the last one stays within it.
function x_ticks(svg, x0, x1, px, width, height) {
  for (const tick of linear_ticks(x0, x1, width / 90))
    svg.append(s("text", { class: "tick", x: Math.min(px(tick), width - 2), y: height - kBottom + 15, "text-anchor": px(tick) > width - 26 ? "end" : "middle" }, tick_text(tick)));
}

class Chart {
  // series: {name, run, colour, dash, iterations, times, values, smooth, points}
  constructor(title, series, options = {}) {
    Object.assign(this, { title, series, options, log: Boolean(options.log), hidden: new Set() });
    this.plot = h("div", { class: "plot", tabindex: 0, role: "img", "aria-label": title });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("div", { class: "legend" });
    const log = h("button", { type: "button", "aria-pressed": this.log, onclick: () => {
      this.log = !this.log;
      log.setAttribute("aria-pressed", this.log);
      this.draw();
    } }, "log");
    this.card = h("section", { class: "card chart", "data-title": title },
      h("div", { class: "head" }, h("h3", null, title), options.unit ? h("span", { class: "unit" }, options.unit) : null,
        h("span", { class: "tools" }, log)),
      this.plot, this.legend);
    this.plot.append(this.tip);
    this.listen();
    view.charts.push(this);
  }

  // Its name, as long as the page is shown.
  key(one) { return `${one.run.index} ${one.name}`; }
  visible() { return this.series.filter(one => one.run.shown && !this.hidden.has(this.key(one))); }

  // Curves on the chosen axis, sorted as they are in the file.
  prepare() {
    for (const one of this.series) {
      one.xs = one.run.places(view.axis, one.iterations, one.times);
      one.shown = one.smooth && view.smoothing > 0 ? smoothed(one.values, view.smoothing) : one.values;
    }
  }

  range_y(x0, x1) {
    let low = Infinity, high = -Infinity;
    const take = y => {
      if (y === null || !Number.isFinite(y) || (this.log && y <= 0)) return;
      low = Math.min(low, y);
      high = Math.max(high, y);
    };
    for (const one of this.visible())
      one.xs.forEach((x, i) => {
        if (x < x0 || x > x1) return;
        take(one.values[i]);
        take(one.shown[i]);
      });
    if (!(low <= high)) return this.log ? [0.1, 1] : [0, 1];
    if (this.options.zero && !this.log) low = Math.min(low, 0);
    if (this.log) return [low / (high / low) ** 0.04, high * (high / low) ** 0.04 * (low === high ? 2 : 1)];
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return [this.options.zero && low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    const width = Math.max(260, this.plot.clientWidth || 560), height = this.options.height || 230;
    const [x0, x1] = view.range || view.full, [y0, y1] = this.range_y(x0, x1);
    const px = x => kLeft + (x - x0) / (x1 - x0) * (width - kLeft - kRight);
    const scale = this.log ? y => Math.log(y) : y => y;
    const py = y => height - kBottom - (scale(y) - scale(y0)) / (scale(y1) - scale(y0)) * (height - kTop - kBottom);
    Object.assign(this, { px, py, x0, x1, width, height });
    const clip = `clip${view.charts.indexOf(this)}`;
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "data-x0": x0, "data-x1": x1, "data-y0": y0, "data-y1": y1,
      "data-log": String(this.log) },
    s("clipPath", { id: clip }, s("rect", { x: kLeft, y: kTop - 4, width: width - kLeft - kRight, height: height - kTop - kBottom + 8 })));
    for (const tick of this.log ? log_ticks(y0, y1, 5) : linear_ticks(y0, y1, 5))
      svg.append(s("line", { class: "grid", x1: kLeft, x2: width - kRight, y1: py(tick), y2: py(tick) }),
        s("text", { class: "tick", x: kLeft - 6, y: py(tick) + 3.5, "text-anchor": "end" }, tick_text(tick)));
    x_ticks(svg, x0, x1, px, width, height);
    svg.append(s("line", { class: "axis", x1: kLeft, x2: width - kRight, y1: height - kBottom, y2: height - kBottom }));
    const inside = s("g", { "clip-path": `url(#${clip})` });
    this.draw_marks(inside);
    for (const one of this.visible()) this.draw_series(inside, one);
    svg.append(inside);
    this.cursor = s("line", { class: "cursor", y1: kTop, y2: height - kBottom, visibility: "hidden" });
    this.selection = s("rect", { class: "selection", y: kTop, height: height - kTop - kBottom, visibility: "hidden" });
    svg.append(this.selection, this.cursor);
    this.svg?.remove();
    this.svg = svg;
    this.plot.prepend(svg);
    this.draw_legend();
  }

  // Where a run was resumed.
  draw_marks(group) {
    for (const run of runs) {
      if (!run.shown || !this.series.some(one => one.run === run)) continue;
      const resumed = run.data.starts.slice(1);
      const places = run.places(view.axis, resumed.map(start => start.iteration), resumed.map(start => start.time));
      places.forEach((x, i) => {
        if (x === null || x < this.x0 || x > this.x1) return;
        group.append(s("line", { class: "resumed", stroke: run.colour, x1: this.px(x), x2: this.px(x), y1: kTop, y2: this.height - kBottom },
          s("title", null, `resumed at iteration ${resumed[i].iteration}`)));
      });
    }
  }

  draw_series(group, one) {
    const attributes = { stroke: one.colour, "stroke-dasharray": one.dash };
    if (one.shown !== one.values)
      group.append(s("path", { class: "curve raw", ...attributes, d: this.path(one.xs, one.values) }));
    group.append(s("path", { class: "curve", ...attributes, d: this.path(one.xs, one.shown), "data-series": one.name, "data-run": one.run.index }));
    if (one.points && one.xs.length <= 200)
      one.xs.forEach((x, i) => {
        if (this.drawable(x, one.shown[i]))
          group.append(s("circle", { class: "point", fill: one.colour, cx: this.px(x), cy: this.py(one.shown[i]), r: 2.4 }));
      });
    const lost = one.xs.filter((x, i) => x !== null && one.values[i] !== null && !Number.isFinite(one.values[i]));
    for (const x of lost.slice(0, 200)) {
      const at = this.px(x);
      group.append(s("path", { class: "lost", stroke: one.colour, d: `M${at - 4} ${kTop}l8 8m0 -8l-8 8` }, s("title", null, "not finite")));
    }
  }

  drawable(x, y) { return x !== null && y !== null && Number.isFinite(x) && Number.isFinite(y) && (!this.log || y > 0); }

  // With more points than pixels, the extremes of each pixel.
  path(xs, ys) {
    let d = "", pen = false, column = null, group = [];
    const at = (x, y) => {
      d += `${pen ? "L" : "M"}${Number(this.px(x).toFixed(2))} ${Number(this.py(y).toFixed(2))}`;
      pen = true;
    };
    const flush = () => {
      if (group.length > 2) {
        const least = group.reduce((a, b) => b[1] < a[1] ? b : a), most = group.reduce((a, b) => b[1] > a[1] ? b : a);
        group = [...new Set([group[0], ...(least[2] < most[2] ? [least, most] : [most, least]), last(group)])];
      }
      for (const [x, y] of group) at(x, y);
      group = [];
    };
    const margin = (this.x1 - this.x0) * 0.05;
    xs.forEach((x, i) => {
      if (ys[i] === null && x !== null) return;  // nothing was written there
      if (!this.drawable(x, ys[i]) || x < this.x0 - margin || x > this.x1 + margin) {
        flush();
        if (!this.drawable(x, ys[i])) pen = false;
        else if (x < this.x0) {
          d = `M${Number(this.px(x).toFixed(2))} ${Number(this.py(ys[i]).toFixed(2))}`;
          pen = true;
        } else if (pen) {
          at(x, ys[i]);
          pen = false;
        }
        return;
      }
      const now = Math.floor(this.px(x));
      if (now !== column) flush();
      column = now;
      group.push([x, ys[i], i]);
    });
    flush();
    return d;
  }

  draw_legend() {
    if (this.series.length < 2) return;
    this.legend.replaceChildren(...this.series.filter(one => one.run.shown).map(one => {
      const off = this.hidden.has(this.key(one));
      return h("button", { type: "button", class: "key", "aria-pressed": !off, onclick: () => {
        off ? this.hidden.delete(this.key(one)) : this.hidden.add(this.key(one));
        this.draw();
      } }, s("svg", { width: 20, height: 8 }, s("line", { class: "curve", x1: 1, x2: 19, y1: 4, y2: 4, stroke: one.colour, "stroke-dasharray": one.dash })),
      one.label || one.name);
    }));
  }

  listen() {
    let begin = null;
    const x_at = event => {
      const box = this.svg.getBoundingClientRect();
      const pixel = Math.min(Math.max(event.clientX - box.left, kLeft), this.width - kRight);
      return this.x0 + (pixel - kLeft) / (this.width - kLeft - kRight) * (this.x1 - this.x0);
    };
    this.plot.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      begin = x_at(event);
      this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener("pointermove", event => {
      const x = x_at(event);
      this.point_at(x, event);
      if (begin === null) return;
      const [from, to] = [this.px(Math.min(begin, x)), this.px(Math.max(begin, x))];
      set(this.selection, { x: from, width: to - from, visibility: to - from > 4 ? "visible" : "hidden" });
    });
    const end = event => {
      if (begin === null) return;
      const x = x_at(event), [from, to] = [Math.min(begin, x), Math.max(begin, x)];
      begin = null;
      this.selection.setAttribute("visibility", "hidden");
      if (event.type === "pointerup" && this.px(to) - this.px(from) > 8) zoom([from, to]);
    };
    this.plot.addEventListener("pointerup", end);
    this.plot.addEventListener("pointercancel", end);
    this.plot.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      this.cursor?.setAttribute("visibility", "hidden");
    });
    this.plot.addEventListener("dblclick", () => zoom(null));
    this.plot.addEventListener("keydown", event => {
      const width = this.x1 - this.x0, middle = (this.x0 + this.x1) / 2;
      if (event.key === "+") zoom([middle - width / 4, middle + width / 4]);
      else if (event.key === "-") zoom([this.x0 - width / 2, this.x1 + width / 2]);
      else if (event.key === "ArrowLeft") zoom([this.x0 - width / 4, this.x1 - width / 4]);
      else if (event.key === "ArrowRight") zoom([this.x0 + width / 4, this.x1 + width / 4]);
      else if (event.key === "Escape") zoom(null);
      else return;
      event.preventDefault();
    });
  }

  point_at(x, event) {
    const rows = this.visible().filter(one => one.xs.length).map(one => {
      const i = nearest(one.xs, x);
      return { one, i, value: one.shown[i], raw: one.values[i], x: one.xs[i] };
    }).filter(row => row.x !== null);
    if (!rows.length) return;
    const near = rows.reduce((a, b) => Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a);
    set(this.cursor, { x1: this.px(near.x), x2: this.px(near.x), visibility: "visible" });
    rows.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    this.tip.replaceChildren(
      h("div", { class: "when" }, view.axis === "iteration" ? `iteration ${grouped(near.x)}` : `${view.axis} ${show(near.x)}, iteration ${grouped(near.one.iterations[near.i])}`),
      ...rows.slice(0, 12).map(row => h("div", { class: "entry" }, h("i", { style: `background:${row.one.colour}` }),
        h("span", null, row.one.label || row.one.name), h("b", null, show(row.raw)),
        row.value !== row.raw ? h("small", null, `~\u202f${show(row.value)}`) : null)));
    this.tip.hidden = false;
    const box = this.plot.getBoundingClientRect(), left = event.clientX - box.left;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${left + 16 + wide < box.width ? left + 16 : Math.max(0, left - wide - 16)}px`;
    this.tip.style.top = "6px";
  }
}

// Places that any visible curve has, for all charts alike.
function full_range() {
  let low = Infinity, high = -Infinity;
  for (const chart of view.charts)
    for (const one of chart.visible())
      for (const x of one.xs)
        if (x !== null && Number.isFinite(x)) {
          low = Math.min(low, x);
          high = Math.max(high, x);
        }
  return low < high ? [low, high] : low === high ? [low - 0.5, low + 0.5] : [0, 1];
}

function redraw() {
  for (const chart of view.charts) chart.prepare();
  view.full = full_range();
  for (const chart of view.charts) chart.draw();
}

function zoom(range) {
  view.range = range;
  document.getElementById("reset")?.toggleAttribute("disabled", !range);
  redraw();
  for (const listener of view.listeners) listener();
}
