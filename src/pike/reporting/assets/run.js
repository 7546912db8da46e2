// The page of one run. The result and what it rests on come first, then everything else.
class RunPage {
  constructor(app, view, source) {
    this.source = source;
    this.cache = new Map();
    this.filter = { words: "", status: "", order: "came" };
    this.axis = null;
    this.selected = null;
    const names = ["head", "result", "facts", "charts", "flight", "lineage", "recipes", "became", "finalists", "calls", "time", "ideas", "setup"];
    this.parts = Object.fromEntries(names.map((name) => [name, new Part()]));
    this.list = new VirtualList("Candidates", (one, row) => this.fill(one, row), (row) => this.select(row.id));
    this.panel = new Details(this);
    const p = Object.fromEntries(names.map((name) => [name, this.parts[name].element]));
    this.status = h("p", { class: "soft number", role: "status" });
    app.replaceChildren(p.head, p.result, p.facts, p.flight, p.charts, p.lineage, this.explorer(), p.recipes, p.finalists, p.became, p.calls, p.time, p.ideas, p.setup, p.foot || "");
    this.update(view);
    const wanted = decodeURIComponent(location.hash.slice(1));
    const first = this.byId.has(wanted) ? wanted : view.best || (view.rows[0] && view.rows[0].id);
    if (first) this.select(first);
    window.addEventListener("beforeprint", () => this.forPaper(true));
    window.addEventListener("afterprint", () => this.forPaper(false));
  }
  bestWord() { return this.view.state !== "finished" ? "best so far" : this.view.improved ? "winner" : "fastest valid"; }
  details(id) {
    if (!this.cache.has(id)) {
      if (this.cache.size > 200) this.cache.delete(this.cache.keys().next().value);
      this.cache.set(id, this.source(id));
    }
    return this.cache.get(id);
  }
  async shared() {
    const ids = this.view.rows.filter((row) => row.recipes).map((row) => row.id);
    const step = Math.max(1, Math.floor(ids.length / 12));
    const found = await Promise.all(ids.filter((_, i) => i % step === 0).slice(0, 12).map((id) => this.details(id)));
    return sharedBlocks(found.map((one) => one.source || ""));
  }
  chain(row) {
    const found = [], seen = new Set();
    for (let at = row; at && !seen.has(at.id); at = this.byId.get(at.parent)) { seen.add(at.id); found.push(at); }
    return found;
  }
  select(id, reveal) {
    const row = this.byId.get(id);
    if (!row) return;
    const anew = this.selected !== id;
    this.selected = id;
    if (anew && reveal && !this.list.rows.includes(row)) { this.filter.words = ""; this.filter.status = ""; this.search.value = ""; this.statuses.value = ""; this.arrange(); }
    this.list.mark(id);
    if (reveal) { this.list.reveal(); this.panel.element.scrollIntoView({ block: "nearest" }); }
    history.replaceState(null, "", `#${encodeURIComponent(id)}`);
    this.charts();
    this.panel.show(row, anew);
  }
  update(view) {
    this.view = view;
    this.byId = new Map(view.rows.map((row) => [row.id, row]));
    const { parts } = this;
    document.title = `PIKE: ${view.title}`;
    parts.head.show([view.title, view.state, view.subtitle], () => header(view, "PIKE run"));
    parts.result.show(view.result, (one) => hero(one, (id) => this.select(id, true)));
    parts.facts.show(view.facts, tiles);
    parts.flight.show(view.flight.length ? [view.flight, view.slots] : null, ([flight, slots]) => inFlight(flight, slots));
    this.charts();
    parts.lineage.show(view.lineage.length ? [view.lineage, view.rows.length] : null, () => this.lineage());
    parts.recipes.show(view.recipes.length || view.declined.length ? [view.recipes, view.declined] : null, ([tried, declined]) => this.recipes(tried, declined));
    parts.finalists.show(view.finalists.length ? [view.finalists, view.baselines, view.best] : null, ([finalists, baselines]) => this.finalists(finalists, baselines));
    parts.became.show(view.statuses.length ? [view.statuses, view.fixes] : null, ([statuses, fixes]) => [h("section", { class: "part" }, h("h2", {}, "What became of the candidates"),
      h("div", { class: "grid2" }, h("div", { class: "card" }, h("h3", {}, "Verdicts"), bars(statuses.map(([name, number]) => [name, number]))),
        fixes.length > 0 && h("div", { class: "card" }, h("h3", {}, "Fix attempts that valid solutions needed"), bars(fixes))))]);
    parts.calls.show(view.roles.length ? [view.roles, view.unanswered, view.answered] : null, ([roles, unanswered, answered]) => [card("Calls to models",
      table("Calls to models", ["role", "model", ">answered", ">failed attempts", ">input tokens", ">output tokens", ">of it thinking", ">money"], roles), answered.length > 0 && folded("Each answered call", table("Answered calls", [">step", ">attempt", "role", "model", ">input tokens", ">of it cached", ">output tokens", ">of it thinking", ">money"], answered)), unanswered && h("p", { class: "soft" }, unanswered))]);
    parts.time.show(view.shares.length ? view.shares : null, (shares) => [card("Where judging took its time", bars(shares))]);
    parts.ideas.show(view.ideas.length ? view.ideas : null, (ideas) => [card("Ideas it started from", ideas.length > 12 ? folded(count(ideas.length, "idea"), h("ol", {}, ideas.map((one) => h("li", {}, one)))) : h("ol", {}, ideas.map((one) => h("li", {}, one))))]);
    parts.setup.show(view.setup, setup);
    this.choices();
    this.arrange();
    const row = this.byId.get(this.selected);
    const shown = JSON.stringify(row);
    if (row && this.panel.row && shown !== JSON.stringify(this.panel.row)) { this.cache.delete(row.id); this.panel.show(row); }
  }
  charts() {
    const { view } = this, row = this.byId.get(this.selected);
    if (!view.rows.some((one) => one.at)) { this.parts.charts.show(null); return; }
    const axis = view.axes.find((one) => one.name === this.axis) || view.axes[0];
    this.parts.charts.show([view.rows.length, view.rows.filter((one) => one.at).length, view.axes, view.level, view.best, view.state, axis.name, this.selected], () => {
      const key = [["", "best so far"], ["dot", "a valid candidate"], ["winner", this.bestWord()], view.level && ["dashed", "measured again at the end, with its 95 % interval"], view.rows.some((one) => one.at && one.searched === undefined) && ["tick", "a refused candidate"], ["line", "selected, with its ancestors"]];
      return [card("Trajectory",
        view.axes.length > 1 && h("div", { class: "controls", role: "group", "aria-label": "Horizontal axis" }, view.axes.map((one) => h("button", { type: "button", "aria-pressed": String(one.name === axis.name), onclick: () => { this.axis = one.name; this.charts(); } }, `by ${one.name}`))),
        trajectory(view, axis, view.rows, row ? this.chain(row) : [], (id) => this.select(id, true)),
        h("div", { class: "key" }, key.filter(Boolean).map(([kind, words]) => h("span", {}, h("i", { class: kind || null }), words))))];
    });
  }
  lineage() {
    const { view } = this, children = new Map();
    for (const row of view.rows) if (!row.barren && row.status !== "valid" && row.reason) children.set(row.parent, [...(children.get(row.parent) || []), row]);
    const link = (id) => h("button", { type: "button", class: "link", onclick: () => this.select(id, true) }, id);
    const own = new Set(view.lineage.map((one) => one.id));
    const lines = view.lineage.map(({ id, changed }) => {
      const row = this.byId.get(id), parent = row.parent || "original";
      const lost = (children.get(parent) || []).filter((one) => !own.has(one.id));
      return h("li", {}, h("p", {}, parent, " → ", link(id), " ", badge(row.status), row.speedup !== undefined && [" ", h("b", {}, times(row.speedup))], h("span", { class: "soft" }, `, ${count(changed, "line")} changed`, row.by && ` by ${row.by}`)),
        row.note && h("p", { class: "soft" }, row.note), row.status !== "valid" && h("p", { class: "why" }, row.reason),
        lost.length > 0 && folded(`${count(lost.length, "candidate")} from ${parent} refused`, h("ul", {}, lost.slice(0, 20).map((one) => h("li", {}, link(one.id), " ", badge(one.status), " ", one.reason.split("\n")[0].slice(0, 240)))), lost.length > 20 && h("p", { class: "soft" }, `and ${lost.length - 20} more, in the list below`)));
    });
    const what = view.state !== "finished" ? "best so far" : view.improved ? "winner" : "fastest valid candidate";
    const early = lines.length > 8 ? lines.slice(0, -5) : [];
    return [card(`How the ${what} came about`, early.length > 0 && folded(`${count(early.length, "earlier generation")}`, h("ol", { class: "lineage" }, early)),
      h("ol", { class: "lineage", start: early.length + 1 }, lines.slice(early.length)))];
  }
  recipes(tried, declined) {
    const link = (id) => h("button", { type: "button", class: "link", onclick: () => this.select(id, true) }, id);
    return [card("What each composition of recipes brought",
      tried.length > 0 && table("Compositions of recipes", ["candidate", "recipes", ">speedup", ">gained over the best before", "why not"], tried.map(([id, ...rest]) => [link(id), ...rest])),
      declined.length > 0 && folded(`${count(declined.length, "recipe")} ${declined.length === 1 ? "does" : "do"} not apply`, table("Recipes that do not apply", ["recipe", "why it does not apply"], declined)))];
  }
  finalists(finalists, baselines) {
    const lines = finalists.map((line) => ({ mark: line[0] === this.view.best ? "best" : "", cells: [h("button", { type: "button", class: "link", onclick: () => this.select(line[0], true) }, line[0]), ...line.slice(1, 6), badge(line[6])] }));
    return [card("Finalists: the search's number against the final one", table("Finalists", ["candidate", "author", ">in the search", ">measured again", ">95 % interval", ">time", "verdict"], lines),
      baselines.length > 0 && [h("h3", {}, "Baselines in the same sessions"), table("Baselines", ["baseline", ">time", ">speedup", ">95 % interval", "verdict"], baselines)])];
  }
  explorer() {
    const again = () => this.arrange();
    this.search = h("input", { type: "search", id: "search", placeholder: "id, author, note, reason", oninput: (event) => { this.filter.words = event.target.value; again(); } });
    this.statuses = h("select", { id: "status", onchange: (event) => { this.filter.status = event.target.value; again(); } });
    const order = h("select", { id: "order", onchange: (event) => { this.filter.order = event.target.value; again(); } },
      [["came", "as they came"], ["fast", "fastest first"], ["tree", "as a tree"]].map(([value, words]) => h("option", { value }, words)));
    return h("section", { class: "part wide" }, h("h2", {}, "Every candidate"),
      h("div", { class: "controls" }, h("label", {}, "Search ", this.search), h("label", {}, "Verdict ", this.statuses), h("label", {}, "Order ", order), this.status),
      h("div", { class: "explorer" }, h("div", { class: "card flush" }, h("div", { class: "columns", "aria-hidden": "true" }, ["candidate", "from", "verdict", "speedup", "time", "error", "what it is, or why it was refused"].map((name) => h("span", {}, name))), this.list.element), this.panel.element),
      this.paper = h("div", { class: "paper" }));
  }
  choices() {
    const counts = new Map();
    for (const row of this.view.rows) counts.set(row.status, (counts.get(row.status) || 0) + 1);
    const wanted = [["", "all"], ["refused", "refused"], ...[...counts].map(([status, number]) => [status, `${status} (${number})`])];
    const key = JSON.stringify(wanted);
    if (key === this.statusKey) return;
    this.statusKey = key;
    this.statuses.replaceChildren(...wanted.map(([value, words]) => h("option", { value }, words)));
    this.statuses.value = this.filter.status;
  }
  arrange() {
    const words = this.filter.words.toLowerCase().split(/\s+/).filter(Boolean), { status, order } = this.filter;
    const fits = (row) => (!status || row.status === status || (status === "refused" && !row.barren && row.status !== "valid" && row.status !== "no verdict yet")) &&
      words.every((word) => `${row.id} ${row.by || ""} ${row.note || ""} ${row.reason || ""} ${row.recipes || ""} ${row.role || ""} ${row.status}`.toLowerCase().includes(word));
    let rows = this.view.rows.filter(fits);
    this.depth = null;
    if (order === "fast") rows = rows.slice().sort((a, b) => (b.speedup ?? -1) - (a.speedup ?? -1));
    else if (order === "tree") [rows, this.depth] = treeOrder(rows);
    this.status.textContent = rows.length === this.view.rows.length ? count(rows.length, "row") : `${rows.length.toLocaleString("en")} of ${count(this.view.rows.length, "row")}`;
    this.list.show(rows, this.selected);
  }
  fill(one, row) {
    const level = this.depth ? Math.min(this.depth.get(row.id) || 0, 12) : 0;
    const id = h("span", { class: "id" }, level ? "└ " : "", row.id);
    id.style.paddingLeft = `${level * 10}px`;
    one.className = row.id === this.view.best ? "row best" : "row";
    one.replaceChildren(id, h("span", {}, row.parent || ""), h("span", {}, badge(row.status)), h("span", { class: "right" }, row.speedup === undefined ? "" : times(row.speedup)),
      h("span", { class: "right" }, row.ms === undefined ? "" : ms(row.ms)), h("span", { class: "right" }, row.error === undefined ? "" : small(row.error)), h("span", { class: "words" }, row.status === "valid" ? row.note || row.by || "" : row.reason || row.note || ""));
  }
  // On paper the list has no window: the fastest and the refused stand in a table.
  forPaper(on) {
    if (!on) { this.paper.replaceChildren(); return; }
    const rows = this.view.rows.slice().sort((a, b) => (b.speedup ?? -1) - (a.speedup ?? -1));
    const kept = rows.length > 300 ? [...rows.slice(0, 200), ...rows.slice(-100)] : rows;
    this.paper.replaceChildren(table("Candidates", ["candidate", "from", "verdict", ">speedup", "what it is, or why it was refused"], kept.map((row) => [row.id, row.parent || "", row.status, times(row.speedup), (row.status === "valid" ? row.note : row.reason) || ""])),
      kept.length < rows.length ? `${rows.length - kept.length} rows between are left out on paper.` : "");
  }
}

