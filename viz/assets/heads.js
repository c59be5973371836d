// Heads: thumbnails of all heads of a kind, in the model's order or sorted by a statistic.
const titleOf = (id) => {
  const [kind, layer, head] = id.split(".");
  return `${NAMES[kind]}, layer ${layer} of ${A().depth[kind]}, head ${head}`;
};
const place = (id) => `layer ${id.split(".")[1]} head ${id.split(".")[2]}`;

// The value of the statistic that heads are sorted by; null where a head has none.
function valueOf(name, id) {
  if (name in BUILT_IN) return statistics(shown(), id, level())[name];
  return data.statistics[name]?.[id] ?? null;
}

// What depends on a head, where it was measured on these weights: "carries", "needed", "idle" or "".
// A head is called idle where it looks hard: that a dim one carries nothing surprises nobody.
const SIGNS = { carries: "●", needed: "◐", idle: "○" };
const BRIGHT = 0.5; // mean highest weight on words
const measured = (record) => !data.hash || !record.hash || data.hash === record.hash;
function markOf(id, record = shown()) {
  const mark = (measured(record) && record.byId.has(id) && data.marks[id]) || "";
  return mark === "idle" && statistics(record, id, level()).peak < BRIGHT ? "" : mark;
}
const meaningOf = (mark) => `${mark}: ${mark === "idle" ? `highest on words ≥ ${BRIGHT} here, yet ` : ""}${data.meaning[mark]}`;

// {name of a statistic, rising, role}: "-entropy" is entropy, lowest first; "role:x" keeps heads of role x.
function order() {
  const role = state.sort.startsWith("role:") ? state.sort.slice(5) : "";
  const rising = state.sort.startsWith("-");
  const name = role ? "" : rising ? state.sort.slice(1) : state.sort;
  return { name: name in BUILT_IN || name in data.statistics ? name : "", rising, role };
}

// The heads on display, in order, and how large the statistic is.
function ranking() {
  const { name, rising, role } = order();
  let list = shown().list[state.kind].map((one) => ({ ...one, value: name ? valueOf(name, one.id) : null }));
  if (role) list = list.filter((one) => [data.roles[one.id], markOf(one.id)].includes(role));
  if (!name) return { list, name, role };
  list = list.filter((one) => one.value !== null).sort((x, y) => (rising ? x.value - y.value : y.value - x.value));
  const values = list.map((one) => one.value);
  const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
  // The slider leaves out the far end of the order: "high first" those below a value, "low first" those above.
  const limit = ((high - low) * state.least) / 100;
  const bound = rising ? high - limit : low + limit;
  return { list: list.filter((one) => (rising ? one.value <= bound + 1e-12 : one.value >= bound - 1e-12)), name, role, rising, bound };
}

let drawnGrid = "";
function renderHeads() {
  const { list, name, role, rising, bound } = ranking();
  const natural = !name && !role;
  $("limit").hidden = !name;
  $("limit-text").textContent = name && list.length ? `at ${rising ? "most" : "least"} ${bound.toFixed(2).replace("-", "−")}` : "";
  const key = JSON.stringify([state.record, state.other, state.compare, state.kind, level(), state.special, state.weight, isSqrt(), state.sort, state.least, ink.paper]);
  if (key !== drawnGrid) {
    drawnGrid = key;
    const grid = $("grid");
    const numbers = [...new Set(list.map((one) => one.head))].sort((x, y) => x - y);
    const across = natural ? numbers.length : Math.min(4, Math.max(list.length, 1));
    grid.style.setProperty("--across", across);
    grid.className = natural ? "natural" : "sorted";
    const rows = [];
    if (natural) {
      for (const layer of shown().layers[state.kind]) {
        const here = list.filter((one) => one.layer === layer);
        rows.push([el("span", { className: "row-name", role: "rowheader", textContent: `L${layer}`, title: `layer ${layer}` }),
          ...numbers.map((head) => tile(here.find((one) => one.head === head)))]);
      }
    } else for (let i = 0; i < list.length; i += across) rows.push(list.slice(i, i + across).map(tile));
    if (!list.length) rows.push([el("span", { role: "gridcell", className: "none", textContent: "no such head" })]);
    grid.replaceChildren(...rows.map((cells) => el("div", { className: "row", role: "row" }, ...cells)));
  }
  const tiles = [...$("grid").querySelectorAll("button")];
  const laid = state.view === "lines" ? overlaid() : [];
  for (const one of tiles) {
    const mine = one.dataset.id === current();
    one.tabIndex = mine ? 0 : -1;
    one.setAttribute("aria-selected", mine || laid.includes(one.dataset.id));
    one.classList.toggle("current", mine);
    const at = laid.indexOf(one.dataset.id);
    one.classList.toggle("laid", at >= 0);
    one.style.setProperty("--hue", at >= 0 ? hue(at) : "transparent");
  }
  if (tiles.length && !tiles.some((one) => one.tabIndex === 0)) tiles[0].tabIndex = 0;
}

