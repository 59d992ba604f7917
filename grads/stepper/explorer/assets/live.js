// Replays the recorded run with the numbers that the reader has changed.

import { data, now, tensors } from "./data.js";
import { breakIt, numbersChanged, onChange, state } from "./state.js";
import { recorded } from "./tape.js";

export const program = data.live;
export const changed = { knobs: new Map(), entries: new Map(), words: new Map() };

let machine = null; // made when it is first needed: it takes a while
const ready = () => (machine ??= recorded(program));
const given = new Map((program?.inputs ?? []).map((input) => [input.line, input]));
const words = new Map((program?.words ?? []).map((word, k) => [k, word.word]));

export const isChanged = () => Object.values(changed).some((entries) => entries.size > 0);

/** The shape of an input. */
export const shapeOf = (line) => program.shapes[program.lines[line][1]];

/** The current value of an input's number. */
export const numberOf = (line, entry) => ready().values[line][entry];

/** The original value of an input's number. */
export const givenNumber = (line, entry) => (given.get(line).single ? Math.fround : Number)(given.get(line).values[entry]);

/** The current value of a knob; the current word, by its number in the vocabulary. */
export const knobOf = (k) => changed.knobs.get(k) ?? program.knobs[k].value;
export const wordOf = (k) => changed.words.get(k) ?? words.get(k);

/** The input that an entry of a tensor comes from, [line, entry]; null for a computed entry. */
export function inputOf(tensor, entry) {
  const line = program?.nodes[tensor];
  if (line === null || line === undefined) return null;
  const found = ready().origin(line, entry);
  return given.has(found[0]) && shapeOf(found[0]).length ? found : null;
}

/** Change a knob, a word or an entry, and replay the run. The original value `was` undoes the change. */
export function change(kind, key, value, was) {
  if (value === was) changed[kind].delete(key);
  else changed[kind].set(key, value);
  if (state.variant) breakIt("");
  compute();
}

/** Whether two tensors are the same array. */
export const isSame = (a, b) => a === b || (program.nodes[a] !== null && program.nodes[a] === program.nodes[b]);

/** Undo all changes. */
export function restore() {
  Object.values(changed).forEach((entries) => entries.clear());
  compute();
}

/** The derivative of the loss for an entry of a tensor, by a central difference of the loss. */
export function centralSlope(tensor, entry) {
  const line = program.nodes[tensor];
  return line === null || line >= program.loss ? null : ready().slope(line, entry, program.loss);
}

onChange((what) => {
  if (what === "variant" && state.variant && isChanged()) restore(); // the numbers of bugs are of the page as it was made
});

function compute() {
  const { values } = ready();
  for (const [line, { values: numbers, single }] of given) values[line].set(single ? numbers.map(Math.fround) : numbers);
  for (const [k, value] of changed.knobs) turn(program.knobs[k], value, values);
  for (const [key, value] of changed.entries) {
    const [line, entry] = key.split(" ").map(Number);
    values[line][entry] = value;
  }
  for (const [k, word] of words) write(k, changed.words.get(k) ?? word, values);
  machine.run();
  const known = new Map();
  const read = (id) => {
    const line = program.nodes[id];
    if (line === null) return null;
    if (!known.has(id)) known.set(id, Array.from(values[line]));
    return known.get(id);
  };
  now.values = isChanged() ? read : null;
  now.loss = isChanged() ? values[program.loss][0] : null;
  numbersChanged();
}

/** Replace a word wherever it is read or predicted, in the numbers and in the network. */
function write(k, word, values) {
  const { lines, vocabulary, read, next } = program.words[k];
  const text = data.vocabularies[vocabulary].words[word];
  for (const line of lines) values[line][0] = word;
  if (text === undefined) return; // not among the words that the page knows
  const { columns } = data.network;
  columns[read].word = text;
  if (next !== null) columns[next].next = text;
}

/** Scale or shift the blocks of a knob. */
function turn({ kind, value: at, blocks }, value, values) {
  for (const [line, top, end, left, right] of blocks) {
    const columns = shapeOf(line)[1] ?? 1;
    for (let i = top; i < end; i += 1) {
      for (let j = left; j < right; j += 1) {
        const entry = i * columns + j;
        values[line][entry] = kind === "scale" ? values[line][entry] * (value / at) : values[line][entry] + value - at;
      }
    }
  }
}

/** The norms of the gradients that reach each time step: [{name, times, norms}]. */
export function normsByTime(valuesOf) {
  const found = new Map(); // name -> time -> tensors written last, by the rest of their names
  data.steps.forEach((step) => {
    if (step.pass !== "backward") return;
    for (const id of step.targets) {
      const named = tensors[id].name.match(/^(d\w+)\[(\d+)\](.*)$/);
      if (!named || !tensors[id].shape) continue;
      const times = found.get(named[1]) ?? found.set(named[1], new Map()).get(named[1]);
      const parts = times.get(Number(named[2])) ?? times.set(Number(named[2]), new Map()).get(Number(named[2]));
      parts.set(named[3], id);
    }
  });
  return [...found].filter(([, times]) => times.size > 2).map(([name, times]) => {
    const order = [...times.keys()].sort((a, b) => a - b);
    return { name, times: order, norms: order.map((t) => norm([...times.get(t).values()].flatMap((id) => valuesOf(id)))) };
  });
}

const norm = (values) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
