// Puts numbers into a line by evaluating the trees of grads/stepper/explorer/expand.py and numbers.py entry by entry.

import { tensors, valuesOf } from "./data.js";
import { place } from "./format.js";

const sigm = (x) => 1 / (1 + Math.exp(-x));
const FUNCTIONS = {
  exp: Math.exp, log: Math.log, tanh: Math.tanh, sigm,
  sigm_prime: (x) => sigm(x) * (1 - sigm(x)),
  tanh_prime: (x) => 1 - Math.tanh(x) ** 2,
  sqrt: Math.sqrt, abs: Math.abs, sign: Math.sign, sin: Math.sin, cos: Math.cos, log1p: Math.log1p, expm1: Math.expm1,
};
const SIGNS = { sigm_prime: "sigm′", tanh_prime: "tanh′" };
const OPERATIONS = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
  "**": (a, b) => a ** b, max: Math.max, min: Math.min,
  ">": (a, b) => Number(a > b), "<": (a, b) => Number(a < b), ">=": (a, b) => Number(a >= b),
  "<=": (a, b) => Number(a <= b), "==": (a, b) => Number(a === b), "!=": (a, b) => Number(a !== b),
};
const CALLED = ["max", "min"];
const COMPARED = [">", "<", ">=", "<=", "==", "!="];

/** A tree's value: its shape [rows, columns] and at(row, column). Axes of size 1 are broadcast. */
export function evaluate(tree, variant = null) {
  const [kind, ...rest] = tree;
  const inner = (subtree) => evaluate(subtree, variant);
  if (kind === "t") return ofTensor(rest[0], variant);
  if (kind === "n") return { shape: [1, 1], at: () => rest[0] };
  if (kind === "v") return { shape: rest[0], at: (i, j) => rest[1][at(i, rest[0][0]) * rest[0][1] + at(j, rest[0][1])] };
  if (kind === "g") {
    const of = inner(rest[0]);
    return { shape: rest[1], at: (i, j) => of.at(...entryOf(rest, i, j)) };
  }
  if (kind === "total" || kind === "largest") {
    const of = inner(rest[0]);
    const row = (i) => Array.from({ length: of.shape[1] }, (_, k) => of.at(i, k));
    return { shape: [of.shape[0], 1], at: (i) => kind === "total" ? row(i).reduce((a, b) => a + b, 0) : Math.max(...row(i)) };
  }
  if (kind === "where") {
    const [test, yes, no] = rest.map(inner);
    return { shape: [0, 1].map((axis) => [test, yes, no].map((branch) => branch.shape[axis]).reduce(stretch)), at: (i, j) => (test.at(i, j) ? yes : no).at(i, j) };
  }
  if (kind === "neg") return mapped(inner(rest[0]), (x) => -x);
  if (kind === "T") {
    const { shape: [rows, columns], at } = inner(rest[0]);
    return { shape: [columns, rows], at: (i, j) => at(j, i) };
  }
  if (kind === "f") {
    const of = inner(rest[1]);
    return { shape: of.shape, at: (i, j) => FUNCTIONS[byRow(rest[0], i, of.shape[0])](of.at(i, j)) };
  }
  if (kind === "@") return product(inner(rest[0]), inner(rest[1]));
  if (kind === "softmax") {
    const of = inner(rest[0]);
    const total = sum(of.shape[0], (k) => Math.exp(of.at(k, 0)));
    return mapped(of, (x) => Math.exp(x) / total);
  }
  if (kind === "one_hot") {
    const row = inner(rest[0]).at(0, 0);
    return { shape: [Infinity, 1], at: (i) => (i === row ? 1 : 0) };
  }
  if (kind === "stack") return stacked(rest[0], rest[1].map(inner));
  if (kind === "at") {
    const of = inner(rest[0]);
    const [i, j = 0] = rest.slice(1).map((index) => inner(index).at(0, 0));
    return { shape: [1, 1], at: () => of.at(i, j) };
  }
  const [left, right] = rest.map(inner);
  const operation = OPERATIONS[kind];
  return {
    shape: [0, 1].map((axis) => stretch(left.shape[axis], right.shape[axis])),
    at: (i, j) => operation(left.at(i, j), right.at(i, j)),
  };
}

function ofTensor(id, variant) {
  const values = valuesOf(id, variant);
  const { shape } = tensors[id];
  const columns = columnsOf(shape);
  const rows = shape.reduce((all, size) => all * size, 1) / columns;
  return { shape: [rows, columns], at: (i, j) => values[at(i, rows) * columns + at(j, columns)] };
}

