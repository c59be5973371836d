// Controls: what stands around the views, and the start of the page.
const MODES = [
  ["view", { map: "Map", lines: "Lines", steps: "Steps" }, "View"],
  ["level", { piece: "Pieces", word: "Words" }, "Tokens"],
  ["labels", { auto: "Auto", in: "Read", out: "Written", both: "Both" }, "Rows"],
  ["weight", { alpha: "Weight", norm: "Norm" }, "Cells"],
  ["special", { show: "Show", mute: "Grey", drop: "Drop" }, "Special tokens"],
  ["scale", { auto: "Auto", linear: "Linear", sqrt: "√" }, "Colour scale"],
  ["compare", { a: "A", b: "B", both: "A | B", diff: "B − A" }, "Comparison"],
];
const next = (list, one, by = 1) => list[(list.indexOf(one) + by + list.length) % list.length];

function why(name, value) {
  if (name === "level" && A().level === "word") return "this record holds words only";
  if (value === "word" && state.view === "steps") return "decoding writes pieces";
  if (name === "view" && value === "steps" && !A().list.dec.length && !A().list.cross.length) return "the record holds no decoder attention";
  if (name === "labels" && value !== "auto" && level() === "word") return "a row of words is the mean over pieces of one word: read in decoder self-attention, written in cross-attention";
  if (name === "weight" && value === "norm" && [A(), B()].some((record) => record && !record.norms)) return "the norms of this sentence were not captured";
  if (name === "compare" && value === "diff") return clash();
  return name === "compare" && value === "both" && state.view !== "map" ? "only maps stand side by side" : "";
}

function renderModes() {
  for (const group of $("modes").children) {
    const name = group.dataset.name;
    group.hidden = {
      compare: state.other < 0,
      scale: state.view === "lines",
      labels: state.kind === "enc" || state.view === "steps",
      weight: !records.some((record) => record.norms),
    }[name];
    const chosen = name === "level" ? level() : name === "labels" && level() === "word" ? "auto" : state[name];
    for (const button of group.querySelectorAll("button")) {
      const value = button.dataset.value;
      const reason = why(name, value);
      button.setAttribute("aria-checked", value === chosen);
      button.setAttribute("aria-disabled", Boolean(reason));
      button.title = reason;
    }
  }
  rove($("modes"));
}

function buildModes() {
  $("modes").replaceChildren(...MODES.map(([name, values, title]) => {
    const group = el("div", { className: "group", role: "radiogroup", "aria-label": title });
    group.dataset.name = name;
    group.append(el("span", { className: "tag", textContent: title, "aria-hidden": "true" }));
    const box = el("div", { className: "segments", role: "none" });
    for (const [value, text] of Object.entries(values)) {
      const button = el("button", { type: "button", role: "radio", textContent: text });
      button.dataset.value = value;
      button.onclick = () => (button.getAttribute("aria-disabled") === "true" ? announce(button.title) : change({ [name]: value }));
      box.append(button);
    }
    group.append(box);
    return group;
  }));
  const actions = [["SVG", saveSvg, "Save this view as SVG"], ["PNG", savePng, "Save this view as PNG"], ["CSV", saveCsv, "Save these weights as CSV"],
    ["Table", () => change({ table: next(CHOICES.table, state.table) }), "Show the weights as a table"], ["Link", copyLink, "Copy a link to this view"],
    ["Theme", () => change({ theme: next(CHOICES.theme, state.theme) }), "Appearance: automatic, light, dark"], ["?", help, "Keys"]];
  $("output").replaceChildren(...actions.map(([text, run, title]) => el("button", { type: "button", textContent: text, title, "aria-label": title, onclick: run })));
  for (const one of [$("modes"), $("output"), $("kinds")]) one.addEventListener("keydown", toolbarKey);
}

// A toolbar is one stop of the Tab key; arrows move inside it.
function rove(bar, wanted) {
  const buttons = [...bar.querySelectorAll("button")].filter((one) => one.offsetParent);
  const stop = wanted ?? buttons.find((one) => one === document.activeElement) ?? buttons.find((one) => one.tabIndex === 0) ?? buttons[0];
  for (const one of buttons) one.tabIndex = one === stop ? 0 : -1;
  return buttons;
}

