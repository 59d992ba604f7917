// What is shown: what Python recorded of two searches; where the reader stands, and the address.

import { forgetAddress, showAddress } from "./address.js";

export const NAMES = ["beam", "greedy"];

// data and its searches; lastStep, of the longer search, from 0; bestPath, to what a search returned
// first, an index for each step.
export const loaded = { data: null, searches: null, lastStep: 0, bestPath: null };

// The step; the extension picked, and the one pointed at: {name, step, at}, or null.
export const state = { step: 0, picked: null, pointed: null };

const listeners = [];

/** Call `listener(what)` after each change: what is "step" or "choice". */
export function onChange(listener) {
  listeners.push(listener);
}

const tell = (what) => listeners.forEach((listener) => listener(what));

/** The extensions of a step; none where the search has ended before. */
export const candidatesOf = (name, step) => loaded.searches[name].steps[step]?.candidates ?? [];

export const candidate = ({ name, step, at }) => loaded.searches[name].steps[step].candidates[at];

/** A hypothesis's extensions from the first step on. */
export function pathOf({ name, step, at }) {
  const path = [];
  for (let number = step, index = at; number >= 0 && index >= 0; number -= 1) {
    path.unshift({ name, step: number, at: index });
    index = loaded.searches[name].steps[number].candidates[index].parent;
  }
  return path;
}

/** Show these searches from now on. */
export function load(data) {
  const { searches } = data;
  Object.assign(loaded, { data, searches, lastStep: Math.max(...NAMES.map((name) => searches[name].steps.length)) - 1 });
  loaded.bestPath = Object.fromEntries(NAMES.map((name) => {
    const [step, at] = searches[name].found[0].at;
    return [name, pathOf({ name, step, at }).map((one) => one.at)];
  }));
  Object.assign(state, { step: 0, picked: null, pointed: null });
}

/** The extension that is shown: pointed at, picked, or on the path to the translation. */
export function chosen() {
  const own = state.picked ?? { name: "beam", step: state.step, at: loaded.bestPath.beam[state.step] ?? 0 };
  const choice = state.pointed ?? own;
  if (candidatesOf(choice.name, choice.step).length) return choice;
  return { name: "greedy", step: state.step, at: loaded.bestPath.greedy[state.step] ?? 0 };
}

/** Go to a step, by index; the ends are ends. */
export function goTo(number) {
  const wanted = Math.min(Math.max(Math.trunc(number), 0), loaded.lastStep);
  if (!Number.isFinite(wanted) || wanted === state.step) return;
  Object.assign(state, { step: wanted, picked: null, pointed: null });
  remember();
  tell("step");
}

/** Pick an extension, of this step or another. */
export function pick(one) {
  const what = one.step === state.step ? "choice" : "step";
  Object.assign(state, { step: one.step, picked: one, pointed: null });
  remember();
  tell(what);
}

/** Show an extension while it is pointed at; null: no longer. */
export function point(one) {
  state.pointed = one;
  tell("choice");
}

/** The next extension of the step in a direction, those of greedy search after the beam's. */
export function neighbour(direction) {
  const all = NAMES.flatMap((name) => candidatesOf(name, state.step).map((_, at) => ({ name, step: state.step, at })));
  const here = chosen();
  const next = all[all.findIndex((one) => one.name === here.name && one.at === here.at) + direction];
  if (next) pick(next);
}

/** The address of an extension. */
export const address = ({ name, step, at }) => `#step=${step + 1}&at=${at + 1}${name === "beam" ? "" : `&of=${name}`}`;

function remember() {
  showAddress(state.picked ? address(state.picked) : `#step=${state.step + 1}`);
}

/** Take the step and the extension from the address, if it holds any. */
export function readAddress() {
  forgetAddress();
  const wanted = new URLSearchParams(location.hash.slice(1));
  const [step, at] = ["step", "at"].map((key) => Math.trunc(Number(wanted.get(key))) - 1);
  const name = NAMES.includes(wanted.get("of")) ? wanted.get("of") : "beam";
  state.step = step >= 0 ? Math.min(step, loaded.lastStep) : 0;
  state.pointed = null;
  state.picked = candidatesOf(name, state.step)[at] ? { name, step: state.step, at } : null;
  tell("step");
}
