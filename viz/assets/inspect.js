// Inspector: all that is known of the cell that is pointed at, beside the map.
const TERMS = 8; // dimensions drawn of a score

const scored = (record) => record.qk && level() === "piece";
const scoreOf = (record, id, q, k) => total(terms(record, id, q, k));
const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(3)}`;

// Numbers of a cell: weight, its rank in the row, the row's entropy, norm, score.
function cellOf(record, { q, k }) {
  const id = current();
  const { n, m, a } = matrix(record, id, level());
  if (q >= n || k >= m) return null;
  const row = a.subarray(q * m, q * m + m);
  const seen = state.kind === "dec" ? Math.min(q + 1, m) : m;
  const found = { alpha: row[k], rank: row.filter((x) => x > row[k]).length + 1, seen, entropy: entropy(row) };
  if (record.norms) {
    found.norm = matrix(record, id, level(), "norm").a[q * m + k];
    if (level() === "piece") found.length = lengthOf(record, record.byId.get(id), k);
  }
  if (scored(record) && k < seen) {
    found.terms = terms(record, id, q, k);
    found.score = total(found.terms);
    const scores = Array.from({ length: seen }, (_, j) => scoreOf(record, id, q, j));
    const high = Math.max(...scores);
    found.sum = high + Math.log(total(scores.map((x) => Math.exp(x - high))));
  }
  return found;
}

// Lines of the inspector, [name, text of a record's cell]; lines without text are left out.
function inspected({ q, k }) {
  const pieces = state.kind !== "enc" && level() === "piece";
  const [rows, columns] = [0, 1].map((side) => (record) => axes(record, state.kind, level())[side].labels);
  return [
    ...(pieces ? [["query: token read", (record) => `${q} ${quote(record, record.tokens.tgt_in[q])}`], ["while writing", (record) => quote(record, record.tokens.tgt_out[q])]]
      : [["query", (record) => `${q} ${quote(record, rows(record)[q])}`]]),
    ["key", (record) => `${k} ${quote(record, columns(record)[k])}`],
    ["weight α", (_, found) => number(found.alpha)],
    ["rank in the row", (_, found) => `${found.rank} of ${found.seen}`],
    ["entropy of the row, nats", (_, found) => `${found.entropy.toFixed(2)} of ${Math.log(found.seen).toFixed(2)}`],
    ["norm ‖α f(x)‖", (_, found) => found.norm !== undefined && number(found.norm)],
    ["norm ‖f(x)‖ of the key", (_, found) => found.length !== undefined && number(found.length)],
    ["score q·k/√d", (_, found) => found.score !== undefined && signed(found.score)],
    ["ln Σ exp(score) of the row", (_, found) => found.score !== undefined && signed(found.sum)],
  ];
}

function renderCell() {
  const at = cell();
  const cells = plots.length ? (state.compare === "diff" && comparing() ? [A(), B()] : plots.map((one) => one.record)).map((record) => [record, cellOf(record, at)]).filter(([, found]) => found) : [];
  $("cell").hidden = state.view !== "map" || !cells.length;
  if ($("cell").hidden) return $("cell").replaceChildren();
  const lines = inspected(at).map(([name, text]) => [name, cells.map(([record, found]) => text(record, found))]).filter(([, texts]) => texts.some(Boolean));
  const head = cells.length > 1 ? [el("thead", {}, el("tr", {}, el("td"), ...cells.map(([record]) => el("th", { scope: "col", textContent: record === A() ? "A" : "B" }))))] : [];
  const table = el("table", {}, el("caption", { textContent: "Cell" }), ...head,
    el("tbody", {}, ...lines.map(([name, texts]) => el("tr", {}, el("th", { scope: "row", textContent: name }), ...texts.map((text) => el("td", {}, label(text || "–")))))));
  $("cell").className = cells.length > 1 ? "two" : "";
  return $("cell").replaceChildren(table, ...cells.filter(([, found]) => found.terms).map(([record, found]) => scoreFigure(record, found, cells.length > 1)));
}

// Which dimensions make the score: the largest terms q_d k_d / sqrt(d), and the sum of all others.
function scoreFigure(record, found, named) {
  const order = [...found.terms.keys()].sort((x, y) => Math.abs(found.terms[y]) - Math.abs(found.terms[x]));
  const rows = order.slice(0, TERMS).map((d) => [`d${d}`, found.terms[d]]);
  const rest = order.slice(TERMS);
  if (rest.length) rows.push([`${rest.length} others`, total(rest.map((d) => found.terms[d]))]);
  const most = Math.max(...rows.map(([, x]) => Math.abs(x)), 1e-9);
  const scene = new Scene();
  rows.forEach(([name, x], i) => {
    const y = 10 + i * 18;
    const wide = (60 * Math.abs(x)) / most;
    scene.text(56, y, name, { size: 11, anchor: "end", fill: ink.soft });
    scene.rect(x < 0 ? 126 - wide : 126, y - 5, Math.max(wide, 1), 10, x < 0 ? ink.soft : ink.accent);
    scene.text(246, y, signed(x), { size: 11, anchor: "end" });
  });
  scene.path(`M126 2V${rows.length * 18 + 2}`, ink.line, 1);
  scene.height += 4;
  const svg = toSvg(scene);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", rows.map(([name, x]) => `${name} ${signed(x)}`).join(", "));
  const text = `${named ? `${record === A() ? "A" : "B"}: ` : ""}the score's largest terms of ${found.terms.length}; α = exp(${signed(found.score)} − ${found.sum < 0 ? `(${signed(found.sum)})` : found.sum.toFixed(3)}) = ${number(Math.exp(found.score - found.sum))}`;
  return el("figure", {}, svg, el("figcaption", { textContent: text }));
}
