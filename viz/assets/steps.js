// Steps: decoding one token at a time; what each head of a layer reads while the token is written.
const TOP = 5;
const [LIST, BAR] = [330, 120]; // pixels

function stepsScene() {
  const scene = new Scene();
  const record = A();
  const t = state.step;
  const room = Math.max(300, $("view").clientWidth - 40);
  let y = chances(scene, record, t, 10, room);
  for (const kind of ["cross", "dec"]) if (record.list[kind].length) y = strip(scene, record, kind, t, y + 30, room);
  return scene;
}

// One column for each token written: how probable it was; and what else might have come.
function chances(scene, record, t, top, room) {
  const { tgt_out: writes } = record.tokens;
  const beside = (room - LIST) / writes.length >= 20;
  const p = Math.max(12, Math.min(44, (room - (beside ? LIST : 0)) / writes.length));
  const names = writes.map((text) => clip(show(record, text), 11, 90));
  const low = Math.max(...names.map((text) => extent(text, 11)));
  if (record.logprob.length) scene.text(0, top, "probability of each token", { size: 11, fill: ink.soft });
  const base = top + 58;
  writes.forEach((_, i) => {
    const high = record.logprob[i] == null ? 0 : Math.max(1, 46 * Math.exp(record.logprob[i]));
    const mark = { step: i };
    const tip = `step ${i + 1}: log-probability ${record.logprob[i] ?? "unknown"}`;
    scene.rect(i * p + 1, base - high, p - 2, high, i === t ? ink.accent : i < t ? ink.soft : ink.line, { tip, mark });
    scene.text((i + 0.5) * p, base + 8 + extent(names[i], 11), names[i], { size: 11, up: true, bold: i === t, fill: i > t ? ink.soft : ink.ink, mark });
  });
  if (record.logprob.length) scene.path(`M0 ${base}H${p * writes.length}`, ink.line, 1);
  const others = record.alternatives[t];
  if (!others) return base + 12 + low;
  const [x, y] = beside ? [p * writes.length + 36, top] : [0, base + 30 + low];
  scene.text(x, y, "most probable next tokens", { size: 11, fill: ink.soft });
  const list = others.map(([token, log]) => [show(record, token), Math.exp(log), token === writes[t]]);
  return Math.max(base + 12 + low, bars(scene, y + 18, list, x));
}

// Heads × keys of row t. The decoder sees only what it has read: its cache grows by one each step.
function strip(scene, record, kind, t, top, room) {
  const layer = Number(state.heads[kind].split(".")[1]);
  const heads = record.list[kind].filter((one) => one.layer === layer);
  const columns = axis(record, COLUMNS[kind], record.level);
  const keys = kept(columns);
  const names = keys.map((j) => clip(show(record, columns.labels[j]), 11, 100));
  const [left, high] = [62, 20];
  // The list of the keys most read stands beside the strip where both fit, else under it.
  const beside = (room - left - LIST) / keys.length >= 20;
  const p = Math.max(12, Math.min(44, (room - left - (beside ? LIST : 0)) / keys.length));
  const what = kind === "cross" ? "the source" : t ? `the ${t + 1} tokens read so far` : "the one token read so far";
  scene.text(0, top, `${NAMES[kind][0].toUpperCase()}${NAMES[kind].slice(1)}, layer ${layer}`, { size: 13, bold: true });
  scene.text(0, top + 18, `${state.weight === "norm" ? "‖α f(x)‖" : "weights"} on ${what}`, { size: 11, fill: ink.soft });
  const y0 = top + 38 + Math.max(...names.map((text) => extent(text, 11)));
  const colour = scale("weight", kind);
  const past = (j) => kind === "cross" || j <= t;
  keys.forEach((j, x) => scene.text(left + (x + 0.5) * p, y0 - 6, names[x], { size: 11, up: true, italic: columns.special[j], fill: past(j) ? ink.ink : ink.soft }));
  heads.forEach(({ id, head }, row) => {
    const { m, a } = drawn(record, id);
    const mine = id === state.heads[kind];
    const y = y0 + row * high;
    scene.text(0, y + high / 2, `head ${head}`, { size: 12, bold: mine });
    keys.forEach((j, x) => {
      const weight = a[t * m + j];
      const fill = !past(j) ? "none" : muted(columns, j) ? ink.mute : css(colour(weight));
      const tip = `head ${head}: key ${j} ${quote(record, columns.labels[j])} = ${number(weight)}`;
      scene.rect(left + x * p, y, p - 1, high - 1, fill, { tip, mark: { head: id }, ...(past(j) ? {} : { stroke: ink.line }) });
    });
    if (mine) scene.path(`M${left - 5} ${y}v${high - 1}`, ink.accent, 3);
  });
  const { m, a } = drawn(record, state.heads[kind]);
  const top5 = keys.filter(past).sort((x, y) => a[t * m + y] - a[t * m + x]).slice(0, TOP);
  const low = y0 + heads.length * high;
  const [x1, y1] = beside ? [left + keys.length * p + 36, y0 - 24] : [0, low + 18];
  scene.text(x1, y1, `head ${state.heads[kind].split(".")[2]} reads most from`, { size: 11, fill: ink.soft });
  return Math.max(low, bars(scene, y1 + 18, top5.map((j) => [show(record, columns.labels[j]), a[t * m + j], false]), x1, highest(kind)));
}

function bars(scene, top, list, x, most = 1) {
  const names = list.map(([text]) => clip(text, 12, 130));
  const left = x + Math.max(...names.map((text) => extent(text, 12)), 40) + 8;
  list.forEach(([, value, chosen], i) => {
    const y = top + i * 18;
    const share = value / most;
    scene.text(left - 6, y, names[i], { anchor: "end", bold: chosen });
    scene.rect(left, y - 5, Math.max(1, BAR * share), 10, chosen ? ink.accent : ink.soft);
    scene.text(left + 6 + BAR * share, y, number(value), { size: 11, fill: ink.soft });
  });
  return top + list.length * 18;
}

function renderSteps() {
  hover = null;
  plots = [];
  renderCell();
  const record = A();
  const svg = toSvg(stepsScene());
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `decoding step ${state.step + 1}`);
  svg.onclick = (event) => {
    const { step, head } = event.target.dataset;
    if (step !== undefined) change({ step: Number(step) });
    if (head) change({ kind: head.split(".")[0], heads: { ...state.heads, [head.split(".")[0]]: head } });
  };
  $("stage").replaceChildren(svg);
  const { tgt_in: reads, tgt_out: writes } = record.tokens;
  const [t, p] = [state.step, record.logprob[state.step]];
  $("step").max = writes.length - 1;
  $("step").value = t;
  $("step-text").textContent = `Step ${t + 1} / ${writes.length}`;
  const text = `step ${t + 1} of ${writes.length}: reads ${quote(record, reads[t])}, writes ${quote(record, writes[t])}`;
  if (p == null) return announce(text);
  const sum = record.logprob.slice(0, t + 1).reduce((all, x) => all + x, 0);
  const more = `log-probability ${number(p)}, probability ${Math.exp(p).toFixed(3)}, sum so far ${number(sum)}`;
  announce(`${text}; ${more}`, [el("div", {}, `reads ${quote(record, reads[t])}, writes `, el("b", { textContent: show(record, writes[t]) }), el("small", { textContent: more }))]);
}
