// Map: one head large, or two beside each other, or their difference; a cell can be pointed at.
let hover = null; // {q, k} under the pointer
let plots = []; // what is drawn: {which, map, canvas, box, pitch, keys}
const cell = () => hover ?? { q: state.q, k: state.k };

// The maps on display: [name, record or null for the difference, kind of scale].
function panels() {
  if (!comparing()) return [["", A(), "weight"]];
  return { b: [["B", B(), "weight"]], both: [["A", A(), "weight"], ["B", B(), "weight"]], diff: [["B − A", null, "diff"]] }[state.compare];
}

const mapOf = (record) => (record ? drawn(record, current()) : drawnDifference(current()));

// Labels of an axis; of a difference, both tokens where they differ.
function labelsOf(record, side) {
  const own = axis(record ?? A(), side, level());
  const text = (one, j, of) => show(of, one.labels[j]);
  if (record) return own.labels.map((_, j) => text(own, j, record));
  const other = axis(B(), side, level());
  return own.labels.map((_, j) => (own.labels[j] === other.labels[j] ? text(own, j, A()) : `${text(own, j, A())} | ${text(other, j, B())}`));
}

// Which tokens label the rows: the one read, the one being written, or both.
function rowSides() {
  const usual = ROWS[state.kind];
  if (state.kind === "enc" || level() === "word" || state.labels === "auto") return [usual];
  return { in: ["tgt_in"], out: ["tgt_out"], both: ["tgt_in", "tgt_out"] }[state.labels];
}
function rowNames(record) {
  const lists = rowSides().map((side) => labelsOf(record, side));
  return lists[0].map((_, i) => lists.map((list) => list[i]));
}
const columnNames = (record) => labelsOf(record, COLUMNS[state.kind]);
const joined = (names) => names.map((parts) => parts.join(" → "));

function pitchOf(rows, columns, share) {
  const room = ($("view").clientWidth - 24) / share - 132;
  const high = Math.max(window.innerHeight - 410, 380);
  return Math.max(11, Math.min(68, Math.floor(room / columns), Math.max(Math.floor(high / rows), 15)));
}

function renderMap() {
  const wanted = panels();
  const beside = wanted.length > 1 && $("view").clientWidth > 700 ? 2 : 1;
  plots = [];
  const figures = wanted.map(([name, record, which]) => {
    const map = mapOf(record);
    const figure = el("figure", {}, el("figcaption", {}, label(name && record ? `${name}: ${caption(record)}` : name)));
    if (!map) {
      figure.append(el("p", { textContent: `This record has no head ${current()}.` }));
      return figure;
    }
    const columns = axes(record ?? A(), state.kind, level())[1];
    const rows = axis(record ?? A(), rowSides()[0], level());
    const keys = kept(columns);
    const pitch = pitchOf(map.n, keys.length, beside);
    const names = (list, special, picked) => picked.map((i) => {
      const span = el("span", { className: special[i] ? "special" : "", title: list[i].join(" → ") }, ...list[i].flatMap((text, n) => (n ? [" → ", token(text)] : [token(text)])));
      span.dataset.i = i;
      return span;
    });
    const canvas = el("canvas", {});
    const ring = el("div", { className: "ring" });
    const box = el("div", { className: "cells" }, canvas, ring);
    const plot = el("div", { className: "plot" }, el("div", { className: "corner", textContent: "query ↓  key →" }),
      el("div", { className: "keys" }, ...names(columnNames(record).map((text) => [text]), columns.special, keys)),
      el("div", { className: "queries" }, ...names(rowNames(record), rows.special, [...rows.labels.keys()])), box);
    plot.style.setProperty("--pitch", `${pitch}px`);
    plot.style.setProperty("--font", `${Math.max(9.5, Math.min(15, pitch * 0.82))}px`);
    figure.append(plot);
    const one = { which, record, map, canvas, box, ring, plot, pitch, keys, columns };
    paintCells(one);
    box.onpointermove = box.onpointerdown = (event) => {
      const at = box.getBoundingClientRect();
      const k = keys[Math.floor((event.clientX - at.left) / pitch)];
      const q = Math.floor((event.clientY - at.top) / pitch);
      if (k === undefined || q < 0 || q >= map.n) return;
      if (event.type === "pointerdown") change({ q, k });
      else point({ q, k });
    };
    box.onpointerleave = () => point(null);
    plots.push(one);
    return figure;
  });
  $("stage").replaceChildren(...figures);
  point(null);
}

