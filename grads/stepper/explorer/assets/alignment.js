// The attention weights: a row for each decoder step, which is filled when the step is reached.

import { data, steps, weightsOf } from "./data.js";
import { el } from "./format.js";
import { goTo, state } from "./state.js";
import { weightsRow, weightsTable } from "./weights.js";

const MANY = 14; // source words from which columns are narrow
const rows = []; // {t, step, row}

/** Create the empty table beside the network, if the model has attention. */
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

/** Fill the rows of the steps so far, and mark the current row. */
export function showAlignment() {
  const { cell } = steps[state.step];
  const now = cell && cell.side !== "encoder" ? cell.t : null;
  for (const { t, step, row } of rows) {
    row.classList.toggle("known", step <= state.step);
    row.classList.toggle("now", t === now);
  }
}
