"use strict";
const table = document.getElementById("heads");
const body = table.tBodies[0];
const order = [...body.rows];
const kind = document.getElementById("kind");
const all = document.getElementById("all");
const message = document.getElementById("status");

// Numbers come from data-v, in full precision; heads without one stay at the end either way.
function sort(column, header) {
  const numeric = !header.classList.contains("text");
  const down = header.getAttribute("aria-sort") === (numeric ? "descending" : "ascending");
  const ascending = numeric ? down : !down;
  const key = row => numeric ? row.cells[column].dataset.v : row.cells[column].textContent;
  const rows = [...order].sort((a, b) => {
    const x = key(a), y = key(b);
    if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);
    const difference = numeric ? x - y : x.localeCompare(y, "en", { numeric: true });
    return ascending ? difference : -difference;
  });
  body.append(...rows);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  tell(`sorted by ${header.dataset.name}, ${ascending ? "smallest" : "largest"} first`);
}

function filter() {
  let shown = 0;
  for (const row of order) {
    row.hidden = kind.value !== "" && row.dataset.kind !== kind.value;
    shown += row.hidden ? 0 : 1;
  }
  tell(`${shown} of ${order.length} heads`);
}

function tell(text) {
  message.textContent = text;
}

[...table.tHead.rows[0].cells].forEach((header, column) => {
  header.querySelector("button").addEventListener("click", () => {
    // The row names sort as the table came: enc, dec, cross; by layer; by number.
    if (column > 0) return sort(column, header);
    body.append(...order);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    tell("in the order of the model");
  });
});
kind.addEventListener("change", filter);
all.addEventListener("change", () => table.classList.toggle("whole", all.checked));
document.getElementById("controls").hidden = false;
document.documentElement.dataset.ready = "1";
