// State: all that a link to this view must say, and how it is read from and written to the address.
const CHOICES = {
  view: ["map", "lines", "steps"],
  level: ["piece", "word"],
  labels: ["auto", "in", "out", "both"],
  weight: ["alpha", "norm"],
  special: ["show", "mute", "drop"],
  scale: ["auto", "linear", "sqrt"],
  compare: ["a", "b", "both", "diff"],
  theme: ["auto", "light", "dark"],
  table: ["no", "yes"],
};
const NUMBERS = ["record", "other", "q", "k", "step", "least"];
const BUILT_IN = {
  entropy: "entropy (nats)",
  peak: "highest weight on words",
  share: "share at main offset",
  special: "mass on special tokens",
  distance: "mean distance",
  ...(records.some((record) => record.norms) && { added: "norm: mean Σ ‖α f(x)‖", addedSpecial: "share of the norm from special tokens" }),
};
const MOST = 8; // heads laid over each other

const firstKind = ["cross", "enc", "dec"].find((kind) => records[0].list[kind].length) || "enc";
const state = {
  record: 0, other: data.paired ? 1 : -1, compare: data.paired ? "both" : "a",
  kind: firstKind, heads: {}, overlay: [], view: "map", level: records[0].level, special: "show",
  labels: "auto", weight: "alpha", scale: "auto", theme: "auto", table: "no", sort: "", least: 0, find: "", q: 0, k: 0, step: 0,
};
let usual = {}; // what the page opens on without a link
const A = () => records[state.record];
const B = () => records[state.other];
const comparing = () => state.other >= 0 && state.compare !== "a";
// The record that is shown where only one can be: lines, steps, table.
const shown = () => (state.compare === "b" && state.other >= 0 ? B() : A());
const current = () => state.heads[state.kind];
const level = () => (state.view === "steps" || A().level === "word" ? A().level : state.level);
const pair = () => axes(shown(), state.kind, level());
// What is drawn of a head: its weights, or the norms of what they add.
const drawn = (record, id) => matrix(record, id, level(), state.weight);
const drawnDifference = (id) => difference(A(), B(), id, level(), state.weight);
// The heads laid over each other: those that were pinned, and the current one.
const overlaid = () => {
  const pinned = state.overlay.filter((id) => id.startsWith(`${state.kind}.`) && shown().byId.has(id));
  return [...new Set([...pinned, current()])].slice(0, MOST);
};

// Puts right what does not go together, such as a head that the record lacks.
function settle() {
  takeTable();
  const kinds = KINDS.filter((kind) => A().list[kind].length);
  if (!kinds.includes(state.kind)) state.kind = kinds.includes(firstKind) ? firstKind : kinds[0];
  for (const kind of kinds) {
    if (!A().byId.has(state.heads[kind])) {
      const list = A().list[kind];
      state.heads[kind] = (list.find((one) => one.layer === list[list.length - 1].layer) || list[0]).id;
    }
  }
  if ((state.other === state.record && !BY_UPDATE) || !records[state.other]) state.other = -1;
  if ([A(), B()].some((record) => record && !record.norms)) state.weight = "alpha";
  if (state.other < 0) state.compare = "a";
  else if (state.compare === "diff" && clash()) state.compare = "both";
  if (state.view === "steps") {
    if (!kinds.some((kind) => kind !== "enc")) state.view = "map";
    else if (state.kind === "enc") state.kind = kinds.includes("cross") ? "cross" : "dec";
  }
  // Lines and steps show one record, and one that has the head: models may lack different ones.
  if (comparing() && state.view !== "map" && !(state.compare === "b" && B().byId.has(current()))) state.compare = "a";
  const [rows, columns] = pair();
  state.q = Math.max(0, Math.min(state.q, rows.labels.length - 1));
  state.k = Math.max(0, Math.min(state.k, columns.labels.length - 1));
  state.step = Math.max(0, Math.min(state.step, A().tokens.tgt_out.length - 1));
}

// Why B - A cannot be drawn, or "".
function clash() {
  if (state.other < 0) return "choose a second sentence";
  const [a, b] = [axes(A(), state.kind, level()), axes(B(), state.kind, level())];
  if (a.some((one, i) => one.labels.length !== b[i].labels.length)) return "the two sentences differ in length";
  return B().byId.has(current()) ? "" : `B has no head ${current()}`;
}

function link() {
  const parts = new URLSearchParams();
  const differs = (name) => String(state[name]) !== String(usual[name]);
  for (const name of ["record", "other"]) if (differs(name)) parts.set(name, state[name]);
  parts.set("head", current());
  const rest = [...Object.keys(CHOICES), "overlay", "sort", "least", "find", "q", "k", "step"];
  for (const name of rest) if (differs(name)) parts.set(name, state[name]);
  return `#${parts}`;
}

function read(parts) {
  for (const name of NUMBERS) if (/^-?\d+$/.test(parts.get(name) ?? "")) state[name] = Number(parts.get(name));
  if (!records[state.record]) state.record = 0;
  for (const [name, choices] of Object.entries(CHOICES)) if (choices.includes(parts.get(name))) state[name] = parts.get(name);
  for (const name of ["sort", "find"]) if (parts.has(name)) state[name] = parts.get(name);
  const known = (id) => A().byId.has(id);
  if (parts.has("overlay")) state.overlay = parts.get("overlay").split(",").filter(known).slice(0, MOST);
  const kind = parts.get("kind");
  if (KINDS.includes(kind)) state.kind = kind;
  const head = parts.get("head");
  if (known(head)) [state.kind, state.heads[head.split(".")[0]]] = [head.split(".")[0], head];
}

// Every change of what is seen goes through here.
async function change(values) {
  Object.assign(state, values);
  await refresh();
}

async function refresh() {
  settle();
  await open(A());
  if (state.other >= 0) await open(B());
  render();
  remember();
}

function remember() {
  try {
    history.replaceState(null, "", link());
  } catch {
    // A frame without an origin of its own (a notebook) has no address to write to.
  }
}
