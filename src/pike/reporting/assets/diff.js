// Differences of two texts by lines (Myers), and the colours of Python and of the C++ inside it.
const MOST_EDITS = 2500;

// Pairs of line numbers that are equal in both, in order.
function matches(a, b) {
  let start = 0, endA = a.length, endB = b.length;
  const found = [];
  while (start < endA && start < endB && a[start] === b[start]) { found.push([start, start]); start++; }
  const tail = [];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; tail.push([endA, endB]); }
  return [...found, ...middle(a, b, start, endA, endB), ...tail.reverse()];
}
function middle(a, b, start, endA, endB) {
  const n = endA - start, m = endB - start, most = Math.min(n + m, MOST_EDITS), trace = [];
  let v = new Int32Array(2 * most + 3);
  const offset = most + 1;
  for (let d = 0; d <= most; d++) {
    trace.push(v.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && v[offset + k - 1] < v[offset + k + 1]) ? v[offset + k + 1] : v[offset + k - 1] + 1;
      let y = x - k;
      while (x < n && y < m && a[start + x] === b[start + y]) { x++; y++; }
      v[offset + k] = x;
      if (x >= n && y >= m) return backtrack(trace, d, n, m, start);
    }
  }
  return [];
}
function backtrack(trace, last, x, y, start) {
  const found = [];
  for (let d = last; d > 0; d--) {
    const v = trace[d], at = (k) => v[k + d + 1];
    const k = x - y, before = k === -d || (k !== d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
    const fromX = at(before), fromY = fromX - before;
    while (x > fromX && y > fromY) { x--; y--; found.push([start + x, start + y]); }
    x = fromX; y = fromY;
  }
  while (x > 0 && y > 0) { x--; y--; found.push([start + x, start + y]); }
  return found.reverse();
}
// Lines as [kind, index in a, index in b]: "same", "out" or "in".
function edits(a, b) {
  const found = [];
  let i = 0, j = 0;
  for (const [x, y] of [...matches(a, b), [a.length, b.length]]) {
    while (i < x) found.push(["out", i++, -1]);
    while (j < y) found.push(["in", -1, j++]);
    if (x < a.length && y < b.length) { found.push(["same", x, y]); i = x + 1; j = y + 1; }
  }
  return found;
}
// The edits with unchanged stretches of over 2 * context lines as ["gap", number of lines].
function hunks(all, context) {
  const near = new Uint8Array(all.length);
  all.forEach(([kind], i) => { if (kind !== "same") for (let k = Math.max(0, i - context); k <= Math.min(all.length - 1, i + context); k++) near[k] = 1; });
  const found = [];
  for (let i = 0; i < all.length; i++) {
    if (near[i]) { found.push(all[i]); continue; }
    let j = i;
    while (j < all.length && !near[j]) j++;
    found.push(["gap", j - i]);
    i = j - 1;
  }
  return found;
}

const PYTHON = /(#[^\n]*)|([rRbBfFuU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)))|([rRbBfFuU]{0,2}(?:"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(@[\w.]+)|\b(\d[\w.]*)\b|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|self)\b/g;
const CPP = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|((?!))|("(?:\\.|[^"\\\n])*"?)|(#\s*\w+)|\b(\d[\w.]*)\b|\b(__global__|__device__|__shared__|__restrict__|__host__|__syncthreads|auto|bool|break|case|char|class|const|constexpr|continue|double|else|extern|float|float4|for|half|if|inline|int|int64_t|long|namespace|return|short|size_t|static|struct|switch|template|typename|unsigned|using|void|while)\b/g;
const CLASSES = ["comment", "string", "string", "meta", "number", "keyword"];

// A text as lines of [class, text] pieces.
function coloured(text) {
  const found = [[]];
  const put = (kind, piece) => piece.split("\n").forEach((part, i) => { if (i) found.push([]); if (part) found[found.length - 1].push([kind, part]); });
  const walk = (grammar, piece) => {
    let last = 0;
    for (const match of piece.matchAll(grammar)) {
      put("", piece.slice(last, match.index));
      last = match.index + match[0].length;
      const group = match.slice(1).findIndex((one) => one !== undefined);
      if (grammar === PYTHON && group === 1 && /#include|__global__|template\s*</.test(match[0])) walk(CPP, match[0]);
      else put(CLASSES[group], match[0]);
    }
    put("", piece.slice(last));
  };
  walk(PYTHON, text);
  return found;
}
const pieces = (line) => (line || []).map(([kind, text]) => (kind ? h("span", { class: `t-${kind}` }, text) : text));

function code(text, label) {
  return h("div", { class: "code", tabindex: 0, role: "region", "aria-label": label },
    h("table", { role: "presentation" }, h("tbody", {}, coloured(text).map((line, i) => h("tr", {}, h("td", { class: "n", "data-n": i + 1 }), h("td", {}, pieces(line)))))));
}
function difference(before, after, options) {
  const a = before.split("\n"), b = after.split("\n");
  const all = edits(a, b), shown = options.whole ? all : hunks(all, 3);
  const left = coloured(before), right = coloured(after);
  const changed = all.filter(([kind]) => kind !== "same");
  if (!changed.length) return [h("p", { class: "soft" }, "The texts are the same.")];
  const added = changed.filter(([kind]) => kind === "in").length;
  const lines = options.split ? beside(shown, left, right) : below(shown, left, right);
  return [
    h("p", { class: "soft number" }, `${count(added, "line")} added, ${count(changed.length - added, "line")} removed`),
    h("div", { class: "code", tabindex: 0, role: "region", "aria-label": `Changes from ${options.from} to ${options.to}` },
      h("table", { class: options.split ? "diff split" : "diff", role: "presentation" }, options.split && h("colgroup", {}, ["n", "", "n", ""].map((kind) => h("col", { class: kind || null }))), h("tbody", {}, lines))),
  ];
}
const gap = (number, columns) => h("tr", { class: "gap" }, h("td", { colspan: columns }, `… ${count(number, "unchanged line")}`));
function below(shown, left, right) {
  return shown.map(([kind, i, j]) => kind === "gap" ? gap(i, 4)
    : h("tr", { class: kind }, h("td", { class: "n", "data-n": i >= 0 ? i + 1 : "" }), h("td", { class: "n", "data-n": j >= 0 ? j + 1 : "" }),
      h("td", { class: "sign" }, kind === "in" ? "+" : kind === "out" ? "−" : " "), h("td", {}, pieces(kind === "out" ? left[i] : right[j]))));
}
function beside(shown, left, right) {
  const found = [];
  for (let at = 0; at < shown.length; ) {
    const [kind, i, j] = shown[at];
    if (kind === "gap") { found.push(gap(i, 4)); at++; continue; }
    if (kind === "same") { found.push(pair("same", "same", i, j)); at++; continue; }
    const out = [], into = [];
    while (at < shown.length && (shown[at][0] === "out" || shown[at][0] === "in")) { (shown[at][0] === "out" ? out : into).push(shown[at]); at++; }
    for (let k = 0; k < Math.max(out.length, into.length); k++) found.push(pair(out[k] ? "out" : "none", into[k] ? "in" : "none", out[k] ? out[k][1] : -1, into[k] ? into[k][2] : -1));
  }
  return found;
  function pair(one, other, i, j) {
    return h("tr", {}, h("td", { class: `n ${one}`, "data-n": i >= 0 ? i + 1 : "" }, one === "out" && h("span", { class: "spoken" }, "removed")), h("td", { class: one }, i >= 0 ? pieces(left[i]) : ""),
      h("td", { class: `n ${other}`, "data-n": j >= 0 ? j + 1 : "" }, other === "in" && h("span", { class: "spoken" }, "added")), h("td", { class: other }, j >= 0 ? pieces(right[j]) : ""));
  }
}

const RECIPES = "# --- What the recipes do ---";
// The parts of a recipes' file at its outer level; a part begins with a definition or a heading.
function blocks(text) {
  const found = [[]];
  for (const line of text.split("\n")) {
    if (/^(def |class |@|# ---)/.test(line) && !/^@/.test(found[found.length - 1][0] || "")) found.push([]);
    found[found.length - 1].push(line);
  }
  return found.map((lines) => lines.join("\n"));
}
const KNOWN = /^(class PreparedModel\b|def describe_call\b)/;
// The parts that at least half of these files hold: what the recipes share.
function sharedBlocks(texts) {
  const seen = new Map();
  for (const text of texts) for (const block of new Set(blocks(text.slice(text.indexOf(RECIPES))).map((one) => one.trim()))) seen.set(block, (seen.get(block) || 0) + 1);
  return new Set([...seen].filter(([block, number]) => KNOWN.test(block) || (number >= Math.max(2, texts.length / 2) && /^(def|class) /.test(block) && !/^class Model/.test(block))).map(([block]) => block));
}
function withoutShared(text, shared) {
  const start = Math.max(0, text.indexOf(RECIPES));
  const before = text.slice(0, start).replace(/^"""[^]*?"""\n+/, (words) => (words.includes("Written by PIKE's recipes") ? "" : words));
  return before + blocks(text.slice(start)).map((block) => {
    const plain = block.trim();
    if (!shared.has(plain) && !KNOWN.test(plain)) return block;
    const name = plain.match(/^(?:def|class) (\w+)/);
    return `# … ${name ? name[1] : "a part"}: shared by recipes, ${count(plain.split("\n").length, "line")} left out\n`;
  }).join("\n");
}
