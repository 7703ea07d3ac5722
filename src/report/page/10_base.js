// Elements, numbers and texts. Everything that comes from a run's files becomes text nodes or attributes, never markup.

function add(node, children) {
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return node;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

const h = (tag, attributes, ...children) => add(set(document.createElement(tag), attributes), children);
const s = (tag, attributes, ...children) =>
  add(set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes), children);

// A number of the file: null where there is none; "nan", "inf" and "-inf" are texts there.
const numeric = value =>
  value === null || value === undefined ? null
    : typeof value === "number" ? value
      : value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;

// Six significant digits, as the log has them.
function show(value) {
  if (value === null || value === undefined) return "\u2013";
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(3).replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

const grouped = value => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

function scaled(value, units, step, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return show(value);
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  return `${Number(value.toPrecision(Math.abs(value) >= 1000 ? 4 : digits))}\u202f${units[unit]}`.trim();
}
const bytes = value => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const count = value => scaled(value, ["", "k", "M", "G", "T", "P"], 1000);

function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "\u2013";
  if (seconds < 1e-3) return `${Number((seconds * 1e6).toPrecision(3))}\u202fµs`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))}\u202fms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))}\u202fs`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}\u202fmin ${Math.floor(seconds % 60)}\u202fs`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}\u202fh ${minutes % 60}\u202fmin`
    : `${Math.floor(hours / 24)}\u202fd ${hours % 24}\u202fh`;
}

const two = value => String(value).padStart(2, "0");
function moment(time) {
  const date = new Date(time * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const shape = dims => dims && dims.length ? dims.join("\u00d7") : "scalar";
const last = list => list.length ? list[list.length - 1] : undefined;
const sum = list => list.reduce((a, b) => a + b, 0);

// Index of the entry of an ascending list that is nearest to `value`.
function nearest(list, value) {
  let low = 0, high = list.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && Math.abs(list[low - 1] - value) <= Math.abs(list[low] - value) ? low - 1 : low;
}
