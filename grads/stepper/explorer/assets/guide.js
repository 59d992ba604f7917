// What this page is: an introduction, a short tour in links, a legend. Folded until asked for.

import { data, formulas, isBookkeeping, steps, firstBackward } from "./data.js";
import { el } from "./format.js";

/** Fill the panel. */
export function drawGuide(panel) {
  const kind = data.network.columns.length ? "a network unrolled in time, with its cells above and the current line of the algorithm below" : "one step of a network, line by line";
  panel.append(el("summary", {}, "How to read this page"), el("div", {},
    el("p", { class: "note" }, `You see ${kind}, with its equation, its numbers, and the tensors it reads and writes. The forward pass runs to the loss; then the backward pass runs, and each gradient is compared with a numerical derivative. Select a number to see what it was computed from.`),
    el("p", { class: "note" }, "A short tour: ", ...tour().flatMap(([number, text], k) => [k ? "; " : "", el("a", { href: `#step=${number + 1}` }, text)]), "."),
    el("p", { class: "note" }, "Cells and lines: ", ...[["now", "this step"], ["forward", "forward done"], ["backward", "gradient computed"], ["kept", "cached from forward"]]
      .flatMap(([name, text]) => [el("span", { class: `sample ${name}` }, text), " "]), "Numbers: orange is positive, blue negative in a gradient; grey is the size of any other number.")));
}

/** Some important steps, in order. */
function tour() {
  const first = (test, from = 0) => steps.findIndex((step, number) => number >= from && !isBookkeeping(number) && test(step, number));
  const complete = (data.verifications ?? []).findLast((one) => one.lines && one.status === "verified");
  return [
    [first(() => true), "the first equation"],
    [data.attention?.length ? data.attention[0].step : -1, "the first weights of attention"],
    [first((step) => /^J = /.test(step.text)), "the loss"],
    [first((step) => formulas[step.formula] || !step.bookkeeping, firstBackward), "where the backward pass begins"],
    [complete ? complete.step : -1, "a complete gradient, with the slope of the loss"],
  ].filter(([number]) => number >= 0);
}
