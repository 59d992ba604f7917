// The menu of jumps (time steps, passes, equations) and the switch for bookkeeping steps.

import { data, formulas, isBookkeeping, steps, firstBackward } from "./data.js";
import { el, iterations } from "./format.js";
import { advance, goTo, setAll, state } from "./state.js";

/** The first step with a wrong gradient, without an injected bug; null if all are right. */
export const firstWrong = data.verifications.find((verification) => verification.status === "wrong")?.step ?? null;

/** Fill the menu of jumps, and listen to the switch. */
export function drawJumps(menu, all) {
  const option = (number, text) => el("option", { value: number }, text);
  const group = (label, entries) => (entries.length ? el("optgroup", { label }, entries.map(([number, text]) => option(number, text))) : null);
  menu.append(...[
    option("", "Jump to …"),
    group("Passes", [[advance(1, -1), "start of the forward pass"], [advance(1, firstBackward - 1), "start of the backward pass"],
      ...(firstWrong === null ? [] : [[firstWrong, "first wrong gradient"]])]),
    group("Time, forward", times("forward")), group("Time, backward", times("backward")),
    group("Equations", equations()),
  ].filter(Boolean));
  menu.addEventListener("change", () => {
    if (menu.value !== "") goTo(Number(menu.value));
    menu.value = "";
  });
  all.parentElement.hidden = !steps.some((_, number) => isBookkeeping(number));
  all.addEventListener("change", () => setAll(all.checked));
}

/** Update the switch. */
export function showJumps(all) {
  all.checked = state.all;
}

/** The first step of each time step of a pass. */
function times(pass) {
  const found = new Map();
  steps.forEach((step, number) => {
    if (step.pass !== pass || isBookkeeping(number) || !step.loops.length) return;
    const side = step.cell?.side;
    const name = `${iterations(step.loops.slice(0, 1))}${side && steps.some((other) => other.cell && other.cell.side !== side) ? `, ${side}` : ""}`;
    if (!found.has(name)) found.set(name, number);
  });
  return [...found].map(([name, number]) => [number, name]);
}

/** The first step of each numbered equation. */
function equations() {
  const found = new Map();
  steps.forEach((step, number) => {
    const tag = formulas[step.formula]?.tag;
    if (tag && !found.has(tag)) found.set(tag, number);
  });
  return [...found].map(([tag, number]) => [number, `(${tag})  ${steps[number].text.split("\n")[0].slice(0, 40)}`]);
}