function toolbarKey(event) {
  const bar = event.currentTarget;
  const buttons = rove(bar);
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const to = next(buttons, document.activeElement, by);
  rove(bar, to);
  to.focus();
  if (bar.id === "kinds") to.click();
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    announce("The link to this view is on the clipboard.");
  } catch {
    announce(`The link to this view ends in ${link()}`);
  }
}

function renderKinds() {
  const kinds = KINDS.filter((kind) => A().list[kind].length);
  if ($("kinds").children.length !== kinds.length || $("kinds").firstChild.dataset.kind !== kinds[0]) {
    $("kinds").replaceChildren(...kinds.map((kind) => {
      const [first, rest] = { enc: ["Encoder", " self-attention"], dec: ["Decoder", " self-attention"], cross: ["Cross", "-attention"] }[kind];
      const button = el("button", { type: "button", role: "tab", onclick: () => change({ kind, view: kind === "enc" && state.view === "steps" ? "map" : state.view }) }, first, el("span", { textContent: rest }));
      button.dataset.kind = kind;
      return button;
    }));
  }
  for (const one of $("kinds").children) {
    one.setAttribute("aria-selected", one.dataset.kind === state.kind);
    one.tabIndex = one.dataset.kind === state.kind ? 0 : -1;
  }
}

function renderTexts() {
  const line = (name, record) => el("div", { className: "pair" }, ...(name ? [el("b", { textContent: name })] : []),
    el("p", { className: "source", dir: "auto", textContent: record.text.source }), el("p", { className: "target", dir: "auto", textContent: record.text.target }));
  $("texts").replaceChildren(...(state.other < 0 || BY_UPDATE ? [line("", A())] : [line("A", A()), line("B", B())]));
  document.title = `Attention: ${A().text.source}`;
  for (const [id, value, none] of [["record", state.record, false], ["other", state.other, true]]) {
    $(id).replaceChildren(...(none ? [el("option", { value: -1, textContent: "nothing" })] : []), ...offered(none).map(([value, textContent]) =>
      el("option", { value, textContent, disabled: none && value === state.record })));
    $(id).value = value;
  }
  $("label-a").hidden = offered(false).length < 2;
  $("label-b").hidden = offered(true).length < 2;
  const footer = [...new Set([A(), ...(state.other < 0 ? [] : [B()])].flatMap((one) => [one.provenance, ...one.notes]))];
  if (level() === "word") for (const [side, words] of Object.entries(A().words)) if (words.unspaced) footer.push(`The ${side === "src" ? "source" : "target"} does not space its words: pieces are shown.`);
  if (measured(A())) footer.push(...(data.measured.length ? [`Numbers of heads: ${data.measured.join(" · ")}`] : []));
  $("provenance").replaceChildren(...[...new Set(footer)].map((text) => el("p", { textContent: text })), el("p", { textContent: "Attention shows where a head looked, not what the model used: judge by what changes when the head is off." }));
}

function renderSort() {
  const roles = [...new Set(allRoles())].sort();
  const kinds = [...Object.entries(BUILT_IN), ...Object.keys(data.statistics).map((name) => [name, name])];
  roles.unshift(...Object.keys(data.meaning));
  const options = [["", "as in the model"], ...kinds.flatMap(([name, text]) => [[name, `${text}, high first`], [`-${name}`, `${text}, low first`]]), ...roles.map((role) => [`role:${role}`, role in SIGNS ? `only ${SIGNS[role]} ${role}` : `role: ${role}`])];
  $("sort").replaceChildren(...options.map(([value, textContent]) => el("option", { value, textContent })));
}

const NORM = "cells: norm ‖α f(x)‖ of what the key adds; rows do not sum to 1";
function sidesOf() {
  if (state.kind === "enc") return "rows and columns: source";
  const rows = { tgt_in: "target as read", tgt_out: "target being written", "tgt_in,tgt_out": "target as read → being written" }[rowSides()];
  if (state.kind === "cross") return `rows: ${rows}, columns: source`;
  return rows === "target as read" ? "rows and columns: target as read" : `rows: ${rows}, columns: target as read`;
}