// A label in which the mark of a word's beginning stands back.
const token = (text) => (text.length > 1 && text[0] === "▁" ? el("bdi", {}, el("i", { className: "mark", textContent: "▁" }), text.slice(1)) : label(text));
// What tells A from B: the model, or the sentence.
const caption = (record) => (A().name !== B()?.name && record.name) || record.text.source;

function paintCells({ which, map, canvas, pitch, keys, columns }) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [keys.length * pitch, map.n * pitch];
  Object.assign(canvas, { width: w * ratio, height: h * ratio });
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
  const c = canvas.getContext("2d");
  const colour = scale(which);
  const gap = pitch >= 14 ? 1 : 0;
  const written = pitch >= 30;
  c.scale(ratio, ratio);
  c.font = `${Math.min(17, pitch * 0.34)}px ${FONT}`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  for (let i = 0; i < map.n; i++)
    keys.forEach((j, x) => {
      const weight = map.a[i * map.m + j];
      const rgb = colour(weight);
      c.fillStyle = muted(columns, j) ? ink.mute : css(rgb);
      c.fillRect(x * pitch, i * pitch, pitch - gap, pitch - gap);
      if (!written || muted(columns, j)) return;
      c.fillStyle = isLight(rgb) ? "#000" : "#fff";
      c.fillText(digits(weight), (x + 0.5) * pitch, (i + 0.52) * pitch);
    });
}

// Points at a cell: rings it, marks its labels, says what it is.
function point(at) {
  hover = at;
  const { q, k } = cell();
  for (const { plot, ring, pitch, keys } of plots) {
    const x = keys.indexOf(k);
    ring.hidden = x < 0;
    Object.assign(ring.style, { left: `${x * pitch}px`, top: `${q * pitch}px` });
    for (const span of plot.querySelectorAll(".on")) span.classList.remove("on");
    for (const [axis, i] of [["queries", q], ["keys", k]]) plot.querySelector(`.${axis} [data-i="${i}"]`)?.classList.add("on");
  }
  say();
  renderCell();
}

const quote = (record, token) => `“${show(record, token)}”`;
function sentence(record, { q, k }) {
  const [rows, columns] = axes(record, state.kind, level());
  const t = record.tokens;
  const pieces = state.kind !== "enc" && level() === "piece";
  const query = pieces ? `${quote(record, t.tgt_in[q])} writing ${quote(record, t.tgt_out[q])}` : quote(record, rows.labels[q]);
  return `query ${q} ${query} → key ${k} ${quote(record, columns.labels[k])}`;
}

