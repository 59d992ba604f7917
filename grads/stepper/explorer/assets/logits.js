// Splits the logits of a prediction into norms, cosines and bias, for the right word and its rivals.

import { data, now, steps } from "./data.js";
import { el, exact, short } from "./format.js";
import { state } from "./state.js";

const PRODUCT = [["w", "h"], ["w_l", "h_l"]]; // of the output layer, and of the lexical module
let shown = null; // the prediction in the panel

/** The prediction that a step works on. A backward step belongs to the prediction that it differentiates. */
function predictionAt(number) {
  const step = steps[number];
  const forward = step.pass === "backward" ? step.partner : number;
  return data.logits.find(({ first, last }) => forward !== null && first <= forward && forward <= last) ?? null;
}

/** Draw the panel at the steps of a prediction. */
export function showLogits(panel) {
  const found = predictionAt(state.step);
  panel.hidden = !found || Boolean(now.values); // they are of the numbers as given
  if (panel.hidden || found === shown) return;
  shown = found;
  const { words } = found;
  const lexical = words[0].products.length > 1;
  const rows = words[0].products.flatMap((_, k) => {
    const [w, h] = PRODUCT[k];
    return [`|${w}|`, `|${h}|`, `cos(${w}, ${h})`, `${w}·${h}`].map((name, i) => row(name, words.map((word) => word.products[k][i]), i === 3));
  });
  const heads = words.map(({ word }, k) => el("th", { scope: "col" }, word, k ? null : el("small", {}, " target")));
  panel.replaceChildren(el("h2", {}, "Logits"),
    el("p", { class: "note" }, "A logit is ", el("code", {}, `|w| |h| cos(w, h)${lexical ? " + |w_l| |h_l| cos(w_l, h_l)" : ""} + b`),
      ": w is the word's row of the output matrix, h what the layer reads, b the word's bias",
      lexical ? "; w_l and h_l are the lexical module's" : "", `. The word to be predicted, and its best ${words.length > 2 ? "rivals" : "rival"}.`),
    el("div", { class: "scroll" }, el("table", { class: "compare" }, el("thead", {}, el("tr", {}, el("th"), heads)),
      el("tbody", {}, rows, row("b", words.map(({ bias }) => bias)), row("logit", words.map(({ logit }) => logit), true), row("p", words.map(({ p }) => p))))));
}

function row(name, values, sum = false) {
  return el("tr", { class: sum ? "sum" : null }, el("th", { scope: "row" }, name), values.map((value) => el("td", { title: exact(value) }, short(value))));
}
