// The verification strip: the gradient against its numerical derivatives, the V curve, the tangent.

import { alongs, complexOf, data, gradientsOf, now, verificationOf, steps, tensors, valuesOf } from "./data.js";
import { chart, path } from "./charts.js";
import { draw, el, exact, fixed, place, power, scientific, short } from "./format.js";
import { centralSlope, isSame } from "./live.js";
import { largest, inspected, pick, state } from "./state.js";

const ROWS = 8;
const FLOOR = 1e-18; // where an error of zero is drawn
const ROUGH = 1e-5; // of a central difference in the page
const ROUNDED = 1e-6; // relative: numerical derivatives are kept to seven digits
const SAID = {
  verified: "✓ verified", wrong: "✗ wrong", partial: "… not complete yet", same: "= passed on", zero: "0 to begin with",
  unpaired: "not compared", share: "… a part by rows", undecided: "? undecided", other: "not compared", suspect: "✗? the mistake may be here",
};

/** Draw the verification. */
export function showVerification(panel) {
  const step = steps[state.step];
  const tensor = inspected()?.tensor;
  const verification = [tensor, ...step.targets].map((id) => id !== undefined && verificationOf(id, state.variant)).find(Boolean);
  panel.replaceChildren(el("h2", {}, "Verification"), ...(verification ? gradientVerification(verification) : [nothing(step)]));
}

function nothing(step) {
  if (step.pass === "backward") return el("p", { class: "note" }, "This step writes no gradient.");
  const links = step.targets.flatMap(gradientsOf).filter((verification) => ["verified", "wrong"].includes(verification.status)).slice(0, 3)
    .map((verification) => el("a", { href: go(verification.step) }, `${verification.name}, step ${verification.step + 1}`));
  return el("p", { class: "note" }, "A forward step has nothing to verify. ",
    ...(links.length ? ["The gradient for what it writes: ", ...links.flatMap((link, k) => (k ? ["; ", link] : [link])), "."] : []));
}

const go = (number) => `#step=${number + 1}${state.variant ? `&break=${state.variant.id}` : ""}`;

function gradientVerification(verification) {
  if (now.values) return recomputed(verification);
  const status = el("p", { class: `status ${verification.status}` }, el("strong", {}, SAID[verification.status] ?? verification.status), " ", ...sentence(verification));
  if (!verification.complex) {
    const link = verification.other === null || verification.other === undefined ? null : el("a", { href: go(verification.other) }, `Step ${verification.other + 1}`);
    return [status, link ? el("p", { class: "note" }, link) : null].filter(Boolean);
  }
  return [status, el("div", { class: "panels" }, table(verification), vCurve(verification), tangent(verification))];
}

/** The last gradient for a forward variable, which has all terms. */
const completing = (of) => data.verifications.filter((verification) => verification.of !== null && isSame(verification.of, of) && ["verified", "wrong"].includes(verification.status))
  .reduce((last, verification) => (verification.step >= last.step ? verification : last));