function say() {
  const at = cell();
  const lines = plots.filter(({ map }) => at.q < map.n && at.k < map.m).map(({ record, map }) => {
    const value = number(map.a[at.q * map.m + at.k]);
    const text = sentence(record ?? A(), at);
    if (!record) {
      const [a, b] = [A(), B()].map((one) => number(matrix(one, current(), level()).a[at.q * map.m + at.k]));
      return ["B − A", text, value, `A ${a}, B ${b}`];
    }
    const found = cellOf(record, at);
    const more = [`rank ${found.rank} of ${found.seen}`, `row entropy ${found.entropy.toFixed(2)} nats`];
    if (state.weight === "norm") more.unshift(`weight ${number(found.alpha)}`);
    const seen = more.join(" · ");
    if (state.weight !== "norm" && found.norm !== undefined) more.push(`norm ${number(found.norm)}`);
    if (found.score !== undefined) more.push(`score ${signed(found.score)}`);
    return [comparing() ? (record === A() ? "A" : "B") : "", text, value, seen, more.join(" · ")];
  });
  const head = `${state.kind === "cross" ? "cross" : NAMES[state.kind]}, ${place(current())}${state.weight === "norm" ? ", ‖α f(x)‖" : ""}: `;
  announce(lines.length ? head + lines.map(([name, text, value, seen, more = seen]) => `${name && `${name}, `}${text} = ${value}; ${more}`).join(". ") : "",
    lines.map(([name, text, value, seen]) => el("div", {}, name ? `${name} ` : "", el("b", { textContent: value }), `${text} `, el("small", { textContent: seen }))));
}

let [timer, said] = [0, ""];
// For the eye at once, for screen readers when the pointer has come to rest.
function announce(text, visible = [text]) {
  $("readout").replaceChildren(...visible);
  said = when(text);
  clearTimeout(timer);
  timer = setTimeout(() => ($("status").textContent = said), 150);
}

function moveCell(event) {
  const map = plots[0]?.map;
  if (!map) return false;
  const keys = plots[0].keys;
  const x = Math.max(0, keys.indexOf(state.k));
  const row = map.a.subarray(state.q * map.m, (state.q + 1) * map.m);
  const moves = {
    ArrowUp: { q: state.q - 1 }, ArrowDown: { q: state.q + 1 },
    ArrowLeft: { k: keys[x - 1] ?? state.k }, ArrowRight: { k: keys[x + 1] ?? state.k },
    Home: { k: keys[0] }, End: { k: keys[keys.length - 1] },
    m: { k: keys.reduce((best, j) => (Math.abs(row[j]) > Math.abs(row[best]) ? j : best), keys[0]) },
  };
  if (!(event.key in moves)) return false;
  goTo(moves[event.key]);
  return true;
}

// Moves the cell without drawing the map again, and keeps it in sight.
function goTo(values) {
  Object.assign(state, values);
  settle();
  point(null);
  remember();
  const on = plots[0]?.ring;
  on?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function mapScene() {
  const scene = new Scene();
  const size = 11;
  let left = 0;
  for (const { record, map, which, keys, columns } of plots) {
    const p = Math.max(13, Math.min(34, Math.floor(620 / Math.max(map.n, keys.length))));
    const [rows, tops] = [joined(rowNames(record)), columnNames(record)].map((list) => list.map((text) => clip(text, size, 150)));
    const x0 = left + Math.max(...rows.map((text) => extent(text, size))) + 8;
    const y0 = 20 + Math.max(...tops.map((text) => extent(text, size)));
    if (plots.length > 1) scene.text(x0, 6, record === A() ? "A" : "B", { bold: true });
    keys.forEach((j, x) => scene.text(x0 + (x + 0.5) * p, y0 - 6, tops[j], { size, up: true, italic: columns.special[j] }));
    const colour = scale(which);
    rows.forEach((text, i) => {
      scene.text(x0 - 6, y0 + (i + 0.5) * p, text, { size, anchor: "end" });
      keys.forEach((j, x) => {
        const weight = map.a[i * map.m + j];
        const rgb = colour(weight);
        scene.rect(x0 + x * p, y0 + i * p, p - 0.5, p - 0.5, muted(columns, j) ? ink.mute : css(rgb));
        if (p < 28 || muted(columns, j) || !digits(weight)) return;
        scene.text(x0 + (x + 0.5) * p, y0 + (i + 0.5) * p, digits(weight), { size: 10, anchor: "middle", fill: isLight(rgb) ? "#000" : "#fff" });
      });
    });
    left = x0 + keys.length * p + 30;
  }
  return scene;
}
