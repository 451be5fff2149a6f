"use strict";
// Draws what Grafana would show of a dashboard (`shown.mjs`); time series with uPlot, which Grafana draws them with, too.

const COLUMN = 1264 / 24, HEIGHT = 34, GAP = 4, ROW = 30;
const NEUTRAL = "#ccccdc", LINE = "#2c3038", FAINT = "#8e8e9c";

function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === "style") Object.assign(made.style, value); else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Rows of a dashboard are less high here than a row of panels: titles alone.
function place(panels) {
  let top = 0, from = 0, base = 0;
  return panels.map((panel) => {
    const { x, y, w, h } = panel.gridPos;
    if (panel.type === "row") {
      from = y + 1;
      const at = top;
      base = top + ROW;
      top = base;
      return { panel, box: { left: 0, top: at, width: COLUMN * 24, height: ROW } };
    }
    const box = { left: x * COLUMN, top: base + (y - from) * HEIGHT, width: w * COLUMN - GAP, height: h * HEIGHT - GAP };
    top = Math.max(top, box.top + box.height + GAP);
    return { panel, box };
  });
}

const px = (box) => Object.fromEntries(Object.entries(box).map(([key, value]) => [key, Math.round(value) + "px"]));

function stats(panel, box) {
  const each = box.width / panel.numbers.length, longest = Math.max(...panel.numbers.map((one) => one.text.length));
  const size = Math.max(13, Math.min(box.height / 2.6, (each - 20) / (0.62 * longest)));
  return element("div", { className: "stats" }, ...panel.numbers.map((one) => {
    const plain = one.color.toLowerCase() === NEUTRAL;
    const named = panel.numbers.length > 1 || one.name !== "Value" ? one.name : "";
    return element("div", { style: plain ? { background: "#22252b" } : { background: one.color, color: "#111217" } },
      element("b", { textContent: one.text, style: { fontSize: Math.min(size, 40) + "px" } }),
      named && !named.startsWith("{") ? element("span", { textContent: named }) : null);
  }));
}

function table(panel) {
  const isNumber = (text) => /^-?[\d.,]+( ?\S+)?$/.test(text);
  const side = (column) => panel.rows.every((row) => isNumber(row[column].text)) ? "value" : "";
  return element("div", { className: "grid" }, element("table", {},
    element("tr", {}, ...panel.columns.map((name, at) => element("th", { textContent: name, className: side(at) }))),
    ...panel.rows.map((row) => element("tr", {}, ...row.map((cell, at) => element("td", {
      textContent: cell.text, className: (cell.url ? "link " : "") + side(at), style: cell.color ? { color: cell.color } : {},
    }))))));
}

// All series on the moments of any; a moment that one lacks is a gap.
function aligned(panel) {
  const moments = [...new Set(panel.series.flatMap((each) => each.at))].sort((one, other) => one - other);
  const filled = moments.length > 1 ? spread(moments) : moments;
  return [filled.map((at) => at / 1000), ...panel.series.map((each) => {
    const known = new Map(each.at.map((at, index) => [at, each.values[index]]));
    return filled.map((at) => known.get(at) ?? null);
  })];
}

function spread(moments) {
  const step = Math.min(...moments.slice(1).map((at, index) => at - moments[index]));
  return Array.from({ length: Math.round((moments.at(-1) - moments[0]) / step) + 1 }, (_, at) => moments[0] + at * step);
}

function stack([times, ...lines]) {
  const sums = times.map(() => 0);
  return [times, ...lines.map((line) => line.map((value, at) => (sums[at] += value ?? 0)))];
}

function limitLines(panel) {
  return (plot) => {
    for (const limit of panel.limits || []) {
      const y = plot.valToPos(limit, "y", true), { left, width, top, height } = plot.bbox;
      if (!(y >= top && y <= top + height)) continue;
      plot.ctx.save();
      Object.assign(plot.ctx, { strokeStyle: "#f2495c", lineWidth: 1 });
      plot.ctx.setLineDash([6, 5]);
      plot.ctx.beginPath();
      plot.ctx.moveTo(left, y);
      plot.ctx.lineTo(left + width, y);
      plot.ctx.stroke();
      plot.ctx.restore();
    }
  };
}

