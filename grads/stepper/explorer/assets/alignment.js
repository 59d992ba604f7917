// The weights of attention, a row for each step of the decoder; a row fills when its step is reached.

import { data, steps, weightsOf } from "./data.js";
import { el } from "./format.js";
import { goTo, state } from "./state.js";
import { weightsRow, weightsTable } from "./weights.js";

const MANY = 14; // source words from which columns are narrow
const rows = []; // {t, step, row}

/** The table beside the network, empty; nothing without attention. */
export function drawAlignment(box) {
  const { columns } = data.network;
  rows.length = 0;
  const source = columns.filter((column) => column.side === "encoder").map((column) => column.word);
  box.hidden = !data.attention.length || !source.length; // two encoders do not stand in a row
  if (box.hidden) return;
  box.classList.toggle("many", source.length > MANY);
  if (data.network.mirrored) source.reverse(); // weights are by written words
  const target = columns.filter((column) => column.side !== "encoder");
  const body = data.attention.map((known, k) => {
    const { t, step } = known;
    const row = weightsRow(el("a", { href: `#step=${step + 1}` }, target[k]?.next ?? `t = ${t}`), source, weightsOf(known), { onclick: () => goTo(step) });
    rows.push({ t, step, row });
    return row;
  });
  const attended = source.slice(0, weightsOf(data.attention[0]).length);
  box.replaceChildren(weightsTable("Attention weights, by word to be predicted and word read", attended, body));
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
