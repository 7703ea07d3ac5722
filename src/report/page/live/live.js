// The page of a run that goes on: asks for what is new and shows it, without disturbing whoever looks at it.

states.running = "running";

const told = h("p", { id: "live", role: "status" });
function tell(text, state) {
  told.dataset.live = state;
  told.textContent = text;
}

// Makes these the children, without touching those that stay: a selection would be lost.
function set_children(holder, children) {
  for (const child of [...holder.children]) if (!children.includes(child)) child.remove();
  children.forEach((child, i) => {
    if (holder.children[i] !== child) holder.insertBefore(child, holder.children[i] || null);
  });
}

// Cards that would look the same stay: a selected text stays selected, an opened one open.
function show_details() {
  const before = new Map([...parts.details.children].map(card => [card.dataset.title, card]));
  const cards = details_of(runs[0]).map(card => {
    card.source = card.outerHTML;
    const old = before.get(card.dataset.title);
    const same = old && (card.redraw ? card.fixed !== undefined && card.fixed === old.fixed : card.source === old.source);
    if (same) return old;
    const choice = card.querySelector("select"), chosen = old && old.querySelector("select");
    if (choice && chosen && chosen.value) choice.value = chosen.value;
    const open = old ? new Set([...old.querySelectorAll("details[open] > summary")].map(summary => summary.textContent)) : new Set();
    for (const summary of card.querySelectorAll("details > summary"))
      if (open.has(summary.textContent)) summary.parentNode.open = true;
    return card;
  });
  set_children(parts.details, cards);
  for (const card of cards)
    if (card.redraw && before.get(card.dataset.title) !== card) card.redraw();
}

function replace(part, fresh) {
  parts[part].replaceWith(fresh);
  parts[part] = fresh;
}

function show_run(data) {
  runs[0] = new Run(data, 0);
  replace("head", head());
  parts.head.append(told);
  replace("top", tiles(runs[0]));
  replace("thinned", thinned());
  const cards = charts().map(one => one.card);
  view.charts = view.charts.filter(one => cards.includes(one.card));
  set_children(parts.charts, cards);
  const axis = document.getElementById("axis");
  if (runs[0].has("epoch") && ![...axis.options].some(option => option.value === "epoch"))
    axis.options[0].after(h("option", { value: "epoch" }, "epochs"));
  redraw();
  show_details();
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

// While a button of the pointer is down, a curve is being zoomed or a text selected.
let pressed = false;
for (const event of ["pointerdown", "pointerup", "pointercancel"])
  addEventListener(event, () => { pressed = event === "pointerdown"; }, true);

async function follow() {
  const kPatience = 5;
  let version = page_data.live;
  for (let failures = 0; failures < kPatience;) {
    try {
      const answer = await fetch(`data?after=${version}`, { cache: "no-store" });
      if (answer.status === 200) {
        const news = await answer.json();
        while (pressed) await pause(100);
        version = news.version;
        show_run(news.run);
        tell(news.ended ? "The run has ended." : `Live, ${moment(Date.now() / 1000).slice(11)}`, news.ended ? "ended" : "live");
        if (news.ended) return;
      } else if (answer.status === 204) {
        await pause(1000);  // at once if many pages are open
      } else {
        break;  // another run is there now
      }
      failures = 0;
    } catch {
      ++failures;
      await pause(1000 * failures);
    }
  }
  tell("No longer live: the run has ended, or it is not reachable. This page shows what was there last.", "lost");
}

show_run(page_data.runs[0]);
tell("Live", "live");
follow();
