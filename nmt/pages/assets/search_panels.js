// Beside the tree: the extensions of the step, the hypothesis chosen, its attention; the result.

import { count, el, exact, fixed, prose, scientific, short } from "./format.js";
import { laneOf } from "./search_tree.js";
import { address, candidate, candidatesOf, chosen, loaded, NAMES, pathOf, pick, point, state } from "./search_state.js";
import { weightsRow, weightsTable } from "./weights.js";

const TAIL = 4; // words of the hypothesis extended that a row shows
const MANY = 14; // columns of attention from which they are narrow
const nats = (value) => (Math.abs(value) < 5e-4 ? scientific(value) : fixed(value, 3));

const tables = new Map(); // of extensions, by search and step
const weights = new Map(); // rows of attention, by search, step and extension

/** Forget what was made for other searches. */
export function forget() {
  tables.clear();
  weights.clear();
}

const alphaOf = (name) => (name === "beam" ? loaded.data.settings.alpha : 0);
const fateOf = ({ fate }) => loaded.data.fates[fate];

const wordsOf = (one) => pathOf(one).map((part) => candidate(part).word);
const clone = (id) => document.getElementById(id).content.cloneNode(true);

// --- the extensions of the step ------------------------------------------------------------------

/** A table for each search. */
export function showCandidates(panel) {
  panel.replaceChildren(...NAMES.flatMap((name) => [el("h2", {}, `${laneOf(name)}: extensions at step ${state.step + 1}`),
    kept(tables, `${name}/${state.step}`, () => extensions(name))]));
}

/** What was made before under a key, or is made now: most of it comes again from step to step. */
function kept(made, key, make) {
  if (!made.has(key)) made.set(key, make());
  return made.get(key);
}

