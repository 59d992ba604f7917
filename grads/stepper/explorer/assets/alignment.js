// The weights of attention, a row for each step of the decoder; a row fills when its step is reached.

import { data, steps, valuesOf } from "./data.js";
import { el, short } from "./format.js";
import { goTo, state } from "./state.js";

const rows = []; // {t, step, row}

/** The table beside the network, empty; nothing without attention. */
export function drawAlignment(box) {
  const { columns } = data.network;
  box.hidden = !data.attention.length;
  if (box.hidden) return;
  const source = columns.filter((column) => column.side === "encoder").map((column) => column.word);
  if (data.network.mirrored) source.reverse(); // weights are by written words
  const target = columns.filter((column) => column.side !== "encoder");
  const body = data.attention.map(({ t, tensor, step }, k) => {
    const weights = valuesOf(tensor);
    const row = el("tr", { onclick: () => goTo(step) },
      el("th", { scope: "row" }, el("a", { href: `#step=${step + 1}` }, target[k]?.next ?? `t = ${t}`)),
      source.slice(0, weights.length).map((word, s) => el("td", { "--weight": weights[s], title: `${word}: ${short(weights[s])}` })));
    rows.push({ t, step, row });
    return row;
  });
  box.append(el("table", {},
    el("caption", {}, "Attention weights, by word to be predicted and word read"),
    el("thead", {}, el("tr", {}, el("td"), source.slice(0, valuesOf(data.attention[0].tensor).length).map((word) => el("th", { scope: "col" }, el("span", {}, word))))),
    el("tbody", {}, body)));
}

/** Fill the rows that are known, and mark the one of this step. */
export function showAlignment() {
  const { cell } = steps[state.step];
  const now = cell && cell.side !== "encoder" ? cell.t : null;
  for (const { t, step, row } of rows) {
    row.classList.toggle("known", step <= state.step);
    row.classList.toggle("now", t === now);
  }
}
