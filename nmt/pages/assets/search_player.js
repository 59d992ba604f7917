// Puts what is shown of a search together, and plays it.

import { el } from "./format.js";
import { player } from "./play.js";
import { candidate, chosen, goTo, load, loaded, neighbour, onChange, readAddress, state } from "./search_state.js";
import { drawTree, showTree } from "./search_tree.js";
import { drawResult, forget, markChosen, showAttention, showCandidates, showHypothesis } from "./search_panels.js";

const byId = (id) => document.getElementById(id);

function show(what) {
  showTree(byId("tree"), what === "step");
  if (what === "step") {
    showCandidates(byId("candidates"));
    showWhere();
  }
  markChosen(byId("candidates"));
  showHypothesis(byId("hypothesis"));
  showAttention(byId("attention"));
}

function showWhere() {
  const { lastStep, searches } = loaded;
  byId("slider").value = state.step + 1;
  const at = `Step ${state.step + 1} of ${lastStep + 1}`;
  const { steps } = searches.beam;
  const growing = (steps[state.step]?.candidates ?? []).filter((one) => one.fate === "grows").length;
  byId("slider").setAttribute("aria-valuetext", at);
  byId("where").replaceChildren(el("b", {}, `Step ${state.step + 1}`), ` of ${lastStep + 1} `,
    el("span", { class: "at pass" }, growing ? `${growing} in the beam` : "the beam has ended"));
  byId("live").textContent = `${at}: ${candidate(chosen()).word}`;
  byId("first").disabled = byId("previous").disabled = state.step === 0;
  byId("last").disabled = byId("next").disabled = state.step === lastStep;
}

/** Say in the head what was searched and how. */
export function showAbout() {
  const { data, searches } = loaded;
  const { model, beam, nbest, alpha } = data.settings;
  const said = [model.length > 1 ? `the ensemble of ${model.join(", ")}` : `the model ${model[0]}`, `beam ${beam}`, nbest > 1 ? `${nbest} best` : null,
    alpha ? `length normalisation ${alpha}` : "no length normalisation", `at most ${searches.beam.limit} steps`].filter(Boolean);
  byId("about").replaceChildren(el("q", {}, data.source.join(" ")), " to ", el("q", {}, searches.beam.found[0].text), `: ${said.join(", ")}.`);
  byId("command").replaceChildren("Made by ", el("code", {}, data.command));
}

function listenToKeys(play) {
  const moves = { ArrowLeft: () => goTo(state.step - 1), ArrowRight: () => goTo(state.step + 1), Home: () => goTo(0), End: () => goTo(loaded.lastStep),
    ArrowUp: () => neighbour(-1), ArrowDown: () => neighbour(1), " ": play };
  document.addEventListener("keydown", (event) => {
    if (!loaded.data || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !moves[event.key]) return;
    if (event.target.matches?.("select, summary, input, textarea") || (event.key === " " && event.target.matches?.("button, a"))) return;
    event.preventDefault();
    moves[event.key]();
  });
}

/** Listen to the buttons, the keys and the address, once. */
export function listen() {
  byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value) - 1));
  const clicks = { first: () => goTo(0), previous: () => goTo(state.step - 1), next: () => goTo(state.step + 1), last: () => goTo(loaded.lastStep) };
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
  listenToKeys(player(byId("play"), byId("speed"), { next: clicks.next, isLast: () => state.step === loaded.lastStep, rewind: clicks.first }));
  onChange(show);
  addEventListener("hashchange", () => { if (loaded.data) readAddress(); });
}

/** Show searches, at the step that the address holds. */
export function showSearches(data) {
  forget();
  load(data);
  drawTree(byId("tree"), byId("legend"));
  drawResult(byId("result"));
  byId("attention").replaceChildren();
  byId("notes").replaceChildren(...data.notes.map((note) => el("p", { class: "note" }, note)));
  byId("slider").max = loaded.lastStep + 1;
  readAddress();
  performance.mark("ready");
  document.documentElement.dataset.ready = `${loaded.lastStep + 1} steps`;
}