function extensions(name) {
  const all = candidatesOf(name, state.step);
  if (!all.length) return el("p", { class: "note ended" }, `Ended at step ${loaded.searches[name].steps.length}: `, el("q", {}, loaded.searches[name].found[0].words.join(" ")), ".");
  const scores = alphaOf(name) && all.some(ends);
  return el("div", { class: "scroll" }, el("table", { class: "compare" },
    el("thead", {}, el("tr", {}, ["", "hypothesis", "log p of word", "log p", ...(scores ? ["score"] : []), ""].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, all.map((one, at) => extension(name, one, at, scores)))));
}

const ends = ({ fate }) => ["finished", "surpassed", "cut", "last"].includes(fate);

function extension(name, one, at, scores) {
  const here = { name, step: state.step, at };
  const before = wordsOf(here).slice(0, -1);
  const tail = before.length > TAIL ? ["…", ...before.slice(-TAIL)] : before;
  return el("tr", { class: `fate-${one.fate.replace(" ", "-")}`, "data-of": name, "data-at": at, onclick: () => pick(here), onmouseenter: () => point(here), onmouseleave: () => point(null) },
    el("th", { scope: "row" }, `${at + 1}`),
    el("td", { class: "words" }, tail.length ? el("span", { class: "before" }, `${tail.join(" ")} `) : null, el("button", { type: "button" }, one.word)),
    el("td", { title: exact(one.word_log_p) }, nats(one.word_log_p)), el("td", { title: exact(one.log_p) }, nats(one.log_p)),
    scores ? el("td", { title: exact(one.score) }, ends(one) ? nats(one.score) : "") : null, el("td", { class: "why" }, fateOf(one)));
}

/** Mark the row of the chosen extension, without drawing the tables anew. */
export function markChosen(panel) {
  const { name, step, at } = chosen();
  for (const row of panel.querySelectorAll("tr[data-at]")) {
    row.classList.toggle("chosen", step === state.step && row.dataset.of === name && Number(row.dataset.at) === at);
  }
}

// --- the hypothesis --------------------------------------------------------------------------------

/** Its words, where its numbers come from, why it was kept or pruned; what is finished so far. */
export function showHypothesis(panel) {
  const shown = chosen();
  const one = candidate(shown);
  const before = one.log_p - one.word_log_p;
  panel.replaceChildren(
    el("h2", {}, `${laneOf(shown.name)}, step ${shown.step + 1}, number ${shown.at + 1}: ${fateOf(one)}`),
    el("p", { class: "numbers" }, pathOf(shown).map((part) => el("span", { class: "number", title: exact(candidate(part).word_log_p) },
      el("span", { class: "value" }, candidate(part).word), el("span", { class: "label" }, nats(candidate(part).word_log_p))))),
    el("p", { class: "note fate-said" }, said(shown, one)),
    equation("chain", "(2.51): the sum of the log-probabilities of the words, here in nats: step (c) of beam search (thesis, section 2.3.2); Nair and Shah, section 6.5."),
    el("p", { class: "put-in", title: exact(one.log_p) }, `${nats(one.log_p)} = ${nats(before)} + (${nats(one.word_log_p)})`),
    ...scored(shown, one), ...finishedSoFar(shown));
}

function equation(id, note) {
  return el("div", { class: "derived" }, el("div", { class: "typeset" }, clone(id)), el("p", { class: "note" }, prose(note)));
}

/** The score that hypotheses of several lengths are ranked by. */
function scored({ name, step }, one) {
  const alpha = alphaOf(name);
  if (!alpha) return [el("p", { class: "note" }, prose("Score: log p itself, as lp(e) = 1 for α = 0 (Nguyen, section 3.1.3)."))];
  const penalty = loaded.searches[name].steps[step].length_penalty;
  return [equation("score", "Nguyen, section 3.1.3, after Wu et al.: longer translations have smaller log p. |e| counts the end marker. All extensions of a step have the same length, so log p ranks them; the score ranks finished hypotheses."),
    el("p", { class: "put-in", title: exact(one.score) }, `${nats(one.score)} = ${nats(one.log_p)} / ${nats(penalty)}  (|e| = ${step + 1}, α = ${alpha})`)];
}

/** Why a candidate was kept or pruned, in words, with the numbers that decided. */
function said(shown, one) {
  const search = loaded.searches[shown.name];
  const step = search.steps[shown.step];
  const inBeam = step.candidates.filter((other) => ["grows", "cut", "stopped", "last"].includes(other.fate));
  const worst = step.ended.at(-1);
  const number = step.ended.findIndex(({ at }) => at[0] === shown.step && at[1] === shown.at) + 1;
  const returned = search.found.findIndex(({ at }) => at[0] === shown.step && at[1] === shown.at) + 1;
  const K = `K = ${search.beam}`;
  const n = most(shown.name);
  const end = returned ? ` It is ${returned === 1 ? "the translation" : `number ${returned} of those returned`}.` : "";
  return {
    grows: () => `In the beam: number ${inBeam.indexOf(one) + 1} of the ${K} most probable extensions without an end marker. Step ${shown.step + 2} extends it.`,
    outside: () => `Pruned: outside the beam. ${K} are kept, and the least probable of those has log p ${nats(inBeam.at(-1)?.log_p)}; this one has ${nats(one.log_p)}.`,
    "end outside": () => `Pruned: an end marker counts only among the ${K} best extensions of its step; this one is number ${shown.at + 1}.`,
    finished: () => `Finished: the end marker is among the ${K} best extensions of its step. Score ${nats(one.score)}, number ${number} of the finished ones so far.${end}`,
    surpassed: () => `Finished, and dropped: the ${n === 1 ? "best finished one has" : `${n} best finished ones have`} a score of at least ${nats(worst?.score)}; this one has ${nats(one.score)}.`,
    cut: () => `Cut at the limit of ${search.limit} steps (Algorithm 5, line 4): it has no end marker. Such hypotheses are returned only where too few are finished.${end}`,
    last: () => `Finished: the last of ${search.limit} words, at position 0. Score ${nats(one.score)}${number ? `, number ${number}` : ", below the best finished"}.${end}`,
    stopped: () => `The search ends here: log p only falls, so this one can at best reach log p / lp(limit) = ${nats(one.log_p / search.limit_penalty)}, and the ${n === 1 ? "best finished one has" : `${n} best finished ones have at least`} ${nats(worst?.score)}.`,
  }[one.fate]();
}

/** How many hypotheses a search returns. */
const most = (name) => (name === "greedy" ? 1 : loaded.data.settings.nbest);

/** The n best of what has ended, as they stand after the step, and what may still come. */
function finishedSoFar({ name, step }) {
  const { ended } = loaded.searches[name].steps[step];
  return [el("h3", {}, `Ended so far${most(name) > 1 ? `, the ${most(name)} best` : ""}`),
    ended.length ? el("ol", { class: "ended" }, ended.map(({ at, score, finished }) => el("li", {}, el("b", {}, nats(score)), "  ",
      el("a", { href: address({ name, step: at[0], at: at[1] }) }, wordsOf({ name, step: at[0], at: at[1] }).join(" ")), finished ? "" : " (cut)"))) : null,
    el("p", { class: "note" }, ended.length ? "" : "Nothing yet. ", bound(name, step))].filter(Boolean);
}

/** Why the search goes on after a step, or ends. */
function bound(name, step) {
  const { ended, reachable, done } = loaded.searches[name].steps[step];
  const { limit } = loaded.searches[name];
  if (step + 1 === limit) return `The limit of ${limit} steps is reached: the search ends.`;
  if (reachable === null) return "No hypothesis remains: the search ends.";
  if (done) return `The best of those in the beam could reach ${nats(reachable)} at most: the search ends.`;
  const more = ended.length < most(name) ? "" : `, more than ${nats(ended.at(-1).score)}`;
  return `The best of those in the beam can still reach log p / lp(limit) = ${nats(reachable)}${more}: the search continues, for at most ${limit} steps.`;
}

// --- attention -------------------------------------------------------------------------------------

/** A row for each word of the chosen hypothesis: the weights of the step that predicted it. */
export function showAttention(panel) {
  if (!loaded.data.attention) {
    panel.replaceChildren(el("h2", {}, "Attention"), el("p", { class: "note" }, "This model has no attention: each step reads only the previous state."));
    return;
  }
  if (!panel.firstChild) drawAttention(panel);
  const path = pathOf(chosen());
  const rows = path.map((one) => kept(weights, `${one.name}/${one.step}/${one.at}`, () => weightsRow(candidate(one).word, loaded.data.source,
    loaded.searches[one.name].steps[one.step].weights[candidate(one).parent], { class: "known" })));
  rows.forEach((row, k) => row.classList.toggle("now", k === rows.length - 1));
  panel.querySelector("tbody").replaceChildren(...rows);
}

/** The table without its rows. */
function drawAttention(panel) {
  const unknown = loaded.data.unknown.map((s) => loaded.data.source[s]);
  panel.append(el("h2", {}, "Attention"),
    el("div", { class: `alignment${loaded.data.source.length > MANY ? " many" : ""}`, "--columns": loaded.data.source.length }, weightsTable("Weights by word predicted and word read", loaded.data.source, [])),
    ...(unknown.length ? [el("p", { class: "cut" }, `Read as <unk>: ${[...new Set(unknown)].join(", ")}.`)] : []));
  for (const s of loaded.data.unknown) panel.querySelectorAll("thead th")[s].classList.add("unknown");
}

// --- the result ------------------------------------------------------------------------------------

/** What both searches returned, and how they compare. */
export function drawResult(panel) {
  panel.replaceChildren(el("h2", {}, "Found"), el("dl", { class: "found" }, NAMES.flatMap((name) => [el("dt", {}, laneOf(name)),
    ...loaded.searches[name].found.map((one) => el("dd", { "data-of": name }, el("a", { href: address({ name, step: one.at[0], at: one.at[1] }) }, one.text || "(empty)"),
      el("span", { title: exact(one.log_p) }, `log p ${nats(one.log_p)}`), alphaOf(name) ? el("span", { title: exact(one.score) }, `score ${nats(one.score)}`) : null,
      el("span", {}, count(one.at[0] + 1, "step")), one.finished ? null : el("span", {}, "cut at the limit on length")))])),
  el("p", { class: "note" }, comparison(loaded.searches.beam.found[0], loaded.searches.greedy.found[0])));
}

function comparison(beam, greedy) {
  if (beam.words.join(" ") === greedy.words.join(" ") && beam.finished === greedy.finished) return "Greedy search finds the same translation.";
  const more = beam.log_p - greedy.log_p;
  return more >= 0 ? `The beam's translation is exp(${nats(more)}) = ${short(Math.exp(more), 3)} times as probable as that of greedy search.`
    : `The beam's translation is less probable than that of greedy search, by ${nats(-more)} nats: ${alphaOf("beam") ? "it is ranked by its score" : "greedy search can follow a path that the beam pruned"}.`;
}
