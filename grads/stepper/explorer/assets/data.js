// The data that Python wrote into the page (steps, tensors, verifications, wrong variants), and functions that look it up.

import { root } from "./format.js";
import { unpacked } from "./packed.js";

export const data = await unpacked("data");
export const formulas = { ...await unpacked("formulas"), ...data.typeset };

/** The tensors and the loss that the page computed after a change (live.js); null before the first change. */
export const now = { values: null, loss: null };

export const steps = data.steps;
export const tensors = data.tensors;
export const sources = new Map(data.sources.map((source) => [source.id, source]));
export const variants = new Map((data.variants ?? []).map((variant) => [variant.id, variant]));

/** The first step of the backward pass, where the playhead reverses. */
export const firstBackward = Math.max(0, steps.findIndex((step) => step.pass === "backward"));

const makers = new Map(); // tensor -> the step that made it
steps.forEach((step, number) => {
  for (const tensor of step.targets) if (!makers.has(tensor)) makers.set(tensor, number);
});

const verificationsByTensor = new Map((data.verifications ?? []).map((verification, index) => [verification.target, { ...verification, index }]));
const gradients = new Map(); // forward tensor -> its verifications
for (const verification of verificationsByTensor.values()) {
  if (verification.of === null || verification.of === undefined) continue;
  gradients.set(verification.of, [...(gradients.get(verification.of) ?? []), verification]);
}
const sumsByTensor = new Map((data.sums ?? []).map((sum) => [sum.target, sum]));

/** The tensor that first held these numbers. */
function original(id) {
  const before = tensors[id].same_as;
  return before === null || before === undefined ? id : original(before);
}

/** The step that gave a tensor its name or its numbers; undefined for parameters and words. */
export function makerOf(id) {
  return makers.get(id) ?? makers.get(original(id));
}

/** The step of the forward pass that a cached tensor comes from; a backward line may have given it
    another name in between. */
export function keptFrom(id) {
  for (let tensor = id; tensor !== null; tensor = before(tensor)) {
    if (steps[makers.get(tensor)]?.pass === "forward") return makers.get(tensor);
  }
  return undefined;
}

/** The tensor that this one only renames; null if it has numbers of its own. */
export const before = (id) => tensors[id].same_as ?? null;

/** A tensor's numbers as a flat list, in a variant if one is given. */
export function valuesOf(id, variant = null) {
  const computed = now.values?.(id);
  if (computed) return computed;
  const changed = variant?.values?.[id];
  if (changed?.length) return changed;
  const before = tensors[id].same_as;
  if (before !== null && before !== undefined) return valuesOf(before, variant);
  return tensors[id].value;
}

/** The attention weights of all source words at one time, also if the tensor is shown in part. */
export const weightsOf = (known) => (!now.values && known.weights) || valuesOf(known.tensor);

const wrongSets = new Map();

/** The tensors that a variant gets wrong. */
export function wrongOf(variant) {
  if (!variant || variant.secret) return new Set(); // a bug to be found shows no mark
  if (!wrongSets.has(variant.id)) {
    wrongSets.set(variant.id, new Set([...(variant.wrong ?? []), ...Object.keys(variant.values).map(Number)]));
  }
  return wrongSets.get(variant.id);
}

/** Whether a variant gets this tensor wrong. */
export function isWrong(id, variant) {
  const wrong = wrongOf(variant);
  return wrong.has(id) || wrong.has(original(id));
}

/** Whether a step writes something that a variant gets wrong. */
export function stepIsWrong(step, variant) {
  return Boolean(variant) && step.targets.some((id) => isWrong(id, variant));
}

/** The verification of a gradient with its status in a variant; undefined if the gradient is not verified. */
export function verificationOf(id, variant = null) {
  const verification = verificationsByTensor.get(id) ?? verificationsByTensor.get(original(id));
  const error = variant?.verifications?.[verification?.index];
  return verification && (error === undefined ? verification : { ...verification, status: "wrong", error });
}

/** The verifications of the gradients for a forward tensor, in the order in which they were computed. */
export function gradientsOf(id) {
  return gradients.get(id) ?? gradients.get(original(id)) ?? [];
}

/** The side that a tensor belongs to: "encoder", "decoder", or null if it is unknown. */
function sideOf(id) {
  const of = verificationsByTensor.get(id)?.of ?? verificationsByTensor.get(original(id))?.of;
  const names = [id, original(id), ...(of === null || of === undefined ? [] : [of, original(of)])].map((name) => tensors[name].name);
  if (names.some((name) => /_source$/.test(name))) return "encoder";
  const said = names.map((name) => name.match(/\b(encoder|decoder)\b/)?.[1]).find(Boolean);
  if (said) return said;
  const maker = steps[makerOf(id)];
  if (maker?.cell) return maker.cell.side;
  const written = maker && sources.get(maker.source).function.match(/encode|decode/)?.[0];
  if (written) return `${written}r`;
  return maker?.loops.length ? null : nextSide(makerOf(id), tensors[id].name);
}

