// Charts as SVG: step lines of the best so far, dots of valid candidates, refused ones in a lane below.
const W = 860, H = 300, LEFT = 72, RIGHT = 16, TOP = 12, BASE = 46, LANE = 22, LOG_FROM = 8;
const COLOURS = 8;

function ticks(low, high, most) {
  const span = high - low || 1;
  let step = 10 ** Math.floor(Math.log10(span / most));
  for (const factor of [1, 2, 2.5, 5, 10]) if (span / (step * factor) <= most) { step *= factor; break; }
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}
function logTicks(low, high) {
  const found = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade++)
    for (const factor of [1, 2, 5]) { const at = factor * 10 ** decade; if (at >= low && at <= high) found.push(at); }
  return found;
}
// The range of an axis of speedups: fitted to the values and to 1, logarithmic where they span much.
function fitted(values) {
  let low = 1, high = 1;
  for (const value of values) { if (value > 0 && value < low) low = value; if (value > high) high = value; }
  if (high / low > LOG_FROM) return { low: low / 1.15, high: high * 1.15, log: true };
  const pad = Math.max((high - low) * 0.08, 0.0005);
  return { low: low - pad, high: high + pad, log: false };
}
function scale(low, high, from, to, log) {
  const f = log ? Math.log : (value) => value;
  const a = f(low), b = f(high) - a || 1;
  return (value) => from + ((f(log ? Math.max(value, low) : value) - a) / b) * (to - from);
}
const tick = (value, all) => { const gap = all.length > 1 ? Math.abs(all[1] - all[0]) : 1; return `${value.toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(gap) - 1e-9))))}×`; };

