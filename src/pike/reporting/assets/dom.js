// Elements from plain values. Texts only ever become text nodes: nothing here parses markup.
const SVG = "http://www.w3.org/2000/svg";

function make(namespace, tag, attributes, children) {
  const element = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}
const h = (tag, attributes, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => make(SVG, tag, attributes, children);

const times = (value) => (value === undefined || value === null ? "–" : value < 100 ? `${value.toFixed(2)}×` : `${Math.round(value).toLocaleString("en")}×`);
const small = (value) => (value === undefined || value === null ? "–" : value === 0 ? "0" : value.toExponential(1));
const count = (number, noun) => `${number.toLocaleString("en")} ${number === 1 ? noun : noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
function ms(value) {
  if (value === undefined || value === null) return "–";
  return `${value >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3))} ms`;
}
function duration(seconds) {
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${String(Math.round(seconds % 60)).padStart(2, "0")} s` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

const STATES = new Set(["valid", "finished"]);
const QUIET = new Set(["no verdict yet", "ideas", "plan", "stopped", "unfinished", "waiting", "begun", "running"]);
const badge = (status) => h("span", { class: `badge ${STATES.has(status) ? "good" : QUIET.has(status) ? "quiet" : "bad"}` }, status);

function table(label, columns, lines) {
  const right = columns.map((name) => name.startsWith(">"));
  const side = (index) => (right[index] ? "right" : null);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((name, i) => h("th", { class: side(i), scope: "col" }, name.replace(/^>/, ""))))),
      h("tbody", {}, lines.map((line) => h("tr", { class: line.mark || null }, (line.cells || line).map((cell, i) => h("td", { class: side(i) }, cell)))))));
}
function card(title, ...children) {
  return h("section", { class: "part" }, h("h2", {}, title), h("div", { class: "card" }, children));
}
function folded(summary, ...children) {
  return h("details", { class: "block" }, h("summary", {}, summary), children);
}
function bars(lines) {
  const most = Math.max(...lines.map((line) => line[1]), 1e-12);
  return h("table", { class: "bars" }, h("tbody", {}, lines.map(([name, number, said]) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${Math.max(1, Math.round((100 * number) / most))}%`;
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "right" }, said ?? number.toLocaleString("en")), h("td", {}, bar));
  })));
}

// A part of the page that is built anew only when what it shows has changed.
class Part {
  constructor() { this.element = h("div", { class: "slot" }); this.key = null; }
  show(value, build) {
    const key = JSON.stringify(value ?? null);
    if (key === this.key) return;
    this.key = key;
    const open = new Set([...this.element.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
    this.element.replaceChildren(...[value === null || value === undefined ? [] : build(value)].flat(3).filter(Boolean));
    for (const one of this.element.querySelectorAll("details")) if (open.has(one.firstElementChild.textContent)) one.open = true;
  }
}