/** The side of the first step that reads a variable after it was set to zero. */
function nextSide(number, name) {
  if (number === undefined) return null;
  const { source } = steps[number];
  const next = steps.slice(number + 1).find((step) => step.source === source && step.cell && step.targets.some((id) => tensors[id].name === name));
  return next?.cell.side ?? null;
}

const bilingual = JSON.stringify(data.vocabularies?.input) !== JSON.stringify(data.vocabularies?.output);

/** The function that computed a tensor; "" for an input. */
export const functionOf = (id) => sources.get(steps[makerOf(id)]?.source)?.function ?? "";

/** The words that the rows or columns of a tensor belong to, or null. */
export function wordsOf(id, axis, step) {
  const { shape, name } = tensors[id];
  const head = data.heads.find((candidate) => [candidate.weights.tensor, candidate.gradients?.tensor].some((map) => map === id || map === original(id)));
  if (head) return axis ? head.columns : head.rows;
  const variable = /(^|\.)d?W_e(_source)?$/.test(name) ? "W_e" : /\['output\.(b|W_o)'\]$/.test(name) ? "b_hy" : root(name).replace(/^d_?(?=\w)/, "");
  const vocabulary = data.vocabularies ?? {};
  const source = data.network.columns.filter((column) => column.side === "encoder").map((column) => column.word);
  if (data.network.mirrored) source.reverse(); // by written words
  const part = step?.cell?.part;
  const { cell } = steps[makerOf(id)] ?? {};
  const predicted = (cell ? cell.part === "output" : !data.network.drawn) && (variable === "p" || /^predict/.test(functionOf(id)));
  let words = null;
  if (axis === 1) words = ["h_bar", "score", "source"].includes(variable) ? source : null;
  else if (variable === "s" && cell?.part === "attention") words = functionOf(id) === "positions" ? source : null;
  else if (["p", "s"].includes(variable)) words = predicted ? vocabulary.output : null; // not a window's place, not a state
  else if (["W_hy", "b_hy", "W_o"].includes(variable) || (part === "output" && ["W", "hy"].includes(variable))) words = vocabulary.output;
  else if (variable === "W_e") words = bilingual ? { encoder: vocabulary.input, decoder: vocabulary.output }[sideOf(id)] : vocabulary.input;
  else if (part === "attention" && ["a", "e", "alpha"].includes(variable)) words = source;
  if (!words) return null;
  const whole = tensors[id].full_shape ?? shape;
  const [list, size] = Array.isArray(words) ? [words, words.length] : [words.words, words.size];
  return size === (whole?.[axis] ?? 1) && list.length >= (shape?.[axis] ?? 1) ? list : null;
}

/** The complex-step derivative for a gradient. `true` means that it equals the gradient to all digits. */
export function complexOf(verification) {
  return verification.complex === true ? valuesOf(verification.target) : verification.complex;
}

/** The verifications with the loss along each entry: those of the complete gradients of parameters. */
export const alongs = (data.verifications ?? []).filter((verification) => verification.lines);

/** The sum over time that a gradient is a stage of, and the number of terms added so far: {terms, taken}. */
export function sumOf(id) {
  const whole = sumsByTensor.get(id) ?? sumsByTensor.get(original(id));
  if (whole) return { ...withTerms(whole), taken: whole.terms.length };
  const maker = makers.get(id);
  if (maker === undefined) return null;
  for (const sum of sumsByTensor.values()) {
    const end = makers.get(sum.target);
    if (end === undefined || tensors[sum.target].name !== tensors[id].name) continue;
    if (steps[end].source !== steps[maker].source || steps[end].line !== steps[maker].line) continue;
    const here = sum.terms.findIndex((term) => same(term.loops, steps[maker].loops));
    if (here >= 0 && same(side(end), side(maker))) return { ...withTerms(sum), taken: here + 1 };
  }
  return null;
}

/** A sum with its terms. After a change of numbers they are the differences between its stages. */
function withTerms(sum) {
  if (!now.values) return sum;
  const stages = sum.chain.map((id) => (id === null ? [] : valuesOf(id)));
  return { ...sum, terms: sum.terms.map((term, k) => ({ ...term, value: stages[k + 1].map((x, entry) => x - stages[k][entry]) })) };
}

/** Whether a step is bookkeeping, without an equation of its own. */
export const isBookkeeping = (number) => Boolean(steps[number]?.bookkeeping);

const side = (number) => [steps[number].cell?.side ?? null];
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
