// Small charts as drawings: axes, lines, bars.

import { draw, power, short } from "./format.js";

const FRAME = { left: 52, right: 12, top: 12, bottom: 38 };

/** A chart's frame: scales from data to pixels, axes with ticks, and a group to draw into. */
export function chart({ width, height, x, y, xTitle, yTitle, label, right = FRAME.right }) {
  const inner = { left: FRAME.left, right: width - right, top: FRAME.top, bottom: height - FRAME.bottom };
  const toX = scale(x, inner.left, inner.right);
  const toY = scale(y, inner.bottom, inner.top);
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of y.ticks ?? ticks(y)) {
    const at = toY(value);
    svg.append(draw("line", { class: "grid", x1: inner.left, x2: inner.right, y1: at, y2: at }),
      draw("text", { class: "tick", x: inner.left - 6, y: at + 4, "text-anchor": "end" }, tickText(value, y)));
  }
  for (const value of x.ticks ?? ticks(x)) {
    svg.append(draw("text", { class: "tick", x: toX(value), y: inner.bottom + 16, "text-anchor": "middle" }, tickText(value, x)));
  }
  svg.append(draw("line", { class: "axis", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
    draw("text", { class: "axis-title", x: (inner.left + inner.right) / 2, y: height - 4, "text-anchor": "middle" }, xTitle),
    draw("text", { class: "axis-title", x: 0, y: 0, "text-anchor": "middle", transform: `translate(10 ${(inner.top + inner.bottom) / 2}) rotate(-90)` }, yTitle));
  return { svg, toX, toY, inner };
}

/** A scale from an axis's range to pixels. It is logarithmic if the axis is. */
function scale({ from, to, log }, start, end) {
  const place = log ? Math.log10 : (value) => value;
  const [a, b] = [place(from), place(to)];
  return (value) => start + ((place(value) - a) / (b - a || 1)) * (end - start);
}

function ticks({ from, to, log, step }) {
  if (log) {
    const [a, b] = [Math.log10(from), Math.log10(to)];
    const stride = step ?? Math.max(1, Math.ceil(Math.abs(b - a) / 6));
    const found = [];
    for (let e = Math.ceil(Math.min(a, b) / stride) * stride; e <= Math.max(a, b) + 1e-9; e += stride) found.push(10 ** e);
    return found;
  }
  const size = (to - from) / 4;
  const unit = 10 ** Math.floor(Math.log10(size));
  const stride = [1, 2, 5, 10].map((k) => k * unit).find((candidate) => candidate >= size) ?? unit;
  const found = [];
  for (let value = Math.ceil(from / stride - 1e-9) * stride; value <= to + stride * 1e-6; value += stride) found.push(value);
  return found;
}

function tickText(value, { log, text }) {
  if (text) return text(value);
  if (log) return value === 1 ? "1" : power(Math.round(Math.log10(value)));
  return Math.abs(value) < 1e-12 ? "0" : short(value, 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** A line through points. Points that are not finite leave gaps. */
export function path(points, kind) {
  let pen = "M";
  const steps = points.map(([x, y]) => {
    if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = "M"; return ""; }
    const text = `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
    return text;
  });
  return draw("path", { class: `series ${kind}`, d: steps.join("") });
}

/** The terms of a sum as horizontal bars around zero, with their total. */
export function bars(terms, total, label) {
  const [width, row] = [380, 22];
  const height = row * (terms.length + 1) + 10;
  const largest = Math.max(1e-300, ...terms.map((term) => Math.abs(term.value)), Math.abs(total));
  const right = 84;
  const left = 16 + 6.5 * Math.max(7, ...terms.map(({ name }) => name.length)); // room for the names
  const middle = left + (width - left - right) / 2;
  const reach = (width - left - right) / 2;
  const svg = draw("svg", { class: "chart bars", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const bar = (index, { name, value, done }, kind) => {
    const y = index * row + (kind === "total" ? 8 : 2);
    const size = (Math.abs(value) / largest) * reach;
    const sign = value < 0 ? "negative" : "positive";
    svg.append(
      draw("text", { class: "tick", x: left - 10, y: y + 13, "text-anchor": "end" }, name),
      draw("rect", { class: `bar ${kind} ${sign}${done ? "" : " open"}`, x: value < 0 ? middle - size : middle, y: y + 2, width: Math.max(size, 0.5), height: row - 8 }),
      draw("text", { class: "tick value", x: width, y: y + 13, "text-anchor": "end" }, short(value)));
  };
  terms.forEach((term, index) => bar(index, term, "term"));
  svg.append(draw("line", { class: "axis", x1: left - 52, x2: width, y1: terms.length * row + 5, y2: terms.length * row + 5 }),
    draw("line", { class: "axis", x1: middle, x2: middle, y1: 0, y2: height }));
  bar(terms.length, { name: "sum", value: total, done: true }, "total");
  return svg;
}
