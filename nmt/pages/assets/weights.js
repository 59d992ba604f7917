// The weights of attention as a table: source words in columns, target words in rows.

import { el, short } from "./format.js";

/** A row: its head, and a cell for each weight (S,), shaded by it. */
export function weightsRow(head, words, weights, attributes = {}) {
  return el("tr", attributes, el("th", { scope: "row" }, head),
    words.slice(0, weights.length).map((word, s) => el("td", { "--weight": weights[s], title: `${word}: ${short(weights[s])}` })));
}

/** The table of such rows, with the words of the columns above. */
export function weightsTable(caption, words, rows) {
  return el("table", {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, el("td"), words.map((word) => el("th", { scope: "col" }, el("span", {}, word))))),
    el("tbody", {}, rows));
}
