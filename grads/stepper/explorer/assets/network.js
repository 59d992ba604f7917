// The network unrolled in time and depth, and the playhead that runs forward and then backward.

import { data, keptFrom, stepIsWrong, steps, firstBackward, weightsOf } from "./data.js";
import { draw, el, short } from "./format.js";
import { goTo, state } from "./state.js";

const WIDTH = 96; // of a column
const ROW = 36;
const BOX = { width: 52, height: 26 };
// search: attention comes before the unit; mirrored: the encoder reads the last of the written words first
const { columns, drawn, layers, attention, fed, search, both_ends: bothEnds, mirrored } = data.network;

const parts = [ // from the bottom up
  { part: "embed", layer: null, name: "x" },
  ...Array.from({ length: layers }, (_, l) => ({ part: "unit", layer: l + 1, name: search ? "s" : "h" })),
  ...(attention ? [{ part: "attention", layer: null, name: search ? "c" : "h̃" }] : []),
  { part: "output", layer: null, name: "p" },
];
const top = 38;
const height = top + parts.length * ROW + 22;
const nodes = new Map();
const lines = []; // the edges but those of attention, {line, from, to}
const attends = []; // one edge for each source position, into the current step of the decoder
let playhead;

// A cell's name. A line without a layer or a part belongs to the top unit.
const key = (side, t, part, layer) => `${side ?? "decoder"}/${t}/${part}/${part === "unit" ? layer ?? layers : ""}`;
const xOf = (index) => 20 + WIDTH * (index + 0.5);
const yOf = (row) => top + ROW * (parts.length - 1 - row) + ROW / 2;

/** Draw the network once; its states are set by `showNetwork`. */
export function drawNetwork(box) {
  if (!drawn) { // a single step has no time, nor what reads all words at once
    box.closest(".drawing").hidden = true;
    box.closest(".stage").hidden = !data.heads.length;
    return;
  }
  const width = WIDTH * columns.length + 40;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary(),
    "--natural": `${width}px` });
  svg.append(draw("defs", {}, arrow("tip"), hatch()));
  playhead = draw("g", { class: "playhead" },
    draw("line", { x1: 0, x2: 0, y1: top + 2, y2: height - 20 }),
    draw("path", { class: "to-right", d: "M-6 1 L8 8 L-6 15 Z" }),
    draw("path", { class: "to-left", d: "M6 1 L-8 8 L6 15 Z" }));
  svg.append(playhead, ...edges(), ...attending(), ...boxes(), ...words());
  box.replaceChildren(svg);
}

function summary() {
  const words = columns.map((column) => column.word).join(" ");
  return `${columns.length} time steps (${words}), ${layers} ${layers === 1 ? "layer" : "layers"}`;
}

