// The proof strip: the gradient against its numerical derivatives, the V curve, the tangent.

import { alongs, complexOf, data, gradientsOf, proofOf, steps, tensors, valuesOf } from "./data.js";
import { chart, path } from "./charts.js";
import { draw, el, exact, place, power, scientific, short } from "./format.js";
import { largest, looked, pick, state } from "./state.js";

const ROWS = 8;
const FLOOR = 1e-18; // where an error of zero is drawn
const ROUNDED = 1e-6; // relative: numerical derivatives are kept to seven digits
const SAID = {
  proved: "✓ proved", wrong: "✗ wrong", partial: "… not complete yet", same: "= passed on", zero: "0 to begin with",
  unpaired: "? not compared", share: "… a part by rows",
};

/** The strip below the bench. */
export function showProof(panel) {
  const step = steps[state.step];
  const tensor = looked()?.tensor;
  const proof = [tensor, ...step.targets].map((id) => id !== undefined && proofOf(id, state.variant)).find(Boolean);
  panel.replaceChildren(el("h2", {}, "Proof"), ...(proof ? gradientProof(proof) : [nothing(step)]));
}

function nothing(step) {
  if (step.pass === "backward") return el("p", { class: "note" }, "This step writes no gradient.");
  const links = step.targets.flatMap(gradientsOf).filter((proof) => ["proved", "wrong"].includes(proof.status)).slice(0, 3)
    .map((proof) => el("a", { href: go(proof.step) }, `${proof.name}, step ${proof.step + 1}`));
  return el("p", { class: "note" }, "A forward step has nothing to prove. ",
    ...(links.length ? ["The gradient for what it writes: ", ...links.flatMap((link, k) => (k ? ["; ", link] : [link])), "."] : []));
}

const go = (number) => `#step=${number + 1}${state.variant ? `&break=${state.variant.id}` : ""}`;

function gradientProof(proof) {
  const status = el("p", { class: `status ${proof.status}` }, el("strong", {}, SAID[proof.status] ?? proof.status), " ", ...sentence(proof));
  if (!proof.complex) {
    const link = proof.other === null || proof.other === undefined ? null : el("a", { href: go(proof.other) }, `Step ${proof.other + 1}`);
    return [status, link ? el("p", { class: "note" }, link) : null].filter(Boolean);
  }
  return [status, el("div", { class: "panels" }, table(proof), vCurve(proof), tangent(proof))];
}

function sentence(proof) {
  const name = el("code", {}, proof.name);
  if (proof.error === null || proof.error === undefined) return [name, `: ${proof.reason || "nothing is compared"}.`];
  return [name, " against the derivative of the loss for ", el("code", {}, proof.of_name || "its forward variable"),
    `: relative error ${magnitude(proof.error)} by complex step, ${magnitude(proof.central_error)} by central differences.`];
}

const magnitude = (x) => (x === 0 ? "0" : typeof x === "number" ? scientific(x, 1) : exact(x ?? "not taken"));

/** The entry looked at first, then those that were compared, then the others. */
function table(proof) {
  const values = valuesOf(proof.target, state.variant);
  const complex = complexOf(proof);
  const { shape } = tensors[proof.target];
  const one = looked();
  const chosen = one?.tensor === proof.target ? one.entry : largest(values);
  const entries = [...values.keys()];
  const compared = entries.filter((entry) => !missing(complex[entry]));
  const order = [...new Set([chosen, ...compared, ...entries])].slice(0, ROWS);
  const row = (entry) => {
    const [a, c, d] = [values[entry], complex[entry], proof.central?.[entry]];
    const off = proof.status === "wrong" ? difference(a, c) : 0; // what is proved differs by rounding only
    return el("tr", { class: [entry === chosen ? "chosen" : "", off > ROUNDED ? "differs" : ""].join(" ").trim() || null },
      el("th", { scope: "row" }, el("button", { type: "button", onclick: () => pick(proof.target, entry) }, place(entry, shape) || "value")),
      ...[a, c, d].map((value) => el("td", { title: missing(value) ? null : exact(value) }, missing(value) ? "–" : short(value, 5))),
      el("td", {}, missing(c) ? "–" : off > ROUNDED ? `✗ ${short(off, 2)}` : "✓"));
  };
  const rest = values.length - order.length;
  return el("div", { class: "scroll" }, el("table", { class: "compare" },
    el("thead", {}, el("tr", {}, ["entry", "by hand", "complex step", "central", "off by"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, order.map(row))),
  rest > 0 ? el("p", { class: "note" }, `${rest} more: choose a number in the tensor.`) : null);
}

const missing = (value) => value === undefined || value === null || value === "nan"; // not compared

/** |a - b| relative to the larger; 0 where either is no number. */
function difference(a, b) {
  if (typeof a !== "number" || typeof b !== "number") return a === b || missing(b) ? 0 : Infinity;
  return Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b), 1e-12);
}

