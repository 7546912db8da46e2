// A list of which only the visible rows are elements, so that its length does not matter.
const ROW = 36;

class VirtualList {
  constructor(label, fill, choose) {
    this.fill = fill;
    this.choose = choose;
    this.rows = [];
    this.at = -1;
    this.made = new Map();
    this.inner = h("div", { class: "rows", role: "presentation" });
    this.element = h("div", { class: "list", role: "listbox", tabindex: 0, "aria-label": label }, this.inner);
    this.element.addEventListener("scroll", () => this.paint(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => { const one = event.target.closest("[role=option]"); if (one) this.choose(this.rows[Number(one.dataset.index)]); });
    new ResizeObserver(() => this.paint()).observe(this.element);
  }
  show(rows, chosen) {
    this.rows = rows;
    this.element.style.height = `${Math.min(Math.max(rows.length, 3) * ROW, 11 * ROW)}px`;
    this.inner.style.height = `${rows.length * ROW}px`;
    for (const one of this.made.values()) one.remove();
    this.made.clear();
    this.mark(chosen);
  }
  mark(chosen) {
    this.at = this.rows.findIndex((row) => row.id === chosen);
    this.paint(true);
  }
  reveal() {
    if (this.at < 0) return;
    const top = this.at * ROW, box = this.element;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || !this.rows.length) return;
    event.preventDefault();
    const next = Math.min(this.rows.length - 1, Math.max(0, this.at + moves[event.key]));
    this.choose(this.rows[next]);
    this.reveal();
  }
  paint(remark) {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 6);
    const last = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + (this.element.clientHeight || 480)) / ROW) + 6);
    const free = [];
    for (const [index, one] of this.made) if (index < first || index >= last) { this.made.delete(index); free.push(one); }
    for (let index = first; index < last; index++) {
      let one = this.made.get(index);
      if (!one) {
        one = free.pop() || this.inner.appendChild(h("div", { role: "option" }));
        this.fill(one, this.rows[index]);
        one.dataset.index = index;
        one.id = `option-${index}`;
        one.setAttribute("aria-posinset", index + 1);
        one.setAttribute("aria-setsize", this.rows.length);
        one.style.transform = `translateY(${index * ROW}px)`;
        one.setAttribute("aria-selected", index === this.at);
        this.made.set(index, one);
      } else if (remark) one.setAttribute("aria-selected", index === this.at);
    }
    for (const one of free) one.remove();
    if (this.made.has(this.at)) this.element.setAttribute("aria-activedescendant", `option-${this.at}`);
    else this.element.removeAttribute("aria-activedescendant");
  }
}

// Rows as a tree: each below its parent, with its depth; children in order of appearance.
function treeOrder(rows) {
  const known = new Set(rows.map((row) => row.id)), children = new Map();
  for (const row of rows) {
    const parent = known.has(row.parent) && row.parent !== row.id ? row.parent : "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(row);
  }
  const found = [], depth = new Map(), seen = new Set();
  const walk = (root) => {
    const waiting = [[root, 0]];
    while (waiting.length) {
      const [row, level] = waiting.pop();
      if (seen.has(row.id)) continue;
      seen.add(row.id);
      found.push(row);
      depth.set(row.id, level);
      for (const child of (children.get(row.id) || []).slice().reverse()) waiting.push([child, level + 1]);
    }
  };
  for (const root of children.get("") || []) walk(root);
  for (const row of rows) walk(row);  // what a circle of parents leaves over
  return [found, depth];
}
