"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = document.getElementById("ns").namespaceURI;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2", "1 2", "10 2 4 2"];

  // ---------- small helpers: text only ever goes in as text ----------
  const add = (parent, tag, attributes = {}, text) => {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  };
  const minus = (text) => text.replace(/-/g, "\u2212");
  const whole = (value) => minus(Math.round(value).toLocaleString("en-US"));
  const significant = (value, digits = 5) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    if (size < -5 || size > 8) return minus(value.toExponential(Math.max(0, digits - 2)));
    return minus(value.toFixed(Math.min(20, Math.max(0, digits - 1 - size))));
  };
  const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
  const decode = (points) => {
    let k = 0;
    return { x: points.dk.map((d) => (k += d)), y: points.v };
  };
  const nearest = (sorted, value) => {
    let low = 0, high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle; else high = middle;
    }
    return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || 10 * power;
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && out.length < 40; i++) out.push(i * step || 0);
    return { at: out, decimals };
  };
  // On a scale of powers: 1, 2 and 5 times each where they are few, else the powers themselves, with gaps where they are many.
  const ticksOfPowers = (low, high, count) => {
    const every = Math.max(1, Math.ceil((high - low) / Math.max(1, count)));
    const steps = high - low < 3 ? [1, 2, 5] : [1];
    const out = [];
    for (let p = Math.floor(low); p <= high && out.length < 40; p += every) out.push(...steps.map((m) => m * 10 ** p));
    return { at: out.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high) };
  };
  // Whether values are better drawn on such a scale: all positive, and not all of one size.
  const spansPowers = (values) => values.length > 0 && values.every((v) => v > 0) && Math.max(...values) / 4 > Math.min(...values);
  const tickText = (value, decimals) => {
    if (Math.abs(value) >= 1e7 || decimals > 6) return significant(value, 3);
    return minus(value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  };

  // On paper all charts are drawn for one width, whatever the window's.
  const charts = [];
  let printing = false;
  const forPaper = (on) => { printing = on; charts.forEach((draw) => draw()); };
  addEventListener("beforeprint", () => forPaper(true));
  addEventListener("afterprint", () => forPaper(false));

  // ---------- one chart: axes, lines, and a cursor for mouse, touch and keys ----------
  // make() gives { lines: [{x, y, colour, dash, width, label, area, end}], bands, between: [low, high], level, separators, marks,
  // xLabel, yLabel, xText, idle, label, floor, log }
  const chart = (host, make) => {
    const readout = add(host, "output", { class: "readout", "aria-live": "polite" });
    const box = add(host, "div");
    const keys = add(host, "ul", { class: "keys" });
    let spec, cursor = null, place, layer;

    const draw = () => {
      spec = make();
      const width = printing ? 640 : Math.max(240, Math.round(host.clientWidth || 640));
      const height = width < 380 ? 220 : spec.height || 290;
      box.replaceChildren();
      const plot = add(box, "svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, tabindex: "0", role: "img", "aria-label": spec.label });
      const lines = spec.lines.filter((l) => l.x.length);
      const reduce = (f, of, start) => lines.reduce((best, l) => l[of].reduce((b, v) => f(b, v), best), start);
      let [x0, x1] = spec.xRange || [reduce(Math.min, "x", Infinity), reduce(Math.max, "x", -Infinity)];
      const scaled = spec.log ? Math.log10 : (y) => y;
      let [y0, y1] = spec.yRange || [reduce(Math.min, "y", Infinity), reduce(Math.max, "y", -Infinity)].map(scaled);
      if (!lines.length) [x0, x1, y0, y1] = [0, 1, 0, 1];
      for (const y of [...(spec.between || []), ...(spec.level === undefined ? [] : [spec.level])]) [y0, y1] = [Math.min(y0, y), Math.max(y1, y)];
      if (spec.floor !== undefined) y0 = Math.min(y0, spec.floor);
      if (!(x1 > x0)) [x0, x1] = [x0 - 0.5, x1 + 0.5];
      if (!(y1 > y0)) { const d = Math.abs(y0) * 0.1 || 1; [y0, y1] = [y0 - d, y1 + d]; }
      const room = 0.05 * (y1 - y0);
      [y0, y1] = [spec.floor === undefined ? y0 - room : y0, y1 + room];
      const yTicks = (spec.log ? ticksOfPowers : ticks)(y0, y1, height / 60);
      const yTexts = yTicks.at.map((t) => (spec.log && t < 1 ? significant(t, 1) : tickText(t, yTicks.decimals || 0)));
      const ends = lines.some((l) => l.end);
      const m = { left: 10 + 7 * Math.max(2, ...yTexts.map((t) => t.length)), right: ends ? 24 : 10, top: 20, bottom: 36 };
      const sx = (x) => m.left + (x - x0) / (x1 - x0) * (width - m.left - m.right);
      const sy = (y) => height - m.bottom - (scaled(y) - y0) / (y1 - y0) * (height - m.top - m.bottom);
      const clip = (x) => Math.min(width - m.right, Math.max(m.left, sx(x)));
      for (const band of spec.bands || []) {
        if (clip(band.to) - clip(band.from) < 1) continue;
        add(plot, "rect", { class: band.plain ? "band plain" : "band", x: clip(band.from), y: m.top, width: clip(band.to) - clip(band.from), height: height - m.top - m.bottom });
      }
      if (spec.between) add(plot, "rect", { class: "between", x: m.left, y: sy(spec.between[1]), width: width - m.left - m.right, height: Math.max(1, sy(spec.between[0]) - sy(spec.between[1])) });
      yTicks.at.forEach((t, i) => {
        add(plot, "line", { class: "grid", x1: m.left, x2: width - m.right, y1: sy(t), y2: sy(t) });
        add(plot, "text", { x: m.left - 6, y: sy(t) + 4, "text-anchor": "end" }, yTexts[i]);
      });
      add(plot, "text", { x: 0, y: 11 }, shorten(spec.yLabel, width / 8));
      const xTicks = ticks(x0, x1, width / 110);
      xTicks.at.forEach((t) => {
        add(plot, "line", { class: "axis", x1: sx(t), x2: sx(t), y1: height - m.bottom, y2: height - m.bottom + 4 });
        const anchor = sx(t) > width - 30 ? "end" : "middle";
        add(plot, "text", { x: sx(t), y: height - m.bottom + 17, "text-anchor": anchor }, tickText(t, xTicks.decimals));
      });
      add(plot, "line", { class: "axis", x1: m.left, x2: width - m.right, y1: height - m.bottom, y2: height - m.bottom });
      add(plot, "text", { x: width - m.right, y: height - 3, "text-anchor": "end" }, shorten(spec.xLabel, width / 8));
      for (const mark of spec.marks || []) add(plot, "line", { class: "mark", x1: sx(mark), x2: sx(mark), y1: m.top, y2: height - m.bottom });
      for (const x of (spec.separators || []).filter((x) => x > x0 && x < x1)) add(plot, "line", { class: "separator", x1: sx(x), x2: sx(x), y1: m.top, y2: height - m.bottom });
      if (spec.level !== undefined) add(plot, "line", { class: "level", x1: m.left, x2: width - m.right, y1: sy(spec.level), y2: sy(spec.level) });
      // Lines may leave a range that was not made for them; this frame cuts them off.
      const frame = { x: m.left, y: m.top - 2, width: width - m.left - m.right + 2, height: height - m.top - m.bottom + 3 };
      const inside = add(plot, "svg", { ...frame, viewBox: `${frame.x} ${frame.y} ${frame.width} ${frame.height}` });
      const far = (y) => Math.min(1e5, Math.max(-1e5, sy(y)));
      for (const line of lines) {
        const path = line.x.map((x, i) => `${i ? "L" : "M"}${sx(x).toFixed(1)} ${far(line.y[i]).toFixed(1)}`).join("");
        if (line.area) add(inside, "path", { class: "area", fill: line.colour, d: `${path}L${sx(line.x[line.x.length - 1])} ${sy(y0)}L${sx(line.x[0])} ${sy(y0)}Z` });
        add(inside, "path", { class: "line", stroke: line.colour, "stroke-width": line.width || 1.25, "stroke-dasharray": line.dash || "none", d: path });
        const largest = line.sizes && Math.max(...line.sizes);
        line.sizes?.forEach((size, i) => add(inside, "circle", { class: "dot", cx: sx(line.x[i]), cy: sy(line.y[i]), r: 3 + 6 * Math.sqrt(size / largest), fill: line.colour }));
      }
      for (const band of (spec.bands || []).filter((b) => b.text && clip(b.to) - clip(b.from) > 8 + 7 * b.text.length)) {
        add(plot, "text", { class: "inside", x: clip(band.to) - 8, y: height - m.bottom - 8, "text-anchor": "end" }, band.text);
      }
      place = { sx, sy, width, top: m.top, bottom: height - m.bottom, lines };
      if (ends) endLabels(plot, lines, sx, sy);
      layer = add(plot, "g", { "aria-hidden": "true" });
      plot.addEventListener("pointermove", point);
      plot.addEventListener("pointerdown", point);
      plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) { cursor = null; show(); } });
      plot.addEventListener("keydown", step);
      plot.addEventListener("blur", () => { cursor = null; show(); });
      legend();
      show();
    };

    const endLabels = (plot, lines, sx, sy) => {
      const at = lines.filter((l) => l.end).map((l) => ({ text: l.end, x: sx(l.x[l.x.length - 1]), y: Math.min(place.bottom, Math.max(place.top, sy(l.y[l.y.length - 1]))) }));
      at.sort((a, b) => a.y - b.y);
      for (let i = 1; i < at.length; i++) if (Math.abs(at[i].x - at[i - 1].x) < 20 && at[i].y - at[i - 1].y < 13) at[i].y = at[i - 1].y + 13;
      at.forEach((l) => add(plot, "text", { class: "end", x: l.x + 4, y: l.y + 4 }, l.text));
    };

    const legend = () => {
      keys.replaceChildren();
      for (const key of spec.keys || []) {
        const item = add(keys, "li");
        let inside = item;
        if (key.toggle) {
          inside = add(item, "label");
          const input = add(inside, "input", { type: "checkbox" });
          input.checked = key.on;
          input.addEventListener("change", () => { key.toggle(input.checked); draw(); [...keys.querySelectorAll("input")][spec.keys.filter((k) => k.toggle).findIndex((k) => k.text === key.text)]?.focus(); });
        }
        swatch(inside, key.colour, key.dash, key.width);
        add(inside, "span", {}, key.text);
      }
    };

    const show = () => {
      layer.replaceChildren();
      if (!cursor || !place.lines[cursor.line]) { readout.textContent = spec.idle || "\u00a0"; return; }
      const chosen = place.lines[cursor.line];
      const x = chosen.x[cursor.i];
      add(layer, "line", { class: "cursor", x1: place.sx(x), x2: place.sx(x), y1: place.top, y2: place.bottom });
      const shown = place.lines.length <= 2 ? place.lines : [chosen];
      const parts = [];
      for (const line of shown) {
        const i = line === chosen ? cursor.i : nearest(line.x, x);
        if (line !== chosen && (x < line.x[0] || x > line.x[line.x.length - 1])) continue;
        const cy = Math.min(place.bottom, Math.max(place.top, place.sy(line.y[i])));
        add(layer, "circle", { class: "dot", cx: place.sx(line.x[i]), cy, r: 4, fill: line.colour });
        parts.push(`${line.label} ${significant(line.y[i])}`);
      }
      readout.textContent = `${spec.xText(x)}: ${parts.join(", ")}`;
    };

    const point = (event) => {
      const rect = event.currentTarget.getBoundingClientRect();
      const scale = place.width / rect.width;
      const [px, py] = [(event.clientX - rect.left) * scale, (event.clientY - rect.top) * scale];
      let best = null;
      place.lines.forEach((line, index) => {
        const pixels = (line.pixels ||= line.x.map(place.sx));
        const i = nearest(pixels, px);
        // Sideways counts more, so that the cursor follows the hand.
        const distance = Math.hypot(3 * (pixels[i] - px), place.sy(line.y[i]) - py);
        if (!best || distance < best.distance) best = { line: index, i, distance };
      });
      cursor = best;
      show();
    };

    const step = (event) => {
      if (!place.lines.length) return;
      const now = cursor || { line: 0, i: -1 };
      const last = place.lines[now.line].x.length - 1;
      const far = event.shiftKey ? 10 : 1;
      const moves = { ArrowRight: now.i + far, ArrowLeft: now.i - far, Home: 0, End: last };
      if (event.key in moves) {
        cursor = { line: now.line, i: Math.min(last, Math.max(0, moves[event.key])) };
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const count = place.lines.length;
        const line = (now.line + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
        const x = place.lines[now.line].x[Math.max(0, now.i)];
        cursor = { line, i: nearest(place.lines[line].x, x) };
      } else if (event.key === "Escape") {
        cursor = null;
      } else {
        return;
      }
      event.preventDefault();
      show();
    };

    let seen = 0;
    new ResizeObserver(() => { if (!printing && host.clientWidth !== seen) { seen = host.clientWidth; draw(); } }).observe(host);
    seen = host.clientWidth;
    draw();
    charts.push(draw);
    return draw;
  };

  const swatch = (parent, colour, dash, width) => {
    const svg = add(parent, "svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
    add(svg, "line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke: colour, "stroke-width": width || 2, "stroke-dasharray": dash || "none" });
  };
  const controls = (host) => host.querySelector(".controls") || add(host, "div", { class: "controls" });
  const chooser = (host, text, options, change) => {
    const label = add(controls(host), "label", {}, text);
    const select = add(label, "select");
    options.forEach((o, i) => add(select, "option", { value: i }, o));
    select.addEventListener("change", () => change(Number(select.value)));
  };
  let groups = 0;
  const radios = (host, text, options, change, first = 0) => {
    const set = add(controls(host), "fieldset");
    add(set, "legend", {}, text);
    const name = `choice${groups++}`;
    options.forEach((o, i) => {
      const label = add(set, "label");
      const input = add(label, "input", { type: "radio", name, value: i });
      input.checked = i === first;
      input.addEventListener("change", () => change(i));
      add(label, "span", {}, o);
    });
  };
  const colour = (i) => `var(--c${i % 8})`;
  const cutFrom = (line, k) => {
    const from = line.x.findIndex((x) => x > k);
    return from < 0 ? { x: [], y: [] } : { x: line.x.slice(from), y: line.y.slice(from) };
  };
  // The first part of a run is on the way: burn-in, or the search of a fit in stages.
  const head = (run) => {
    if (run.stages.length) {
      const end = run.stages[0].name === "search" ? run.stages[0].to : -1;
      return { end, text: "after the search", there: end >= 0 && run.reached > end };
    }
    return { end: run.burn_in, text: "after burn-in", there: run.burn_in > 0 && run.reached > run.burn_in };
  };
  const range = (host, runs, change, first = 0) => {
    const texts = [...new Set(runs.map(head).filter((h) => h.there).map((h) => h.text))];
    if (texts.length) radios(host, "Range", ["whole run", texts.length > 1 ? "after search and burn-in" : texts[0]], change, first);
    return texts.length > 0;
  };
  // Shades what a run did first, or the stages one by one.
  const parts = (run, settled) => {
    if (!run.stages.length) return { bands: settled ? [] : [{ from: 0, to: Math.min(run.burn_in, run.reached), text: "burn-in" }] };
    const shown = run.stages.filter((s) => !settled || s.name !== "search");
    return {
      bands: shown.map((s) => ({ from: s.from - 0.5, to: s.to + 0.5, text: s.name, plain: s.name === "average" })),
      separators: shown.slice(1).map((s) => s.from - 0.5),
    };
  };
  const stepText = (run) => (k) => `${run.unit} ${whole(k)}`;
  const percent = (level) => `${Number((100 * level).toPrecision(6))} %`;

  // ---------- the charts of a report ----------
  const thetaChart = (host) => {
    const run = data.runs[0];
    // A search takes theta far and tells little: such a fit opens on what came after.
    let which = 0, settled = run.stages.length > 0 && head(run).there, banded = true, draw = () => {};
    if (run.theta.length > 1) chooser(host, "Component", run.theta.map((t) => t.name), (i) => { which = i; draw(); });
    range(host, [run], (i) => { settled = i === 1; draw(); }, Number(settled));
    draw = chart(host, () => {
      const t = run.theta[which];
      const [trace, average] = [decode(t.trace), decode(t.average)].map((l) => (settled ? cutFrom(l, head(run).end) : l));
      const says = [];
      if (t.mean !== null) says.push(`estimate ${significant(t.mean, 4)}`);
      if (t.se) says.push(`standard error ${significant(t.se, 3)}`);
      if (t.error) says.push(`MC error ${significant(t.error, 2)}`);
      const idle = says.join(", ");
      const lines = [{ ...trace, colour: colour(0), width: 1, label: t.name }];
      const keys = [{ text: t.name, colour: colour(0), width: 1.5 }];
      if (average.x.length > 1) {
        lines.push({ ...average, colour: colour(1), width: 2.25, dash: DASHES[1], label: "average" });
        keys.push({ text: "time average after burn-in", colour: colour(1), width: 2.25, dash: DASHES[1] });
      } else if (t.mean !== null) {
        keys.push({ text: "estimate", colour: "var(--ink)", width: 1.25, dash: "4 3" });
      }
      if (t.interval) keys.push({ text: `${percent(run.level)} interval (without it the trace is seen more closely)`, colour: "var(--between)", width: 10, on: banded, toggle: (on) => { banded = on; } });
      return {
        lines, keys, xLabel: run.unit, yLabel: t.name, xText: stepText(run), idle, ...parts(run, settled),
        level: average.x.length > 1 || t.mean === null ? undefined : t.mean,
        between: t.interval && banded ? t.interval : undefined,
        label: `Trace of ${t.name} over ${whole(run.reached)} ${run.unit}s; ${idle}. Arrow keys move along it.`,
      };
    });
  };

  const scalarChart = (host) => {
    const run = data.runs[0];
    const { name, label: text, what } = host.dataset;
    const all = decode(run.scalars[name]);
    let settled = false, draw = () => {};
    range(host, [run], (i) => { settled = i === 1; draw(); });
    const log = host.dataset.log !== undefined && spansPowers(all.y);
    draw = chart(host, () => ({
      lines: [{ ...(settled ? cutFrom(all, head(run).end) : all), colour: colour(0), width: 1.5, label: text }],
      log, xLabel: run.unit, yLabel: log ? `${text} (logarithmic)` : text, xText: stepText(run), floor: name === "acceptance" ? 0 : undefined,
      ...parts(run, settled),
      idle: `last ${significant(all.y[all.y.length - 1])} at ${run.unit} ${whole(all.x[all.x.length - 1])}`,
      label: `${what}, over ${whole(run.reached)} ${run.unit}s. Arrow keys move along it.`,
    }));
  };

  const densityChart = (host) => {
    const rows = data.runs[0].posterior;
    const table = document.querySelector("table.intervals tbody");
    let which = Math.max(0, rows.findIndex((r) => r.density));
    const draw = chart(host, () => {
      const r = rows[which], d = r.density;
      const line = d ? { x: d.y.map((_, i) => d.start + i * d.step), y: d.y.map((y) => y / 1000 * d.peak) } : { x: [], y: [] };
      const says = `${r.name}: mean ${significant(r.mean, 4)}, sd ${significant(Math.sqrt(r.var), 3)}, 90 % in ${significant(r.q05, 4)} to ${significant(r.q95, 4)}`;
      return {
        lines: [{ ...line, colour: colour(0), width: 1.75, label: "density", area: true }],
        bands: [{ from: r.q05, to: r.q95 }], marks: d ? [r.mean] : [], floor: 0, height: 365,
        xLabel: r.name, yLabel: "density", xText: (x) => `${r.name} = ${significant(x)}`,
        idle: d ? says : `${r.name}: all particles have the value ${significant(r.mean)}`,
        label: `Posterior density of ${says}. Arrow keys move along it.`,
        keys: [{ text: "density", colour: colour(0), width: 1.75 }, { text: "mean", colour: "var(--ink)", width: 1, dash: "4 3" }, { text: "90 % interval", colour: "var(--band)", width: 10 }],
      };
    });
    const select = (i) => {
      table.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
      table.querySelectorAll("button[aria-pressed]").forEach((b) => b.removeAttribute("aria-pressed"));
      const row = table.querySelector(`tr[data-i="${i}"]`);
      row.setAttribute("aria-selected", "true");
      row.querySelector("button")?.setAttribute("aria-pressed", "true");
      which = i;
      draw();
    };
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && rows[row.dataset.i].q05 !== null) select(Number(row.dataset.i));
    });
    select(which);
  };

  const search = (input) => {
    const rows = [...document.querySelectorAll("table.intervals tbody tr")];
    const names = rows.map((r) => r.cells[0].textContent.toLowerCase());
    const found = document.querySelector("[data-found]");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let count = 0;
      rows.forEach((row, i) => { const hit = names[i].includes(wanted); row.hidden = !hit; count += hit; });
      found.textContent = wanted ? `${whole(count)} of ${whole(rows.length)} coordinates` : `${whole(rows.length)} coordinates`;
    });
  };

  // Intervals below each other, the strongest on top. Rows are read with the arrow keys.
  const forestChart = (host) => {
    const { rows, of } = data.runs[0].coefficients;
    const level = percent(data.runs[0].level);
    const readout = add(host, "output", { class: "readout", "aria-live": "polite" });
    const box = add(host, "div");
    const says = (r) => `${r.name}: ${significant(r.mean, 3)}, ${level} in ${significant(r.interval[0], 3)} to ${significant(r.interval[1], 3)}`;
    const idle = `Coefficients of standardised features with ${level} intervals${of > rows.length ? `: the ${rows.length} largest of ${whole(of)}` : ", largest first"}`;
    let chosen = null, seen = 0;
    const draw = () => {
      const width = printing ? 640 : Math.max(240, Math.round(host.clientWidth || 640));
      const most = Math.max(6, Math.floor(width / 26));
      const names = rows.map((r) => shorten(r.name, most));
      const left = 14 + 7 * Math.max(4, ...names.map((n) => n.length)), right = 14, step = 22, top = 6;
      const height = top + step * rows.length + 28;
      box.replaceChildren();
      const plot = add(box, "svg", { class: "plot forest", viewBox: `0 0 ${width} ${height}`, tabindex: "0", role: "img", "aria-label": `${idle}. Up and down arrow keys read them.` });
      const low = Math.min(0, ...rows.map((r) => r.interval[0])), high = Math.max(0, ...rows.map((r) => r.interval[1]));
      const sx = (x) => left + (x - low) / (high - low || 1) * (width - left - right);
      const scale = ticks(low, high, (width - left) / 90);
      scale.at.forEach((t) => {
        add(plot, "line", { class: t === 0 ? "level" : "grid", x1: sx(t), x2: sx(t), y1: top, y2: height - 24 });
        add(plot, "text", { x: sx(t), y: height - 8, "text-anchor": "middle" }, tickText(t, scale.decimals));
      });
      rows.forEach((r, i) => {
        const y = top + step * (i + 0.5);
        const sure = r.interval[0] > 0 || r.interval[1] < 0;
        add(plot, "text", { class: i === chosen ? "name chosen" : "name", x: left - 8, y: y + 4, "text-anchor": "end" }, names[i]);
        add(plot, "line", { class: "line", stroke: sure ? colour(0) : "var(--faint)", "stroke-width": i === chosen ? 4 : 2.25, x1: sx(r.interval[0]), x2: Math.max(sx(r.interval[0]) + 1, sx(r.interval[1])), y1: y, y2: y });
        add(plot, "circle", { class: "dot", cx: sx(r.mean), cy: y, r: 4.5, fill: sure ? colour(0) : "var(--faint)" });
      });
      const choose = (i) => { if (i !== chosen) { chosen = i; const had = document.activeElement === plot; draw(); if (had) box.firstChild.focus(); } };
      plot.addEventListener("pointermove", (event) => {
        const rect = plot.getBoundingClientRect();
        const i = Math.floor(((event.clientY - rect.top) * height / rect.height - top) / step);
        choose(i >= 0 && i < rows.length ? i : null);
      });
      plot.addEventListener("pointerleave", () => choose(null));
      plot.addEventListener("keydown", (event) => {
        const now = chosen === null ? -1 : chosen;
        const moves = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: rows.length - 1 };
        if (event.key === "Escape") choose(null);
        else if (event.key in moves) { event.preventDefault(); choose(Math.min(rows.length - 1, Math.max(0, moves[event.key]))); }
      });
      readout.textContent = chosen === null ? idle : says(rows[chosen]);
    };
    new ResizeObserver(() => { if (!printing && host.clientWidth !== seen) { seen = host.clientWidth; draw(); } }).observe(host);
    seen = host.clientWidth;
    draw();
    charts.push(draw);
  };

  const diagonal = { x: [0, 1], y: [0, 1], colour: "var(--faint)", width: 1, dash: "4 3", label: "" };
  const rocChart = (host) => {
    const { roc } = data.runs[0].test;
    const auc = data.runs[0].metrics.auc;
    chart(host, () => ({
      lines: [{ x: roc.map((p) => p[0]), y: roc.map((p) => p[1]), colour: colour(0), width: 2, label: "recognised", area: true }, { ...diagonal, label: "chance" }],
      xRange: [0, 1], yRange: [0, 1], xLabel: "false positives", yLabel: `${host.dataset.name}: true positives`,
      xText: (x) => `false alarms ${significant(x, 3)}`, idle: `ROC curve: area ${significant(auc, 4)}`,
      label: `ROC curve of ${host.dataset.name}; the area under it is ${significant(auc, 4)}. Arrow keys move along it.`,
      keys: [{ text: "ROC", colour: colour(0), width: 2 }, { text: "chance", colour: "var(--faint)", width: 1, dash: "4 3" }],
    }));
  };
  const calibrationChart = (host) => {
    const bins = data.runs[0].test.calibration;
    chart(host, () => ({
      lines: [{ x: bins.map((b) => b.predicted), y: bins.map((b) => b.observed), colour: colour(0), width: 2, label: "came true", sizes: bins.map((b) => b.rows) }, { ...diagonal, label: "calibrated" }],
      xRange: [0, 1], yRange: [0, 1], xLabel: "predicted probability", yLabel: `share of ${host.dataset.name}`,
      xText: (x) => { const b = bins[nearest(bins.map((b) => b.predicted), x)]; return `predicted ${significant(b.predicted, 3)}, ${whole(b.rows)} row${b.rows === 1 ? "" : "s"}`; },
      idle: "Calibration: larger points stand for more rows",
      label: `Calibration of the probability of ${host.dataset.name} in ${bins.length} bins. Arrow keys move along it.`,
      keys: [{ text: "observed", colour: colour(0), width: 2 }, { text: "calibrated", colour: "var(--faint)", width: 1, dash: "4 3" }],
    }));
  };

  const hidden = new Set();
  const overlays = [];
  const overlayChart = (host) => {
    // The chart of theta has no column of its own.
    const { name, label: text } = host.dataset;
    const ofTheta = name === "";
    const staged = data.runs.filter((r) => r.stages.length).length;
    // As the chart of one fit: it opens on what came after the search.
    let settled = ofTheta && data.runs.every((r) => r.stages.length && head(r).there), which = 0, draw = () => {};
    const names = [...new Set(data.runs.flatMap((r) => r.theta.map((t) => t.name)))];
    if (ofTheta && names.length > 1) chooser(host, "Component", names, (i) => { which = i; draw(); });
    const timed = data.runs.filter((r) => r.time && r.time.steps > 0);
    // Runs for the same time make very different numbers of steps.
    const made = timed.map((r) => r.time.steps);
    let inTime = timed.length === data.runs.length && Math.max(...made) > 3 * Math.min(...made);
    if (timed.length) radios(host, "Horizontal axis", ["by steps", "by time"], (i) => { inTime = i === 1; draw(); }, Number(inTime));
    range(host, data.runs, (i) => { settled = i === 1; draw(); }, Number(settled));
    const unit = staged === data.runs.length ? "sweep" : staged ? "step or sweep" : "step";
    draw = chart(host, () => {
      const lines = [], keys = [];
      data.runs.forEach((run, i) => {
        const points = ofTheta ? run.theta.find((t) => t.name === names[which])?.trace : run.scalars[name];
        if (!points || !points.v.length || (inTime && !timed.includes(run))) return;
        const on = !hidden.has(i);
        const dash = DASHES[i % 8];
        keys.push({ text: `${run.label}  ${run.dir}`, colour: colour(i), dash, width: 2, on, toggle: (value) => { if (value) hidden.delete(i); else hidden.add(i); overlays.forEach((d) => d !== draw && d()); } });
        if (!on) return;
        const line = settled ? cutFrom(decode(points), head(run).end) : decode(points);
        if (inTime) line.x = line.x.map((k) => run.time.seconds * k / run.time.steps);
        lines.push({ ...line, colour: colour(i), dash, width: 1.5, label: `run ${run.label}, ${ofTheta ? names[which] : text}`, end: run.label, finished: run.time !== null });
      });
      // A run that diverged would hide all others, which lie within its first pixel.
      const span = (some) => [Math.min(...some.flatMap((l) => l.y)), Math.max(...some.flatMap((l) => l.y))];
      const finished = lines.filter((l) => l.finished && l.y.length);
      let yRange;
      if (finished.length && finished.length < lines.length) {
        const [[low, high], [least, most]] = [span(finished), span(lines)];
        const room = Math.max(high - low, 0.1 * Math.max(Math.abs(low), Math.abs(high))) || 1;
        if (most - least > 20 * room) {
          yRange = [low - 2 * room, high + 2 * room];
          for (const line of lines.filter((l) => !l.finished)) {
            // From where it leaves the picture it would only blacken it.
            const gone = line.y.findIndex((y) => y < yRange[0] || y > yRange[1]);
            if (gone >= 0) [line.x, line.y] = [line.x.slice(0, gone + 1), line.y.slice(0, gone + 1)];
          }
        }
      }
      const left = data.runs.length - timed.length;
      const log = host.dataset.log !== undefined && !yRange && spansPowers(lines.flatMap((l) => l.y));
      return {
        lines, keys, yRange, log, xLabel: inTime ? "seconds" : unit,
        yLabel: ofTheta ? names[which] : log ? `${text} (logarithmic)` : text,
        xText: inTime ? (x) => `${significant(x, 4)} s` : (k) => `${unit} ${whole(k)}`,
        idle: inTime && left ? `${left} unfinished ${left > 1 ? "runs have" : "run has"} no time yet` : "Point at a line for its values, or use the arrow keys.",
        label: `${text} of ${lines.length} runs ${inTime ? "against time" : "against steps"}. Left and right arrow keys move along a run, up and down change the run.`,
      };
    });
    overlays.push(draw);
  };

  const kinds = { theta: thetaChart, scalar: scalarChart, density: densityChart, overlay: overlayChart, forest: forestChart, roc: rocChart, calibration: calibrationChart };
  document.querySelectorAll("[data-chart]").forEach((host) => kinds[host.dataset.chart](host));
  document.querySelectorAll("[data-search]").forEach(search);
  document.querySelectorAll("table.runs tbody").forEach((body) => body.querySelectorAll(".key").forEach((cell, i) => {
    cell.append(" ");
    swatch(cell, colour(i), DASHES[i % 8]);
  }));
})();
