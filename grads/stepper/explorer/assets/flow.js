// Gradient flow: the norm of dh some steps back, beside the bound of section 2.2.2.

import { data } from "./data.js";
import { chart, path } from "./charts.js";
import { draw, el, prose, scientific } from "./format.js";
import { key } from "./verification.js";

const NAMES = { rnn: "Vanilla RNN", "adding-memory": "A memory that adds", "gated-memory": "A memory with gates", lstm: "LSTM", gru: "GRU" };

const family = ({ unit, forget_bias: bias }) =>
  (NAMES[unit] ?? unit) + (bias === null || bias === undefined ? "" : `, forget bias ${bias}`);

/** Draw the charts at the foot of the page, once. */
export function showFlow(panel) {
  const flow = data.flow;
  if (!flow?.series?.length) { panel.hidden = true; return; }
  const units = [...new Set(flow.series.map(family))];
  const numbers = flow.series.flatMap((curve) => [...curve.norms, ...(curve.bound ?? [])]).filter((x) => typeof x === "number" && x > 0);
  const low = Math.max(1e-9, Math.min(...numbers)), high = Math.min(1e6, Math.max(...numbers));
  const y = { from: 10 ** Math.floor(Math.log10(low)), to: 10 ** Math.ceil(Math.log10(high)), log: true };
  panel.append(el("details", { open: matchMedia("(min-width: 761px)").matches }, el("summary", {}, el("h2", {}, "Gradient flow")),
    el("p", { class: "note" }, prose(flow.text)), el("div", { class: "panels" }, units.map((unit) => graph(unit, flow, y)))));
}

function graph(unit, flow, y) {
  const series = flow.series.filter((curve) => family(curve) === unit);
  const { svg, toX, toY, inner } = chart({
    width: 400, height: 270, right: 46, xTitle: "k, time steps back", yTitle: "norm of dh, k steps back", y,
    x: { from: flow.lags[0], to: flow.lags.at(-1) },
    label: `${unit}: ${series.map((curve) => `spectral radius ${curve.radius}: ${said(curve.norms.at(-1))} after ${flow.lags.at(-1)} steps`).join("; ")}`,
  });
  const within = (value) => (typeof value === "number" && value > 0 ? toY(Math.min(Math.max(value, y.from), y.to)) : NaN);
  const ends = [];
  series.forEach((curve, k) => {
    const places = (values) => flow.lags.map((lag, n) => [toX(lag), within(values[n])]);
    if (curve.bound) svg.append(path(places(curve.bound), `bound radius-${k}`));
    svg.append(path(places(curve.norms), `norm radius-${k}`));
    ends.push({ y: within(curve.norms.at(-1)), text: String(curve.radius), k });
  });
  for (const end of apart(ends, 14)) svg.append(draw("text", { class: `end radius-${end.k}`, x: inner.right + 8, y: end.y + 4 }, `ρ ${end.text}`));
  const bounded = series.some((curve) => curve.bound);
  return el("figure", { class: "graph wide" }, el("h3", {}, unit), svg,
    el("figcaption", {}, key(["norm", "measured"], ...(bounded ? [["bound", "bound of section 2.2.2"]] : []))));
}

const said = (value) => (typeof value === "number" ? scientific(value) : String(value));

/** Move labels so that they do not overlap. */
function apart(ends, distance) {
  const sorted = ends.filter((end) => Number.isFinite(end.y)).sort((a, b) => a.y - b.y);
  sorted.forEach((end, k) => { if (k) end.y = Math.max(end.y, sorted[k - 1].y + distance); });
  return sorted;
}
