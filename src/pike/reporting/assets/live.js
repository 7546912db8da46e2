// A page that a server keeps current. The token is only ever sent in a header, never in an address.
class Live {
  constructor(app, data) {
    this.app = app;
    this.data = data;
    this.page = null;
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) { sessionStorage.setItem("pike-token", given); history.replaceState(null, "", location.pathname + location.search); }
    this.bar = h("div", { class: "live", role: "status" });
    this.body = h("div", {});
    app.replaceChildren(this.bar, this.body);
    this.say("connecting", "Connecting …");
    this.follow();
  }
  headers() { const token = sessionStorage.getItem("pike-token"); return token ? { Authorization: `Bearer ${token}` } : {}; }
  say(kind, ...words) { this.bar.className = `live ${kind}`; this.bar.replaceChildren(h("span", { class: "lamp", "aria-hidden": "true" }), h("span", {}, words), this.controls || ""); }
  async details(id) {
    try {
      const answer = await fetch(`${this.data.api}/details?id=${encodeURIComponent(id)}`, { headers: this.headers() });
      return answer.ok ? await answer.json() : { missing: await answer.text() };
    } catch { return { missing: "The server does not answer." }; }
  }
  async follow() {
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        const answer = await fetch(`${this.data.api}/events${this.data.query || ""}`, { headers: this.headers(), cache: "no-store" });
        if (answer.status === 401) { this.ask(); return; }
        if (!answer.ok) { this.say("lost", await answer.text()); if (answer.status < 500) return; throw new Error(); }
        wait = 250;
        await this.read(answer.body.getReader());
      } catch { /* the connection is lost: try again */ }
      this.say("lost", "The connection is lost; trying again …");
      await new Promise((go) => setTimeout(go, wait));
    }
  }
  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const line = event.split("\n").find((one) => one.startsWith("data: "));
        if (line) this.take(JSON.parse(line.slice(6)));
      }
    }
  }
  take(event) {
    if (event.problem) { this.say("lost", event.problem); return; }
    if (event.view) this.view = event.view;
    if (event.patch) {
      const changed = new Map(event.rows.map((row) => [row.id, row]));
      const rows = this.view.rows.map((row) => { const next = changed.get(row.id); changed.delete(row.id); return next || row; });
      this.view = { ...this.view, ...event.patch, rows: [...rows.filter((row) => !row.barren), ...[...changed.values()].filter((row) => !row.barren), ...rows.filter((row) => row.barren), ...[...changed.values()].filter((row) => row.barren)] };
    }
    this.view.home = "/";
    this.view.live = true;
    if (!this.page) this.page = new { run: RunPage, index: IndexPage, compare: ComparePage, campaign: CampaignPage }[this.view.kind](this.body, this.view, (id) => this.details(id));
    else this.page.update(this.view);
    const held = this.view.held;
    this.controls = this.view.kind === "run" ? this.buttons(held) : null;
    if (held !== this.held) this.told = "";
    this.held = held;
    this.status();
  }
  status() { this.say("on", this.view.kind === "run" ? (this.held ? "Live: a process works on this run." : "No process works on this run.") : "Live.", this.told ? ` ${this.told}` : ""); }
  buttons(held) {
    if (["finished", "imported"].includes(this.view.state)) return null;
    const act = (verb, title) => h("button", { type: "button", title, onclick: () => this.act(verb) }, verb[0].toUpperCase() + verb.slice(1));
    return h("span", { class: "acts" }, held ? [act("pause", "What is in flight is judged first"), " ", act("stop", "Ends at once")] : act("resume", "A process of its own goes on where the journal ends"));
  }
  async act(verb) {
    if (!sessionStorage.getItem("pike-token")) { this.ask(() => this.act(verb)); return; }
    try {
      const answer = await fetch(`${this.data.api}/${verb}`, { method: "POST", headers: this.headers() });
      if (answer.status === 401) { sessionStorage.removeItem("pike-token"); this.ask(() => this.act(verb)); return; }
      const told = await answer.text();
      if (!answer.ok) { this.say("lost", told); return; }
      this.told = told;
      this.status();
    } catch { this.say("lost", "The server does not answer."); }
  }
  ask(then) {
    const field = h("input", { type: "password", id: "token", autocomplete: "off", size: 36 });
    const form = h("form", { onsubmit: (event) => { event.preventDefault(); sessionStorage.setItem("pike-token", field.value.trim()); (then || (() => this.follow()))(); } }, h("label", {}, "This needs the token that pike serve printed ", field), " ", h("button", { type: "submit" }, "Go on"));
    this.bar.className = "live lost";
    this.bar.replaceChildren(form);
    field.focus();
  }
}