function render() {
  document.documentElement.dataset.theme = state.theme;
  readTheme();
  renderTexts();
  renderTraining();
  renderKinds();
  renderModes();
  renderHeads();
  renderLegend();
  $("heading").textContent = state.view === "lines" && overlaid().length > 1 ? `${NAMES[state.kind]}, ${overlaid().length} heads` : titleOf(current());
  const map = mapOf(state.compare === "diff" && comparing() ? null : shown());
  const sides = sidesOf();
  const colours = isSqrt() ? "square-root colour scale" : "linear colour scale";
  const notes = {
    map: ["query ↓ / key →", sides, ...(state.weight === "norm" ? [NORM] : []), state.compare === "diff" && comparing() ? "" : colours],
    lines: [sides.replace("rows", "left").replace("columns", "right"), ...(state.weight === "norm" ? [NORM] : []), `${state.weight === "norm" ? "norms" : "weights"} below ${Number((FAINTEST * highest()).toPrecision(2))} are not drawn; their mean sum in a row is given`],
    steps: ["rows: heads, columns: keys", ...(state.weight === "norm" ? [NORM] : []), colours],
  }[state.view];
  $("note").textContent = [...notes, hiddenNote(map)].filter(Boolean).join(" · ");
  const described = (state.view === "map" && ["both", "diff"].includes(state.compare) ? [A(), B()] : [shown()]).filter((one) => one?.byId.has(current()));
  const named = (one, text) => (text && described.length > 1 ? `${one === A() ? "A" : "B"}: ${text}` : text);
  $("facts").replaceChildren(...described.flatMap((one) => factsOf(current(), one).map((text, i) => el(i ? "b" : "div", { textContent: named(one, text) }))));
  $("stepper").hidden = state.view !== "steps";
  $("sort").value = state.sort;
  $("least").value = state.least;
  const stage = $("stage");
  stage.setAttribute("aria-label", { map: "Map: arrow keys move the cell", lines: "Lines: arrow keys choose a query", steps: "Decoding steps: arrow keys go back and on" }[state.view]);
  ({ map: renderMap, lines: renderLines, steps: renderSteps })[state.view]();
  if ($("search").value !== state.find) $("search").value = state.find;
  find();
  renderTable();
}

// Marks the labels that hold what is searched; Enter goes to the next one.
let match = -1;
function find(go) {
  const wanted = $("search").value.toLowerCase();
  const labels = [...$("stage").querySelectorAll(".keys span, .queries span")];
  for (const one of labels) one.classList.toggle("hit", Boolean(wanted) && one.title.toLowerCase().includes(wanted));
  const hits = labels.filter((one) => one.classList.contains("hit"));
  if (wanted && go) {
    if (!hits.length) return announce(`No token of this map holds “${wanted}”.`);
    match = (match + 1) % hits.length;
    goTo({ [hits[match].parentNode.className === "keys" ? "k" : "q"]: Number(hits[match].dataset.i) });
    find();
  }
}

$("grid").onclick = (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (event.shiftKey || event.ctrlKey || event.metaKey) toggleOverlay(button.dataset.id);
  else choose(button.dataset.id);
};
$("record").onchange = (event) => {
  const record = Number(event.target.value);
  change({ record, other: mateOf(record), overlay: [], q: 0, k: 0, step: 0 });
};
$("other").onchange = (event) => {
  const other = Number(event.target.value);
  change({ other, compare: other < 0 ? "a" : state.compare === "a" ? "both" : state.compare, view: "map" });
};
$("sort").onchange = (event) => change({ sort: event.target.value, least: 0 });
$("least").oninput = (event) => change({ least: Number(event.target.value) });
$("step").oninput = (event) => change({ step: Number(event.target.value) });
$("search").oninput = (event) => {
  match = -1;
  state.find = event.target.value;
  find();
  remember();
};
matchMedia("(prefers-color-scheme: dark)").onchange = () => render();
let width = 0;
new ResizeObserver(() => {
  const now = $("view").clientWidth;
  if (document.documentElement.dataset.ready && now !== width) render();
  width = now;
}).observe($("view"));

buildModes();
renderSort();
read(new URLSearchParams(data.start));
usual = structuredClone(state);
function follow() {
  Object.assign(state, structuredClone(usual));
  read(new URLSearchParams(location.hash.slice(1)));
  return refresh();
}
addEventListener("hashchange", follow);
await follow();
width = $("view").clientWidth;
// For a console or a test: what is drawn, straight from the page's data.
globalThis.attention = { state, records, packed: data.packed, open, matrix, terms, statistics, change, plots: () => plots, said: () => said, axis };
document.documentElement.dataset.ready = "1";
