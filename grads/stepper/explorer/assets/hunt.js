// "Find the bug": a wrong backward pass without marks, in which the student marks the wrong line.

import { firstBackward, sources, steps, tensors, variants, verificationOf } from "./data.js";
import { count, el, prose, short } from "./format.js";
import { advance, breakIt, goTo, state } from "./state.js";

const SECRET = "hidden";
const hunt = { on: false, found: 0, begun: 0, tries: 0, checks: 0, said: "", solved: false };
const bugs = [...variants.values()].filter((variant) => variant.edited.length);
let box = null;

// Each bug again, under a name for addresses that does not reveal it
mixed(bugs).forEach((variant, k) => variants.set(`${SECRET}-${k + 1}`, { ...variant, id: `${SECRET}-${k + 1}`, of: variant.id, secret: true }));

/** The number of bugs that can be found. */
export const bugCount = bugs.length;

/** Whether the address asks for a hidden bug. */
export const isHunted = () => Boolean(state.variant?.secret);

/** Whether the bug was found, or shown. */
export const isSolved = () => hunt.on && hunt.solved;

/** Fill the panel, once. */
export function drawHunt(panel) {
  box = panel;
}

/** Start or end the mode. */
export function setHunt(on) {
  hunt.on = on;
  if (on && !isHunted()) begin();
  else if (!on && (isHunted() || hunt.solved)) breakIt("");
  showHunt();
}

function begin() {
  hunt.begun += 1;
  Object.assign(hunt, { tries: 0, checks: 0, said: "", solved: false });
  const k = 1 + (hunt.begun - 1 + Math.floor(performance.timeOrigin)) % bugs.length;
  breakIt(`${SECRET}-${k}`);
  if (state.step < firstBackward) goTo(advance(1, firstBackward - 1));
}

/** The panel. */
export function showHunt() {
  document.body.classList.toggle("hunting", hunt.on && !hunt.solved);
  if (!hunt.on) return;
  if (isHunted()) hunt.solved = false;
  const step = steps[state.step];
  box.replaceChildren(
    el("p", { class: "note" }, "One line of the backward pass is wrong. The code is shown as it ran, with the bug; the equations are right. Go to the line that you think is wrong, and mark it."),
    el("p", { class: "controls" },
      hunt.solved ? null : el("button", { type: "button", id: "mark", onclick: mark }, "Mark this line"), hunt.solved ? null : el("code", {}, step.text.split("\n")[0]),
      hunt.solved ? null : el("button", { type: "button", id: "check", onclick: check }, "Verify what it writes"),
      hunt.solved ? null : el("button", { type: "button", id: "give-up", onclick: () => solve(false) }, "Show me"),
      hunt.solved ? el("button", { type: "button", id: "another", onclick: () => { begin(); showHunt(); } }, "Another bug") : null,
      el("span", { class: "score", id: "hunt-score" }, `${count(hunt.found, "bug")} found, ${count(hunt.tries, "line")} marked, ${hunt.checks} verified`)),
    el("p", { id: "hunted", class: `judged${hunt.solved ? " right" : ""}`, role: "status" }, hunt.said));
}

/** The source lines that are wrong. */
const wrongLines = () => new Set(state.variant.edited.map(({ step }) => `${steps[step].source}:${steps[step].line}`));

function mark() {
  const step = steps[state.step];
  hunt.tries += 1;
  if (wrongLines().has(`${step.source}:${step.line}`)) return solve(true);
  hunt.said = `Not this line. ${hint(step)}`;
  return showHunt();
}

/** A hint that says why a marked line is right. */
function hint(step) {
  const bug = steps[state.variant.edited[0].step];
  if (step.pass === "forward") return "The forward pass is right: the bug is in the backward pass.";
  const wrong = new Set([...state.variant.wrong, ...Object.keys(state.variant.values).map(Number)]);
  const read = step.reads.find(({ tensor }) => wrong.has(tensor));
  if (read) return `This line is right, but it reads ${read.written}, which is already wrong.`;
  if (sources.get(step.source).function !== sources.get(bug.source).function) return "It reads and writes right values. The bug is in another function.";
  return `It reads and writes right values. The bug is ${bug.line < step.line ? "above" : "below"} it in this function.`;
}

/** Show the verification of the tensors that the step writes, and count it. */
function check() {
  hunt.checks += 1;
  const variant = { ...state.variant, secret: false };
  const found = steps[state.step].targets.map((id) => [id, verificationOf(id, variant)]).filter(([, verification]) => verification?.error !== null && verification?.error !== undefined);
  hunt.said = found.length ? found.map(([id, { status, error }]) => `${tensors[id].name}: ${status === "wrong" ? `✗ wrong, relative error ${short(error, 2)}` : "✓ verified"}`).join("; ")
    : "Nothing that this line writes is compared with the loss.";
  showHunt();
}

/** Show the bug, with all its marks. */
function solve(byStudent) {
  const { of } = state.variant;
  const bug = state.variant.edited[0].step;
  hunt.found += byStudent ? 1 : 0;
  hunt.solved = true;
  const { title, why, from, to } = variants.get(of);
  breakIt(of);
  if (!byStudent) goTo(bug);
  hunt.said = `${byStudent ? "Found" : "Here it is"}: ${title}. It has ${to} where ${from} is right. ${why}`;
  showHunt();
  document.getElementById("hunted").replaceChildren(...prose(hunt.said));
  document.getElementById("another").focus();
}

/** The list in a fixed order that does not reveal the bugs. */
function mixed(list) {
  return list.map((item, k) => [Math.sin(97 * (k + 1) * list.length), item]).sort(([a], [b]) => a - b).map(([, item]) => item);
}
