// Paint: colours of weights, and scenes: lists of shapes that become SVG on screen or a file.
const TABLES = Object.fromEntries(Object.entries(data.colours).map(([name, text]) => [name, bytes(text)]));
// Okabe and Ito's colours, told apart with any colour vision, and a dash for each as well.
const HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7400", "ink"];
const DASHES = ["", "7 3", "2 2", "9 3 2 3", "4 4", "12 3", "2 4", "6 2 2 2 2 2"];
const LINEAR_UP_TO = 20; // tokens; with more, a linear scale is nearly all dark

let ink = {}; // colours of the theme, by name
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "paper", "mute", "accent"]) ink[name] = style.getPropertyValue(`--${name}`).trim();
}
const hue = (place) => (HUES[place] === "ink" ? ink.ink : HUES[place]);

const isSqrt = () => {
  if (state.scale !== "auto") return state.scale === "sqrt";
  const [rows, columns] = pair();
  return Math.max(rows.labels.length, columns.labels.length) > LINEAR_UP_TO;
};

// One scale for all heads of a kind: the name of a colour table, and weight → place in it.
function shades(which, kind) {
  const place = (share) => Math.max(0, Math.min(255, Math.floor(share * 256)));
  if (which === "diff") {
    const limit = differenceLimit();
    return ["difference", (weight) => place(0.5 + (0.5 * weight) / limit)];
  }
  const [root, most] = [isSqrt(), highest(kind)];
  return ["cividis", (weight) => place(root ? Math.sqrt(weight / most) : weight / most)];
}

// Weight → [r, g, b].
function scale(which, kind) {
  const [name, place] = shades(which, kind);
  return (weight) => TABLES[name].subarray(3 * place(weight), 3 * place(weight) + 3);
}

// The highest value of the scale: 1 for weights; of norms the largest of any head on display.
function highest(kind = state.kind) {
  if (state.weight === "alpha") return 1;
  const most = Math.max(...[A(), B()].filter(Boolean).map((record) => cached(record, `highest ${kind} ${level()}`, () =>
    record.list[kind].reduce((most, { id }) => drawn(record, id).a.reduce((x, y) => Math.max(x, y), most), 0))));
  const step = 10 ** (Math.floor(Math.log10(most || 1)) - 1); // two digits, rounded up
  return Math.ceil(most / step) * step || 1;
}

function differenceLimit() {
  const key = `limit ${state.other} ${state.kind} ${level()} ${state.weight}`;
  return cached(A(), key, () => {
    let limit = 0.01;
    for (const { id } of A().list[state.kind]) {
      const delta = drawnDifference(id);
      if (delta) for (const x of delta.a) limit = Math.max(limit, Math.abs(x));
    }
    return Math.ceil(limit * 100) / 100;
  });
}

const css = (colour) => `rgb(${colour[0]},${colour[1]},${colour[2]})`;
// Relative luminance (WCAG 2): above 0.18 black digits read better than white ones.
const isLight = (colour) => {
  const [r, g, b] = [...colour].map((c) => (c > 10 ? ((c / 255 + 0.055) / 1.055) ** 2.4 : c / 3294.6));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18;
};
const digits = (x) => (Math.abs(x) < 0.005 ? "" : state.weight === "alpha" && Math.abs(x) >= 0.995 ? x.toFixed(0) : x.toFixed(2).replace(/^(-?)0\./, "$1.")).replace("-", "−");
const number = (x) => x.toFixed(4).replace("-", "−");

// Which key columns are drawn, and which of them in grey.
function kept(columns) {
  const all = [...columns.labels.keys()];
  return state.special === "drop" && columns.special.includes(false) ? all.filter((j) => !columns.special[j]) : all;
}
const muted = (columns, j) => state.special === "mute" && columns.special[j];

// Attention that falls on keys which are hidden: [mean, highest] over the rows of a map.
function hidden({ n, m, a }, columns) {
  const sums = Array.from({ length: n }, (_, i) => columns.special.reduce((sum, s, j) => sum + (s ? a[i * m + j] : 0), 0));
  return [mean(sums), Math.max(...sums)];
}

function hiddenNote(map) {
  if (state.special === "show" || !map) return "";
  const [average, most] = hidden(map, pair()[1]);
  return `hidden ${state.weight === "norm" ? "norm" : "mass"}: mean ${average.toFixed(2)}, max ${most.toFixed(2)}`;
}

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
const label = (text) => el("bdi", { textContent: text });

