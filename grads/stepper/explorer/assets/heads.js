// A map for each attention head: its weights in the forward pass, the gradients of its scores in the backward pass.

import { data, now, valuesOf } from "./data.js";
import { el, short } from "./format.js";
import { goTo, state } from "./state.js";

const maps = []; // {head, table, cells}

/** Draw the maps layer by layer, if there are heads. */
export function drawHeads(box) {
  box.hidden = !data.heads.length;
  maps.length = 0;
  const groups = new Map();
  for (const head of data.heads) {
    const name = groupOf(head);
    if (!groups.has(name)) groups.set(name, el("section", { class: "heads-group" }, el("h3", {}, name), el("div", {})));
    groups.get(name).lastChild.append(mapOf(head));
  }
  box.replaceChildren(...groups.values());
}

/** The title of the group that a head belongs to. */
function groupOf({ side, source, layer }) {
  if (!side) return "Attention";
  const what = source ? "to the source (rows: the word to be predicted)" : side === "decoder" ? "to itself (rows: the word read)" : "to itself";
  return `${side === "encoder" ? "Encoder" : "Decoder"}, layer ${layer}, ${what}`;
}

const numbersOf = (known) => (!now.values && known.numbers) || valuesOf(known.tensor);

function mapOf(head) {
  const weights = numbersOf(head.weights);
  const gradients = head.gradients ? numbersOf(head.gradients) : [];
  const dead = new Set(head.weights.dead);
  const largest = Math.max(1e-300, ...gradients.map(Math.abs));
  const cells = [];
  const rows = head.rows.map((row, t) => el("tr", {}, el("th", { scope: "row" }, row), head.columns.map((column, s) => {
    const k = t * head.columns.length + s;
    const cell = el("td", { "--weight": weights[k], "--size": Math.abs(gradients[k] ?? 0) / largest,
      class: dead.has(k) ? "dead" : (gradients[k] ?? 0) < 0 ? "negative" : "positive",
      title: `${row}, ${column}: ${dead.has(k) ? "masked" : short(weights[k])}` });
    cells.push(cell);
    return cell;
  })));
  const caption = el("caption", {}, el("button", { type: "button", onclick: () => goTo(placeOf(head).first) }, `head ${head.head}`));
  const table = el("table", { class: "heads-map" }, caption,
    el("thead", {}, el("tr", {}, el("td"), head.columns.map((word) => el("th", { scope: "col" }, el("span", {}, word))))), el("tbody", {}, rows));
  maps.push({ head, table });
  return table;
}

/** Scroll the box to a hidden map without scrolling the page. */
function show(table) {
  const box = table.closest(".heads");
  const [own, all] = [table.getBoundingClientRect(), box.getBoundingClientRect()];
  if (own.top < all.top || own.bottom > all.bottom) box.scrollTop += own.top - all.top - 24;
}

/** A head's data for the pass that the reader is in. */
const placeOf = ({ weights, gradients }) => (gradients && data.steps[state.step].pass === "backward" ? gradients : weights);

/** Fill the maps of the steps so far, and mark the current map. */
export function showHeads() {
  for (const { head, table } of maps) {
    const { weights, gradients } = head;
    const { first, last } = placeOf(head);
    table.classList.toggle("known", weights.last <= state.step);
    table.classList.toggle("back", Boolean(gradients) && gradients.last <= state.step);
    const now = first <= state.step && state.step <= last;
    if (now && !table.classList.contains("now")) show(table);
    table.classList.toggle("now", now);
  }
}
