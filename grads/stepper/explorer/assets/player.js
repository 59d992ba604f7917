// Assembles the page and plays it.

import { data, now, stepIsWrong, steps, tensors, firstBackward } from "./data.js";
import { showBreaks } from "./breaks.js";
import { showCode } from "./code.js";
import { showFlow } from "./flow.js";
import { showInside } from "./inside.js";
import { showFormula } from "./formula.js";
import { count, el, short, iterations } from "./format.js";
import { listenToCells, showPicked, showTensors } from "./heatmap.js";
import { listen, otherCell } from "./keys.js";
import { drawAlignment, showAlignment } from "./alignment.js";
import { drawHeads, showHeads } from "./heads.js";
import { showLogits } from "./logits.js";
import { drawGuide } from "./guide.js";
import { drawJumps, firstWrong, showJumps } from "./jumps.js";
import { drawNetwork, drawWords, showNetwork } from "./network.js";
import { player } from "./play.js";
import { drawPractice, showPractice } from "./practice.js";
import { showVerification } from "./verification.js";
import { advance, goTo, onChange, readAddress, state } from "./state.js";

const byId = (id) => document.getElementById(id);

function show(what) {
  if (what === "numbers") showChanged();
  if (what === "entry") {
    showPicked(byId("tensors"));
  } else {
    showNetwork(byId("network"), byId("legend"));
    showAlignment();
    showHeads();
    showLogits(byId("logits"));
    showJumps(byId("all"));
    showCode(byId("algorithm"));
    showTensors(byId("tensors"));
    showWhere();
  }
  if (what === "variant") {
    showBreaks(byId("breaks"));
    showMarks();
  }
  showInside(byId("inside"));
  showFormula(byId("equation"));
  showVerification(byId("verification"));
  showPractice(what);
}

/** Redraw the panels that are drawn once, after a change of numbers or words. */
function showChanged() {
  drawWords(byId("network"));
  drawAlignment(byId("alignment"));
  drawHeads(byId("heads"));
  showAbout();
}

function showWhere() {
  const step = steps[state.step];
  const slider = byId("slider");
  slider.value = state.step + 1;
  const at = [`Step ${state.step + 1} of ${steps.length}`, step.pass, iterations(step.loops)].filter(Boolean).join(", ");
  slider.setAttribute("aria-valuetext", at);
  byId("where").replaceChildren(el("b", {}, `Step ${state.step + 1}`), ` of ${steps.length} `,
    el("span", { class: "at" }, el("span", { class: `pass ${step.pass}` }, step.pass === "forward" ? "forward →" : "← backward"), ` ${iterations(step.loops)}`));
  byId("live").textContent = `${at}: ${document.body.dataset.hidden === "formula" ? "" : step.text.split("\n")[0]}`;
  byId("first").disabled = byId("previous").disabled = byId("back-cell").disabled = state.step === 0;
  byId("last").disabled = byId("next").disabled = byId("next-cell").disabled = state.step === steps.length - 1;
}

/** Mark where the pass reverses and, in a wrong variant, the steps that write wrong values. */
function showMarks() {
  const place = (number) => `${(100 * number) / Math.max(1, steps.length - 1)}%`;
  byId("slider").style.setProperty("--reverse", place(firstBackward));
  byId("marks").replaceChildren(
    el("span", { class: "reverse-mark", "--at": place(firstBackward) }),
    ...steps.flatMap((step, number) => (stepIsWrong(step, state.variant) ? [el("span", { class: "wrong-mark", "--at": place(number) })] : [])));
}

function showAbout() {
  const { settings, network } = data;
  const loss = now.loss ?? data.loss;
  const [source, words] = [settings.target ? settings.sentence.join(" ") : "", network.columns.filter((column) => column.side !== "encoder").map((column) => column.word).join(" ")];
  const said = [el("q", {}, source || words)];
  if (source) said.push(" to ", el("q", {}, network.columns.filter((column) => column.next && column.next !== "</s>").map((column) => column.next).join(" ") || words));
  const sizes = [`hidden size ${settings.hidden}`, `embedding ${settings.embedding}`, network.layers > 1 ? `${network.layers} layers` : null,
    settings.model ? `the weights of ${settings.model}` : `random weights (seed ${settings.seed})`,
    `loss ${short(loss)} nats`];
  if (!words) sizes.splice(-1, 1, `${data.loss_said} ${short(loss)}`);
  if (!words) said.splice(0, said.length, settings.hidden === null ? "Your own function" : "One step alone");
  if (settings.hidden === null) sizes.splice(0, sizes.length, `inputs of seed ${settings.seed}`, `${data.loss_said} ${short(loss)}`);
  byId("about").replaceChildren(...said, `: ${sizes.filter(Boolean).join(", ")}.`);
  showNotes(data.notes ?? []);
  byId("command").replaceChildren("Made by ", el("code", {}, data.command));
}

/** Show the verdict on a user's backward. Other notes are folded, so that the page begins with the network. */
function showNotes(notes) {
  const verdicts = notes.filter((note) => /^What the backward returns|^WRONG|^NOTHING/.test(note));
  const others = notes.filter((note) => !verdicts.includes(note));
  byId("notes").replaceChildren(...verdicts.map((note) => el("p", { class: `note verdict${/WRONG|NOTHING/.test(note) ? " wrong" : ""}` }, note)),
    ...(firstWrong === null ? [] : [el("p", { class: "note verdict wrong" }, el("a", { href: `#step=${firstWrong + 1}` }, `The first wrong gradient: step ${firstWrong + 1}`))]),
    ...(others.length ? [el("details", {}, el("summary", {}, `About this run: ${count(others.length, "note")}`), others.map((note) => el("p", { class: "note" }, note)))] : []));
}

function start() {
  showAbout();
  drawGuide(byId("guide"));
  drawNetwork(byId("network"));
  drawHeads(byId("heads"));
  drawAlignment(byId("alignment"));
  drawJumps(byId("jump"), byId("all"));
  drawPractice(byId("practice"), showWhere);
  listenToCells(byId("tensors"));
  byId("slider").max = steps.length;
  byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value) - 1));
  const clicks = { first: () => goTo(advance(1, -1)), "back-cell": () => goTo(otherCell(-1)), previous: () => goTo(advance(-1)),
    next: () => goTo(advance(1)), "next-cell": () => goTo(otherCell(1)), last: () => goTo(steps.length - 1) };
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
  listen(player(byId("play"), byId("speed"), { next: clicks.next, isLast: () => state.step === steps.length - 1, rewind: clicks.first }));
  onChange(show);
  addEventListener("hashchange", readAddress);
  showFlow(byId("flow"));
  readAddress();
  performance.mark("ready");
  document.documentElement.dataset.ready = `${steps.length} steps, ${tensors.length} tensors`;
}

start();
