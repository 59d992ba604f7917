// Mistakes that a student may make in a line (a forgotten factor, transpose or sign), and trees as code.

import { tensors } from "./data.js";
import { evaluate } from "./evaluate.js";

const BINDING = { "+": 1, "-": 1, "*": 2, "/": 2, "@": 2, neg: 3, "**": 4 };

/** A tree as Python writes it. */
export function code(tree, around = 0) {
  const [kind, ...rest] = tree;
  if (kind === "t") return rest[1];
  if (kind === "n") return String(rest[0]);
  if (kind === "T") return `${code(rest[0], 9)}.T`;
  if (kind === "f") return `${rest[0]}(${code(rest[1])})`;
  if (kind === "stack") return `${rest[0] ? "hstack" : "vstack"}([${rest[1].map((item) => code(item)).join(", ")}])`;
  if (kind === "at") return `${code(rest[0], 9)}[${rest.slice(1).map((index) => code(index)).join(", ")}]`;
  if (!(kind in BINDING)) return `${kind}(${rest.filter(Array.isArray).map((operand) => code(operand)).join(", ")})`;
  const binding = BINDING[kind];
  const text = kind === "neg" ? `-${code(rest[0], binding)}` : `${code(rest[0], binding)} ${kind} ${code(rest[1], binding + 1)}`;
  return binding < around ? `(${text})` : text;
}

/** The mistakes that can be made in a tree, those nearest to the root first: [{tree, hint}]. */
export function mistakes(tree) {
  const found = [...inside(tree), ...(tree[0] === "neg" ? [] : [{ tree: ["neg", tree], hint: "The sign is reversed." }])];
  const seen = new Set([code(tree)]);
  return found.filter((mistake) => !seen.has(code(mistake.tree)) && seen.add(code(mistake.tree)));
}

function inside(tree) {
  const [kind, a, b] = tree;
  const found = here(tree);
  const children = kind === "f" ? [2] : kind === "stack" ? [] : ["t", "n", "at"].includes(kind) ? [] : tree.map((item, k) => (Array.isArray(item) ? k : 0)).filter(Boolean);
  for (const k of children) found.push(...inside(tree[k]).map((mistake) => ({ ...mistake, tree: tree.with(k, mistake.tree) })));
  if (kind === "stack") b.forEach((part, k) => found.push(...inside(part).map((mistake) => ({ ...mistake, tree: [kind, a, b.with(k, mistake.tree)] }))));
  return found;
}

function here([kind, a, b]) {
  if (kind === "@") return ofProduct(a, b);
  if (kind === "*") return [[a, b], [b, a]].filter(([kept]) => kept[0] !== "n").map(([kept, left]) => ({ tree: kept, hint: `The factor ${code(left)} is forgotten.` }));
  if (kind === "+") return [[a, b], [b, a]].map(([kept, left]) => ({ tree: kept, hint: `The term ${code(left)} is forgotten.` }));
  if (kind === "-" && a[0] === "n") return [{ tree: b, hint: `That is ${code(b)}, not ${code(["-", a, b])}.` }];
  if (kind === "-") return [{ tree: ["+", a, b], hint: `${code(b)} must be subtracted, not added.` }, { tree: a, hint: `The term ${code(b)} is forgotten.` }];
  if (kind === "f" && a.endsWith("_prime")) return [{ tree: ["f", a.replace("_prime", ""), b], hint: `That is ${a.replace("_prime", "")}, not its derivative.` }];
  if (kind === "f") return [{ tree: b, hint: `${a}(...) is forgotten.` }];
  return [];
}

function ofProduct(a, b) {
  const bare = (factor) => (factor[0] === "T" ? factor[1] : ["T", factor]);
  const said = (factor) => (factor[0] === "T" ? `${code(factor[1])} must be transposed.` : `${code(factor)} is not transposed here.`);
  return [{ tree: ["@", bare(a), b], hint: said(a) }, { tree: ["@", a, bare(b)], hint: said(b) }, { tree: ["@", b, a], hint: "The order of the factors is reversed." }];
}

/** The shape of a tree's value; null if the sizes do not fit. */
export function shapeOf(tree) {
  try {
    if (!fits(tree)) return null;
    const { shape } = evaluate(tree);
    return shape.every(Number.isFinite) ? shape : null;
  } catch {
    return null;
  }
}

/** Whether the sizes in all products and sums of a tree fit. */
function fits([kind, ...rest]) {
  const inner = rest.flatMap((operand) => (Array.isArray(operand) ? (Array.isArray(operand[0]) ? operand : [operand]) : []));
  if (["t", "n"].includes(kind)) return true;
  if (!inner.every(fits)) return false;
  if (!(kind in BINDING) || kind === "neg") return true;
  const [a, b] = inner.map((operand) => evaluate(operand).shape);
  if (kind === "@") return a[1] === b[0];
  return a.every((size, axis) => size === b[axis] || size === 1 || b[axis] === 1 || size === Infinity || b[axis] === Infinity);
}

/** A tensor's shape with rows and columns. */
export const twoSizes = (id) => [tensors[id].shape[0] ?? 1, tensors[id].shape[1] ?? 1];
