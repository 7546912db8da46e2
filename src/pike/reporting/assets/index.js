// The pages of a folder, of a comparison and of a campaign.
const ORDERS = { started: (a, b) => b.started - a.started, task: (a, b) => a.task.localeCompare(b.task), speedup: (a, b) => (b.speedup ?? -1) - (a.speedup ?? -1), spent: (a, b) => b.spent[2] - a.spent[2] || b.spent[0] - a.spent[0] };

class IndexPage {
  constructor(app, view, source) {
    this.source = source;
    this.words = ""; this.order = "started"; this.chosen = new Set();
    this.head = new Part(); this.body = new Part();
    const order = h("select", { id: "order", onchange: (event) => { this.order = event.target.value; this.paint(); } }, [["started", "newest first"], ["speedup", "fastest first"], ["task", "by task"], ["spent", "dearest first"]].map(([value, words]) => h("option", { value }, words)));
    this.live = h("div", { class: "slot" });
    app.replaceChildren(this.head.element, this.live, h("div", { class: "controls" }, h("label", {}, "Search ", h("input", { type: "search", id: "search", placeholder: "task, strategy, model", oninput: (event) => { this.words = event.target.value.toLowerCase(); this.paint(); } })), h("label", {}, "Order ", order),
      this.compare = h("a", { class: "button", hidden: true, href: "#" }, "Compare")), this.body.element, h("footer", {}, "Every figure is computed from the runs' journals. A finished run's best was measured again at its end, on fresh data, interleaved with the original."));
    this.update(view);
  }
  update(view) {
    this.view = view;
    document.title = `PIKE: ${view.title}`;
    const done = view.runs.filter((run) => run.state === "finished"), faster = done.filter((run) => run.improved).length;
    const mean = Math.exp(done.reduce((sum, run) => sum + Math.log(Math.max(1, run.speedup || 1)), 0) / Math.max(1, done.length));
    const usd = view.runs.reduce((sum, run) => sum + run.spent[2], 0);
    this.head.show([view.title, view.runs.map((run) => [run.name, run.state, run.speedup, run.usd, run.candidates]), view.campaigns], () => [...header({ title: view.title }, "PIKE runs"),
      tiles([[String(view.runs.length), `${view.runs.length === 1 ? "run" : "runs"}, ${done.length} finished`], [String(faster), "made faster"], [done.length ? times(mean) : "–", "geomean of the finished; the original counts as 1"],
        [view.runs.reduce((sum, run) => sum + run.candidates, 0).toLocaleString("en"), "candidates judged"], [`$${usd.toFixed(2)}`, "spent"]]),
      view.campaigns.length > 0 && card("Campaigns", h("ul", {}, view.campaigns.map((one) => h("li", {}, h("a", { href: one.href }, one.name)))))]);
    this.paint();
  }
  paint() {
    const runs = this.view.runs.filter((run) => `${run.task} ${run.name} ${run.strategy} ${run.model} ${run.state} ${run.by}`.toLowerCase().includes(this.words)).sort(ORDERS[this.order]);
    const live = this.view.live;
    this.compare.hidden = this.chosen.size < 2;
    this.compare.href = `/compare?${[...this.chosen].map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
    this.body.show([runs, live, [...this.chosen]], () => [h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Runs" }, h("table", { class: "runs" }, h("thead", {}, h("tr", {}, [live && "", "task", "", "result", "trajectory", ">candidates", ">spent", ">time", "strategy, model, device"].filter((one) => one !== undefined && one !== false).map((name) => h("th", { scope: "col", class: name.startsWith(">") ? "right" : null }, name.replace(/^>/, "") || h("span", { class: "spoken" }, "state"))))),
      h("tbody", {}, runs.map((run) => this.row(run, live)))))]);
  }
  row(run, live) {
    const axis = run.axes[run.axes.length - 1];
    const points = run.rises.map((one) => [one[axis.at] / axis.unit, one[3]]);
    const queries = run.spent[1] ? `${run.spent[0].toLocaleString("en")} of ${run.spent[1].toLocaleString("en")} queries` : "";
    return h("tr", {},
      live && h("td", {}, h("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, checked: this.chosen.has(run.name), onchange: (event) => { this.chosen[event.target.checked ? "add" : "delete"](run.name); this.paint(); } })),
      h("td", { class: "id" }, h("a", { href: run.href }, run.task), h("div", { class: "soft small" }, run.name)), h("td", {}, badge(run.state), run.flight > 0 && run.state !== "finished" && h("div", { class: "soft small" }, `${run.flight} of ${run.slots} in flight`)),
      h("td", { class: "result" }, h("b", { class: run.improved ? "gain" : "" }, run.said.figure), h("div", { class: "soft small" }, run.improved ? `${run.original} → ${run.best}, ${run.interval}` : run.said.under || run.said.lead), run.by && h("div", { class: "soft small" }, `by ${run.by}`)),
      h("td", {}, points.length > 0 && spark(points, axis.end / axis.unit, `Best so far over time, reaches ${times(points[points.length - 1][1])}`)),
      h("td", { class: "right" }, run.candidates.toLocaleString("en"), h("div", { class: "soft small" }, run.refused ? `${run.refused.toLocaleString("en")} refused` : "")),
      h("td", { class: "right" }, run.usd, h("div", { class: "soft small" }, queries), run.spent[3] !== null && meter(run.spent[2], run.spent[3], "money"), run.spent[1] > 0 && meter(run.spent[0], run.spent[1], "queries")), h("td", { class: "right" }, run.time, h("div", { class: "soft small" }, run.when)), h("td", {}, run.strategy, h("div", { class: "soft small" }, run.model), h("div", { class: "soft small" }, run.device)));
  }
}
function meter(value, most, what) {
  const bar = h("span", {});
  bar.style.width = `${Math.min(100, (100 * value) / (most || 1))}%`;
  return h("div", { class: "meter", role: "img", "aria-label": `${Math.round((100 * value) / (most || 1))} % of the ${what}` }, bar);
}

class ComparePage {
  constructor(app, view) {
    this.part = new Part(); this.axis = "time";
    app.replaceChildren(this.part.element);
    this.update(view);
  }
  update(view) { this.view = view; document.title = `PIKE: ${view.title}`; this.part.show([view, this.axis], () => this.build()); }
  build() {
    const { view } = this, runs = view.runs;
    const names = [...new Set(runs.flatMap((run) => run.axes.map((axis) => axis.name)))];
    const index = { queries: 0, money: 1, time: 2 }[this.axis], label = { queries: "queries with a verdict", money: "US dollars spent", time: "running time in seconds" }[this.axis];
    const end = Math.max(...runs.map((run) => [run.spent[0], run.spent[2], run.seconds][index]), 0);
    const rows = [["state", (run) => badge(run.state)], ["task", (run) => run.task], ["result", (run) => run.said.figure], ["95 % interval", (run) => run.interval], ["original", (run) => run.original], ["best", (run) => run.best], ["by", (run) => run.by || "–"], ["largest error", (run) => run.error],
      ["candidates", (run) => run.candidates.toLocaleString("en")], ["refused", (run) => run.refused.toLocaleString("en")], ["queries", (run) => run.spent[0].toLocaleString("en")], ["spent", (run) => run.usd], ["running time", (run) => run.time], ["strategy", (run) => run.strategy], ["model", (run) => run.model], ["device", (run) => run.device]];
    const devices = new Set(runs.map((run) => run.device)), tasks = new Set(runs.map((run) => run.task));
    return [...header({ title: `${runs.length} runs compared`, home: view.home }, "PIKE runs"),
      (devices.size > 1 || tasks.size > 1) && h("p", { class: "why" }, `These runs differ in ${[tasks.size > 1 && "task", devices.size > 1 && "device"].filter(Boolean).join(" and ")}: their times cannot be compared.`),
      card("Trajectories", h("div", { class: "controls", role: "group", "aria-label": "Horizontal axis" }, names.map((name) => h("button", { type: "button", "aria-pressed": String(name === this.axis), onclick: () => { this.axis = name; this.update(this.view); } }, `by ${name}`))),
        lines("Best speedup so far", label, end, runs.map((run) => ({ name: run.name, points: run.rises.map((one) => [one[index], one[3]]) })))),
      card("Figures", table("Figures", ["figure", ...runs.map((run) => run.name)], rows.map(([name, of]) => [h("b", {}, name), ...runs.map((run) => (name === "task" ? h("a", { href: run.href }, run.task) : of(run)))])))];
  }
}

class CampaignPage {
  constructor(app, view) {
    this.part = new Part();
    app.replaceChildren(this.part.element);
    this.update(view);
  }
  update(view) { this.view = view; document.title = `PIKE: ${view.title}`; this.part.show(view, () => this.build()); }
  build() {
    const { view } = this, cuts = [...new Set(view.standings.map((one) => one.cut))];
    const last = view.standings.filter((one) => one.cut === cuts[cuts.length - 1]), best = Math.max(...last.map((one) => one.clamped), 1);
    const contenders = [...new Set(view.cells.map((cell) => cell.contender))], tasks = [...new Set(view.cells.map((cell) => cell.task))];
    const cellOf = (task, contender) => view.cells.filter((cell) => cell.task === task && cell.contender === contender).map((cell, i) => [i > 0 && h("br"), cell.href ? h("a", { href: cell.href }, cell.speedup === null ? cell.state : times(cell.speedup)) : cell.speedup === null ? h("span", { class: "soft" }, cell.state) : times(cell.speedup)]);
    const columns = ["contender", ">geomean, clamped", ">geomean, unclamped", ...view.fast.map((name) => `>${name}`), ">failed", ">reached"];
    const standing = (cut) => table(`Standings ${cut}`, columns, view.standings.filter((one) => one.cut === cut).map((one) => ({ mark: one.clamped === Math.max(...view.standings.filter((other) => other.cut === cut).map((other) => other.clamped)) && one.clamped > 1 ? "best" : "", cells: [one.contender, ...one.row] })));
    const failed = view.cells.filter((cell) => cell.state === "failed");
    return [...header(view, "PIKE campaign"), tiles(view.facts),
      card("Standings at the end", bars(last.map((one) => [one.contender, Math.max(one.clamped - 1, 0.001 * best), times(one.clamped)])), h("p", { class: "soft" }, "Clamped geomean; a bar begins at 1×."), cuts.length > 0 && standing(cuts[cuts.length - 1]), cuts.length > 1 && folded(`At ${count(cuts.length - 1, "cut")} before`, cuts.slice(0, -1).map((cut) => [h("h3", {}, cut), standing(cut)]))),
      ["queries", "usd"].map((axis) => { const found = view.trajectories.filter((one) => one.axis === axis && view.ends[axis] > 0); return found.length > 0 && card(axis === "usd" ? "Geomean by money" : "Geomean by queries", lines("Clamped geomean", axis === "usd" ? "US dollars spent by each run" : "queries of each run", view.ends[axis], found.map((one) => ({ name: one.contender, points: one.points })))); }),
      card("Every task", table("Speedups by task", ["task", ...contenders.map((name) => `>${name}`)], tasks.map((task) => [task, ...contenders.map((one) => cellOf(task, one))]))),
      failed.length > 0 && card("Runs that failed", table("Runs that failed", ["task", "contender", "why"], failed.map((cell) => [cell.task, cell.contender, cell.reason]))),
      card("Every run", folded(count(view.cells.length, "run"), table("Runs", ["task", "contender", ">repeat", "state", ">speedup", ">candidates", ">queries", ">spent", ">time"], view.cells.map((cell) => [cell.href ? h("a", { href: cell.href }, cell.task) : cell.task, cell.contender, cell.repeat, badge(cell.state), times(cell.speedup), cell.candidates ?? "–", cell.queries ?? "–", cell.usd, cell.time])))),
      card("How to read this", h("ul", {}, view.notes.map((note) => h("li", {}, note)))), h("footer", {}, `Every figure is computed from the runs' journals. The campaign was begun by PIKE ${view.pike}.`)];
  }
}