function lines(panel, body, box, span) {
  const raw = aligned(panel), data = panel.stacked ? stack(raw) : raw;
  const legend = element("div", { className: "legend" + (panel.series.length < 3 ? " few" : "") }, ...panel.series.map((each) =>
    element("div", {}, element("i", { style: { background: each.color } }), element("span", { textContent: each.name }),
      element("b", { textContent: each.text }))));
  const holder = element("div", { className: "plot" });
  body.append(holder, legend);
  const known = data.slice(1).flat().filter((value) => value !== null);
  const least = Math.min(...known, panel.min ?? Infinity), most = Math.max(...known);
  const low = least, high = most > low ? most : low + (Math.abs(low) || 1);
  const marks = Object.keys(panel.axis).map(Number).sort((one, other) => one - other);
  const axis = { stroke: FAINT, grid: { stroke: LINE, width: 1 }, ticks: { show: false }, font: "11px DejaVu Sans" };
  const series = panel.series.map((each) => ({
    stroke: each.color, width: 1.5, points: { show: raw[0].length < 2 }, fill: panel.stacked ? each.color + "88" : undefined,
  }));
  // Later series lie on top of earlier ones: of a stack each covers down to the one below.
  const bands = panel.stacked ? series.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })) : [];
  new uPlot({
    width: holder.clientWidth, height: holder.clientHeight, legend: { show: false }, cursor: { show: false }, bands,
    padding: [8, 12, 0, 0],
    scales: { x: { range: () => span }, y: { range: () => [low, high + 0.04 * (high - low)] } },
    axes: [
      { ...axis, size: 22, values: (_, at) => at.map((each) => new Date(1000 * each).toISOString().slice(11, 16)), space: 60 },
      { ...axis, size: 74, splits: () => marks, values: (_, at) => at.map((each) => panel.axis[each] ?? "") },
    ],
    series: [{}, ...series], hooks: { draw: [limitLines(panel)] },
  }, data, holder);
}

function heat(panel, body) {
  const holder = element("div", { className: "plot" });
  body.append(holder);
  const canvas = element("canvas", { width: holder.clientWidth, height: holder.clientHeight });
  holder.append(canvas);
  const context = canvas.getContext("2d"), left = 62, bottom = 20, used = panel.buckets.filter((each) => each.values.some((value) => value > 0));
  const first = panel.buckets.indexOf(used[0]), last = panel.buckets.indexOf(used.at(-1));
  const shown = panel.buckets.slice(Math.max(first - 1, 0), last + 2);
  const most = Math.max(...shown.flatMap((each) => each.values)), wide = (canvas.width - left - 12) / panel.at.length;
  const high = (canvas.height - bottom - 6) / shown.length;
  context.font = "11px DejaVu Sans";
  shown.forEach((bucket, row) => {
    const y = canvas.height - bottom - (row + 1) * high;
    context.fillStyle = FAINT;
    context.fillText(bucket.label, 6, y + high / 2 + 4);
    bucket.values.forEach((value, at) => {
      if (!(value > 0)) return;
      context.fillStyle = `rgba(255, 152, 48, ${0.15 + 0.85 * Math.sqrt(value / most)})`;
      context.fillRect(left + at * wide, y, wide - 1, high - 1);
    });
  });
  context.fillStyle = FAINT;
  for (let at = 0; at < panel.at.length; at += Math.ceil(panel.at.length / 5)) {
    context.fillText(new Date(panel.at[at]).toISOString().slice(11, 16), left + at * wide, canvas.height - 6);
  }
}

function fill(panel, body, box, span) {
  if (panel.empty) body.append(element("div", { className: "none", textContent: panel.noValue }));
  else if (panel.type === "stat") body.append(stats(panel, box));
  else if (panel.type === "table") body.append(table(panel));
  else if (panel.type === "heatmap") heat(panel, body);
  else lines(panel, body, box, span);
}

function draw(board, from, to) {
  const chosen = Object.entries(board.variables).map(([name, value]) => element("div", { className: "chip" },
    element("i", { textContent: name }), Array.isArray(value) ? "All" : value));
  const main = element("main");
  document.body.replaceChildren(element("header", {}, element("b", { textContent: board.title }), element("br"), ...chosen), main);
  let end = 0;
  for (const { panel, box } of place(board.panels)) {
    end = Math.max(end, box.top + box.height);
    if (panel.type === "row") {
      main.append(element("div", { className: "row", style: px(box), textContent: "⌄ " + panel.title }));
      continue;
    }
    const body = element("div", { className: "body" });
    main.append(element("div", { className: "panel", style: px(box) }, element("h2", { textContent: panel.title }), body));
    fill(panel, body, box, [from, to]);
  }
  main.style.height = end + "px";
}
