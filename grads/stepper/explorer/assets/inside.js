// The cell drawn from inside: the values that flow forward on its lines, and the gradients that flow back, as wide as their norms.

import { data, isWrong, makerOf, steps, tensors, valuesOf } from "./data.js";
import { el, inCell, iterations } from "./format.js";
import { inspected, state } from "./state.js";

const WIDEST = 7; // pixels, of the line with the largest gradient
const { drawings, runs } = data.inside;
const drawn = new Map(); // drawing -> its element, drawn once

/** The call with a drawing that a step is inside, or the last one before the step. */
const runsAt = steps.map(({ inside }) => inside?.[0]);
for (let k = 1; k < runsAt.length; k += 1) runsAt[k] ??= runsAt[k - 1];
const first = runsAt.find((run) => run !== undefined);

/** Update the drawing to the current step. */
export function showInside(panel) {
  panel.hidden = first === undefined;
  if (panel.hidden) return;
  const step = steps[state.step];
  const { drawing, flows } = runs[runsAt[state.step] ?? first];
  if (!drawn.has(drawing)) drawn.set(drawing, element(drawings[drawing]));
  const picture = drawn.get(drawing);
  const [, written, read] = step.inside ?? [null, [], []];
  const back = step.pass === "backward";
  const largest = Math.max(1e-300, ...Object.values(flows).map(([, , gradient]) => (gradient === null ? 0 : norm(gradient))));
  for (const flow of picture.querySelectorAll(".flow")) {
    const name = flow.dataset.variable;
    const [value, forward, gradient, backward] = flows[name];
    const flowsBack = back && isKnown(gradient);
    const tensor = flowsBack ? gradient : value;
    const states = { backward: flowsBack, later: !isKnown(tensor), now: written.includes(name), read: read.includes(name),
      wrong: flowsBack && isWrong(gradient, state.variant) };
    for (const [kind, on] of Object.entries(states)) flow.classList.toggle(kind, on);
    flow.style.setProperty("--wide", `${flowsBack ? 1 + (WIDEST - 1) * norm(gradient) / largest : 1.4}px`);
    point(flow, (back ? backward : null) ?? forward, isKnown(tensor) ? tensor : null);
  }
  const where = steps.find((candidate) => candidate.inside?.[0] === (runsAt[state.step] ?? first));
  if (!panel.firstChild) panel.append(el("h2"), el("div"), el("p", { class: "legend" }));
  const [title, box, legend] = panel.children; // which stay, so that a line that has the focus keeps it
  title.replaceChildren("Inside ", el("code", {}, drawing.split(" ")[0]), where.loops.length ? ` at ${iterations(where.loops)}` : "");
  if (box.firstChild !== picture) box.replaceChildren(picture);
  legend.textContent = `${back ? "Gradients flow back, as wide as their norms. " : ""}Numbers: ${entryOf() === null ? "" : "the selected entry, or "}the ‖norm‖.`;
}

function element(text) {
  const box = el("div");
  box.innerHTML = text; // made by grads/stepper/explorer/drawings.py
  return box.firstElementChild;
}

/** Whether a tensor has been computed so far. */
const isKnown = (tensor) => tensor !== null && (makerOf(tensor) ?? 0) <= state.step;

const norm = (tensor) => Math.hypot(...valuesOf(tensor, state.variant).filter((x) => typeof x === "number"));

/** The row of the inspected entry and its flat position; null if no entry is inspected. */
function entryOf() {
  const picked = inspected();
  const shape = picked && tensors[picked.tensor].shape;
  return shape?.length ? { shape, row: Math.floor(picked.entry / (shape[1] ?? 1)), entry: picked.entry } : null;
}

/** The number to show for a tensor: the inspected entry if the tensor, or a gate's block of it, has that entry; otherwise the norm. */
function numberOf(tensor) {
  const values = valuesOf(tensor, state.variant);
  const [rows, columns = 1] = tensors[tensor].shape;
  const picked = entryOf();
  if (picked && columns === 1 && picked.shape[0] % rows === 0) return [values[picked.row % rows], false];
  if (picked && rows === picked.shape[0] && columns === picked.shape[1]) return [values[picked.entry], false];
  return [norm(tensor), true];
}

/** Link a flow to a step and show its number. The label is for screen readers. */
function point(flow, step, tensor) {
  const number = flow.querySelector(".number");
  const [value, isNorm] = tensor === null ? [null, false] : numberOf(tensor);
  const said = tensor === null ? "" : inCell(value, (Math.abs(value) < 1 ? 3 : Math.abs(value) < 10 ? 2 : 1) - isNorm);
  const text = isNorm ? `‖${said}‖` : said;
  if (number && number.textContent !== text) number.textContent = text;
  number?.classList.toggle("positive", !isNorm && value > 0);
  number?.classList.toggle("negative", !isNorm && value < 0);
  if (step === null) { flow.removeAttribute("href"); return; }
  flow.setAttribute("href", `#step=${step + 1}${state.variant ? `&break=${state.variant.id}` : ""}`);
  flow.setAttribute("aria-label", `${tensor === null ? flow.dataset.variable : tensors[tensor].name} ${text}, step ${step + 1}: ${steps[step].text.split("\n")[0]}`);
}
