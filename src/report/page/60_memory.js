// Memory: what holds how much, and the plan of the activations as a picture: steps from left to right, places in
// memory from the bottom up.

function memory_bar(run) {
  const memory = run.start.memory;
  if (!memory) return null;
  const parts = [["activations", "activations and their gradients", "--compute"], ["parameters", "parameters", "--gradients"],
    ["gradients", "gradients of parameters", "--sync"], ["optimizer", "optimizer, over all devices", "--update"]]
    .map(([key, title, colour]) => ({ key, title, colour, value: numeric(memory[key]) })).filter(part => part.value > 0);
  if (!parts.length) return null;
  const total = sum(parts.map(part => part.value));
  return h("section", { class: "card", "data-title": "memory" }, h("div", { class: "head" }, h("h3", null, "Memory"), h("span", { class: "unit" }, bytes(total))),
    h("div", { class: "sharebar tall" }, parts.map(part => h("i", { style: `width:${part.value / total * 100}%;background:var(${part.colour})`, title: `${part.title}: ${bytes(part.value)}` }))),
    facts(parts.map(part => [part.title, h("span", { "data-memory": part.key, "data-value": part.value }, bytes(part.value))])),
    numeric(memory.activations_unshared) ? h("p", { class: "note" }, `${bytes(memory.activations_unshared)} of activations if no blob shared memory`) : null);
}

function plan_picture(run) {
  const plan = run.start.plan;
  if (!plan || !plan.steps.length || !plan.blocks.length) return null;
  const layers = run.start.layers || [], steps = plan.steps.length;
  const top = Math.max(...plan.blocks.map(block => block.offset + block.bytes));
  if (!(top > 0)) return null;
  const holder = h("div", { class: "plot" }), tip = h("div", { class: "tip", hidden: true });
  const step_name = step => {
    const entry = plan.steps[step];
    return entry ? `${entry.work} ${layers[entry.layer] ? layers[entry.layer].name : entry.layer}` : "the end";
  };
  const draw = () => {
    const width = Math.max(300, holder.clientWidth || 900), height = 350, kTop = 24;  // with room for the two words
    const px = step => kLeft + step / (steps + 1) * (width - kLeft - kRight), py = offset => height - kBottom - offset / top * (height - kTop - kBottom);
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "data-steps": steps, "data-top": top });
    for (const tick of linear_ticks(0, top / 2 ** 20, 5))
      svg.append(s("line", { class: "grid", x1: kLeft, x2: width - kRight, y1: py(tick * 2 ** 20), y2: py(tick * 2 ** 20) }),
        s("text", { class: "tick", x: kLeft - 6, y: py(tick * 2 ** 20) + 3.5, "text-anchor": "end" }, tick_text(tick)));
    plan.blocks.forEach((block, i) => {
      for (const [first, final] of block.spans) {
        const rect = s("rect", { class: `block ${block.gradient ? "gradient" : "activation"} ${i % 2 ? "odd" : ""}`, x: px(first), width: Math.max(0.8, px(final + 1) - px(first)),
          y: py(block.offset + block.bytes), height: Math.max(0.4, py(block.offset) - py(block.offset + block.bytes)) });
        rect.addEventListener("pointermove", event => {
          tip.replaceChildren(h("div", { class: "when" }, block.name, block.gradient ? " (gradient)" : ""), h("div", { class: "entry" }, `${bytes(block.bytes)} at ${bytes(block.offset)}`),
            h("div", { class: "entry" }, `from step ${first}, ${step_name(first)}`), h("div", { class: "entry" }, `to step ${final}, ${step_name(final)}`));
          tip.hidden = false;
          const box = holder.getBoundingClientRect(), left = event.clientX - box.left;
          tip.style.left = `${left + 16 + tip.offsetWidth < box.width ? left + 16 : Math.max(0, left - tip.offsetWidth - 16)}px`;
          tip.style.top = `${Math.max(0, event.clientY - box.top - 30)}px`;
        });
        rect.addEventListener("pointerleave", () => { tip.hidden = true; });
        svg.append(rect);
      }
    });
    x_ticks(svg, 0, steps, px, width, height);
    if (plan.backward > 0 && plan.backward < steps)
      svg.append(s("line", { class: "cut", x1: px(plan.backward), x2: px(plan.backward), y1: 6, y2: height - kBottom }),
        s("text", { class: "tick", x: px(plan.backward) - 5, y: 15, "text-anchor": "end" }, "forward"),
        s("text", { class: "tick", x: px(plan.backward) + 5, y: 15 }, "backward"));
    holder.replaceChildren(svg, tip);
  };
  const card = h("section", { class: "card wide", "data-title": "memory plan" }, h("div", { class: "head" }, h("h3", null, "Memory of the activations over a pass"),
    h("span", { class: "unit" }, `MiB over ${steps} steps; ${plan.blocks.length} blocks in ${bytes(top)}`)),
  h("div", { class: "legend fixed" }, h("span", { class: "key" }, h("i", { class: "activation" }), "data"), h("span", { class: "key" }, h("i", { class: "gradient" }), "gradients")), holder);
  card.redraw = draw;
  card.fixed = run.start.time;  // nothing else in it changes
  return card;
}
