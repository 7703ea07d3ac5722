// The runs of the page, from the data that the program put into it.

const kColours = 8;

// [x, y] by straight lines between the given places; beyond the ends, the end.
function interpolate(xs, ys, x) {
  if (!xs.length) return null;
  if (x <= xs[0]) return ys[0];
  if (x >= last(xs)) return last(ys);
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
}

class Run {
  constructor(data, index) {
    Object.assign(this, { data, index, name: data.name, shown: true, colour: `var(--c${index % kColours})` });
    this.start = last(data.starts);
    this.first = data.starts[0];
    this.iterations = data.train.columns.iteration;
    this.times = this.column("time");
    this.end = data.ends.filter(end => end.time >= this.start.time).pop();
    this.device_columns = data.devices.columns;
  }

  column(name) { return (this.data.train.columns[name] || []).map(numeric); }
  has(name) { return this.column(name).some(value => value !== null); }

  // Places of iterations on the axis that was chosen.
  places(axis, iterations, times) {
    if (axis === "epoch") {
      const known = [], epochs = [];
      this.column("epoch").forEach((epoch, i) => {
        if (epoch !== null) {
          known.push(this.iterations[i]);
          epochs.push(epoch);
        }
      });
      return iterations.map(iteration => interpolate(known, epochs, iteration));
    }
    if (axis === "hours") {
      const begin = this.first.time;
      return times ? times.map(time => (time - begin) / 3600)
        : iterations.map(i => (interpolate(this.iterations, this.times, i) - begin) / 3600);
    }
    return iterations;
  }

  get done() {
    const lines = [...this.data.starts, ...this.data.snapshots, ...this.data.ends].map(line => line.iteration);
    const rows = last(this.iterations);
    const most = Math.max(0, ...lines, rows === undefined ? 0 : rows + 1);
    return Math.min(most, this.start.max_iter);
  }
  get state() { return this.end ? this.end.reason : "running"; }

  // Seconds of work, without the time between a stop and the next start.
  get seconds() {
    const data = this.data;
    return sum(data.starts.map((start, i) => {
      const next = data.starts[i + 1];
      const end = data.ends.find(one => one.time >= start.time && (!next || one.time <= next.time));
      if (end) return end.time - start.time;
      const inside = time => time >= start.time && (!next || time < next.time);
      const seen = this.times.filter(time => time !== null && inside(time));
      if (!next) seen.push(data.last_time);
      return seen.length ? Math.max(0, last(seen) - start.time) : 0;
    }));
  }

  // Mean over the last rows, each weighted by its iterations.
  get speed() {
    const speeds = this.column("samples_per_second"), counts = this.column("iterations");
    let samples = 0, seconds = 0;
    for (let i = speeds.length - 1, taken = 0; i >= 0 && taken < 20; --i) {
      if (!(speeds[i] > 0) || !Number.isFinite(speeds[i])) continue;
      const weight = counts[i] || 1;
      samples += weight;
      seconds += weight / speeds[i];
      ++taken;
    }
    return seconds > 0 ? samples / seconds : null;
  }
  get left() {
    const per_iteration = this.start.samples_per_iteration, speed = this.speed;
    return this.state === "running" && per_iteration && speed
      ? (this.start.max_iter - this.done) * per_iteration / speed : null;
  }

  outputs() {
    return this.data.train.outputs.map(output => ({
      ...output, label: output.components > 1 ? `${output.name}/${output.index}` : output.name,
      values: (this.data.train.columns[output.column] || []).map(numeric)
    }));
  }
  tests() {
    return this.data.tests.map(test => ({
      ...test, iterations: test.columns.iteration, times: (test.columns.time || []).map(numeric),
      loss: (test.columns.loss || []).map(numeric),
      results: test.outputs.map(output => ({
        ...output, label: output.components > 1 ? `${output.name}/${output.index}` : output.name,
        values: (test.columns[output.column] || []).map(numeric)
      }))
    }));
  }

  device_column(device, name) { return (this.device_columns[`${device}.${name}`] || []).map(numeric); }
  get device_names() { return this.data.devices.names; }

  // Mean milliseconds of each layer, over all iterations that were sampled.
  layer_times() {
    const times = new Map();
    for (const line of this.data.layers)
      for (const layer of line.layers) {
        const entry = times.get(layer.name) || { forward: 0, backward: 0, sampled: 0 };
        const weight = numeric(line.sampled);
        entry.forward += weight * (numeric(layer.forward) || 0);
        entry.backward += weight * (numeric(layer.backward) || 0);
        entry.sampled += weight;
        times.set(layer.name, entry);
      }
    for (const entry of times.values())
      if (entry.sampled > 0) {
        entry.forward /= entry.sampled;
        entry.backward /= entry.sampled;
      }
    return times;
  }
}

const page_data = JSON.parse(document.getElementById("data").textContent);
const runs = page_data.runs.map((data, index) => new Run(data, index));
// Names that occur twice get their folders.
for (const run of runs)
  if (runs.some(other => other !== run && other.data.name === run.data.name)) run.name = run.data.folder;
