// Tensors as numbered heat maps.

import { before, data, functionOf, isWrong, makerOf, verificationOf, steps, tensors, valuesOf, wordsOf } from "./data.js";
import { count, el, exact, inCell, place, power, root, shared, iterations } from "./format.js";
import { inspected, pick, state } from "./state.js";

const GATES = ["i", "f", "o", "ĥ"];
const GATED = /^d?(a|u|T|b|W|T_x|T_h|T_t|T_s|b_t|b_s)$/;
const LAYER = /\.\d+\.[Wb]'\]$/; // a parameter of a layer: decoder.0.W
const ATTENTIVE = /align|score|attend|context|position|window/; // functions without gates
const TALL = 12; // rows of a table that scrolls
const SEEN = 9; // rows of such a table that are seen
const ROOM = 30; // rows of one group that are shown at once
const ROOMS = 65; // of all groups, but that each shows its first tensor
const CAPTION = 2; // rows that a caption takes

/** Select a number on click and show it on hover, with one listener for all cells. */
export function listenToCells(panel) {
  const cellOf = (event) => event.target.closest?.(".cell");
  panel.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) pick(Number(cell.closest("[data-tensor]").dataset.tensor), Number(cell.dataset.entry));
  });
  for (const kind of ["mouseover", "focusin"]) panel.addEventListener(kind, (event) => {
    if (cellOf(event)) readOut(cellOf(event).title);
  });
}

/** Draw the panel on the right: the tensors that the step writes and reads. */
export function showTensors(panel) {
  const step = steps[state.step];
  const written = new Set(step.targets);
  const cached = new Set(step.cached ?? []);
  const renamed = new Set(step.targets.map(before)); // what the line only gives another name
  const reads = unique(step.reads).filter(({ tensor }) => !written.has(tensor) && !renamed.has(tensor));
  const gradient = ({ tensor }) => tensors[tensor].gradient;
  const of = verificationOf(step.targets[0])?.of;
  const groups = [
    ["Writes", step.targets.map((tensor) => ({ tensor })), "writes"],
    ["Reads gradients", reads.filter(gradient), "reads"],
    [step.pass === "backward" ? "Cached from forward" : "Reads",
      reads.filter((read) => !gradient(read) && (step.pass === "forward" || cached.has(read.tensor))), "kept"],
    ["Reads", reads.filter((read) => !gradient(read) && step.pass === "backward" && !cached.has(read.tensor)), "reads"],
    ["Is the gradient for", of !== null && of !== undefined && !cached.has(of) ? [{ tensor: of }] : [], "kept"],
  ].filter(([, list]) => list.length);
  let left = ROOMS;
  panel.replaceChildren(el("div", { class: "groups" }, groups.map(([title, list, kind]) => {
    const shown = fitting(list, Math.min(ROOM, left));
    left -= rowsOf(list.slice(0, shown));
    return el("div", { class: `side ${kind}` }, el("h2", {}, title), group(list, shown, kind, step));
  })),
  el("p", { class: "readout", id: "readout" }));
  showPicked(panel);
}

function unique(reads) {
  const seen = new Set();
  return reads.filter(({ tensor }) => !seen.has(tensor) && seen.add(tensor));
}

function group(list, shown, kind, step) {
  const figures = list.slice(0, shown).map(({ tensor, written }) => heatmap(tensor, step, written));
  const box = el("div", { class: `group ${kind}` }, figures);
  if (list.length > shown) {
    const more = el("button", { type: "button", class: "more", onclick: () => {
      more.replaceWith(...list.slice(shown).map(({ tensor, written }) => heatmap(tensor, step, written)));
    } }, `and ${count(list.length - shown, "more tensor")}`);
    box.append(more);
  }
  return box;
}

/** The number of tensors of a group that are shown: the first, and as many more as there is room for. */
function fitting(list, room) {
  const over = list.findIndex((_, k) => k > 0 && rowsOf(list.slice(0, k + 1)) > room);
  return over < 0 ? list.length : over;
}

/** The number of rows that tensors take. */
function rowsOf(list) {
  return list.reduce((sum, { tensor }) => {
    const own = tensors[tensor].shape?.[0] ?? 1;
    return sum + (own > TALL ? SEEN : own) + CAPTION;
  }, 0);
}

