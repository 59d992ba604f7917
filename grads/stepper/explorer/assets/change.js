// "Change a number": change a word, a weight or a knob, and see the effect on the loss and the gradients.

import { data, now, tensors, valuesOf } from "./data.js";
import { chart, path } from "./charts.js";
import { draw, el, exact, scientific, short } from "./format.js";
import { change, changed, givenNumber, inputOf, isChanged, knobOf, normsByTime, numberOf, program, restore, shapeOf, wordOf } from "./live.js";
import { state } from "./state.js";

const RANGE = 3; // of a weight's slider: at least so far to either side
const place = { input: null, entry: 0 }; // the weight that is chosen
let parts = null; // of the panel, once it is drawn
let before = null; // the norms as they were given

const matrices = () => program.inputs.filter(({ line }) => shapeOf(line).length);
const vocabulary = (name) => data.vocabularies[name].words;

/** Fill the panel, once. */
export function drawChange(panel) {
  before = normsByTime(valuesOf);
  place.input = matrices()[0];
  const what = el("select", { id: "change-what", onchange: () => show() }, options());
  parts = { what, value: el("div", { class: "controls" }), loss: el("p", { id: "change-loss", class: "loss", role: "status" }),
    list: el("ul", { class: "names" }), chart: el("div", { class: "panels" }), made: null };
  panel.append(el("p", { class: "note" }, "The page then repeats the forward pass, the loss and the backward pass. You can also select a number of a weight in the tensors below."),
    el("div", { class: "controls" }, el("label", { for: "change-what" }, "Change "), what,
      el("button", { type: "button", id: "restore", onclick: () => restore() }, "Undo")),
    parts.value, parts.loss, parts.list, parts.chart);
  show();
}

function options() {
  const group = (label, list) => (list.length ? el("optgroup", { label }, list) : null);
  return [
    group("A word", program.words.map((word, k) => el("option", { value: `word ${k}` }, `${word.vocabulary === "input" ? "word" : "target word"} ${1 + (word.vocabulary === "input" ? k : k - inputs())}`))),
    group("Many numbers at once", program.knobs.map(({ name }, k) => el("option", { value: `knob ${k}` }, name))),
    group("A number of", matrices().map(({ name, line }) => el("option", { value: `input ${line}` }, name))),
  ].filter(Boolean);
}

const inputs = () => program.words.filter((word) => word.vocabulary === "input").length;

/** Update the panel to the current numbers. */
export function showChange() {
  if (parts) show();
}

/** Choose the weight that the selected number belongs to, if it belongs to one. */
export function chooseChange() {
  const found = parts && state.picked && inputOf(state.picked.tensor, state.picked.entry);
  if (!found) return;
  place.input = program.inputs.find(({ line }) => line === found[0]);
  place.entry = found[1];
  parts.what.value = `input ${found[0]}`;
  show();
}

function show() {
  const [kind, number] = parts.what.value.split(" ");
  if (kind === "input" && place.input.line !== Number(number)) Object.assign(place, { input: program.inputs.find(({ line }) => line === Number(number)), entry: 0 });
  const made = kind === "input" ? `${parts.what.value} ${place.entry}` : parts.what.value;
  if (made !== parts.made) parts.value.replaceChildren(...{ word: wordControls, knob: knobControls, input: entryControls }[kind](Number(number)));
  parts.made = made;
  fill();
  const loss = now.loss ?? data.loss;
  parts.loss.replaceChildren(`${data.loss_said.replace(/,$/, "")}: `, el("b", { title: exact(loss) }, short(loss, 6)),
    ...(isChanged() ? [` (it was ${short(data.loss, 6)})`] : []));
  parts.list.replaceChildren(...said().map((text) => el("li", {}, text)));
  document.getElementById("restore").disabled = !isChanged();
  parts.chart.replaceChildren(...normsByTime(valuesOf).slice(0, 3).map(graph));
}

// --- the controls ---------------------------------------------------------------------------

let fill = () => {}; // puts the number as it is into the controls

function wordControls(k) {
  const known = vocabulary(program.words[k].vocabulary);
  const select = el("select", { id: "change-value", "aria-label": "The word", onchange: () => change("words", k, Number(select.value), program.words[k].word) },
    known.map((word, id) => el("option", { value: id }, word)));
  fill = () => { select.value = wordOf(k); };
  return [select];
}

function knobControls(k) {
  const { name, what, value, least, most } = program.knobs[k];
  return [...slider(name, least, most, () => knobOf(k), (to) => change("knobs", k, to, value), value), el("span", { class: "what" }, what)];
}

