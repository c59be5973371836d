// Training: one sentence after ever more updates; a slider leads through them.
const PACE = 800; // milliseconds between updates while playing
const training = data.training ?? { series: [], tables: {} };
const BY_UPDATE = training.series.length > 0;
for (const series of training.series)
  series.records.forEach((record, frame) => Object.assign(records[record], { series, frame, update: series.updates[frame] }));

const TRAINING_HELP = BY_UPDATE ? { "< >": "update before, update after", "p": "play through the updates, or stop" } : {};
const TRAINING_KEYS = BY_UPDATE ? { "<": () => updateBy(-1), ">": () => updateBy(1), p: () => (playing ? stop() : play()) } : {};

// The numbers of heads over many sentences, as they were after this update.
function takeTable() {
  Object.assign(data, training.tables[A().update] ?? {});
}
const allRoles = () => [data, ...Object.values(training.tables)].flatMap((table) => Object.values(table.roles));
const after = (update) => (update ? `after ${update} update${update === 1 ? "" : "s"}` : "before training");
const when = (text) => (BY_UPDATE ? `${after(A().update)}: ${text}` : text);

// What the two lists of sentences offer: [number of a record, text].
function offered(forComparison) {
  if (!BY_UPDATE) return records.map((record, i) => [i, `${i + 1}. ${[record.text.source, record.name].filter(Boolean).join(" · ")}`]);
  const { series, frame } = A();
  if (forComparison) return series.records.map((record, i) => [record, after(series.updates[i])]);
  return training.series.map((one, i) => [one === series ? state.record : frameOf(one, frame), `${i + 1}. ${records[one.records[0]].text.source}`]);
}
const frameOf = (series, frame) => series.records[Math.max(0, Math.min(series.records.length - 1, frame))];

// What stays beside a record that is chosen from the list.
function mateOf(record) {
  if (data.paired) return record ^ 1;
  if (BY_UPDATE && state.other >= 0) return frameOf(records[record].series, B().frame);
  return state.other === record ? -1 : state.other;
}

const updateBy = (step) => change({ record: frameOf(A().series, A().frame + step) });

let playing = 0;
const still = matchMedia("(prefers-reduced-motion: reduce)");
function play() {
  if (still.matches) return announce("Your system asks for little motion: use the slider, or < and >.");
  const { series, frame } = A();
  const begin = frame === series.records.length - 1 ? change({ record: series.records[0] }) : Promise.resolve();
  playing = setInterval(() => (A().frame < A().series.records.length - 1 ? updateBy(1) : stop()), PACE);
  return begin.then(renderTraining);
}
function stop() {
  clearInterval(playing);
  playing = 0;
  renderTraining();
}

function renderTraining() {
  $("training").hidden = !BY_UPDATE;
  if (!BY_UPDATE) return;
  const { series, frame, update } = A();
  const [button, slider] = [$("play"), $("update")];
  button.textContent = playing ? "Stop" : "Play";
  button.setAttribute("aria-disabled", still.matches);
  button.title = still.matches ? "Your system asks for little motion" : "Through all updates, one after the other";
  slider.max = series.records.length - 1;
  slider.value = frame;
  slider.setAttribute("aria-valuetext", after(update));
  $("update-text").replaceChildren(el("b", { textContent: after(update) }), ` ${frame + 1} of ${series.records.length}`);
  curve();
}

// The statistic by which heads are sorted (entropy, if by none), of this sentence and all heads of the
// layer, over the updates; each point stands above its place on the slider.
async function curve() {
  const { series, update } = A();
  const [id, level_] = [current(), level()];
  for (const record of series.records) await open(records[record]);
  if (A().series !== series || current() !== id || A().update !== update) return; // no longer asked for
  const { name } = order();
  const shownName = name in BUILT_IN ? name : "entropy";
  const ids = A().list[state.kind].filter((one) => one.layer === Number(id.split(".")[1])).map((one) => one.id);
  const lines = ids.map((one) => [one, series.records.map((record) => statistics(records[record], one, level_)[shownName])]).filter(([, values]) => values.every((x) => x !== null));
  const [wide, high, edge] = [$("update").clientWidth, 54, 8];
  const top = Math.max(1e-9, ...lines.flatMap(([, values]) => values));
  const x = (i) => edge + (i / Math.max(1, series.records.length - 1)) * (wide - 2 * edge);
  const y = (value) => high - 4 - (value / top) * (high - 10);
  const scene = new Scene();
  scene.path(`M${x(A().frame)} 0V${high}`, ink.line, 1);
  for (const [one, values] of lines.sort(([a], [b]) => (a === id) - (b === id)))
    scene.path(values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join(""), one === id ? ink.accent : ink.soft, one === id ? 2.5 : 1, { opacity: one === id ? 1 : 0.4 });
  Object.assign(scene, { width: wide, height: high });
  const svg = toSvg(scene);
  const mine = lines.find(([one]) => one === id)?.[1];
  const said = `${BUILT_IN[shownName]} of ${place(id)} in this sentence` + (mine ? `: ${mine[0].toFixed(2)} at first, ${mine[A().frame].toFixed(2)} here, ${mine[mine.length - 1].toFixed(2)} at last` : ": none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", said);
  $("curve").replaceChildren(svg);
  $("curve-text").textContent = `${said}; thin: the other heads of the layer`;
}

if (BY_UPDATE) {
  takeTable();
  $("play").onclick = () => TRAINING_KEYS.p();
  $("update").oninput = (event) => change({ record: frameOf(A().series, Number(event.target.value)) });
  still.onchange = () => (still.matches && playing ? stop() : renderTraining());
}
