// Vanishing gradients: the recorded steps of an RNN, an LSTM and a GRU, each repeated over the chosen length.

import { chart, path } from "./charts.js";
import { draw, el, exact, fixed, scientific } from "./format.js";
import { unpacked } from "./packed.js";
import { recorded } from "./tape.js";

const data = await unpacked("data");
const FLOOR = 1e-12, CEILING = 1e6; // of the charts
const SMALL = 0.01; // a gradient that counts as vanished
const SERIES = { dh: ["norm", "‖dh‖"], dc: ["cell", "‖dc‖"], bound: ["bound", "bound ρᵏ"] };

const units = data.units.map((unit) => ({ ...unit, machine: recorded(unit), size: data.size }));
const knobs = [
  { id: "length", name: "length in words", least: 2, most: data.words.length, step: 1, value: 30 },
  { id: "radius", name: "spectral radius ρ", least: 0, most: 2, step: 0.01, value: 0.9 },
  ...units.filter(({ bias }) => bias).map(({ name, bias }) => ({ id: `bias-${name}`, name: bias.name, least: -6, most: 6, step: 0.1, value: 0 })),
];
const values = new Map(knobs.map(({ id, value }) => [id, value]));

/** Apply the settings to a unit's weights. */
function set({ machine, inputs, radius, bias, at, name, size }) {
  for (const { line, name: input, values: given } of inputs) {
    const columns = machine.shapeOf(line)[1];
    const scaled = (entry) => radius.includes(input) && entry % columns >= columns - size;
    machine.values[line].set(given.map((x, entry) => (scaled(entry) ? x * values.get("radius") : x)));
  }
  if (bias) machine.values[at[bias.input]].fill(values.get(`bias-${name}`), bias.row, bias.row + size);
}

const norm = (vector) => Math.hypot(...vector);

/** The norms of the gradients that reach each state, from the last word back: {dh: [...], dc: [...]}. */
function norms(unit) {
  const { machine, at, made, states } = unit;
  set(unit);
  const length = values.get("length");
  const put = (name, vector) => machine.values[at[name]].set(vector);
  const history = [states.map((state) => machine.values[at[`${state}_prev`]].slice().fill(0))];
  for (let t = 0; t < length; t += 1) {
    put("x", data.words[t]);
    states.forEach((state, k) => put(`${state}_prev`, history[t][k]));
    machine.run();
    history.push(states.map((state) => machine.values[made[state]].slice()));
  }
  let flowing = states.map((state, k) => (k ? machine.values[at[`d${state}`]].slice().fill(0) : Float64Array.from(data.direction)));
  const found = Object.fromEntries(states.map((state, k) => [`d${state}`, [norm(flowing[k])]]));
  for (let t = length - 1; t >= 0; t -= 1) {
    put("x", data.words[t]);
    states.forEach((state, k) => { put(`${state}_prev`, history[t][k]); put(`d${state}`, flowing[k]); });
    machine.run();
    flowing = states.map((state) => machine.values[made[`d${state}_prev`]].slice());
    states.forEach((state, k) => found[`d${state}`].push(norm(flowing[k])));
  }
  return found;
}

function graph({ name }, found, y) {
  const length = values.get("length");
  const series = { ...found, ...(name === "RNN" ? { bound: found.dh.map((_, k) => values.get("radius") ** k) } : {}) };
  const { svg, toX, toY } = chart({ width: 400, height: 280, xTitle: "k, words back", yTitle: "norm of the gradient", y,
    x: { from: 0, to: length }, label: `${name}: norm ${scientific(found.dh.at(-1))} after ${length} steps back` });
  for (const [kind, list] of Object.entries(series)) {
    svg.append(path(list.map((value, k) => [toX(k), value > 0 ? toY(Math.min(Math.max(value, y.from), y.to)) : NaN]), SERIES[kind][0]));
  }
  const legend = Object.keys(series).map((kind) => el("span", { class: "key" }, draw("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" },
    draw("path", { class: `series ${SERIES[kind][0]}`, d: "M0 4 H24" })), SERIES[kind][1]));
  return el("figure", { class: "graph" }, el("h2", {}, name), svg, el("figcaption", {}, legend));
}

/** The table of each unit's remaining gradient. */
function row({ name }, { dh, dc }) {
  const largest = dh.map((value, k) => Math.max(value, dc?.[k] ?? 0));
  const gone = dh.findIndex((value) => value < SMALL);
  const rate = (dh.at(-1) / dh[1]) ** (1 / Math.max(1, dh.length - 2));
  return el("tr", {}, el("th", { scope: "row" }, name),
    el("td", { "data-unit": name, title: String(dh.at(-1)) }, scientific(dh.at(-1))), el("td", {}, dc ? scientific(dc.at(-1)) : "–"),
    el("td", { title: exact(rate) }, dh.at(-1) > 0 ? fixed(rate, 3) : "–"),
    el("td", {}, gone < 0 ? (Math.max(...largest) > CEILING ? "never: it explodes" : "not within the sentence") : `after ${gone} words`));
}

function show() {
  const found = units.map(norms);
  const all = found.flatMap((series) => Object.values(series).flat()).filter((x) => x > 0 && Number.isFinite(x));
  const y = { from: Math.max(FLOOR, 10 ** Math.floor(Math.log10(Math.min(...all, 0.1)))), to: Math.min(CEILING, 10 ** Math.ceil(Math.log10(Math.max(...all, 1)))), log: true };
  document.getElementById("charts").replaceChildren(...units.map((unit, k) => graph(unit, found[k], y)));
  document.getElementById("reach").replaceChildren(
    el("caption", {}, `What is left of the gradient ${values.get("length")} words back`),
    el("thead", {}, el("tr", {}, ["unit", "‖dh‖", "‖dc‖", "factor a step", "below 1 %"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, units.map((unit, k) => row(unit, found[k]))));
}

function control({ id, name, least, most, step }) {
  const take = (value) => {
    if (!Number.isFinite(value)) value = values.get(id);
    values.set(id, Math.min(Math.max(step === 1 ? Math.round(value) : value, least), most));
    range.value = values.get(id);
    field.value = values.get(id);
    show();
  };
  const range = el("input", { type: "range", id, min: least, max: most, step, value: values.get(id), "aria-label": name, oninput: () => take(Number(range.value)) });
  const field = el("input", { type: "number", id: `${id}-typed`, min: least, max: most, step: "any", value: values.get(id), "aria-label": `${name}, typed`, onchange: () => take(field.value === "" ? NaN : Number(field.value)) });
  return el("p", { class: "controls" }, el("span", { class: "label" }, name), range, field);
}

document.getElementById("about").textContent = `An RNN, an LSTM and a GRU of ${data.size} units, with random weights.`;
document.getElementById("controls").append(...knobs.map(control));
document.getElementById("command").append("Made by ", el("code", {}, data.command));
show();
document.documentElement.dataset.ready = `${units.length} units`;
