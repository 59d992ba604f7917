// Elements, numbers and names as the page writes them.

const SVG = "http://www.w3.org/2000/svg";
const MINUS = "\u2212";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** An element; attributes by name ("on..." is a listener), children that are null are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** 10 to some power, as text: "10⁻³". */
export function power(exponent) {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return "10" + (exponent < 0 ? "⁻" : "") + digits;
}

/** A number with a true minus sign and this many decimals; "0" for zero itself. */
export function fixed(value, decimals) {
  if (typeof value !== "number") return signed(String(value));
  return value === 0 ? "0" : signed(value.toFixed(decimals));
}

/** A number in full, as it is on hover. */
export function exact(value) {
  if (typeof value !== "number") return signed(String(value));
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-4 && size < 1e7)) return signed(String(+value.toPrecision(10)));
  return scientific(value, 9);
}

/** A number with this many significant digits, short enough for running text. */
export function short(value, digits = 4) {
  if (typeof value !== "number") return signed(String(value));
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e-4 && size < 1e5) {
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return signed(value.toFixed(Math.min(decimals, digits)));
  }
  return scientific(value, Math.min(2, digits - 1));
}

/** A number as digits times a power of ten. */
export function scientific(value, digits = 1) {
  if (value === 0) return "0";
  const [digit, exponent] = value.toExponential(digits).split("e");
  return `${signed(digit)}\u202f×\u202f${power(Number(exponent))}`;
}

function signed(text) {
  return text.replace("-", MINUS).replace("nan", "not a number").replace("inf", "∞");
}

/** The power of ten that a tensor's numbers share, so that they can be read: 0, -3, 5 ... */
export function shared(values) {
  const largest = Math.max(0, ...values.filter((x) => typeof x === "number").map(Math.abs));
  if (largest === 0 || (largest >= 0.0295 && largest < 1000)) return 0;
  return Math.floor(Math.log10(largest));
}

/** A number in a table's cell: decimals, or where they would all be zero, digit and exponent; in a
 * table that is scaled already, then only that it is small. */
export function inCell(value, decimals, scaled = false) {
  const text = fixed(value, decimals);
  if (value === 0 || /[1-9∞a-z]/.test(text)) return text;
  if (scaled) return "≈ 0";
  return signed(value.toExponential(0).replace("e-", "e\u2212"));
}

const ACCENTS = [[/\b(d?[a-z])~/g, "$1\u0303"], [/\b(d?)hbar(?=_|\b)/g, "$1h\u0304"], [/\bh_hat\b/g, "h\u0302"], [/\b(d?)h_bar\b/g, "$1h\u0304"],
  [/\brho\b/g, "ρ"], [/\bsigma\b/g, "σ"], [/ o (?=[a-z])/g, " ∘ "], [/->(?=[a-z]_)/g, "→"], [/<-(?=[a-z]_)/g, "←"]];
const INDEX = /(?<=(?:\b(?:d?[A-Za-z]|\d)\p{M}?|[ρσ]|_[a-z]{1,4}|\}))([_^](?:\{[^}]*\}|\([^)]*\)|<?[A-Za-z0-9](?![A-Za-z0-9_])|(?:lstm|rnn|hy|hh|xh)\b))/u;

/** Text with its letters and indices set: h_{t-1}, W_hh^T, h~_t, hbar_s, rho^k. */
export function prose(text) {
  return text.split(/`([^`]+)`/).flatMap((part, k) => (k % 2 ? [el("code", {}, part)] : lettered(part)));
}

function lettered(text) {
  const letters = ACCENTS.reduce((said, [from, to]) => said.replace(from, to), text);
  return letters.split(INDEX).map((part, k) => {
    if (k % 2 === 0) return part;
    const inner = part.slice(1).replace(/^\{|\}$/g, "").replaceAll("-", MINUS);
    return el(part[0] === "_" ? "sub" : "sup", {}, inner);
  });
}

/** A flat index as it is written in brackets: "[2, 0]", "[2]" for a column. */
export function place(flat, shape) {
  if (!shape.length) return "";
  const columns = shape.at(-1);
  if (shape.length === 1 || columns === 1) return `[${flat}]`;
  return `[${Math.floor(flat / columns)}, ${flat % columns}]`;
}

/** The variable of "h[2][1]", and the parameter of "gradients['encoder.0.T']". */
export function root(name) {
  return name.match(/\['(?:[^']*\.)?([^'.]*)'\]$/)?.[1] ?? name.split(/[[.]/)[0];
}

/** Loop indices as they are written: "t = 2, l = 1". */
export function iterations(loops) {
  return loops.map(([name, value]) => `${name} = ${value}`).join(", ");
}

/** "1 gradient", "3 gradients". */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
