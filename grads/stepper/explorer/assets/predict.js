// "Predict": the result of a line is hidden and asked for. A wrong answer gets a hint that fits the mistake.

import { isBookkeeping, steps, tensors, valuesOf } from "./data.js";
import { evaluate, written } from "./evaluate.js";
import { count, el, place, short } from "./format.js";
import { code, mistakes, shapeOf, twoSizes } from "./mistakes.js";
import { goTo, largest, state } from "./state.js";

const KINDS = { any: "whatever fits", shape: "shape", sign: "sign", formula: "formula", value: "value" };
const CLOSE = 0.02; // relative: two digits are enough
const MOST = 9; // numbers that a value may be computed from
const OPTIONS = 4;

const practice = { kind: "any", on: false, asked: null, right: 0, tried: 0 };
let box = null;
let listener = () => {};

/** Fill the panel, once; `changed` is called when something is hidden or shown. */
export function drawPredict(panel, changed) {
  box = panel;
  listener = changed;
}

/** Start or end the mode. */
export function setPredict(on) {
  practice.on = on;
  practice.asked = null;
  if (on && !questions(state.step).length) following();
  showPredict();
}

/** Show the question at the current step. It stays until it is answered. */
export function showPredict() {
  if (!practice.on) return hide(null);
  if (practice.asked?.step !== state.step) practice.asked = ask(state.step);
  hide(practice.asked);
  box.replaceChildren(head(), ...(practice.asked ? question(practice.asked) : [el("p", {}, "Nothing to predict at this step."), next()]));
}

/** Hide what would reveal the answer. The style sheet says which elements. */
function hide(asked) {
  document.body.dataset.hidden = asked && !asked.done ? asked.kind : "";
  listener();
}

function head() {
  const select = el("select", { id: "predict-kind", onchange: () => { practice.kind = select.value; practice.asked = null; if (!questions(state.step).length) following(); showPredict(); box.querySelector("select").focus(); } },
    Object.entries(KINDS).map(([kind, text]) => el("option", { value: kind, selected: kind === practice.kind }, text)));
  return el("p", { class: "controls" }, el("label", { for: "predict-kind" }, "Ask for "), select,
    el("span", { class: "score", id: "score" }, `${practice.right} of ${count(practice.tried, "question")} right at the first try`));
}

// --- the questions --------------------------------------------------------------------------------

const numeric = (number) => steps[number].targets.findIndex((id) => tensors[id].shape && !tensors[id].shape.includes(0) && !tensors[id].full_shape);

/** The questions that can be asked at a step. */
function questions(number) {
  const k = numeric(number);
  if (k < 0 || isBookkeeping(number)) return [];
  const step = steps[number];
  const tree = step.expansions?.[k] ?? null;
  const own = makes(step.targets[k], tree) ? tree : null; // a sum over a loop, say, is more than its line
  const entry = largest(valuesOf(step.targets[k]));
  const able = { shape: tensors[step.targets[k]].shape.length > 0, sign: typeof valuesOf(step.targets[k])[entry] === "number" && entry >= 0,
    formula: own && mistakes(own).length >= 2, value: own && numbersIn(own, step.targets[k], entry) <= MOST };
  return Object.keys(able).filter((kind) => able[kind] && [kind, "any"].includes(practice.kind));
}

/** Whether a tree gives the numbers of a tensor. */
function makes(id, tree) {
  if (!tree) return false;
  try {
    const { at } = evaluate(tree);
    const entry = largest(valuesOf(id));
    return entry >= 0 && close(at(...indices(id, entry)), valuesOf(id)[entry], 1e-4);
  } catch {
    return false;
  }
}

const indices = (id, entry) => [Math.floor(entry / twoSizes(id)[1]), entry % twoSizes(id)[1]];
const close = (a, b, by = CLOSE) => Math.abs(a - b) <= by * Math.abs(b) + 1e-12;
const numbersIn = (tree, id, entry) => written(tree, ...indices(id, entry)).filter((token) => token.number !== undefined).length;

function ask(number) {
  const able = questions(number);
  if (!able.length) return null;
  const step = steps[number];
  const k = numeric(number);
  const id = step.targets[k];
  const tree = step.expansions?.[k] ?? null;
  const asked = { step: number, kind: able[number % able.length], id, tree, entry: largest(valuesOf(id)), tries: 0, done: false, said: "" };
  return { ...asked, ...{ shape: askShape, sign: askSign, formula: askFormula, value: askValue }[asked.kind](asked) };
}

const inWords = (shape) => (shape.length && shape.some((size) => size !== 1) ? shape.join(" × ") : "1 × 1");

function askShape({ id, step, tree }) {
  const right = tensors[id].shape;
  const options = [{ text: inWords(right), right: true }];
  const add = (shape, hint) => { if (shape && options.length < OPTIONS && !options.some(({ text }) => text === inWords(shape))) options.push({ text: inWords(shape), hint }); };
  if (right.length === 2) add([right[1], right[0]], "That is the shape of the transpose: rows and columns are swapped.");
  for (const mistake of tree ? mistakes(tree) : []) add(shapeOf(mistake.tree), mistake.hint);
  for (const { tensor, written: name } of steps[step].reads) if (tensors[tensor].shape?.length) add(tensors[tensor].shape, `That is the shape of ${name}, which the line reads.`);
  add([right[0] + 1, ...right.slice(1)], "No tensor that the line reads has this many rows.");
  add([1, ...right.slice(1)], "Nothing here sums over the rows.");
  return { text: ["What is the shape of ", el("code", {}, tensors[id].name), "?"], options: mixed(options, step) };
}

