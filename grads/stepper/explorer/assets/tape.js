// Replays the operations that Python recorded (grads/stepper/explorer/tape.py), in order, on flat arrays.

const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);
const SINGLE = {
  exp: Math.exp, log: Math.log, tanh: Math.tanh, sqrt: Math.sqrt, absolute: Math.abs,
  square: (x) => x * x, negative: (x) => -x, positive: (x) => x,
};
const DOUBLE = {
  add: (a, b) => a + b, subtract: (a, b) => a - b, multiply: (a, b) => a * b, divide: (a, b) => a / b,
  power: (a, b) => a ** b, maximum: Math.max, minimum: Math.min,
  less: (a, b) => Number(a < b), greater: (a, b) => Number(a > b), equal: (a, b) => Number(a === b),
  less_equal: (a, b) => Number(a <= b), greater_equal: (a, b) => Number(a >= b), not_equal: (a, b) => Number(a !== b),
};

/** The lines of a line's operands. */
function operands([name, , ...rest]) {
  if (name === "leaf" || name === "fixed") return [];
  if (name === "view") return [rest[0], ...rest[3].map(([line]) => line)];
  return ["sum", "max", "take"].includes(name) ? [rest[0]] : rest;
}

/** A recorded run: `values` by line; `run()` computes them from the inputs, which are written into `values` beforehand. */
export function recorded({ lines, shapes, tables, inputs }) {
  const values = lines.map(([, shape]) => new Float64Array(sizeOf(shapes[shape])));
  const shapeOf = (line) => shapes[lines[line][1]];
  const reads = lines.map(operands);
  const work = lines.map((line, k) => operation(line, values[k], { values, tables, shape: shapeOf(k), shapeOf }));
  for (const { line, values: given, single } of inputs) values[line].set(single ? given.map(Math.fround) : given);

  /** The lines that depend on a line, up to another line. */
  function after(line, end) {
    const touched = new Set([line]);
    for (let k = line + 1; k <= end; k += 1) if (reads[k].some((read) => touched.has(read))) touched.add(k);
    return [...touched].slice(1);
  }

  /** The line and the entry that an entry is read from. Views, which only rearrange entries, are passed over. */
  function origin(line, entry) {
    const act = work[line];
    return act?.source === undefined ? [line, entry] : origin(act.source, act.place(entry));
  }

  return {
    values, shapeOf, origin,
    run: () => work.forEach((act) => act?.()),
    /** The entry of a line's array that would make `end` change by this much for each unit: a central difference. */
    slope(line, entry, end, h = 1e-5) {
      const lines = after(line, end);
      const at = values[line][entry];
      const step = h * Math.max(1, Math.abs(at));
      const found = [step, -step, 0].map((by) => {
        values[line][entry] = at + by;
        lines.forEach((dependent) => work[dependent]());
        return values[end][0];
      });
      return (found[0] - found[1]) / (2 * step);
    },
  };
}

/** A line's operation as a function that writes into `out`; null for an input. */
function operation([name, , ...rest], out, { values, tables, shape, shapeOf }) {
  const [a, b, c] = rest.map((line) => values[line]);
  if (name === "leaf") return null;
  if (name === "fixed") { out.set(tables[rest[0]].map(Number)); return null; }
  if (name in SINGLE) return single(SINGLE[name], a, out);
  if (name in DOUBLE) return double(DOUBLE[name], a, b, rest.map((line) => stretched(shapeOf(line), shape)), out);
  if (name === "where") {
    const [i, j, k] = rest.map((line) => stretched(shapeOf(line), shape));
    return () => { for (let n = 0; n < out.length; n += 1) out[n] = a[i[n]] ? b[j[n]] : c[k[n]]; };
  }
  if (name === "matmul") return product(a, b, out, shapeOf(rest[0])[1]);
  if (name === "sum" || name === "max") return reduction(name, a, out, shapeOf(rest[0]), rest[1]);
  if (name === "view") return view(rest[0], a, out, places(shape, rest[1], rest[2]), rest[3].map(([line, stride]) => [values[line], stride]));
  if (name === "take") return view(rest[0], a, out, tables[rest[1]], []);
  if (name === "join") {
    const parts = rest.map((line) => values[line]);
    return () => { let at = 0; for (const part of parts) { out.set(part, at); at += part.length; } };
  }
  throw new Error(`an operation that is not known: ${name}`);
}

const single = (f, a, out) => () => { for (let n = 0; n < out.length; n += 1) out[n] = f(a[n]); };

const double = (f, a, b, [i, j], out) => () => { for (let n = 0; n < out.length; n += 1) out[n] = f(a[i[n]], b[j[n]]); };

/** Flat indices at equal distances. */
function places(shape, offset, strides) {
  let found = [offset];
  shape.forEach((size, axis) => {
    found = found.flatMap((at) => Array.from({ length: size }, (_, k) => at + k * strides[axis]));
  });
  return Int32Array.from(found);
}

/** For each entry of a result, the entry of an operand whose axes of size 1 are broadcast. */
function stretched(shape, result) {
  const missing = result.length - shape.length;
  const strides = result.map((_, axis) => (shape[axis - missing] > 1 ? sizeOf(shape.slice(axis - missing + 1)) : 0));
  return places(result, 0, strides);
}

function product(a, b, out, inner) {
  const rows = a.length / inner, columns = b.length / inner;
  return () => {
    for (let i = 0; i < rows; i += 1) {
      for (let j = 0; j < columns; j += 1) {
        let sum = 0;
        for (let k = 0; k < inner; k += 1) sum += a[i * inner + k] * b[k * columns + j];
        out[i * columns + j] = sum;
      }
    }
  };
}

function reduction(name, a, out, shape, axis) {
  const length = axis === null ? a.length : shape[axis];
  const inner = axis === null ? 1 : sizeOf(shape.slice(axis + 1));
  const join = name === "sum" ? DOUBLE.add : Math.max;
  return () => {
    for (let n = 0; n < out.length; n += 1) {
      const from = Math.floor(n / inner) * inner * length + (n % inner);
      let all = name === "sum" ? 0 : -Infinity;
      for (let k = 0; k < length; k += 1) all = join(all, a[from + k * inner]);
      out[n] = all;
    }
  };
}

function view(source, a, out, indices, read) {
  const moved = () => read.reduce((by, [index, stride]) => by + index[0] * stride, 0);
  const act = () => {
    const by = moved();
    for (let n = 0; n < out.length; n += 1) out[n] = a[indices[n] + by];
  };
  return Object.assign(act, { source, place: (entry) => indices[entry] + moved() });
}
