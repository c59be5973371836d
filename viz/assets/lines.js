// Lines: queries on the left, keys on the right; heads laid over each other in colour and dash.
const FAINTEST = 0.05; // of the highest possible: weights below are not drawn; how much that hides is said

function linesScene() {
  const scene = new Scene();
  const record = shown();
  const [rows, columns] = pair();
  const heads = overlaid();
  const keys = kept(columns);
  const picked = hover;
  const most = highest();
  const faintest = FAINTEST * most;
  let y = 8;
  heads.forEach((id, n) => {
    const { m, a } = drawn(record, id);
    let dropped = 0;
    rows.labels.forEach((_, i) => keys.forEach((j) => (dropped += a[i * m + j] < faintest ? a[i * m + j] : 0)));
    scene.path(`M0 ${y}H34`, hue(n), 3, { dash: DASHES[n] });
    scene.text(42, y, `${place(id)} · ${(dropped / rows.labels.length).toFixed(2)} not drawn`, { size: 12 });
    y += 20;
  });
  const size = Math.max(rows.labels.length, keys.length) > 45 ? 11 : 14;
  const widest = Math.max(70, Math.min(150, $("view").clientWidth * 0.28)); // pixels of a label
  const [left, right] = [joined(rowNames(record)), columnNames(record)].map((list) => list.map((text) => clip(text, size, widest)));
  const [wide, other] = [left, right].map((list) => Math.max(...list.map((text) => extent(text, size)), 40));
  const room = Math.max(100, Math.min(520, $("view").clientWidth - wide - other - 50));
  const [x0, x1] = [wide + 10, wide + 10 + room];
  const longer = Math.max(rows.labels.length, keys.length);
  const high = longer * Math.max(size + 6, Math.min(38, 440 / longer));
  y += 22;
  scene.text(x0 - 10, y - 16, "query", { size: 11, anchor: "end", fill: ink.soft });
  scene.text(x1 + 10, y - 16, "key", { size: 11, fill: ink.soft });
  const rowY = (i) => y + ((i + 0.5) * high) / rows.labels.length;
  const keyY = new Map(keys.map((j, n) => [j, y + ((n + 0.5) * high) / keys.length]));
  const seen = (i, j) => !picked || (picked.k === undefined ? picked.q === i : picked.k === j);
  heads.forEach((id, n) => {
    const { m, a } = drawn(record, id);
    const shift = (n - (heads.length - 1) / 2) * 1.6;
    for (let i = 0; i < rows.labels.length; i++)
      for (const j of keys) {
        const x = a[i * m + j];
        const p = x / most;
        if (x < faintest || muted(columns, j)) continue;
        const [from, to] = [rowY(i) + shift, keyY.get(j) + shift];
        const middle = (x0 + x1) / 2;
        scene.path(`M${x0} ${from.toFixed(1)}C${middle} ${from.toFixed(1)} ${middle} ${to.toFixed(1)} ${x1} ${to.toFixed(1)}`, hue(n), (0.7 + 5.3 * p).toFixed(2), {
          dash: DASHES[n], opacity: seen(i, j) ? (0.25 + 0.7 * p).toFixed(2) : 0.06,
          tip: `${place(id)}: ${show(record, rows.labels[i])} → ${show(record, columns.labels[j])} = ${number(x)}`,
        });
      }
  });
  left.forEach((text, i) => scene.text(x0 - 10, rowY(i), text, { size, anchor: "end", italic: rows.special[i], bold: picked?.q === i, mark: { q: i } }));
  keys.forEach((j) => scene.text(x1 + 10, keyY.get(j), right[j], { size, italic: columns.special[j], bold: picked?.k === j, fill: muted(columns, j) ? ink.soft : ink.ink, mark: { k: j } }));
  // The numbers of the token that is pointed at.
  if (picked)
    heads.forEach((id, n) => {
      const { m, a } = drawn(record, id);
      const list = picked.k === undefined ? keys.map((j) => [a[picked.q * m + j], x1 + 18 + extent(right[j], size) + n * 44, keyY.get(j)])
        : left.map((_, i) => [a[i * m + picked.k], x0 + 12 + n * 44, rowY(i)]);
      for (const [p, x, at] of list) if (p >= faintest) scene.text(x, at, p.toFixed(2), { size: 11, fill: hue(n), bold: true });
    });
  scene.width += overlaid().length * 44;
  scene.height += 10;
  return scene;
}

function renderLines(picked = null) {
  hover = picked;
  plots = [];
  renderCell();
  const svg = toSvg(linesScene());
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${overlaid().map(place).join(", ")} as lines from queries to keys`);
  svg.onpointerover = (event) => {
    const { q, k } = event.target.dataset;
    if (q !== undefined && hover?.q !== Number(q)) renderLines({ q: Number(q) });
    else if (k !== undefined && hover?.k !== Number(k)) renderLines({ k: Number(k) });
  };
  svg.onpointerleave = () => hover && renderLines();
  $("stage").replaceChildren(svg);
  sayLines();
}

function sayLines() {
  const record = shown();
  const [rows, columns] = pair();
  if (hover?.q === undefined) return announce("Point at a token, or use the arrow keys, to see its weights.");
  const parts = overlaid().map((id) => {
    const { m, a } = drawn(record, id);
    const top = kept(columns).sort((x, y) => a[hover.q * m + y] - a[hover.q * m + x]).slice(0, 3);
    return `${place(id)} → ${top.map((j) => `${quote(record, columns.labels[j])} ${number(a[hover.q * m + j])}`).join(", ")}`;
  });
  announce(`query ${hover.q} ${quote(record, rows.labels[hover.q])}: ${parts.join("; ")}`);
}
