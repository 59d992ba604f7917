// The lines of the algorithm with the current line highlighted. In the backward pass also the forward lines that it differentiates.

import { data, keptFrom, sources, steps } from "./data.js";
import { el, prose, iterations } from "./format.js";
import { state } from "./state.js";

/** Draw the panel on the left. Listings that are already shown stay, and only the highlighted lines change. */
export function showCode(panel) {
  const step = steps[state.step];
  const backward = step.pass === "backward";
  const parts = [el("h2", {}, backward ? "Backward" : "Forward"), listing(step, {
    lit: span(step), mark: "current",
  })];
  if (backward) parts.push(...partner(step));
  const boxes = (all) => [...all].filter((box) => box.matches(".lines"));
  const [before, now] = [boxes(panel.children), boxes(parts.flat())];
  if (before.length && before.length === now.length && now.every((box, k) => box === before[k])) replaceOthers(panel, parts.flat());
  else panel.replaceChildren(...parts.flat());
  requestAnimationFrame(() => panel.querySelectorAll(".lines").forEach(scroll)); // when all panels are drawn: one layout
}

/** Replace the elements around listings that stay. */
function replaceOthers(panel, parts) {
  if (panel.children.length !== parts.length) return panel.replaceChildren(...parts);
  return [...panel.children].forEach((old, k) => {
    if (old !== parts[k] && !old.isEqualNode(parts[k])) old.replaceWith(parts[k]);
  });
}

/** Scroll the highlighted line of a listing to the middle. */
function scroll(box) {
  const lit = box.querySelector(".current, .partner, .kept");
  if (lit) box.scrollTop = wholeLine(box, lit.offsetTop - box.clientHeight / 2 + lit.offsetHeight / 2);
}

/** The top of the first line that is fully visible when a listing is scrolled this far. */
function wholeLine(box, from) {
  const wanted = Math.min(from, box.scrollHeight - box.clientHeight) + 1;
  return Math.max(0, ...[...box.children].map((line) => line.offsetTop - 1).filter((top) => from > 0 && top < wanted));
}

/** The forward lines that a backward line differentiates, and those whose values it reads. */
function partner(step) {
  const of = step.partner === null || step.partner === undefined ? null : steps[step.partner];
  const kept = (step.cached ?? []).map((id) => steps[keptFrom(id)]).filter(Boolean);
  const shown = of ?? kept[0];
  if (!shown) return [];
  const lines = kept.filter((listed) => listed.source === shown.source).map(span);
  return [
    el("h2", {}, of ? "What it differentiates" : "What it reads from the forward pass"),
    listing(shown, { lit: of ? span(of) : [], mark: "partner", kept: lines.flat() }),
  ];
}

function span(step) {
  const last = step.end_line ?? step.line + step.text.split("\n").length - 1;
  return Array.from({ length: last - step.line + 1 }, (_, k) => step.line + k);
}

function listing(step, { lit, mark, kept = [] }) {
  const source = sources.get(step.source);
  const { box, lines } = built(source, mark);
  for (const { number, item, link } of lines) {
    const marks = ["line", lit.includes(number) ? mark : null, kept.includes(number) ? "kept" : null, judged.get(`${source.id}:${number}`)];
    set(item, "class", marks.filter(Boolean).join(" "));
    if (mark === "current") set(item, "aria-current", lit.includes(number) ? "step" : null);
    if (link) set(link, "href", `#step=${nearest(source.id, number, step) + 1}${state.variant ? `&break=${state.variant.id}` : ""}`);
  }
  const where = el("p", { class: "function" }, el("code", {}, source.function),
    step.loops?.length ? ` at ${iterations(step.loops)}` : "", el("span", { class: "file" }, source.file));
  return [where, el("p", { class: "title" }, prose(source.title ?? "")), box];
}

/** Set an attribute if it differs. */
function set(node, name, value) {
  if (node.getAttribute(name) === value) return;
  if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

const listings = new Map(); // source, place on the page and variant -> its lines, drawn once

function built(source, mark) {
  const edit = state.variant?.function === source.function ? state.variant : null;
  const name = `${source.id} ${mark} ${edit?.id ?? ""}`;
  if (!listings.has(name)) {
    const [open, close] = source.doc ?? [0, 0]; // the docstring is folded away
    const lines = source.lines.map((text, k) => ({ text, number: source.first + k }))
      .filter(({ number }) => number < open || number > close)
      .map(({ text, number }) => {
        const item = el("li", {}, ...line(text, number, source, edit));
        return { number, item, link: item.querySelector("a.code") };
      });
    listings.set(name, { lines, box: el("ol", { class: "lines", tabindex: 0, "aria-label": `Lines of ${source.function}` }, lines.map(({ item }) => item)) });
  }
  return listings.get(name);
}

const judged = new Map(); // source and line -> "wrong", or "suspect" where the mistake may be
for (const status of ["suspect", "wrong"]) {
  for (const judgement of data.verifications.filter((found) => found.status === status)) {
    judged.set(`${data.steps[judgement.step].source}:${data.steps[judgement.step].line}`, status);
  }
}

function line(text, number, source, edit) {
  const { code, comment } = split(text);
  const body = edited(code, edit);
  return [
    el("span", { class: "number", "aria-hidden": "true" }, String(number)), el("span", { class: "text" },
    runs.has(`${source.id}:${number}`) ? el("a", { class: "code" }, ...body) : el("span", { class: "code" }, ...body),
    comment ? el("span", { class: "comment" }, prose(comment)) : null),
  ];
}

/** A line with the change of a wrong variant: the old text struck out, followed by the new text. */
function edited(code, edit) {
  if (!edit || !code.includes(edit.from)) return [code];
  const [before, ...after] = code.split(edit.from);
  if (edit.secret) return [before, edit.to, after.join(edit.from)];
  return [before, el("del", {}, edit.from), el("ins", {}, edit.to), after.join(edit.from)];
}

function split(text) {
  const found = text.match(/^(.*?)\s{2,}#\s?(.*)$/);
  return found ? { code: found[1], comment: found[2] } : { code: text, comment: "" };
}

const runs = new Map(); // source and line -> steps
data.steps.forEach((step, number) => {
  const key = `${step.source}:${step.line}`;
  runs.set(key, [...(runs.get(key) ?? []), number]);
});

/** The step that ran a line and is nearest to the current step. */
function nearest(source, number, step) {
  const found = runs.get(`${source}:${number}`);
  const here = steps.indexOf(step);
  return found.reduce((best, candidate) => (Math.abs(candidate - here) < Math.abs(best - here) ? candidate : best));
}