function askSign({ id, entry, step, tree }) {
  const value = valuesOf(id)[entry];
  const hint = signs(tree, id, entry) || "Look at the numbers that the line reads.";
  const options = [["positive", 1], ["negative", -1], ["zero", 0]].map(([text, sign]) => ({ text, right: Math.sign(value) === sign, hint }));
  return { text: ["What is the sign of ", el("code", {}, tensors[id].name + place(entry, tensors[id].shape)), "?"], options, step };
}

/** The signs of the numbers that an entry is computed from. */
function signs(tree, id, entry) {
  if (!makes(id, tree)) return "";
  const tokens = written(tree, ...indices(id, entry)).filter(({ number, label }) => number !== undefined && label).slice(0, 4);
  return tokens.length ? `Look at the signs: ${tokens.map(({ label, number }) => `${label} is ${number < 0 ? "negative" : number > 0 ? "positive" : "zero"}`).join(", ")}.` : "";
}

function askFormula({ id, tree, step }) {
  const wrong = mixed(mistakes(tree), step).slice(0, OPTIONS - 1);
  return { text: ["Which expression gives ", el("code", {}, tensors[id].name), "?"],
    options: mixed([{ text: code(tree), right: true }, ...wrong.map((mistake) => ({ text: code(mistake.tree), hint: mistake.hint }))], step + 1) };
}

function askValue({ id, entry }) {
  return { text: ["What is the value of ", el("code", {}, tensors[id].name + place(entry, tensors[id].shape)), "? Two digits are enough."], options: null };
}

/** The list in an order that depends on the step only. */
function mixed(list, seed) {
  const rank = (k) => Math.sin((seed + 1) * 97 + k * 31);
  return list.map((item, k) => [rank(k), item]).sort(([a], [b]) => a - b).map(([, item]) => item);
}

// --- the answers ----------------------------------------------------------------------------------

function question(asked) {
  const said = el("p", { id: "judged", class: `judged${asked.done ? " right" : ""}`, role: "status" }, asked.said);
  const answers = asked.options
    ? el("div", { class: "answers", role: "group", "aria-label": "Answers" }, asked.options.map((option) => el("button", { type: "button", class: asked.kind === "formula" ? "code" : null, disabled: asked.done || option.tried, onclick: () => judge(asked, option) }, option.text)))
    : valueField(asked);
  return [el("p", { class: "asked" }, asked.text), answers, said,
    el("p", { class: "controls" }, asked.done ? null : el("button", { type: "button", id: "reveal", onclick: () => settle(asked, `It is ${answer(asked)}.`) }, "Show me"), next())];
}

function valueField(asked) {
  const field = el("input", { type: "text", inputmode: "decimal", id: "answer", "aria-label": "Your value", autocomplete: "off", disabled: asked.done });
  const form = el("div", { class: "answers" }, field, el("button", { type: "button", disabled: asked.done, onclick: () => judgeValue(asked, field.value) }, "Answer"));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // or it would press the button that gets the focus
    judgeValue(asked, field.value);
  });
  return form;
}

function judgeValue(asked, text) {
  const value = Number(text.trim().replace("−", "-").replace(",", "."));
  if (!text.trim() || !Number.isFinite(value)) return say(asked, "Type a number, such as 0.12 or -3e-4.");
  const right = valuesOf(asked.id)[asked.entry];
  if (close(value, right)) return judge(asked, { right: true });
  return judge(asked, { hint: mistakeOf(asked, value, right) });
}

/** The mistake that gives a wrong value, if one is known. */
function mistakeOf({ id, entry, tree }, value, right) {
  if (close(value, -right)) return "The size is right, the sign is not.";
  for (const mistake of mistakes(tree)) {
    try {
      if (shapeOf(mistake.tree) && close(evaluate(mistake.tree).at(...indices(id, entry)), value)) return mistake.hint;
    } catch { /* sizes that do not fit give no value */ }
  }
  if (valuesOf(id).some((x) => close(value, x))) return `That is another entry of ${tensors[id].name}.`;
  return `Put the numbers into ${code(tree)}.`;
}

function judge(asked, { right, hint, ...option }) {
  if (right) return settle(asked, `Right: ${answer(asked)}.`, true);
  asked.tries += 1;
  const same = asked.options?.find(({ text }) => text === option.text);
  if (same) same.tried = true;
  if (asked.tries === 1) practice.tried += 1;
  return say(asked, `Not quite. ${hint}`);
}

function answer({ kind, id, entry, tree }) {
  const value = valuesOf(id)[entry];
  return { shape: () => inWords(tensors[id].shape), formula: () => code(tree) }[kind]?.() ?? `${tensors[id].name}${place(entry, tensors[id].shape)} = ${short(value)}`;
}

/** End the question, answered or given up. */
function settle(asked, text, right = false) {
  if (!asked.tries) practice.tried += 1;
  if (right && !asked.tries) practice.right += 1;
  asked.done = true;
  asked.tries += 1;
  say(asked, text);
  document.getElementById("next-question").focus();
}

function say(asked, text) {
  asked.said = text;
  hide(asked);
  const field = document.getElementById("answer")?.value;
  box.replaceChildren(head(), ...question(asked));
  if (asked.done) return;
  const again = document.getElementById("answer");
  if (again) Object.assign(again, { value: field }).focus();
  else box.querySelector(".answers button:not(:disabled)")?.focus();
}

const next = () => el("button", { type: "button", id: "next-question", onclick: () => { following(); box.querySelector(".answers button, .answers input")?.focus(); } }, "Next question");

/** Go to the next step with a question; after the last step, start again. */
function following() {
  for (let k = 1; k <= steps.length; k += 1) {
    const number = (state.step + k) % steps.length;
    if (questions(number).length) return goTo(number);
  }
  return null;
}
