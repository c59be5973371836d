"use strict";
const lab = document.getElementById("lab");

// What the module does with projections that pick columns: head h reads columns h·width … of X.
// As loaded, every number on display is the module's own; this is for what the reader changes, and
// a test holds both equal.
function attend(x, count, scaled) {
  const width = x[0].length / count;
  const divisor = scaled ? Math.sqrt(width) : 1;
  const heads = Array.from({ length: count }, (_, h) => {
    const query = x.map((row) => row.slice(h * width, (h + 1) * width));
    const scores = query.map((q) => query.map((k) => dot(q, k)));
    const divided = scores.map((row) => row.map((score) => score / divisor));
    const weights = divided.map(softmax);
    const output = weights.map((row) => query[0].map((_, j) => dot(row, query.map((v) => v[j]))));
    const w = x[0].map((_, i) => query[0].map((_, j) => Number(i === h * width + j)));
    return { w, query, scores, divided, weights, output };
  });
  return { heads, concat: x.map((_, i) => heads.flatMap((head) => head.output[i])) };
}

function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

function softmax(row) {
  const most = Math.max(...row);
  const powers = row.map((value) => Math.exp(value - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

// Mean Jensen-Shannon divergence of two heads, in nats.
function divergence(first, second) {
  const entropy = (p) => -p.reduce((sum, v) => sum + (v > 0 ? v * Math.log(v) : 0), 0);
  const values = first.map((p, i) => {
    const q = second[i];
    const mixture = p.map((v, j) => (v + q[j]) / 2);
    return Math.max(entropy(mixture) - (entropy(p) + entropy(q)) / 2, 0);
  });
  return values.reduce((a, b) => a + b, 0) / values.length;
}

function short(value) {
  const text = Number.isInteger(value) ? String(value) : value.toFixed(4);
  return text.replace("-", "−");
}

function tint(cell, value) {
  cell.style.setProperty("--v", Math.min(Math.abs(value), 1));
}

function fill(name, matrix) {
  const rows = matrix.map((values) => {
    const row = document.createElement("tr");
    for (const value of values) {
      const cell = row.insertCell();
      cell.textContent = short(value);
      cell.dataset.v = value;
      tint(cell, value);
    }
    return row;
  });
  document.getElementById(`m-${name}`).tBodies[0].replaceChildren(...rows);
}

function start() {
  const fields = [...document.querySelectorAll("#m-x td")].map((cell, place) => {
    const field = document.createElement("input");
    field.type = "number";
    field.step = "any";
    field.required = true;
    field.value = Number(cell.dataset.v);
    field.setAttribute("aria-label", `X, row ${(place >> 2) + 1}, column ${(place % 4) + 1}`);
    cell.replaceChildren(field);
    return field;
  });
  const original = fields.map((field) => field.value);
  const scaled = document.getElementById("scaled");

  function show() {
    const bad = fields.some((field) => !field.checkValidity());
    const readout = document.getElementById("readout");
    if (bad) {
      readout.textContent = "Every entry of X needs a number.";
      return;
    }
    const numbers = fields.map((field) => field.valueAsNumber);
    const count = Number(document.querySelector("[name=heads]:checked").value);
    const { heads, concat } = attend([numbers.slice(0, 4), numbers.slice(4)], count, scaled.checked);
    fields.forEach((field, i) => tint(field.parentElement, numbers[i]));
    heads.forEach((head, h) => Object.entries(head).forEach(([name, m]) => fill(`${name}${h}`, m)));
    fill("concat", concat);
    fill("out", concat); // W_O is the identity
    document.getElementById("head1").hidden = count === 1;
    for (const caption of document.querySelectorAll(".divided caption")) {
      caption.textContent = scaled.checked ? `÷ √${4 / count}` : "not divided";
    }
    const own = heads.map((head) => head.weights[0][0].toFixed(12));
    const js = count === 2 ? `; JS(head 1, head 2) = ${divergence(heads[0].weights, heads[1].weights).toFixed(6)} nats` : "";
    readout.textContent = `The first token's weight on itself: ${own.join(" and ")}${js}`;
  }

  lab.addEventListener("input", show);
  document.getElementById("reset").addEventListener("click", () => {
    fields.forEach((field, i) => { field.value = original[i]; });
    document.querySelector("[name=heads][value='2']").checked = true;
    scaled.checked = true;
    show();
  });
  for (const cell of document.querySelectorAll(".m td")) tint(cell, Number(cell.dataset.v));
  lab.querySelector(".bar").hidden = false;
}

if (lab) start();
document.documentElement.dataset.ready = "1";