function entryControls(line) {
  const shape = shapeOf(line);
  const at = place.entry, key = `${line} ${at}`, was = givenNumber(line, at);
  const columns = shape[1] ?? 1;
  const index = (label, value, size, entryOf) => {
    const field = el("input", { type: "number", min: 0, max: size - 1, step: 1, value, onchange: () => {
      place.entry = entryOf(Math.min(Math.max(Math.trunc(Number(field.value)) || 0, 0), size - 1));
      const back = label;
      show();
      parts.value.querySelector(`[data-index="${back}"]`).focus();
    }, "data-index": label });
    return el("label", {}, `${label} `, field);
  };
  const [i, j] = [Math.floor(at / columns), at % columns];
  const most = Math.max(RANGE, 2 * Math.abs(was));
  return [index("row", i, shape[0], (row) => row * columns + j), ...(columns > 1 ? [index("column", j, columns, (column) => i * columns + column)] : []),
    ...slider(`${place.input.name}[${columns > 1 ? `${i}, ${j}` : i}]`, -most, most, () => numberOf(line, at), (to) => change("entries", key, to, was), was)];
}

/** A slider and a field for one number. Values outside the slider's range can be typed. */
function slider(label, least, most, value, set, was) {
  const range = el("input", { type: "range", id: "change-slider", min: least, max: most, step: "any", "aria-label": label, oninput: () => set(Number(range.value)) });
  const field = el("input", { type: "number", id: "change-value", step: "any", "aria-label": `${label}, typed`, onchange: () => {
    if (field.value !== "" && Number.isFinite(Number(field.value))) set(Number(field.value));
    else fill();
  } });
  range.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault(); // a slider without steps would hardly move
    const to = Number(range.value) + (["ArrowLeft", "ArrowDown"].includes(event.key) ? -1 : 1) * (most - least) / 100;
    set(Math.min(Math.max(to, least), most));
  });
  fill = () => { range.value = value(); field.value = String(+value().toPrecision(8)); };
  return [el("span", { class: "label" }, el("code", {}, label)), range, field, el("span", { class: "what" }, `given: ${short(was)}`)];
}

/** A description of each change. */
function said() {
  const name = (line) => program.inputs.find((input) => input.line === line).name;
  return [
    ...[...changed.words].map(([k, id]) => { const { vocabulary: of, word } = program.words[k]; return `${vocabulary(of)[word] ?? "a word"} → ${vocabulary(of)[id]}`; }),
    ...[...changed.knobs].map(([k, value]) => `${program.knobs[k].name}: ${short(program.knobs[k].value)} → ${short(value)}`),
    ...[...changed.entries].map(([key, value]) => {
      const [line, entry] = key.split(" ").map(Number);
      const columns = shapeOf(line)[1] ?? 1;
      return `${name(line)}[${columns > 1 ? `${Math.floor(entry / columns)}, ` : ""}${entry % columns}]: ${short(givenNumber(line, entry))} → ${short(value)}`;
    })];
}

// --- the effects -----------------------------------------------------------------------------

/** A chart of a gradient's norm by time, before and after the change. */
function graph({ name, times, norms }) {
  const was = before.find((series) => series.name === name).norms;
  const positive = [...norms, ...was].filter((x) => x > 0 && Number.isFinite(x));
  const y = { from: 10 ** Math.floor(Math.log10(Math.min(...positive, 1))), to: 10 ** Math.ceil(Math.log10(Math.max(...positive, 1e-3))), log: true };
  const { svg, toX, toY } = chart({ width: 300, height: 190, xTitle: "time step", yTitle: `norm of ${name}`, y,
    x: { from: times[0], to: times.at(-1), ticks: times.length < 14 ? times : undefined },
    label: `Norm of ${name} by time: ${times.map((t, k) => `${t}: ${scientific(norms[k])}`).join(", ")}` });
  const line = (values) => times.map((t, k) => [toX(t), values[k] > 0 ? toY(values[k]) : NaN]);
  svg.append(path(line(was), "was"), path(line(norms), "norm"));
  const legend = (kind, text) => el("span", { class: "key" }, draw("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, draw("path", { class: `series ${kind}`, d: "M0 4 H24" })), text);
  return el("figure", { class: "graph" }, svg, el("figcaption", {}, legend("norm", "now"), legend("was", "as given")));
}

/** Whether any number of this page can be changed. */
export const canChange = Boolean(program) && tensors.length > 0;