function tile(one) {
  if (!one) return el("span", { className: "gone", role: "gridcell", title: "no such head" });
  const canvas = el("canvas", {});
  const which = state.compare === "diff" && comparing() ? "diff" : "weight";
  const map = which === "diff" ? drawnDifference(one.id) : drawn(shown(), one.id);
  if (map) thumbnail(canvas, map, which, pair()[1]);
  const mark = markOf(one.id);
  const value = (mark && `, ${mark}`) + (one.value === null ? "" : `, ${one.value.toFixed(2)}`);
  const button = el("button", { role: "gridcell", type: "button", "aria-label": `${place(one.id)}${value}`, title: `${place(one.id)}: ${factsOf(one.id).filter(Boolean).join(" · ")}` }, canvas);
  button.dataset.id = one.id;
  const name = order().name || order().role ? `L${one.layer} H${one.head}` : `H${one.head}`;
  button.append(el("span", { className: "name", textContent: mark ? `${name} ${SIGNS[mark]}` : name }));
  if (one.value !== null) button.append(el("b", { textContent: one.value.toFixed(2) }));
  return button;
}

const OFFSETS = { "-1": "previous token", 0: "same token", 1: "next token" };
// Of a head: what it does in this sentence, and what is known to depend on it: [text, text].
function factsOf(id, record = shown()) {
  const found = statistics(record, id, level());
  const facts = [`entropy ${found.entropy.toFixed(2)} nats`, `highest on words ${found.peak.toFixed(2)}`];
  if (found.offset !== null) {
    const offset = OFFSETS[found.offset] ?? `offset ${found.offset > 0 ? "+" : "−"}${Math.abs(found.offset)}`;
    facts.push(`${offset} ${(100 * found.share).toFixed(0)} %`);
  }
  facts.push(`special ${(100 * found.special).toFixed(0)} %`);
  if (found.added !== null) facts.push(`norm ${found.added.toFixed(2)}, special ${(100 * found.addedSpecial).toFixed(0)} % of it`);
  if (found.distance !== null) facts.push(`distance ${found.distance.toFixed(1)}`);
  if (!measured(record)) return [facts.join(" · "), ""];
  if (data.roles[id]) facts.push(`role: ${data.roles[id]}`);
  const mark = markOf(id, record);
  const known = mark ? [`${SIGNS[mark]} ${mark}`] : [];
  const { name } = order(); // what heads are sorted by
  const told = (name, list) => {
    if (!(id in (data.statistics[name] ?? {}))) return;
    const [, what, unit = ""] = name.match(/^(.*?)( \[.*)?$/);
    list.push(`${what} ${number(data.statistics[name][id])}${unit.replace("[", "").replace("]", "")}`);
  };
  if (!data.evidence.includes(name)) told(name, facts);
  for (const one of data.evidence) told(one, known);
  return [facts.join(" · "), known.join(" · ")];
}

function renderLegend() {
  const diff = state.compare === "diff" && comparing();
  const limit = diff ? differenceLimit() : highest();
  const root = isSqrt() && !diff;
  const ticks = diff ? [-limit, 0, limit] : (root ? [0, 0.1, 0.25, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((x) => Number((x * limit).toPrecision(3)));
  const share = (x) => (diff ? 0.5 + x / limit / 2 : root ? Math.sqrt(x / limit) : x / limit);
  const canvas = el("canvas", { width: 256, height: 1 });
  const image = canvas.getContext("2d").createImageData(256, 1);
  for (let i = 0; i < 256; i++) image.data.set([...TABLES[diff ? "difference" : "cividis"].subarray(3 * i, 3 * i + 3), 255], 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
  const marks = ticks.map((x) => {
    const mark = el("span", { textContent: (diff && x > 0 ? "+" : "") + String(x).replace("-", "−") });
    mark.style.left = `${100 * share(x)}%`;
    return mark;
  });
  const what = state.weight === "norm" ? "‖α f(x)‖" : "weight";
  const name = diff ? `B − A, ${what}` : root ? `${what}, square-root scale` : what;
  const signs = Object.keys(data.meaning).map((mark) => el("p", { textContent: `${SIGNS[mark]} ${meaningOf(mark)}` }));
  $("legend").replaceChildren(el("span", { textContent: name }), canvas, el("div", { className: "ticks" }, ...marks), ...signs);
}

// Keys of the grid: arrows move, Enter opens the map, x lays a head over the others.
function gridKey(event) {
  const tiles = [...$("grid").querySelectorAll("button")];
  const at = tiles.indexOf(event.target);
  if (at < 0) return;
  const here = tiles[at].getBoundingClientRect();
  const rowOf = (one) => Math.round(one.getBoundingClientRect().top - here.top);
  const sideways = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tiles.length - 1 }[event.key];
  let to = tiles[sideways];
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const down = event.key === "ArrowDown";
    const others = tiles.filter((one) => (down ? rowOf(one) > 4 : rowOf(one) < -4));
    const near = (one) => Math.abs(rowOf(one)) * 100 + Math.abs(one.getBoundingClientRect().left - here.left);
    to = others.sort((x, y) => near(x) - near(y))[0];
  }
  if (to) {
    event.preventDefault();
    choose(to.dataset.id).then(() => focusHead());
  } else if (event.key === "Enter") {
    event.preventDefault();
    $("stage").focus();
  }
}

const focusHead = () => $("grid").querySelector('[tabindex="0"]')?.focus();
const choose = (id) => change({ heads: { ...state.heads, [state.kind]: id } });

// Pins a head for the lines, or lets it go.
function toggleOverlay(id) {
  const here = state.overlay.filter((one) => one.startsWith(`${state.kind}.`));
  if (here.includes(id)) return change({ overlay: here.filter((one) => one !== id), view: "lines" });
  if (here.length < MOST) return change({ overlay: [...here, id], view: "lines" });
  return announce(`At most ${MOST} heads can be laid over each other.`);
}
