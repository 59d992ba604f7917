// The three modes in which a student does more than watch: change a number, predict, find the bug.

import { canChange, chooseChange, drawChange, showChange } from "./change.js";
import { data } from "./data.js";
import { el } from "./format.js";
import { bugCount, drawHunt, isHunted, isSolved, setHunt, showHunt } from "./hunt.js";
import { isChanged, restore } from "./live.js";
import { drawPredict, setPredict, showPredict } from "./predict.js";

const modes = [
  { name: "change", title: "Change a number", key: "c", able: () => canChange, set: (on) => (on ? draw("change", drawChange) : isChanged() && restore()) },
  { name: "predict", title: "Predict", key: "p", able: () => true, set: setPredict },
  { name: "hunt", title: "Find the bug", key: "b", able: () => bugCount > 0, set: setHunt },
];
let open = null;
const drawn = new Set();

const box = (name) => document.getElementById(`practice-${name}`);

function draw(name, make) {
  if (!drawn.has(name)) make(box(name));
  drawn.add(name);
  if (name === "change") showChange();
}

/** Draw the buttons and the panel of the active mode. */
export function drawPractice(section, changed) {
  const able = modes.filter((mode) => mode.able());
  section.append(el("p", { class: "modes", role: "group", "aria-label": "Practise" }, able.map(({ name, title, key }) =>
    el("button", { type: "button", id: `mode-${name}`, "aria-pressed": "false", "aria-controls": `practice-${name}`, title: `${title} (key ${key})`, onclick: () => toggle(name) }, title))),
  ...able.map(({ name }) => el("div", { id: `practice-${name}`, class: "mode", hidden: true })));
  document.getElementById("cell-keys").hidden = !data.network.drawn;
  document.getElementById("mode-keys").append(...able.flatMap(({ key, title }, k) => [k ? ", " : "", el("kbd", {}, key), ` ${title.toLowerCase()}`]));
  drawPredict(box("predict"), changed);
  if (box("hunt")) drawHunt(box("hunt"));
  document.addEventListener("keydown", (event) => {
    const mode = able.find(({ key }) => key === event.key);
    if (!mode || event.altKey || event.ctrlKey || event.metaKey || event.target.matches?.("input, select, textarea")) return;
    event.preventDefault();
    toggle(mode.name);
    document.getElementById(`mode-${mode.name}`).focus();
  });
}

function toggle(name) {
  const before = open;
  open = before === name ? null : name;
  modes.find((mode) => mode.name === before)?.set(false);
  for (const mode of modes) {
    if (!box(mode.name)) continue;
    box(mode.name).hidden = mode.name !== open;
    document.getElementById(`mode-${mode.name}`).setAttribute("aria-pressed", String(mode.name === open));
    if (mode.name === open) mode.set(true);
  }
}

/** Update the open panel after a change of "step", "variant", "entry" or "numbers". */
export function showPractice(what) {
  if (isHunted() !== (open === "hunt") && !isSolved()) toggle("hunt"); // the address asks for it, or for another
  if (open === "change" && what === "entry") chooseChange();
  if (open === "change" && what === "numbers") showChange();
  if (open === "predict" && what !== "entry") showPredict();
  if (open === "hunt" && what !== "entry") showHunt();
}
