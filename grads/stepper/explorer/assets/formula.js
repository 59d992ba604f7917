// The equation of the step, the numbers in it, and the terms of a gradient that is a sum.

import { before, data, formulas, isWrong, makerOf, steps, sumOf, tensors, valuesOf } from "./data.js";
import { bars } from "./charts.js";
import { columnsOf, evaluate, written } from "./evaluate.js";
import { el, exact, place, prose, short, iterations } from "./format.js";
import { inspected, pick, state } from "./state.js";

const MOST = 6; // terms of a sum that are written out
const EXACT = 1e-4; // by how much a line's numbers may miss what it gave, relative
const ROUNDED = 1e-2; // the same in a wrong variant, whose numbers have five digits
const SMALLEST = 0.9; // em, of an equation that is made to fit
const SIGNS = { "-": "−", "*": "×", "/": "÷" };

/** Draw the panel in the centre. */
export function showFormula(panel) {
  const step = steps[state.step];
  panel.replaceChildren(el("h2", {}, "Equation"), equation(step), ...substitution(), ...sumOverLoop(), ...(step.cited ?? []).map(citation));
}

function equation(step) {
  const formula = formulas[step.formula];
  if (!formula) {
    return el("div", { class: "formula plain" }, el("pre", {}, step.text),
      step.bookkeeping ? el("p", { class: "note" }, "Bookkeeping: no equation of its own.") : null);
  }
  const box = el("div", { class: "formula" }, el("pre", { class: "line-here" }, step.text));
  const set = el("div", { class: "typeset" });
  set.innerHTML = formula.html; // KaTeX's, made at development time; MathML of own code, made with the page
  box.append(set);
  requestAnimationFrame(() => fit(set));
  if (formula.tag) box.append(el("p", { class: "tag" }, `(${formula.tag})`));
  if (editOf(state.step) && !state.variant.secret) box.append(el("p", { class: "note changed" }, "✗ This is what the line should compute; broken, it is ", el("code", {}, editOf(state.step).text)));
  if (formula.note) box.append(el("p", { class: "note" }, prose(formula.note)));
  return box;
}

/** The full text of each lemma, remark or erratum that the line cites. */
function citation(name) {
  const { title, text } = data.cited[name];
  return el("div", { class: "cited", role: "note" }, el("h3", {}, prose(title)), text.map((paragraph) => el("p", {}, prose(paragraph))));
}

/** A wide equation breaks between its terms (derivation.css), then shrinks. If it is still too wide, it shows that it scrolls. */
function fit(set) {
  const inner = set.querySelector(".katex-display > .katex, .own-line");
  if (!inner) return;
  const over = set.scrollWidth / set.clientWidth;
  if (over > 1) inner.style.fontSize = `${Math.max(SMALLEST, 1.25 / over)}em`;
  set.classList.toggle("cut-off", set.scrollWidth > set.clientWidth + 1);
  set.tabIndex = set.scrollWidth > set.clientWidth + 1 ? 0 : -1;
}

/** The inspected entry with the numbers that it was computed from. */
function substitution() {
  const picked = inspected();
  if (!picked) return [];
  const { tensor, entry } = picked;
  const value = valuesOf(tensor, state.variant)[entry];
  const { name, shape } = tensors[tensor];
  const title = name + place(entry, shape);
  const head = el("h3", {}, "Entry ", el("code", {}, title), ` = ${exact(value)}`);
  const found = origin(tensor);
  if (!found) return [head, el("p", { class: "note" }, "Given: a parameter or an input.")];
  const elsewhere = found.step === state.step ? null : el("p", { class: "note" }, "Computed at ",
    el("a", { href: `#step=${found.step + 1}${state.variant ? `&break=${state.variant.id}` : ""}` }, `step ${found.step + 1}`), ": ",
    el("code", {}, steps[found.step].text));
  const numbers = found.tree && writtenOut(found.tree, title, tensor, entry, value);
  const cut = found.tree && !numbers && isCut(found.tree) && el("p", { class: "note" }, "Not all of its terms are on this page: the tensors are shown in part.");
  return [head, elsewhere, numbers, cut].filter(Boolean);
}

/** Whether the page has only the first entries of a tensor in a tree. */
function isCut(tree) {
  return Array.isArray(tree) && (tree[0] === "t" ? Boolean(tensors[tree[1]].full_shape) : tree.some(isCut));
}