function header(view, kind) {
  return [h("header", {}, h("p", { class: "soft" }, view.home ? h("a", { href: view.home }, kind) : kind), h("h1", {}, view.title, " ", view.state && badge(view.state)), view.subtitle && h("p", { class: "soft" }, view.subtitle.join(" · ")))];
}
function hero(one, select) {
  return [h("section", { class: "card hero", "aria-label": "Result" },
    h("div", {}, h("div", { class: one.good ? "figure" : "figure none" }, one.figure), one.under && h("p", { class: "soft number" }, one.under)),
    h("div", {}, h("p", {}, h("b", { class: "number" }, one.lead), one.id && one.good && [" with ", h("button", { type: "button", class: "link", onclick: () => select(one.id) }, one.id), one.by && ` by ${one.by}`]),
      one.note && one.good && h("p", {}, one.note), one.basis.map((words, i) => h("p", { class: i && /unreliable/.test(words) ? "why" : "soft" }, words))))];
}
const tiles = (facts) => [h("dl", { class: "tiles" }, facts.map(([figure, words]) => h("div", { class: "tile" }, h("dt", {}, words), h("dd", {}, figure))))];
function inFlight(flight, slots) {
  const waits = (phase) => flight.filter((one) => one.phase === phase).length;
  const words = { agent: "being written", model: "at a model", judge: flight.some((one) => one.worker) ? "waiting for a worker" : "at the judge", worker: "at a worker" };
  const taken = flight.filter((one) => one.worker);
  return [card("In flight", h("p", {}, `${flight.length} of ${count(slots, "place")} taken: ${Object.entries(words).filter(([phase]) => waits(phase)).map(([phase, said]) => `${waits(phase)} ${said}`).join(", ")}.`),
    h("div", { class: "slots", role: "img", "aria-label": `${flight.length} of ${slots} places taken` }, Array.from({ length: Math.min(Math.max(slots, flight.length), 200) }, (_, i) => h("span", { class: flight[i] ? `slot-${flight[i].phase}` : "", title: flight[i] ? `step ${flight[i].step}, ${flight[i].role}: ${flight[i].worker || words[flight[i].phase]} since ${new Date(flight[i].since * 1000).toLocaleTimeString()}` : null }))),
    taken.length > 0 && table("Workers", ["worker", "candidate", "role", "since"], taken.map((one) => [one.worker, h("b", {}, `c${one.step}`), one.role, new Date(one.since * 1000).toLocaleTimeString()])))];
}
function setup(one) {
  return [card("How it was run", h("p", {}, one.versions), h("p", { class: "soft" }, `Device: ${one.device}. `, one.sandbox && `Sandbox: ${one.sandbox}. `, `PIKE ${one.pike}.`), folded("The resolved configuration", text(one.config, "Configuration"))),
    h("footer", {}, "Every figure is computed from the run's journal.")];
}
