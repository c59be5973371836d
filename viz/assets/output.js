// Output: the view as a picture, its numbers as CSV and as a table.
const slug = () => `attention_${state.view}_${state.view === "lines" ? overlaid().join("_") : current()}_${level()}`;

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Which models the numbers are of, and what is particular about them.
const sources = () =>
  (comparing() ? [["A: ", A()], ["B: ", B()]] : [["", A()]]).flatMap(([which, one]) => [one.provenance, ...one.notes].map((fact) => which + fact));

// The view with its title, hidden mass and provenance.
function picture() {
  const body = { map: mapScene, lines: linesScene, steps: stepsScene }[state.view]();
  const scene = new Scene();
  const write = (text, more) => text && scene.text(20, scene.height + 16, text, more);
  const title = $("heading").textContent;
  write(title[0].toUpperCase() + title.slice(1), { size: 15, bold: true });
  write(`${A().text.source} → ${A().text.target}`, { size: 11, fill: ink.soft });
  for (const fact of $("facts").children) write(fact.textContent, { size: 11, bold: fact.tagName === "B" });
  if (comparing()) write(`${state.compare === "diff" ? "B − A" : "A, B"} · A: ${caption(A())} · B: ${caption(B())}`, { size: 11, fill: ink.soft });
  write($("note").textContent, { size: 11, fill: ink.soft });
  if (state.view === "steps") write(said, { size: 11 });
  const down = scene.height + 14;
  scene.width = Math.max(scene.width, body.width + 20) + 20;
  scene.height = down + body.height + 6;
  for (const line of sources()) write(line, { size: 10, fill: ink.soft });
  scene.height += 14;
  const root = toSvg(scene, ink.paper);
  const group = svgNode("g", { transform: `translate(20 ${down})` });
  group.append(...toSvg(body).childNodes);
  root.append(group);
  return new XMLSerializer().serializeToString(root);
}

const saveSvg = () => save(new Blob([picture()], { type: "image/svg+xml" }), `${slug()}.svg`);
async function savePng() {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture())}`;
  await image.decode();
  const canvas = el("canvas", { width: image.width * 2, height: image.height * 2 });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(blob, `${slug()}.png`), "image/png");
}

// Numbers of a cell in CSV, each for all cells of a head; nothing where a record has none.
const VALUES = {
  weight: (record, id) => matrix(record, id, level()).a,
  norm: (record, id) => record.norms && matrix(record, id, level(), "norm").a,
  score: (record, id) => {
    if (!scored(record)) return false;
    const { m, a } = matrix(record, id, level());
    return a.map((_, at) => (id.startsWith("dec") && at % m > Math.floor(at / m) ? NaN : scoreOf(record, id, Math.floor(at / m), at % m)));
  },
};

// What the view shows, one cell a line; in steps, the row of the step for all heads of both layers.
function csv() {
  const plain = (x) => (Number.isFinite(x) ? x.toFixed(5) : "");
  const quoted = (x) => `"${String(x).replaceAll('"', '""')}"`;
  const there = { weight: true, norm: [A(), B()].some((one) => one?.norms), score: [A(), B()].some((one) => one && scored(one)) };
  const names = Object.keys(VALUES).filter((name) => there[name]);
  const lines = [...sources().map((line) => `# ${line}`), ["record,kind,layer,head,query,key,query_token,key_token", ...names].join(",")];
  const add = (name, id, some, first, second) => {
    const [kind, layer, head] = id.split(".");
    const [rows, columns] = axes(first, kind, level());
    const m = columns.labels.length;
    const lists = names.map((what) => [first, second].filter(Boolean).map((record) => VALUES[what](record, id)));
    const value = ([a, b], at) => (second ? b?.[at] - a?.[at] : a?.[at]);
    rows.labels.forEach((query, i) => {
      if (some === undefined || i === some)
        columns.labels.forEach((key, j) => lines.push([name, kind, layer, head, i, j, quoted(query), quoted(key), ...lists.map((list) => plain(value(list, i * m + j)))].join(",")));
    });
  };
  const named = (record) => (record === A() ? "A" : "B");
  if (state.view === "map") for (const { record } of plots) record ? add(named(record), current(), undefined, record) : add("B-A", current(), undefined, A(), B());
  else if (state.view === "lines") for (const id of overlaid()) add(named(shown()), id, undefined, shown());
  else for (const kind of ["cross", "dec"]) for (const { id, layer } of A().list[kind]) if (layer === Number(state.heads[kind].split(".")[1])) add("A", id, state.step, A());
  return `${lines.join("\n")}\n`;
}
const saveCsv = () => save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), `${slug()}.csv`);

function renderTable() {
  const box = $("table");
  const tabled = state.table === "yes";
  box.hidden = !tabled;
  const diff = comparing() && state.compare === "diff";
  const record = diff ? null : shown();
  const map = tabled && mapOf(record);
  if (!map) return box.replaceChildren();
  const [rows, tops] = [joined(rowNames(record)), columnNames(record)];
  const head = (text, scope) => el("th", { scope }, label(text));
  return box.replaceChildren(el("table", {},
    el("caption", { textContent: `${diff ? "B − A, " : ""}${titleOf(current())}: rows are queries, columns are keys` }),
    el("thead", {}, el("tr", {}, el("td"), ...tops.map((text) => head(text, "col")))),
    el("tbody", {}, ...rows.map((text, i) => el("tr", {}, head(text, "row"), ...tops.map((_, j) => el("td", { textContent: number(map.a[i * map.m + j]) })))))));
}