/** After a change: compare the inspected entry with a central difference of the loss, computed in the page. */
function recomputed({ name, status, target, of, of_name: variable }) {
  if (!["verified", "wrong"].includes(status) || of === null || of === undefined) return [el("p", { class: "note" }, el("code", {}, name), ": nothing is compared at this step.")];
  const complete = completing(of);
  if (complete.target !== target) return [el("p", { class: "note" }, el("code", {}, name), ": one of several terms; their sum is compared at ", el("a", { href: go(complete.step) }, `step ${complete.step + 1}`), ".")];
  const picked = inspected();
  const entry = picked?.tensor === target ? picked.entry : largest(valuesOf(target));
  const [analytic, central] = [valuesOf(target)[entry], centralSlope(of, entry)];
  if (central === null) return [el("p", { class: "note" }, el("code", {}, name), ": depends on nothing that can be changed.")];
  const good = Math.abs(analytic - central) <= ROUGH * Math.max(Math.abs(analytic), Math.abs(central), ROUGH);
  const row = (head, ...values) => el("tr", {}, el("th", { scope: "row" }, head), values.map((value) => el("td", { title: exact(value) }, short(value, 5))));
  return [
    el("p", { class: `status ${good ? "verified" : "wrong"}` }, el("strong", {}, good ? "✓ recomputed" : "✗ differs"), " ", el("code", {}, name + place(entry, tensors[target].shape)),
      " with your numbers, against a central difference of the loss for ", el("code", {}, variable || "its forward variable"), ", taken in this page. The complex step was taken of the numbers as given."),
    el("div", { class: "scroll" }, el("table", { class: "compare" },
      el("thead", {}, el("tr", {}, ["entry", "analytic", "central"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, row(place(entry, tensors[target].shape) || "value", analytic, central))))];
}

function sentence(verification) {
  const name = el("code", {}, verification.name);
  if (verification.error === null || verification.error === undefined) return [name, `: ${verification.reason || "nothing is compared"}.`];
  return [name, " against the derivative of the loss for ", el("code", {}, verification.of_name || "its forward variable"),
    `: relative error ${magnitude(verification.error)} (${reference(verification)}).`,
  verification.status === "undecided" ? ` ${verification.reason}` : ""];
}

/** The derivative that the error is measured against, and how reliable it is. */
function reference(verification) {
  if (verification.method === "differences") return "differences alone; the complex step does not apply to this function";
  return `complex step${verification.central ? `; central differences agree with it to ${magnitude(verification.central_error)}` : ""}`;
}

const magnitude = (x) => (typeof x !== "number" ? exact(x ?? "not taken") : x >= 0.1 ? fixed(x, 2) : scientific(x, 1));

/** The entries in the order of the table: the inspected entry, those that differ, those that were compared, the others. */
function table(verification) {
  const values = valuesOf(verification.target, state.variant);
  const complex = complexOf(verification);
  const { shape } = tensors[verification.target];
  const picked = inspected();
  const chosen = picked?.tensor === verification.target ? picked.entry : largest(values);
  const entries = [...values.keys()];
  const compared = entries.filter((entry) => !missing(complex[entry]));
  const offOf = (entry) => (verification.status === "wrong" ? difference(values[entry], complex[entry]) : 0); // what is verified differs by rounding only
  const differing = compared.filter((entry) => offOf(entry) > ROUNDED);
  const order = [...new Set([chosen, ...differing, ...compared, ...entries])].slice(0, ROWS);
  const row = (entry) => {
    const [a, c, d] = [values[entry], complex[entry], verification.central?.[entry]];
    const off = offOf(entry);
    return el("tr", { class: [entry === chosen ? "chosen" : "", off > ROUNDED ? "differs" : ""].join(" ").trim() || null },
      el("th", { scope: "row" }, el("button", { type: "button", onclick: () => pick(verification.target, entry) }, place(entry, shape) || "value")),
      ...[a, c, d].map((value) => el("td", { title: missing(value) ? null : exact(value) }, missing(value) ? "–" : short(value, 5))),
      el("td", {}, missing(c) || verification.status === "undecided" ? "–" : off > ROUNDED ? `✗ ${short(off, 2)}` : "✓"));
  };
  const rest = values.length - order.length;
  return el("div", { class: "scroll" }, el("table", { class: "compare" },
    el("thead", {}, el("tr", {}, ["entry", "analytic", verification.method === "differences" ? "differences" : "complex step", "central", "relative error"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, order.map(row))),
  rest > 0 ? el("p", { class: "note" }, `${rest} more: select a number in the tensor.`) : null);
}

const missing = (value) => value === undefined || value === null || value === "nan"; // not compared

/** |a - b| relative to the larger of both; 0 if one is not a number. */
function difference(a, b) {
  if (typeof a !== "number" || typeof b !== "number") return a === b || missing(b) ? 0 : Infinity;
  return Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b), 1e-12);
}

/** Error of numerical derivatives against step size, both logarithmic. */
function vCurve(verification) {
  const curve = verification.curve;
  if (!curve) return null;
  const h = data.curve_steps;
  const { svg, toX, toY } = chart({
    width: 380, height: 230, xTitle: "step size h", yTitle: "relative error",
    x: { from: Math.min(...h), to: Math.max(...h), log: true, step: 4 },
    y: { from: FLOOR, to: 10, log: true, ticks: [1, 1e-4, 1e-8, 1e-12, 1e-16, FLOOR], text: (value) => (value === FLOOR ? "0" : ten(value)) },
    label: `Error against step size for entry ${place(curve.entry, tensors[verification.target].shape)}: central and forward differences fall, then rise again; the complex step stays at rounding error`,
  });
  const line = (errors, kind) => path(h.map((step, k) => [toX(step), toY(errors[k] === null ? FLOOR : Math.min(10, Math.max(FLOOR, 10 ** errors[k])))]), kind);
  svg.append(line(curve.forward, "forward"), line(curve.central, "central"));
  const own = verification.method === "differences"; // a complex step says nothing
  if (!own) svg.append(line(curve.complex, "complex"));
  return figure(svg, "Error against step size", key(
    ["forward", "forward difference"], ["central", "central difference"], ...(own ? [] : [["complex", "complex step"]])));
}

const ten = (value) => (value === 1 ? "1" : power(Math.round(Math.log10(value))));

/** The loss along one entry of a parameter, and the line that the gradient predicts. */
function tangent(verification) {
  if (!verification.lines) return elsewhere();
  const picked = inspected();
  const values = valuesOf(verification.target, state.variant);
  const entry = picked?.tensor === verification.target && verification.lines[picked.entry] ? picked.entry : largestOf(values, verification.lines);
  const [x, losses] = [data.line_offsets, verification.lines[entry]];
  if (!losses) return elsewhere();
  const slope = values[entry];
  const name = `${parameter(verification)}${place(entry, tensors[verification.target].shape)}`;
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const margin = (high - low || Math.abs(data.loss) * 1e-3 || 1) * 0.2;
  const { svg, toX, toY, inner } = chart({
    width: 380, height: 230, xTitle: `added to ${name}`, yTitle: `change of the loss${data.network.columns.length ? ", nats" : ""}`,
    x: { from: x[0], to: x.at(-1) }, y: { from: low - margin, to: high + margin },
    label: `The loss along ${name}, and its tangent of slope ${short(slope)}`,
  });
  svg.append(
    draw("clipPath", { id: "frame" }, draw("rect", { x: inner.left, y: inner.top - 4, width: inner.right - inner.left, height: inner.bottom - inner.top + 8 })),
    draw("g", { "clip-path": "url(#frame)" },
      path(x.map((step, k) => [toX(step), toY(losses[k])]), "loss"),
      path([x[0], x.at(-1)].map((step) => [toX(step), toY(slope * step)]), "tangent"),
      draw("circle", { class: "point", cx: toX(0), cy: toY(0), r: 4 })));
  return figure(svg, "The gradient is the slope of the loss", key(
    ["loss", `loss along ${name}`], ["tangent", `slope ${short(slope)}, derived by hand`]));
}

const largestOf = (values, lines) => largest(values.map((value, entry) => (lines[entry] ? value : null)));

/** The name of the parameter that a complete gradient is for: T of parameters['T']. */
const parameter = ({ of_name: name, target }) => name?.match(/\['(.*)'\]/)?.[1] ?? name ?? tensors[target].name;

/** Links to the gradients for which the loss along an entry is drawn. */
function elsewhere() {
  if (!alongs.length) return null;
  const names = alongs.slice(0, 8).flatMap((verification, k) => [k ? ", " : "", el("a", { href: go(verification.step) }, el("code", {}, parameter(verification)))]);
  return el("p", { class: "note aside" }, "The loss along a single entry, with the slope that the gradient predicts, is drawn where the gradient of an input is complete: ", ...names, ".");
}

function figure(svg, title, caption) {
  return el("figure", { class: "graph" }, el("h3", {}, title), svg, el("figcaption", {}, caption));
}

/** A legend: kinds of lines and what they are. */
export function key(...entries) {
  return entries.map(([kind, text]) => el("span", { class: "key" },
    draw("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, draw("path", { class: `series ${kind}`, d: "M0 4 H24" })), text));
}