function arrow(id) {
  return draw("marker", { id, viewBox: "0 0 6 6", refX: 5.4, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" },
    draw("path", { d: "M0 0.6 L5.6 3 L0 5.4 Z" }));
}

function hatch() {
  return draw("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("line", { x1: 0, y1: 0, x2: 0, y2: 5, class: "hatching" }));
}

function has(column, part) {
  return column.side !== "encoder" || part === "embed" || part === "unit";
}

/** A line between two cells. A bent line runs through the gap between columns. */
function edge(kind, a, b) {
  const middle = (a.x + b.x) / 2;
  const bend = Math.sign(b.y - a.y) * 6;
  const paths = {
    fed: () => `M${a.x} ${a.y} H${middle - 6} q6 0 6 ${bend} V${b.y - bend} q0 ${bend} 6 ${bend} H${b.x}`,
    past: () => `M${a.x} ${a.y} C${a.x + 16} ${a.y - 8} ${b.x + 16} ${b.y + 8} ${b.x} ${b.y}`,
  };
  const path = (paths[kind] ?? (() => `M${a.x} ${a.y} L${b.x} ${b.y}`))();
  const line = draw("path", { class: `edge ${kind}`, d: path });
  lines.push({ line, from: a.key, to: b.key });
  return line;
}

const rowOf = (part) => parts.findIndex((row) => row.part === part);
const spot = (index, row, dx = 0, dy = 0) => ({
  x: xOf(index) + (dx * BOX.width) / 2 + dx, y: yOf(row) + (dy * BOX.height) / 2 + dy, key: keyOf(index, row) });

/** The edges of a column: up the column, along time, to and from attention. */
function edges() {
  return columns.flatMap((column, index) => parts.flatMap(({ part }, row) => {
    if (!has(column, part)) return [];
    const next = index + 1 < columns.length;
    const found = [];
    if (row > 0) found.push(upward(column, index, row));
    if (part === "unit" && next) found.push(...along(column, index, row));
    if (part === "attention" && next && fed && !search) found.push(edge("fed", spot(index, row, 1), spot(index + 1, 0, -1)));
    if (part === "attention" && search) {
      found.push(edge("past", spot(index, row - 1, 0.9, -1), spot(index, row + 1, 0.9, 1)));
      if (next) found.push(edge("fed", spot(index, row - 1, 1, -0.4), spot(index + 1, row, -1, 0.4)));
    }
    return found;
  }));
}

/** The edges of attention. `showAttending` connects them to the current step. */
function attending() {
  if (attention) columns.forEach((column, index) => {
    if (column.side !== "encoder") return;
    const path = draw("path", { class: "attend", "data-from": keyOf(index, rowOf("attention") - 1) }, draw("title"));
    attends.push({ index, path });
  });
  return attends.map(({ path }) => path);
}

/** Connect every source state to the step that attends, as wide as the weight. Unknown weights are faint. */
function showAttending(now) {
  const t = now.cell && now.cell.side !== "encoder" ? now.cell.t : null;
  const to = columns.findIndex((column) => column.side !== "encoder" && column.t === t);
  const known = data.attention.find((weights) => weights.t === t);
  const weights = known && known.step <= state.step ? weightsOf(known) : null;
  const row = rowOf("attention");
  attends.forEach(({ index, path }, position) => {
    const s = mirrored ? attends.length - 1 - position : position;
    const shown = to >= 0 && known && (!weights || s < weights.length) && (weights || now.cell.part === "attention");
    path.toggleAttribute("hidden", !shown);
    if (!shown) return;
    const [a, b] = [spot(index, row - 1, 0, -1), spot(to, row, -0.35, -1)];
    const y = b.y - 13;
    path.setAttribute("d", `M${a.x} ${a.y} C${a.x} ${y} ${a.x + 20} ${y} ${(a.x + b.x) / 2} ${y} S${b.x} ${y} ${b.x} ${b.y}`);
    path.dataset.to = keyOf(to, row);
    path.style.strokeWidth = weights ? 0.5 + 6 * weights[s] : 0.8;
    path.style.opacity = weights ? 0.3 + 0.7 * weights[s] : 0.5;
    path.classList.toggle("backward", now.pass === "backward");
    path.classList.toggle("unknown", !weights);
    path.firstElementChild.textContent = weights ? `weight of ${columns[index].word}: ${short(weights[s])}` : "";
  });
}

/** The edges from the row below. RNNsearch's context goes down into the unit. */
function upward(column, index, row) {
  const [below, above] = [spot(index, row - 1, 0, -1), spot(index, row, 0, 1)];
  return search && parts[row].part === "attention" ? edge("up", above, below) : edge("up", below, above);
}

/** The edges to the next time step, in a bidirectional encoder also to the previous one. */
function along(column, index, row) {
  if (!bothEnds || column.side !== "encoder") return [edge("along", spot(index, row, 1), spot(index + 1, row, -1))];
  if (columns[index + 1].side !== "encoder") return [];
  return [edge("along", spot(index, row, 1, -0.35), spot(index + 1, row, -1, -0.35)),
    edge("along", spot(index + 1, row, -1, 0.35), spot(index, row, 1, 0.35))];
}

function keyOf(index, row) {
  const { side, t } = columns[index];
  return key(side, t, parts[row].part, parts[row].layer);
}

function boxes() {
  return columns.flatMap((column, index) => parts.flatMap(({ part, name }, row) => {
    if (!has(column, part)) return [];
    const group = draw("g", { class: `node ${part}`, transform: `translate(${xOf(index)} ${yOf(row)})`,
      onclick: () => visit(keyOf(index, row)) },
    draw("rect", { x: -BOX.width / 2, y: -BOX.height / 2, ...BOX, rx: part === "unit" ? 4 : 13 }),
    draw("rect", { class: "hatched", x: -BOX.width / 2, y: -BOX.height / 2, ...BOX, rx: part === "unit" ? 4 : 13 }),
    draw("text", { y: 4.5 }, part === "unit" && attention && column.side === "encoder" ? (search || parts[row].layer < layers ? "h" : "h̄") : name, draw("tspan", { class: "sub", dy: 3 }, String(column.t))),
    draw("text", { class: "cross", x: BOX.width / 2 - 2, y: -BOX.height / 2 + 5 }, "✗"));
    nodes.set(keyOf(index, row), group);
    return [group];
  }));
}

function words() {
  return columns.flatMap((column, index) => [
    draw("text", { class: "word", x: xOf(index), y: height - 6 }, column.word),
    column.next ? draw("text", { class: "word target", x: xOf(index), y: top - 4 }, column.next) : null,
  ]).filter(Boolean);
}

/** Redraw the words after one was replaced. */
export function drawWords(box) {
  if (!drawn) return;
  box.querySelectorAll(".word").forEach((word) => word.remove());
  box.firstElementChild.append(...words());
}

const keys = steps.map(({ cell }) => (cell ? key(cell.side, cell.t, cell.part ?? "unit", cell.layer) : null));

/** Go to the first step at a cell, in the current pass if there is one, otherwise in the other. */
function visit(wanted) {
  const { pass } = steps[state.step];
  const here = (same) => steps.findIndex((step, number) => (step.pass === pass) === same && keys[number] === wanted);
  goTo(here(true) >= 0 ? here(true) : here(false));
}

const firsts = { forward: new Map(), backward: new Map() }; // of each pass, the first step at each cell
steps.forEach(({ pass, cell }, number) => {
  const names = keys[number] === null ? [] : pass === "forward" ? [keys[number], key(cell.side, cell.t, "embed")] : [keys[number]];
  for (const name of names) if (!firsts[pass].has(name)) firsts[pass].set(name, number);
});

/** Whether a pass has reached a cell. */
const seen = (pass, name) => (firsts[pass].get(name) ?? Infinity) <= state.step;

/** The cells where a wrong variant has written wrong values so far. */
function wrongCells() {
  if (!state.variant) return new Set();
  return new Set(keys.slice(0, state.step + 1).filter((name, number) => name !== null && stepIsWrong(steps[number], state.variant)));
}

/** Update every cell and the playhead to the current step. */
export function showNetwork(box, legend) {
  if (!drawn) return;
  const now = steps[state.step];
  const here = keys[state.step];
  const wrong = wrongCells();
  const kept = new Set((now.cached ?? []).map((id) => keys[keptFrom(id)]).filter(Boolean));
  const partner = now.partner === null || now.partner === undefined ? null : keys[now.partner];
  for (const [name, node] of nodes) {
    const states = { forward: seen("forward", name), backward: seen("backward", name),
      now: name === here, partner: name === partner, kept: kept.has(name), wrong: wrong.has(name) };
    for (const [state, on] of Object.entries(states)) node.classList.toggle(state, on);
  }
  for (const { line, from, to } of lines) {
    const back = seen("backward", to) && (seen("backward", from) || from === here);
    line.classList.toggle("backward", back); // as all below: what stays as it is costs no layout
    line.classList.toggle("forward", seen("forward", from) && seen("forward", to));
    if (line.hasAttribute(back ? "marker-start" : "marker-end")) continue;
    line.setAttribute(back ? "marker-start" : "marker-end", "url(#tip)");
    line.removeAttribute(back ? "marker-end" : "marker-start");
  }
  if (attention) showAttending(now);
  movePlayhead(box, now);
  describe(legend, now);
}

function movePlayhead(box, now) {
  const x = columnOf(state.step);
  playhead.style.transform = `translateX(${x}px)`;
  playhead.classList.toggle("back", now.pass === "backward");
  requestAnimationFrame(() => {
    const svg = box.firstElementChild;
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1; // what scrolls can be reached by the keyboard
    if (box.tabIndex === 0) box.scrollLeft = x * scale - box.clientWidth / 2;
  });
}

/** The position of the playhead: the column of this step, or of the last step that has one. */
function columnOf(number) {
  const start = steps[number].pass === "backward" ? firstBackward : 0;
  for (let n = number; n >= start; n -= 1) {
    const { cell } = steps[n];
    const index = cell ? columns.findIndex((column) => column.t === cell.t && (cell.side ?? column.side) === column.side) : -1;
    if (index >= 0) return xOf(index);
  }
  return start ? WIDTH * columns.length + 26 : 12;
}

function describe(legend, now) {
  const broken = Boolean(state.variant && !state.variant.secret);
  const shown = `${now.pass} ${broken}`;
  if (legend.dataset.shown === shown) return;
  legend.dataset.shown = shown;
  const sample = (kind, text) => el("span", { class: `sample ${kind}` }, text);
  legend.replaceChildren(
    sample("now", "this step"), sample("forward", "forward done"),
    ...(now.pass === "backward" ? [sample("backward", "gradient computed"), sample("kept", "cached from forward")] : []),
    ...(broken ? [sample("wrong", "✗ wrong")] : []));
}
