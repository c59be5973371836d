// Data: the records of the page, their weights as matrices of pieces or words, and statistics.
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const records = data.records;
const KINDS = ["enc", "dec", "cross"];
const NAMES = { enc: "encoder self-attention", dec: "decoder self-attention", cross: "cross-attention" };
const ROWS = { enc: "src", dec: "tgt_in", cross: "tgt_out" };
const COLUMNS = { enc: "src", dec: "tgt_in", cross: "src" };
const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

records.forEach((record, number) => {
  record.number = number;
  record.cache = new Map();
  record.byId = new Map();
  record.list = {};
  let at = 0;
  for (const kind of KINDS) {
    record.list[kind] = [];
    const size = record.tokens[ROWS[kind]].length * record.tokens[COLUMNS[kind]].length;
    record.layers[kind].forEach((layer, place) => {
      for (const head of record.heads[kind][place]) {
        const one = { id: `${kind}.${layer}.${head}`, kind, layer, head, at };
        record.list[kind].push(one);
        record.byId.set(one.id, one);
        at += size;
      }
    });
  }
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

// A head's weights, {n, m, a: Float32Array, row by row}. Words: sum over key pieces, mean over query pieces.
function matrix(record, id, level) {
  const one = record.byId.get(id);
  if (!one) return null;
  return cached(record, `${id} ${level}`, () => {
    const [rows, columns] = axes(record, one.kind, level);
    const width = columns.starts[columns.starts.length - 1];
    const [n, m] = [rows.labels.length, columns.labels.length];
    const a = new Float32Array(n * m);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++) {
        let sum = 0;
        for (let q = rows.starts[i]; q < rows.starts[i + 1]; q++)
          for (let k = columns.starts[j]; k < columns.starts[j + 1]; k++) sum += record.weights[one.at + q * width + k];
        a[i * m + j] = sum / 65535 / (rows.starts[i + 1] - rows.starts[i]);
      }
    return { n, m, a };
  });
}

// B - A; null where the two cannot be laid over each other.
function difference(first, second, id, level) {
  const [x, y] = [matrix(first, id, level), matrix(second, id, level)];
  if (!x || !y || x.n !== y.n || x.m !== y.m) return null;
  return { n: x.n, m: x.m, a: y.a.map((b, i) => b - x.a[i]) };
}

const entropy = (row) => row.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
const mean = (list) => list.reduce((sum, x) => sum + x, 0) / Math.max(list.length, 1);

// What a head does in this sentence; rows of control tokens are left out unless there are no others.
function statistics(record, id, level) {
  return cached(record, `statistics ${id} ${level}`, () => {
    const kind = record.byId.get(id).kind;
    const [rows, columns] = axes(record, kind, level);
    const { m, a } = matrix(record, id, level);
    let used = [...rows.labels.keys()].filter((i) => !rows.special[i]);
    if (!used.length) used = [...rows.labels.keys()];
    const found = { entropy: [], peak: [], special: [], distance: [] };
    const offsets = new Map();
    for (const i of used) {
      const row = a.subarray(i * m, i * m + m);
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
    const result = Object.fromEntries(Object.entries(found).map(([name, list]) => [name, mean(list)]));
    if (kind === "cross") return { ...result, distance: null, offset: null, share: null };
    const [offset, count] = [...offsets].sort((x, y) => y[1] - x[1] || Math.abs(x[0]) - Math.abs(y[0]) || x[0] - y[0])[0];
    // Only rows that may see the key at that offset count: row 0 has no previous token.
    const possible = used.filter((i) => i + offset >= 0 && i + offset < (kind === "dec" ? i + 1 : m)).length;
    return { ...result, offset, share: count / possible };
  });
}
