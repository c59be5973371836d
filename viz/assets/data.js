// Data: the records of the page, their weights as matrices of pieces or words, and statistics.
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const records = data.records;
const KINDS = ["enc", "dec", "cross"];
const NAMES = { enc: "encoder self-attention", dec: "decoder self-attention", cross: "cross-attention" };
const ROWS = { enc: "src", dec: "tgt_in", cross: "tgt_out" };
const COLUMNS = { enc: "src", dec: "tgt_in", cross: "src" };
// A plain loop: for megabytes, Uint8Array.from with a function takes ten times as long.
function bytes(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

// Numbers of a record lie behind each other: the weights of all heads; then, where they were
// captured, the lengths ||f(x)|| of the keys, and all queries and keys.
records.forEach((record, number) => {
  record.number = number;
  record.cache = new Map();
  record.byId = new Map();
  record.list = {};
  let at = 0;
  const each = (size, note) => {
    for (const one of record.byId.values()) {
      note(one, at);
      at += size(one);
    }
  };
  for (const kind of KINDS) {
    const ids = record.layers[kind].flatMap((layer, place) => record.heads[kind][place].map((head) => ({ kind, layer, place, head, id: `${kind}.${layer}.${head}` })));
    record.list[kind] = ids;
    for (const one of ids) record.byId.set(one.id, one);
  }
  const [rows, columns] = [ROWS, COLUMNS].map((sides) => (one) => record.tokens[sides[one.kind]].length);
  each((one) => rows(one) * columns(one), (one, here) => (one.at = here));
  if (record.norms) each(columns, (one, here) => (one.lengths = here));
  if (!record.qk) return;
  const width = (one) => record.qk.width[one.kind][one.place];
  for (const [name, count] of [["query", rows], ["key", columns]]) each((one) => count(one) * width(one), (one, here) => (one[name] = here));
});

// Weights are unpacked when a record is first looked at: pages may hold many.
async function open(record) {
  if (record.weights) return;
  let raw = bytes($(`weights-${record.number}`).textContent);
  if (data.packed) {
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    raw = new Uint8Array(await new Response(stream).arrayBuffer());
  }
  record.weights = new Uint16Array(raw.buffer);
  record.signed = new Int16Array(raw.buffer);
}

function cached(record, key, make) {
  if (!record.cache.has(key)) record.cache.set(key, make());
  return record.cache.get(key);
}

const show = (record, token) => record.shown[token] ?? token;

// Labels of a side: {labels, special (which are control tokens), starts (of words, in pieces)}.
function axis(record, side, level) {
  return cached(record, `axis ${side} ${level}`, () => {
    const control = new Set(record.special[side]);
    const words = level === "word" && record.words[side];
    if (!words) {
      const labels = record.tokens[side];
      return { labels, special: labels.map((_, i) => control.has(i)), starts: [...labels.keys(), labels.length] };
    }
    return { labels: words.labels, starts: words.starts, special: words.labels.map((_, i) => control.has(words.starts[i])) };
  });
}

const axes = (record, kind, level) => [axis(record, ROWS[kind], level), axis(record, COLUMNS[kind], level)];

// A head's weights, {n, m, a: Float32Array, row by row}; or, as "norm", the lengths of what they add:
// weight times ||f(x)||. Words: sum over key pieces, mean over query pieces.
function matrix(record, id, level, what = "alpha") {
  const one = record.byId.get(id);
  if (!one) return null;
  return cached(record, `${id} ${level} ${what}`, () => {
    const [rows, columns] = axes(record, one.kind, level);
    const width = columns.starts[columns.starts.length - 1];
    const unit = Float64Array.from({ length: width }, (_, k) => (what === "norm" ? lengthOf(record, one, k) : 1) / 65535);
    const [n, m] = [rows.labels.length, columns.labels.length];
    const a = new Float32Array(n * m);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++) {
        let sum = 0;
        for (let q = rows.starts[i]; q < rows.starts[i + 1]; q++)
          for (let k = columns.starts[j]; k < columns.starts[j + 1]; k++) sum += record.weights[one.at + q * width + k] * unit[k];
        a[i * m + j] = sum / (rows.starts[i + 1] - rows.starts[i]);
      }
    return { n, m, a };
  });
}

// ||f(x)|| of a key piece.
const lengthOf = (record, one, k) => (record.weights[one.lengths + k] * record.norms) / 65535;

// What each dimension adds to the score q.k / sqrt(d) of a cell of pieces.
function terms(record, id, q, k) {
  const one = record.byId.get(id);
  const width = record.qk.width[one.kind][one.place];
  const [x, y] = [one.query + q * width, one.key + k * width];
  const unit = (record.qk.query * record.qk.key) / 32767 ** 2 / Math.sqrt(width);
  return Float64Array.from({ length: width }, (_, d) => record.signed[x + d] * record.signed[y + d] * unit);
}

// B - A; null where the two cannot be laid over each other.
function difference(first, second, id, level, what) {
  const [x, y] = [matrix(first, id, level, what), matrix(second, id, level, what)];
  if (!x || !y || x.n !== y.n || x.m !== y.m) return null;
  return { n: x.n, m: x.m, a: y.a.map((b, i) => b - x.a[i]) };
}

const entropy = (row) => row.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
const total = (list) => list.reduce((sum, x) => sum + x, 0);
const mean = (list) => total(list) / Math.max(list.length, 1);

// What a head does in this sentence; rows of control tokens are left out unless there are no others.
function statistics(record, id, level) {
  return cached(record, `statistics ${id} ${level}`, () => {
    const kind = record.byId.get(id).kind;
    const [rows, columns] = axes(record, kind, level);
    const { m, a } = matrix(record, id, level);
    const added = record.norms && matrix(record, id, level, "norm").a;
    let used = [...rows.labels.keys()].filter((i) => !rows.special[i]);
    if (!used.length) used = [...rows.labels.keys()];
    const found = { entropy: [], peak: [], special: [], distance: [], added: [], addedSpecial: [] };
    const offsets = new Map();
    for (const i of used) {
      const row = a.subarray(i * m, i * m + m);
      if (added) {
        const lengths = added.subarray(i * m, i * m + m);
        found.added.push(total(lengths));
        found.addedSpecial.push(total(lengths.filter((_, j) => columns.special[j])) / (total(lengths) || 1));
      }
      let [top, peak, special, distance] = [0, 0, 0, 0];
      row.forEach((p, j) => {
        if (p > row[top]) top = j;
        if (columns.special[j]) special += p;
        else peak = Math.max(peak, p);
        distance += p * Math.abs(i - j);
      });
      offsets.set(top - i, (offsets.get(top - i) || 0) + 1);
      found.entropy.push(entropy(row));
      found.peak.push(peak);
      found.special.push(special);
      found.distance.push(distance);
    }
    const result = Object.fromEntries(Object.entries(found).map(([name, list]) => [name, list.length ? mean(list) : null]));
    if (kind === "cross") return { ...result, distance: null, offset: null, share: null };
    const [offset, count] = [...offsets].sort((x, y) => y[1] - x[1] || Math.abs(x[0]) - Math.abs(y[0]) || x[0] - y[0])[0];
    // Only rows that may see the key at that offset count: row 0 has no previous token.
    const possible = used.filter((i) => i + offset >= 0 && i + offset < (kind === "dec" ? i + 1 : m)).length;
    return { ...result, offset, share: count / possible };
  });
}