function frame(label, x, y, range, xTicks, xLabel, bottom) {
  const yTicks = range.log ? logTicks(range.low, range.high) : ticks(range.low, range.high, 6);
  return [
    svg("title", {}, label),
    yTicks.map((at) => [
      svg("line", { class: at === 1 ? "grid one" : "grid", x1: LEFT, x2: W - RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { class: "tick", x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, range.log ? `${at}×` : tick(at, yTicks)),
    ]),
    xTicks.map((at) => svg("text", { class: "tick", x: x(at), y: bottom + 18, "text-anchor": "middle" }, at.toLocaleString("en"))),
    svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: bottom, y2: bottom }),
    svg("text", { class: "label", x: (LEFT + W - RIGHT) / 2, y: bottom + 38, "text-anchor": "middle" }, xLabel),
    svg("text", { class: "label", x: 14, y: (TOP + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + bottom) / 2})` }, "speedup"),
  ];
}
function stepped(points, x, y, end, start = 1) {
  let path = `M${x(0).toFixed(1)},${y(start).toFixed(1)}`;
  for (const [at, value] of points) path += `H${x(at).toFixed(1)}V${y(value).toFixed(1)}`;
  return `${path}H${x(end).toFixed(1)}`;
}

// One run: `rows` with their places, the axis to draw against, the selected row's ancestors.
function trajectory(view, axis, rows, chain, select) {
  const at = (row) => row.at[axis.at] / axis.unit;
  const placed = rows.filter((row) => row.at);
  const good = placed.filter((row) => row.searched !== undefined), bad = placed.filter((row) => row.searched === undefined);
  const range = fitted([...good.map((row) => row.searched), ...(view.level || [])]);
  let end = axis.end / axis.unit;
  for (const row of placed) end = Math.max(end, at(row));
  end = end || 1;
  const bottom = H - BASE - (bad.length ? LANE : 0);
  const x = scale(0, end, LEFT, W - RIGHT), y = scale(range.low, range.high, bottom, TOP, range.log);
  let best = 1;
  const rises = [];
  for (const row of good) if (row.searched > best) { best = row.searched; rises.push([at(row), best]); }
  const dot = (row) => `M${x(at(row)).toFixed(1)},${y(row.searched).toFixed(1)}h0`;
  const winner = rows.find((row) => row.id === view.best && row.at && row.searched !== undefined);
  const label = `Speedup of ${count(good.length, "valid candidate")} against ${axis.label}; the best so far reaches ${times(best)}; ${count(bad.length, "candidate")} refused`;
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    frame(label, x, y, range, ticks(0, end, 7).filter((one) => axis.at !== 0 || Number.isInteger(one)), axis.label, H - BASE),
    view.level && [
      svg("rect", { class: "interval", x: LEFT, width: W - RIGHT - LEFT, y: y(view.level[2]), height: Math.max(1, y(view.level[0]) - y(view.level[2])) }),
      svg("line", { class: "level", x1: LEFT, x2: W - RIGHT, y1: y(view.level[1]), y2: y(view.level[1]) }),
    ],
    svg("path", { class: good.length > 400 ? "dots many" : "dots", d: good.map(dot).join("") }),
    svg("path", { class: "best", d: stepped(rises, x, y, end) }),
    bad.length > 0 && [
      svg("text", { class: "tick", x: LEFT - 8, y: H - BASE - 6, "text-anchor": "end" }, "refused"),
      svg("path", { class: bad.length > 400 ? "refused many" : "refused", d: bad.map((row) => `M${x(at(row)).toFixed(1)},${H - BASE - LANE + 7}v11`).join("") }),
    ],
    chain.length > 1 && svg("path", { class: "chain", d: chain.filter((row) => row.at && row.searched !== undefined).map((row, i) => `${i ? "L" : "M"}${x(at(row)).toFixed(1)},${y(row.searched).toFixed(1)}`).join("") }),
    chain[0] && chain[0].at && chain[0].searched !== undefined && svg("circle", { class: "selected", cx: x(at(chain[0])), cy: y(chain[0].searched), r: 7 }),
    winner && svg("circle", { class: "winner", cx: x(at(winner)), cy: y(winner.searched), r: 6 }));
  const tip = h("div", { class: "tip", hidden: true });
  const nearest = (event) => {
    const box = drawing.getBoundingClientRect();
    const px = ((event.clientX - box.left) * W) / box.width, py = ((event.clientY - box.top) * H) / box.height;
    let found = null, distance = 400;
    for (const row of placed) {
      const dx = x(at(row)) - px, dy = (row.searched === undefined ? H - BASE - LANE + 12 : y(row.searched)) - py;
      if (dx * dx + dy * dy < distance) { distance = dx * dx + dy * dy; found = row; }
    }
    return found;
  };
  drawing.addEventListener("mousemove", (event) => {
    const row = nearest(event);
    tip.hidden = !row;
    drawing.classList.toggle("over", Boolean(row));
    if (!row) return;
    tip.textContent = `${row.id} ${row.by || ""}: ${row.searched === undefined ? `${row.status}: ${row.reason || ""}` : times(row.searched)}`.slice(0, 160);
    const box = drawing.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 220)}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  });
  drawing.addEventListener("mouseleave", () => { tip.hidden = true; });
  drawing.addEventListener("click", (event) => { const row = nearest(event); if (row) select(row.id, true); });
  return h("div", { class: "plot" }, drawing, tip);
}

// Several runs or contenders: one step line each.
function lines(label, xLabel, end, series) {
  const range = fitted(series.flatMap((one) => one.points.map((point) => point[1])));
  const bottom = H - BASE, x = scale(0, end || 1, LEFT, W - RIGHT), y = scale(range.low, range.high, bottom, TOP, range.log);
  const said = `${label}: ${series.map((one) => `${one.name} reaches ${times(one.points.length ? one.points[one.points.length - 1][1] : 1)}`).join("; ")}`;
  return [
    svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": said },
      frame(said, x, y, range, ticks(0, end || 1, 7), xLabel, bottom),
      series.map((one, i) => svg("path", { class: `best c${i % COLOURS}`, d: stepped(one.points, x, y, end || 1) }))),
    h("div", { class: "key" }, series.map((one, i) => h("span", {}, h("i", { class: `c${i % COLOURS}` }), one.name))),
  ];
}
function spark(points, end, label) {
  const range = fitted(points.map((point) => point[1]));
  const x = scale(0, end || 1, 1, 119), y = scale(range.low, range.high, 25, 3, range.log);
  return svg("svg", { class: "spark", viewBox: "0 0 120 28", role: "img", "aria-label": label }, svg("path", { class: "best", d: stepped(points, x, y, end || 1) }));
}

// Operations a second over operations a byte, below the device's roof.
function roofline(points, roof) {
  const known = points.filter((one) => one.intensity > 0 && one.operations > 0);
  if (!roof || !known.length) return null;
  const ridge = roof[1] / roof[0];
  const xs = [...known.map((one) => one.intensity), ridge], ys = [...known.map((one) => one.operations), roof[1]];
  const x0 = Math.min(...xs) / 8, x1 = Math.max(...xs) * 8, y0 = Math.min(...ys, x0 * roof[0]) / 2, y1 = Math.max(...ys) * 3, bottom = H - BASE;
  const x = scale(x0, x1, LEFT, W - RIGHT, true), y = scale(y0, y1, bottom, TOP, true);
  const label = `Roofline: ${known.map((one) => `${one.name} reaches ${one.operations.toExponential(1)} operations a second`).join("; ")}, of ${roof[1].toExponential(1)}`;
  const power = (at) => `10^${Math.round(Math.log10(at))}`;
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    logTicks(y0, y1).filter((at) => String(at.toExponential()).startsWith("1e")).map((at) => [svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(at), y2: y(at) }), svg("text", { class: "tick", x: LEFT - 8, y: y(at) + 4, "text-anchor": "end" }, power(at))]),
    logTicks(x0, x1).filter((at) => String(at.toExponential()).startsWith("1e")).map((at) => svg("text", { class: "tick", x: x(at), y: bottom + 18, "text-anchor": "middle" }, power(at))),
    svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: bottom, y2: bottom }),
    svg("text", { class: "label", x: W / 2, y: bottom + 38, "text-anchor": "middle" }, "operations for each byte that must move"),
    svg("text", { class: "label", x: 14, y: 130, "text-anchor": "middle", transform: "rotate(-90 14 130)" }, "operations a second"),
    svg("path", { class: "best", d: `M${x(x0)},${y(x0 * roof[0])}L${x(ridge)},${y(roof[1])}H${x(x1)}` }),
    known.map((one, i) => [svg("circle", { class: i ? "winner" : "plain", cx: x(one.intensity), cy: y(one.operations), r: 6 }), svg("text", { class: "tick", x: x(one.intensity) + 10, y: y(one.operations) + 4 }, one.name)]));
}
