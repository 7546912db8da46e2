// What is shown of one candidate: its changes, source, prompt, answer, verdict and profile.
class Details {
  constructor(app) {
    this.app = app;
    this.tab = "changes";
    this.options = { split: window.innerWidth > 1300, whole: false, lean: true, other: "" };
    this.element = h("section", { class: "card details", "aria-label": "The selected candidate" }, h("p", { class: "soft" }, "Choose a candidate from the list."));
    this.turn = 0;
  }
  async show(row, anew) {
    const turn = ++this.turn;
    if (!row) return;
    if (anew) this.options.other = "";
    this.row = row;
    const found = await this.app.details(row.id);
    if (turn !== this.turn) return;
    this.found = found;
    this.paint();
  }
  paint() {
    const { row, found } = this;
    const tabs = [
      ["changes", "Changes", Boolean(found.source)], ["source", "Source", Boolean(found.source)], ["plan", "Plan", Boolean(found.plan)],
      ["prompt", "Prompt", Boolean(found.prompt)], ["answer", "Answer", Boolean(found.answer)],
      ["verdict", "Verdict", Boolean(found.verdict)], ["profile", "Profile", Boolean(found.profile)],
    ].filter(([, , there]) => there);
    if (!tabs.some(([name]) => name === this.tab)) this.tab = tabs.length ? tabs[0][0] : "";
    const focused = this.element.contains(document.activeElement) && document.activeElement.id;
    const panel = h("div", { role: "tabpanel", id: "panel", tabindex: 0, "aria-labelledby": this.tab ? `tab-${this.tab}` : null });
    this.panel = panel;
    const buttons = tabs.map(([name, title]) => h("button", {
      role: "tab", id: `tab-${name}`, type: "button", "aria-selected": name === this.tab, "aria-controls": "panel", tabindex: name === this.tab ? 0 : -1,
      onclick: () => { this.tab = name; this.paint(); document.getElementById(`tab-${name}`).focus(); },
    }, title));
    const strip = h("div", { role: "tablist", class: "tabs", "aria-label": "Parts of the candidate", onkeydown: (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key], at = tabs.findIndex(([name]) => name === this.tab);
      if (move) { event.preventDefault(); buttons[(at + move + tabs.length) % tabs.length].click(); }
    } }, buttons);
    this.element.replaceChildren(...this.head(row), ...(tabs.length ? [strip, panel] : [h("p", { class: "soft" }, found.missing || "Nothing else was kept of it.")]));
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
    if (this.tab) this[`paint_${this.tab}`](panel);
  }
  head(row) {
    const chain = this.app.chain(row).slice(1).map((one) => one.id);
    const facts = [row.by, row.role && `${row.role} ${row.round}`, row.final && "measured again at the end"].filter(Boolean).join(" · ");
    const link = (id) => h("button", { type: "button", class: "link", onclick: () => this.app.select(id, true) }, id);
    return [
      h("h3", { class: "name" }, row.id, " ", badge(row.status), row.id === this.app.view.best && [" ", h("span", { class: "badge quiet" }, this.app.bestWord())]),
      h("p", { class: "soft" }, facts),
      row.speedup !== undefined && h("p", {}, h("b", {}, times(row.speedup)), ` (95 % interval ${row.ci[0].toFixed(2)} to ${row.ci[1].toFixed(2)}), ${ms(row.ms)} per call`,
        row.error !== undefined && `, largest error ${small(row.error)} of ${small(row.allowed)} allowed`),
      row.reason && h("p", { class: row.barren ? "" : "why" }, row.reason),
      row.note && h("p", {}, row.note),
      row.idea && row.idea !== row.note && h("p", { class: "soft" }, `Idea: ${row.idea}`),
      row.recipes && h("p", { class: "soft" }, `Recipes: ${row.recipes}`),
      !row.barren && h("p", { class: "soft" }, "From: ", chain.length > 12 ? [chain.slice(0, 11).map((id) => [link(id), " ← "]), `${chain.length - 11} more ← `] : chain.map((id) => [link(id), " ← "]), "original"),
    ].filter(Boolean);
  }
  field(label, control) { return h("label", {}, label, " ", control); }
  paint_changes(panel) {
    const { options, row } = this, parent = row.parent || "original";
    const known = (id) => id === "original" || this.app.byId.has(id);
    const choices = [...new Set([parent, "original", this.app.view.best].filter((id) => id && id !== row.id && known(id)))];
    const target = options.other || choices[0] || "original";
    const set = (name, value) => { options[name] = value; this.paint(); };
    const select = h("select", { id: "compared", onchange: (event) => set("other", event.target.value) },
      [...new Set([...choices, target])].map((id) => h("option", { value: id }, id === parent ? `${id} (parent)` : id === this.app.view.best ? `${id} (${this.app.bestWord()})` : id)));
    select.value = target;
    const other = h("input", { id: "other", size: 8, placeholder: "any id", "aria-label": "Another candidate to compare with", onchange: (event) => { const id = event.target.value.trim(); if (known(id)) set("other", id); else event.target.setAttribute("aria-invalid", "true"); } });
    const box = (name, label, id) => this.field(label, h("input", { type: "checkbox", id, checked: options[name], onchange: (event) => set(name, event.target.checked) }));
    const body = h("div", {}, h("p", { class: "soft" }, "Reading …"));
    panel.replaceChildren(h("div", { class: "controls" }, this.field("Compared with", select), other, box("split", "Side by side", "split"), box("whole", "Whole file", "whole"),
      row.recipes && box("lean", "Leave out what recipes share", "lean")), body);
    this.compare(target).then((shown) => body.replaceChildren(...shown));
  }
  async compare(target) {
    const before = (await this.app.details(target)).source;
    if (before === undefined) return [h("p", { class: "soft" }, `The text of ${target} is not known.`)];
    const { options, row, found } = this;
    let texts = [before, found.source];
    if (row.recipes && options.lean) {
      const shared = await this.app.shared();
      texts = [target === "original" ? before : withoutShared(before, shared), withoutShared(found.source, shared)];
    }
    return difference(texts[0], texts[1], { ...options, from: target, to: row.id });
  }
  paint_source(panel) { panel.replaceChildren(code(this.found.source, `Source of ${this.row.id}`)); }
  paint_plan(panel) { panel.replaceChildren(text(this.found.plan, "Plan")); }
  paint_prompt(panel) { panel.replaceChildren(this.found.system && folded("System prompt", text(this.found.system, "System prompt")) || "", text(this.found.prompt, "Prompt")); }
  paint_answer(panel) { panel.replaceChildren(pairs(this.found.call || []), text(this.found.answer, "Answer")); }
  paint_verdict(panel) { panel.replaceChildren(pairs(this.found.verdict), ...(this.found.log ? [h("h4", {}, "Log"), text(this.found.log, "Log")] : [])); }
  async paint_profile(panel) {
    const profile = this.found.profile, original = (await this.app.details("original")).profile;
    panel.replaceChildren(...profileOf(profile, original).filter(Boolean));
  }
}
const text = (words, label) => h("pre", { tabindex: 0, role: "region", "aria-label": label }, words);
const pairs = (lines) => h("dl", { class: "pairs" }, lines.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
function profileOf(profile, original) {
  const points = [original && { name: "original", ...original }, { name: original === profile ? "original" : "candidate", ...profile }].filter(Boolean);
  const share = (value) => `${(100 * value).toFixed(1)} %`;
  const facts = [["taken by", profile.source], ["remark", profile.note], ["memory moved", profile.said[0]], ["arithmetic", profile.said[1]],
    ["busy", profile.busy !== null && share(profile.busy)], ["launches a call", profile.launches], ["peak memory", profile.peak], ["ceilings", profile.roof && profile.roof[2]]];
  return [
    profile.hotspots.length > 0 && bars(profile.hotspots.map(([name, part, calls]) => [name, part, `${share(part)}, ${Number(calls.toPrecision(3))} a call`])),
    roofline(points, profile.roof || (original && original.roof)),
    pairs(facts.filter(([, value]) => value)),
  ];
}