// A small map, one pixel a cell.
function thumbnail(canvas, map, which, columns) {
  const keys = kept(columns);
  canvas.width = keys.length;
  canvas.height = map.n;
  const context = canvas.getContext("2d");
  const image = context.createImageData(keys.length, map.n);
  const pixels = new Uint32Array(image.data.buffer);
  const [name, place] = shades(which);
  const pixel = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const palette = Uint32Array.from({ length: 256 }, (_, i) => pixel(TABLES[name].subarray(3 * i)));
  const grey = pixel(ink.mute.match(/\w\w/g).map((x) => parseInt(x, 16)));
  const hidden = keys.map((j) => muted(columns, j));
  for (let i = 0; i < map.n; i++)
    keys.forEach((j, x) => (pixels[i * keys.length + x] = hidden[x] ? grey : palette[place(map.a[i * map.m + j])]));
  context.putImageData(image, 0, 0);
}

// A scene: shapes with positions in pixels.
const FONT = '"Segoe UI",system-ui,-apple-system,"Noto Sans","DejaVu Sans",sans-serif';
const measure = document.createElement("canvas").getContext("2d");
const extent = (text, size) => ((measure.font = `${size}px ${FONT}`), measure.measureText(text).width);
function clip(text, size, room) {
  if (extent(text, size) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && extent(`${letters.join("")}…`, size) > room) letters.pop();
  return `${letters.join("")}…`;
}

class Scene {
  constructor() {
    this.items = [];
    this.width = this.height = 0;
  }
  add(item, right, bottom) {
    this.items.push(item);
    this.width = Math.max(this.width, right);
    this.height = Math.max(this.height, bottom);
    return item;
  }
  rect(x, y, w, h, fill, more) {
    return this.add({ type: "rect", x, y, w, h, fill, ...more }, x + w, y + h);
  }
  path(d, stroke, width, more) {
    return this.add({ type: "path", d, stroke, width, dash: "", opacity: 1, ...more }, 0, 0);
  }
  // anchor: start, middle or end; up: written upwards.
  text(x, y, text, more) {
    const item = { type: "text", x, y, text, size: 12, fill: ink.ink, anchor: "start", up: false, bold: false, italic: false, ...more };
    const wide = extent(text, item.size) * (item.bold ? 1.08 : 1);
    const after = { start: 1, middle: 0.5, end: 0 }[item.anchor] * wide;
    return item.up ? this.add(item, x + item.size, y) : this.add(item, x + after, y + item.size * 0.4);
  }
}

const SVG = "http://www.w3.org/2000/svg";
function svgNode(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function toSvg(scene, background) {
  const [w, h] = [Math.ceil(scene.width), Math.ceil(scene.height)];
  const root = svgNode("svg", { xmlns: SVG, viewBox: `0 0 ${w} ${h}`, width: w, height: h, "font-family": FONT });
  if (background) root.append(svgNode("rect", { width: w, height: h, fill: background }));
  for (const item of scene.items) {
    let node;
    if (item.type === "rect") {
      node = svgNode("rect", { x: item.x, y: item.y, width: item.w, height: item.h, fill: item.fill });
      if (item.stroke) node.setAttribute("stroke", item.stroke);
    } else if (item.type === "path") {
      node = svgNode("path", { d: item.d, fill: "none", stroke: item.stroke, "stroke-width": item.width, "stroke-opacity": item.opacity });
      if (item.dash) node.setAttribute("stroke-dasharray", item.dash);
    } else {
      node = svgNode("text", { x: item.x, y: item.y, "font-size": item.size, fill: item.fill, "text-anchor": item.anchor, "dominant-baseline": "central" });
      if (item.up) node.setAttribute("transform", `rotate(-90 ${item.x} ${item.y})`);
      if (item.bold) node.setAttribute("font-weight", "600");
      if (item.italic) node.setAttribute("font-style", "italic");
      const marked = item.text.length > 1 && item.text[0] === "▁";
      node.textContent = marked ? item.text.slice(1) : item.text;
      if (marked) {
        node.prepend(svgNode("tspan", { "fill-opacity": 0.35 }));
        node.firstChild.textContent = "▁";
      }
    }
    if (item.tip) node.append(Object.assign(svgNode("title", {}), { textContent: item.tip }));
    if (item.mark) for (const [name, value] of Object.entries(item.mark)) node.dataset[name] = value;
    root.append(node);
  }
  return root;
}