/** A tensor: its name, its numbers in a table, and the step that computed it. */
function heatmap(id, step, written = null) {
  const tensor = tensors[id];
  if (!tensor.shape) return asText(id, written);
  const values = valuesOf(id, state.variant);
  const wrong = isWrong(id, state.variant);
  const columns = tensor.shape.length > 1 ? tensor.shape[1] : 1;
  const exponent = shared(values);
  const largest = Math.max(1e-300, ...values.map((x) => (typeof x === "number" ? Math.abs(x) : 0)));
  const labels = rowLabels(id, step, tensor);
  const heads = wordsOf(id, 1, step)?.slice(0, columns);
  const right = wrong ? valuesOf(id) : null;
  const rows = Array.from({ length: values.length / columns }, (_, i) => el("tr",
    { class: labels?.starts(i) ? "block" : null },
    labels ? (labels.text(i) ? el("th", { scope: "row" }, labels.text(i)) : el("td")) : null,
    Array.from({ length: columns }, (_, j) => cell(id, i * columns + j, { values, exponent, columns, right, largest, integer: tensor.integer }))));
  return el("figure", { class: `tensor${tensor.gradient ? " gradient" : ""}${wrong ? " wrong" : ""}`, "data-tensor": id },
    caption(id, step, exponent, wrong, written),
    el("div", { class: `scroll${rows.length > TALL ? " tall" : ""}`, tabindex: rows.length > TALL ? 0 : null }, el("table", {},
      heads ? el("thead", {}, el("tr", {}, labels ? el("td") : null, heads.map((word) => el("th", { scope: "col" }, word)))) : null,
      el("tbody", {}, rows))),
    rows.length ? null : el("p", { class: "cut" }, "no entries"),
    tensor.full_shape ? el("p", { class: "cut" }, `the first entries of ${tensor.full_shape.join(" × ")}`) : null);
}

/** A value that is not numeric, such as a list of words or a name. */
function asText(id, written) {
  return el("figure", { class: "tensor" }, el("figcaption", {}, el("code", {}, written ?? tensors[id].name)), el("code", { class: "text" }, tensors[id].text ?? ""));
}

function caption(id, step, exponent, wrong, written) {
  const tensor = tensors[id];
  const maker = makerOf(id);
  const own = maker === state.step;
  const loops = maker !== undefined && !/\[/.test(tensor.name) ? iterations(steps[maker].loops) : "";
  const alias = written && written !== tensor.name && written.replace(/\.T$/, "") !== tensor.name ? written : null;
  return el("figcaption", {},
    alias ? [el("code", {}, alias), " is "] : null, el("code", {}, tensor.name),
    own && before(id) !== null && tensors[before(id)].name !== tensor.name ? el("span", { class: "iteration" }, " is ", el("code", {}, tensors[before(id)].name)) : null,
    loops && !own ? el("span", { class: "iteration" }, ` ${loops}`) : null,
    exponent ? el("span", { class: "scale" }, ` × ${power(exponent)}`) : null,
    wrong ? el("strong", { class: "flag" }, " ✗ wrong") : null,
    maker !== undefined && !own ? [" ", el("a", { class: "made", href: link(maker) }, `step ${maker + 1}`)] : null);
}

const link = (number) => `#step=${number + 1}${state.variant ? `&break=${state.variant.id}` : ""}`;

function cell(id, entry, { values, exponent, columns, right, largest, integer }) {
  const value = values[entry];
  const number = typeof value === "number";
  const differs = right && value !== right[entry];
  const decimals = integer ? 0 : columns > 6 ? 2 : 3;
  const text = inCell(number ? value / 10 ** exponent : value, exponent ? decimals - 1 : decimals, exponent !== 0);
  const name = `${tensors[id].name}${place(entry, tensors[id].shape)} = ${exact(value)}`;
  const title = differs ? `${name}; right would be ${exact(right[entry])}` : name;
  return el("td", {}, el("button", {
    type: "button", class: `cell ${number ? (value < 0 ? "negative" : value > 0 ? "positive" : "zero") : "odd"}${differs ? " differs" : ""}`,
    title, "data-entry": entry, "--size": number ? Math.abs(value) / largest : 0, tabindex: entry ? -1 : 0,
  }, text));
}

function readOut(text) {
  const line = document.getElementById("readout");
  if (line) line.textContent = text;
}

/** The gates or words that the rows of a tensor belong to. */
function rowLabels(id, step, { name, shape }) {
  const words = wordsOf(id, 0, step);
  if (words) return { starts: () => false, text: (i) => words[i] };
  const hidden = data.settings.hidden;
  const variable = root(name);
  const unit = steps[makerOf(id)]?.cell?.part === "unit" || (/^d?[Tb]/.test(variable) && !ATTENTIVE.test(functionOf(id))) || LAYER.test(name);
  if (!unit || data.network.search || !GATED.test(variable) || shape[0] !== 4 * hidden || data.name === "rnn") return null;
  return { starts: (i) => i > 0 && i % hidden === 0, text: (i) => (i % hidden === 0 ? GATES[i / hidden] : "") };
}

/** Mark the inspected entry, without drawing the tensors anew. */
export function showPicked(panel) {
  panel.querySelectorAll(".cell[aria-pressed]").forEach((button) => button.removeAttribute("aria-pressed"));
  const picked = inspected();
  if (!picked) return;
  panel.querySelectorAll(`[data-tensor="${picked.tensor}"] [data-entry="${picked.entry}"]`).forEach((button) => {
    button.setAttribute("aria-pressed", "true");
    readOut(button.title);
  });
}