/** Error of numerical derivatives against step size, both logarithmic. */
function vCurve(proof) {
  const curve = proof.curve;
  if (!curve) return null;
  const h = data.curve_steps;
  const { svg, toX, toY } = chart({
    width: 380, height: 230, xTitle: "step size h", yTitle: "relative error",
    x: { from: Math.min(...h), to: Math.max(...h), log: true, step: 4 },
    y: { from: FLOOR, to: 10, log: true, ticks: [1, 1e-4, 1e-8, 1e-12, 1e-16, FLOOR], text: (value) => (value === FLOOR ? "0" : ten(value)) },
    label: `Error against step size for entry ${place(curve.entry, tensors[proof.target].shape)}: central and forward differences fall, then rise again; the complex step stays at rounding error`,
  });
  const line = (errors, kind) => path(h.map((step, k) => [toX(step), toY(errors[k] === null ? FLOOR : Math.min(10, Math.max(FLOOR, 10 ** errors[k])))]), kind);
  svg.append(line(curve.forward, "forward"), line(curve.central, "central"), line(curve.complex, "complex"));
  return figure(svg, "Why a step size is chosen with care", key(
    ["forward", "forward difference"], ["central", "central difference"], ["complex", "complex step"]));
}

const ten = (value) => (value === 1 ? "1" : power(Math.round(Math.log10(value))));

/** The loss along one entry of a parameter, and the line that the gradient predicts. */
function tangent(proof) {
  if (!proof.lines) return elsewhere();
  const one = looked();
  const values = valuesOf(proof.target, state.variant);
  const entry = one?.tensor === proof.target && proof.lines[one.entry] ? one.entry : largestOf(values, proof.lines);
  const [x, losses] = [data.line_offsets, proof.lines[entry]];
  if (!losses) return elsewhere();
  const slope = values[entry];
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const margin = (high - low || Math.abs(data.loss) * 1e-3 || 1) * 0.2;
  const { svg, toX, toY, inner } = chart({
    width: 380, height: 230, xTitle: "added to the weight", yTitle: "change of the loss, nats",
    x: { from: x[0], to: x.at(-1) }, y: { from: low - margin, to: high + margin },
    label: `The loss along the weight, and its tangent of slope ${short(slope)}`,
  });
  svg.append(
    draw("clipPath", { id: "frame" }, draw("rect", { x: inner.left, y: inner.top - 4, width: inner.right - inner.left, height: inner.bottom - inner.top + 8 })),
    draw("g", { "clip-path": "url(#frame)" },
      path(x.map((step, k) => [toX(step), toY(losses[k])]), "loss"),
      path([x[0], x.at(-1)].map((step) => [toX(step), toY(slope * step)]), "tangent"),
      draw("circle", { class: "point", cx: toX(0), cy: toY(0), r: 4 })));
  const name = `${parameter(proof)}${place(entry, tensors[proof.target].shape)}`;
  return figure(svg, "The gradient is the slope of the loss", key(
    ["loss", `loss along ${name}`], ["tangent", `slope ${short(slope)}, derived by hand`]));
}

const largestOf = (values, lines) => largest(values.map((value, entry) => (lines[entry] ? value : null)));

/** The name of the parameter that a complete gradient is for: T of parameters['T']. */
const parameter = (proof) => (proof.of_name ?? "").match(/\['(.*)'\]/)?.[1] ?? tensors[proof.target].name;

/** Where the loss along a weight can be seen. */
function elsewhere() {
  if (!alongs.length) return null;
  const names = alongs.slice(0, 8).flatMap((proof, k) => [k ? ", " : "", el("a", { href: go(proof.step) }, el("code", {}, parameter(proof)))]);
  return el("p", { class: "note aside" }, "The loss along any one weight, with the slope that the gradient predicts, is drawn where a parameter’s gradient is complete: ", ...names, ".");
}

function figure(svg, title, caption) {
  return el("figure", { class: "graph" }, el("h3", {}, title), svg, el("figcaption", {}, caption));
}

/** A legend: kinds of lines and what they are. */
export function key(...entries) {
  return entries.map(([kind, text]) => el("span", { class: "key" },
    draw("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, draw("path", { class: `series ${kind}`, d: "M0 4 H24" })), text));
}
