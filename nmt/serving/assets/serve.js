// A sentence goes to the server; its answer is shown, and below it the search that found it.

import { el, exact, fixed } from "./format.js";
import { unpacked } from "./packed.js";
import { listen, showSearches } from "./search_player.js";
import { pick } from "./search_state.js";

const byId = (id) => document.getElementById(id);
const UNKNOWN = "<unk>";
const UNANSWERED = "The server does not answer. Is nmt serve still running?";

/** The answer to a sentence, or an error whose message is the server's. */
async function asked(text, beam) {
  let response;
  try {
    response = await fetch("translate", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text, beam }) });
  } catch {
    throw new Error(UNANSWERED);
  }
  const said = await response.json().catch(() => ({ error: `${UNANSWERED} It said ${response.status}.` }));
  if (!response.ok) throw new Error(said.error);
  return said;
}

async function translate() {
  byId("go").disabled = true;
  byId("go").textContent = "Translating…";
  byId("problem").textContent = "";
  try {
    showAnswer(await asked(byId("text").value.replace(/\s*\n\s*/g, " ").trim(), Number(byId("beam").value)));
  } catch (error) {
    byId("problem").textContent = error.message;
  }
  byId("go").disabled = false;
  byId("go").textContent = "Translate";
}

function showAnswer({ translation, nbest, source, unknown, search }) {
  byId("translation").replaceChildren(...(translation ? marked(translation.split(" "), [UNKNOWN]) : ["(empty)"]));
  byId("read").replaceChildren("Read: ", ...marked(source, unknown), unknown.length ? ". Underlined: not in the vocabulary." : "");
  byId("words").replaceChildren(...nbest[0].words.map(({ word, log_p: logP }) => el("span", { class: "number", title: `log p ${exact(logP)}, p ${exact(Math.exp(logP))}`, "--p": Math.exp(logP) },
    el("span", { class: `value${word === UNKNOWN ? " unknown" : ""}` }, word), el("span", { class: "label" }, fixed(logP, 3)))));
  history.replaceState(null, "", location.pathname);
  showSearches(search);
  const [step, at] = search.searches.beam.found[0].at;
  pick({ name: "beam", step, at });
  const { answers } = document.documentElement.dataset;
  document.documentElement.dataset.answers = Number(answers ?? 0) + 1;
}

/** Words with spaces between them, those of a list marked. */
function marked(words, list) {
  return words.flatMap((word, k) => [k ? " " : "", list.includes(word) ? el("mark", { class: "unknown" }, word) : word]);
}

function start({ languages, about, examples, beam, most_beam: mostBeam, words, characters }) {
  byId("about").textContent = about;
  byId("limits").textContent = `At most ${words} words and ${characters} characters. The enter key translates.`;
  Object.assign(byId("beam"), { max: mostBeam, value: beam });
  byId("text").lang = languages[0];
  byId("translation").lang = languages[1];
  byId("examples").hidden = !examples.length;
  byId("examples").append(...examples.map((text) => el("button", { type: "button", onclick: () => { byId("text").value = text; translate(); } }, text)));
  document.querySelector(".said").append(byId("result"));
  byId("answer").append(byId("attention"));
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); if (!byId("go").disabled) translate(); });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    byId("ask").requestSubmit();
  });
  listen();
  byId("text").focus();
}

start(await unpacked("data"));