const at = (k, size) => (size === 1 ? 0 : k);

/** The number of columns of an array, which is the size of its last axis. */
export const columnsOf = (shape) => (shape.length > 1 ? shape.at(-1) : 1);

/** The row and column in the inner tree of an entry of a "g". */
function entryOf([, [rows, columns], entries, width], i, j) {
  const entry = entries[at(i, rows) * columns + at(j, columns)];
  return [Math.floor(entry / width), entry % width];
}

const mapped = ({ shape, at }, f) => ({ shape, at: (i, j) => f(at(i, j)) });
const sum = (size, term) => Array.from({ length: size }, (_, k) => term(k)).reduce((a, b) => a + b, 0);
const stretch = (a, b) => (a === Infinity ? b : b === Infinity ? a : Math.max(a, b));

function product(left, right) {
  const shape = [left.shape[0], right.shape[1]];
  return { shape, at: (i, j) => sum(left.shape[1], (k) => left.at(i, k) * right.at(k, j)) };
}

function stacked(axis, parts) {
  const sizes = parts.map((part) => part.shape[axis]);
  const shape = axis === 0 ? [sum(sizes.length, (k) => sizes[k]), parts[0].shape[1]]
    : [parts[0].shape[0], sum(sizes.length, (k) => sizes[k])];
  return { shape, at: (i, j) => {
    const [part, k] = within(sizes, axis === 0 ? i : j);
    return axis === 0 ? parts[part].at(k, j) : parts[part].at(i, k);
  } };
}

function within(sizes, index) {
  let part = 0;
  for (; index >= sizes[part]; part += 1) index -= sizes[part];
  return [part, index];
}

/** g is tanh on the last quarter of the rows and sigm on the others. Its derivative is split in the same way. */
function byRow(name, row, rows) {
  const last = row >= (3 * rows) / 4;
  if (name === "g") return last ? "tanh" : "sigm";
  if (name === "g_prime") return last ? "tanh_prime" : "sigm_prime";
  return name;
}

/**
 * One entry of a tree as it is written out: a list of {number, label}, {sign} and {word}.
 * A matrix product becomes the sum of its terms.
 */
export function written(tree, i, j, variant = null) {
  const [kind, ...rest] = tree;
  const inner = (subtree, row = i, column = j) => written(subtree, row, column, variant);
  if (kind === "@") return writtenProduct(rest, i, j, variant);
  if (kind === "g") return inner(rest[0], ...entryOf(rest, i, j));
  if (kind === "T") return inner(rest[0], j, i);
  if (kind === "where") return inner(rest[evaluate(rest[0], variant).at(i, j) ? 1 : 2]);
  if (kind === "total") {
    const { shape } = evaluate(rest[0], variant);
    return Array.from({ length: shape[1] }, (_, k) => [...(k ? [{ sign: "+" }] : []), ...bracketed(rest[0], k > 0, (subtree) => inner(subtree, i, k))]).flat();
  }
  if (kind === "largest") {
    const { shape } = evaluate(rest[0], variant);
    return [{ word: "max(" }, ...Array.from({ length: shape[1] }, (_, k) => inner(rest[0], i, k)).flat(), { word: ")" }];
  }
  if (CALLED.includes(kind)) return [{ word: `${kind}(` }, ...inner(rest[0]), { word: "," }, ...inner(rest[1]), { word: ")" }];
  if (COMPARED.includes(kind)) return [{ word: "(" }, ...inner(rest[0]), { sign: kind }, ...inner(rest[1]), { word: ")" }];
  if (kind === "/") return [...bracketed(rest[0], true, inner), { sign: "/" }, ...bracketed(rest[1], true, inner, ["*", "/"])];
  if (kind === "**") {
    const base = bracketed(rest[0], true, inner, ["*", "/", "neg"]);
    const negative = base.length === 1 && base[0].number < 0; // (-0.3)**2, not -0.3**2
    return [...(negative ? [{ word: "(" }, ...base, { word: ")" }] : base), { sign: "**" }, ...inner(rest[1])];
  }
  if (kind === "+" || kind === "-") return [...inner(rest[0]), { sign: kind }, ...bracketed(rest[1], kind === "-", inner)];
  if (kind === "*") return [...bracketed(rest[0], true, inner), { sign: "*" }, ...bracketed(rest[1], true, inner)];
  if (kind === "neg") return [{ sign: "-" }, ...bracketed(rest[0], true, inner)];
  if (kind === "f") {
    const of = evaluate(rest[1], variant);
    const [row, column] = fit(of.shape, i, j);
    const name = byRow(rest[0], i, of.shape[0]);
    return [{ word: `${SIGNS[name] ?? name}(` }, { number: of.at(i, j), ...named(rest[1], row, column) }, { word: ")" }];
  }
  if (kind === "softmax") {
    const of = evaluate(rest[0], variant);
    const total = sum(of.shape[0], (k) => Math.exp(of.at(k, 0)));
    return [{ word: "exp(" }, { number: of.at(i, j), ...named(rest[0], i, j) }, { word: ")" }, { sign: "/" }, { number: total, label: "Σ exp" }];
  }
  if (kind === "one_hot") return [{ number: evaluate(tree, variant).at(i, j), label: evaluate(tree, variant).at(i, j) ? "the right word" : "another word" }];
  if (kind === "stack") {
    const parts = rest[1].map((item) => evaluate(item, variant));
    const [part, k] = within(parts.map((item) => item.shape[rest[0]]), rest[0] === 0 ? i : j);
    return rest[0] === 0 ? inner(rest[1][part], k, j) : inner(rest[1][part], i, k);
  }
  const value = evaluate(tree, variant);
  const [row, column] = fit(value.shape, i, j);
  return [{ number: value.at(i, j), ...named(tree, row, column) }];
}