/** The step that computed a tensor's numbers, and its tree. Steps that only rename the tensor are passed over. */
function origin(tensor) {
  let found = null;
  for (let id = tensor; id !== null; id = before(id)) {
    const step = makerOf(id);
    if (step === undefined) continue;
    const tree = treeOf(step, id);
    if (tree) return { step, tree };
    found = { step, tree: null };
  }
  return found;
}

/** The line that a wrong variant has in place of a step's line, if it differs. */
const editOf = (number) => (state.variant?.edited ?? []).find((edit) => edit.step === number);

/** The tree of a target at the step that computed it. In a wrong variant it is the tree of the changed line. */
function treeOf(maker, tensor) {
  const step = steps[maker];
  const edited = editOf(maker);
  const trees = edited ? edited.expansions : step.expansions;
  return trees?.[step.targets.indexOf(tensor)] ?? null;
}

function writtenOut(tree, title, tensor, entry, value) {
  const columns = columnsOf(tensors[tensor].shape);
  const [i, j] = [Math.floor(entry / columns), entry % columns];
  let found;
  try {
    found = evaluate(tree, state.variant).at(i, j);
  } catch {
    return null;
  }
  const near = (state.variant ? ROUNDED : EXACT) * Math.max(Math.abs(value), 1e-6);
  if (!(Math.abs(found - value) <= near)) return null; // not this line's doing
  const terms = inTerms(written(tree, i, j, state.variant));
  const rest = terms.length - MOST;
  return el("p", { class: "numbers" },
    el("span", { class: "term" }, token({ number: value, label: title }), el("span", { class: "sign" }, "=")),
    (rest > 1 ? terms.slice(0, MOST) : terms).map((term) => el("span", { class: "term" }, term.map(token))),
    rest > 1 ? el("span", { class: "word" }, `+ ${rest} more terms`) : null);
}

/** The tokens, grouped by the terms of the outermost sum, each with its sign. */
function inTerms(tokens) {
  const terms = [[]];
  let depth = 0;
  for (const token of tokens) {
    if (token.word) depth += token.word.endsWith("(") ? 1 : -1;
    if (depth === 0 && (token.sign === "+" || token.sign === "-") && terms.at(-1).length) terms.push([]);
    terms.at(-1).push(token);
  }
  return terms;
}

function token({ number, label, tensor, entry, sign, word }) {
  if (sign) return el("span", { class: "sign" }, SIGNS[sign] ?? sign);
  if (word) return el("span", { class: "word" }, word);
  const inside = [el("span", { class: "value" }, short(number)), label ? el("span", { class: "label" }, label) : null];
  if (tensor === undefined) return el("span", { class: "number", title: exact(number) }, inside);
  return el("button", { type: "button", class: "number", title: `${label} = ${exact(number)}: where it came from`, onclick: () => pick(tensor, entry) }, inside);
}

const COUNTED = { l: "layer", u: "update", n: "encoder", r: "rare word" }; // what a loop's index counts
const isOwn = data.name.includes(".py:"); // a user's function, whose loops may count anything
const counted = (index) => (isOwn ? "iteration" : COUNTED[index] ?? (data.network.drawn ? "time step" : index === "i" ? "head" : "word"));

/** The terms of a gradient that is a sum over a loop, at the inspected entry. */
function sumOverLoop() {
  const picked = inspected();
  const sum = picked && sumOf(picked.tensor);
  if (!sum) return [];
  const { name, shape } = tensors[picked.tensor];
  const entry = name + place(picked.entry, shape);
  const [first] = sum.terms;
  const changes = first.loops.map(([index]) => index).find((index, k) => sum.terms.some((term) => term.loops[k]?.[1] !== first.loops[k][1]));
  const said = changes ? counted(changes) : "line";
  const terms = sum.terms.map((term, k) => ({ name: iterations(changes ? term.loops.filter(([index]) => index === changes) : []), value: term.value[picked.entry], done: k < sum.taken }));
  const total = terms.filter((term) => term.done).reduce((all, term) => all + term.value, 0);
  const broken = isWrong(picked.tensor, state.variant) ? ` The bars show the correct backward pass; with the bug it is ${short(valuesOf(picked.tensor, state.variant)[picked.entry])}.` : "";
  const open = sum.taken < terms.length ? " Outlined bars are still to come." : "";
  return [el("h3", {}, said === "time step" ? "Sum over time" : `Sum over ${said}s`),
    bars(terms, total, `${entry} as a sum: ${terms.map((term) => `${term.name} ${short(term.value)}`).join(", ")}`),
    el("p", { class: "note" }, `Each ${said} adds one term to ${entry}.${open}${broken}`)];
}
