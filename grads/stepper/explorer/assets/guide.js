// The guide: an introduction, a short tour in links, and a legend. It is folded at first.

import { data, formulas, isBookkeeping, steps, firstBackward } from "./data.js";
import { el } from "./format.js";

/** Fill the panel. */
export function drawGuide(panel) {
  const kind = data.network.drawn ? "a network unrolled in time, with its cells above and the current line of the algorithm below" : data.network.columns.length ? "a network that reads all words at once, with its attention heads above and the current line below" : "one step of a network, line by line";
  panel.append(el("summary", {}, "How to read this page"), el("div", {},
    el("p", { class: "note" }, `You see ${kind}, with its equation, its numbers, and the tensors it reads and writes. The forward pass runs to the loss; then the backward pass runs, and each gradient is compared with a numerical derivative. Select a number to see what it was computed from.`),
    ...(data.heads.length ? [el("p", { class: "note" }, "Attention heads: a row for each query, a column for each key; masked places are crossed. In the forward pass a map holds the weights, in the backward pass the gradients of the scores: orange positive, blue negative, relative to the largest of the head. Select a head to go to it.")] : []),
    ...(data.inside.runs.length ? [el("p", { class: "note" }, "The drawing shows a cell from inside: what a line reads is green, what it writes yellow. In the backward pass gradients flow back, as wide as their norms. Select a line of the drawing to go to the code that computes what flows there.")] : []),
    el("p", { class: "note" }, "A short tour: ", ...tour().flatMap(([number, text], k) => [k ? "; " : "", el("a", { href: `#step=${number + 1}` }, text)]), "."),
    el("p", { class: "note" }, "Cells and lines: ", ...[["now", "this step"], ["forward", "forward done"], ["backward", "gradient computed"], ["kept", "cached from forward"]]
      .flatMap(([name, text]) => [el("span", { class: `sample ${name}` }, text), " "]), "Numbers: orange is positive, blue negative in a gradient; grey is the size of any other number.")));
}

/** Some important steps in order. */
function tour() {
  const first = (test, from = 0) => steps.findIndex((step, number) => number >= from && !isBookkeeping(number) && test(step, number));
  const complete = (data.verifications ?? []).findLast((verification) => verification.lines && verification.status === "verified");
  return [
    [first(() => true), "the first equation"],
    [data.attention?.length ? data.attention[0].step : -1, "the first weights of attention"],
    [first((step) => /^J = /.test(step.text)), "the loss"],
    [first((step) => formulas[step.formula] || !step.bookkeeping, firstBackward), "where the backward pass begins"],
    [complete ? complete.step : -1, "a complete gradient, with the slope of the loss"],
  ].filter(([number]) => number >= 0);
}
