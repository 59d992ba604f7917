// The state of the page (the step, the wrong variant, the selected entry) and its address.

import { forgetAddress, showAddress } from "./address.js";
import { data, isBookkeeping, steps, tensors, valuesOf, variants } from "./data.js";

export const state = { step: 0, variant: null, picked: null, picks: 0, all: false };

const listeners = [];

/** Call `listener(what)` after each change, where what is "step", "variant", "entry" or "numbers". */
export function onChange(listener) {
  listeners.push(listener);
}

const tell = (what) => listeners.forEach((listener) => listener(what));

/** Go to a step by index. Indices outside the range go to the ends. */
export function goTo(number) {
  const wanted = Math.min(Math.max(Math.trunc(number), 0), steps.length - 1);
  if (!Number.isFinite(wanted) || wanted === state.step) return;
  state.step = wanted;
  state.picked = null;
  remember();
  tell("step");
}

/** The next step in a direction. Bookkeeping steps are skipped unless all steps are shown. */
export function advance(direction, from = state.step) {
  let number = from + direction;
  while (!state.all && isBookkeeping(number) && steps[number + direction]) number += direction;
  return !state.all && isBookkeeping(number) ? Math.max(from, 0) : number;
}

/** Show or hide bookkeeping steps. */
export function setAll(all) {
  state.all = all;
  remember();
  tell("step");
}

/** Show the wrong variant of this name; an unknown name shows the right backward pass. */
export function breakIt(id) {
  state.variant = variants.get(id) ?? null;
  remember();
  tell("variant");
}

/** Tell all panels that numbers were changed. */
export const numbersChanged = () => tell("numbers");

/** Select an entry of a tensor. */
export function pick(tensor, entry) {
  state.picked = { tensor, entry };
  tell("entry");
}

/** The inspected entry: the selected entry, or the largest that the step writes. */
export function inspected() {
  if (state.picked) return state.picked;
  const ids = steps[state.step].targets.filter((target) => tensors[target].shape && !tensors[target].shape.includes(0));
  const id = ids.find((target) => tensors[target].gradient) ?? ids[0];
  return id === undefined ? null : { tensor: id, entry: largest(valuesOf(id, state.variant)) };
}

/** The index of the largest number in absolute value. */
export function largest(values) {
  const sizes = values.map((x) => (typeof x === "number" ? Math.abs(x) : -1));
  return sizes.indexOf(Math.max(...sizes));
}

function remember() {
  const broken = state.variant ? `&break=${encodeURIComponent(state.variant.id)}` : "";
  showAddress(`#step=${state.step + 1}${broken}${state.all ? "&all=1" : ""}`);
}

/** The variant of this name, or the only one whose name begins with it. */
function named(id) {
  const found = [...variants.values()].filter((variant) => id && variant.id.startsWith(id));
  return variants.get(id) ?? (found.length === 1 ? found[0] : null);
}

/** Take the step and the variant from the address. Without a step, begin at the first wrong one. */
export function readAddress() {
  forgetAddress();
  const wanted = new URLSearchParams(location.hash.slice(1));
  const step = Number(wanted.get("step"));
  state.variant = named(wanted.get("break"));
  if (wanted.has("all")) state.all = true;
  const wrong = data.verifications.find((verification) => verification.status === "wrong")?.step;
  state.step = step >= 1 ? Math.min(Math.trunc(step), data.steps.length) - 1 : wrong ?? advance(1, -1);
  state.picked = null;
  tell("variant");
}