function writtenProduct([left, right], i, j, variant) {
  const [a, b] = [evaluate(left, variant), evaluate(right, variant)];
  return Array.from({ length: a.shape[1] }, (_, k) => [
    ...(k ? [{ sign: "+" }] : []),
    { number: a.at(i, k), ...named(left, ...fit(a.shape, i, k)) },
    { sign: "*" },
    { number: b.at(k, j), ...named(right, ...fit(b.shape, k, j)) },
  ]).flat();
}

const fit = (shape, i, j) => [shape[0] === 1 ? 0 : i, shape[1] === 1 ? 0 : j];

function bracketed(tree, wanted, inner, others = []) {
  const tokens = inner(tree);
  const sums = wanted && ["+", "-", "@", "total", ...others].includes(kindOf(tree)) && tokens.length > 1;
  return sums ? [{ word: "(" }, ...tokens, { word: ")" }] : tokens;
}

/** The kind of a tree. For a rearranged tree it is the kind of the tree inside. */
const kindOf = (tree) => (["g", "T"].includes(tree[0]) ? kindOf(tree[1]) : tree[0]);

/** The name of a tree's entry, such as "c_prev[1]" or "W_hy[2, 0]", and its tensor. */
function named(tree, i, j) {
  const [kind, ...rest] = tree;
  if (kind === "T") return named(rest[0], j, i);
  if (kind === "g") return named(rest[0], ...entryOf(rest, i, j));
  if (kind === "stack") {
    const [part, k] = within(rest[1].map((item) => evaluate(item).shape[rest[0]]), rest[0] === 0 ? i : j);
    return rest[0] === 0 ? named(rest[1][part], k, j) : named(rest[1][part], i, k);
  }
  if (kind === "n") return { label: "" };
  if (kind === "v") return { label: rest[2] + (rest[1].length > 1 ? place(i * rest[0][1] + j, rest[0]) : "") };
  if (kind !== "t") return { label: source(tree) };
  const { shape } = tensors[rest[0]];
  const entry = i * columnsOf(shape) + j;
  return { label: rest[1] + place(entry, shape), tensor: rest[0], entry };
}

/** A tree as code. */
function source(tree) {
  const [kind, ...rest] = tree;
  if (kind === "t") return rest[1];
  if (kind === "n") return String(rest[0]);
  if (kind === "v") return rest[2];
  if (kind === "g") return source(rest[0]);
  if (kind === "total" || kind === "largest") return `${kind === "total" ? "sum" : "max"}(${source(rest[0])})`;
  if (kind === "where") return `where(${rest.map(source).join(", ")})`;
  if (kind === "T") return `${source(rest[0])}.T`;
  if (kind === "neg") return `-${source(rest[0])}`;
  if (kind === "f") return `${rest[0]}(${source(rest[1])})`;
  if (kind === "stack") return `[${rest[1].map(source).join("; ")}]`;
  if (kind === "at" || kind === "softmax" || kind === "one_hot") return `${kind === "at" ? "" : kind}(${source(rest[0])})`;
  return `${source(rest[0])} ${kind} ${source(rest[1])}`;
}
