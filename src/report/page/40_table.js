// Tables that are sorted by a click on a column's head.

// How tables are sorted, by their names: a table that is made again stays so.
const sorted_by = new Map();

// columns: {title, value(row), text(row), number, bar}
function sortable(columns, rows, options = {}) {
  let { by, down } = sorted_by.get(options.name) || { by: null, down: true };
  if (by !== null && by >= columns.length) by = null;
  const body = h("tbody"), heads = [];
  const draw = () => {
    const order = rows.map((row, i) => [row, i]);
    if (by !== null) {
      const column = columns[by];
      order.sort(([a, i], [b, k]) => {
        const x = column.value(a), y = column.value(b);
        if (x === null || x === undefined) return y === null || y === undefined ? i - k : 1;
        if (y === null || y === undefined) return -1;
        const sign = typeof x === "string" ? -x.localeCompare(y, "en", { numeric: true }) : x - y;
        return (down ? -sign : sign) || i - k;
      });
    }
    const most = columns.map(column => column.bar ? Math.max(0, ...rows.map(row => column.value(row) || 0)) : 0);
    body.replaceChildren(...order.map(([row]) => h("tr", null, columns.map((column, c) => {
      const share = most[c] > 0 ? (column.value(row) || 0) / most[c] * 100 : 0;
      return h("td", { class: (column.number ? "number" : "") + (column.bar ? " bar" : ""), style: column.bar ? `--share:${share.toFixed(1)}%` : null,
        "data-value": column.number ? column.value(row) : null }, column.text ? column.text(row) : column.value(row));
    }))));
    heads.forEach((head, c) => head.setAttribute("aria-sort", c !== by ? "none" : down ? "descending" : "ascending"));
  };
  const head = h("tr", null, columns.map((column, c) => {
    const cell = h("th", { scope: "col", class: column.number ? "number" : null, title: column.about },
      h("button", { type: "button", onclick: () => {
        down = by === c ? !down : Boolean(column.number);
        by = c;
        sorted_by.set(options.name, { by, down });
        draw();
      } }, column.title));
    heads.push(cell);
    return cell;
  }));
  draw();
  return h("div", { class: "scroll" }, h("table", { class: "data", "data-table": options.name }, h("thead", null, head), body,
    options.foot ? h("tfoot", null, options.foot) : null));
}

function plain_table(heads, rows, name) {
  return h("div", { class: "scroll" }, h("table", { class: "data", "data-table": name },
    h("thead", null, h("tr", null, heads.map(head => h("th", { scope: "col" }, head)))),
    h("tbody", null, rows.map(row => h("tr", null, row.map(cell => h("td", null, cell)))))));
}

// Without the columns that are empty in every row.
function filled_columns(heads, rows) {
  const kept = heads.map((_, c) => rows.some(row => row[c] !== ""));
  const pick = row => row.filter((_, c) => kept[c]);
  return [pick(heads), rows.map(pick)];
}

const facts = pairs => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
