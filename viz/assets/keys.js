// Keys: what each does, where, and the list of them.
const HELP = {
  "arrows": "move in the heads, in the map, in a toolbar",
  "Enter, Esc": "from the heads to the view, and back",
  "[ ]": "head before, head after",
  "PageUp, PageDown": "layer before, layer after",
  "k": "next kind of attention",
  "v": "next view: map, lines, steps",
  "x": "lay this head over the others as lines, or take it away",
  "m": "the highest weight of the row",
  "Home, End": "first key, last key",
  ", .": "decoding step back, on",
  "w": "pieces or words",
  "r": "rows: usual label, token read, token written, both",
  "n": "weights α, or norms ‖α f(x)‖ of what they add",
  "s": "special tokens: show, grey, drop",
  "c": "comparison: A, B, both, B − A",
  "/": "find a token",
  ...TRAINING_HELP,
  "?": "this list",
};

const help = () => $("help").showModal();

function headBy(step) {
  const list = ranking().list.map((one) => one.id);
  if (list.length) choose(next(list, list.includes(current()) ? current() : list[0], list.includes(current()) ? step : 0));
}

function layerBy(step) {
  const [kind, layer, head] = current().split(".");
  const layers = shown().layers[kind];
  const wanted = layers[layers.indexOf(Number(layer)) + step];
  const there = shown().list[kind].filter((one) => one.layer === wanted);
  if (there.length) choose((there.find((one) => one.head === Number(head)) ?? there[0]).id);
}

// Keys that work everywhere but in fields.
const KEYS = {
  "[": () => headBy(-1),
  "]": () => headBy(1),
  PageUp: () => layerBy(-1),
  PageDown: () => layerBy(1),
  k: () => change({ kind: next(KINDS.filter((kind) => A().list[kind].length), state.kind) }),
  v: () => change({ view: next(CHOICES.view, state.view) }),
  x: () => toggleOverlay(current()),
  ",": () => change({ step: state.step - 1 }),
  ".": () => change({ step: state.step + 1 }),
  r: () => level() === "piece" && change({ labels: next(CHOICES.labels, state.labels) }),
  n: () => change({ weight: next(CHOICES.weight, state.weight) }),
  w: () => change({ level: next(CHOICES.level, state.level), q: 0, k: 0 }),
  s: () => change({ special: next(CHOICES.special, state.special) }),
  c: () => state.other >= 0 && change({ compare: next(CHOICES.compare.filter((one) => !why("compare", one)), state.compare) }),
  "/": () => $("search").focus(),
  "?": help,
  ...TRAINING_KEYS,
};

function stageKey(event) {
  if (event.key === "Escape") return focusHead();
  if (state.view === "map") return moveCell(event);
  const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
  if (!by) return false;
  if (state.view === "steps") return change({ step: state.step + by });
  return renderLines({ q: Math.max(0, Math.min(pair()[0].labels.length - 1, (hover?.q ?? (by > 0 ? -1 : 0)) + by)) }) ?? true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const field = event.target.closest("input, select");
  if (field) {
    if (event.key === "Enter" && field.id === "search") find(true);
    if (event.key === "Escape") $("stage").focus();
    return;
  }
  if (event.target.closest("#grid")) gridKey(event);
  if (!event.defaultPrevented && event.target.id === "stage" && stageKey(event)) event.preventDefault();
  if (!event.defaultPrevented && event.key in KEYS) {
    event.preventDefault();
    const inGrid = event.target.closest("#grid");
    Promise.resolve(KEYS[event.key]()).then(() => inGrid && focusHead());
  }
});

$("keys").replaceChildren(...Object.entries(HELP).flatMap(([key, text]) => [el("dt", { textContent: key }), el("dd", { textContent: text })]));
