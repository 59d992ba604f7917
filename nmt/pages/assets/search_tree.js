// The tree of hypotheses: a column for each step, the beam above, greedy search below it.

import { draw, el, fixed } from "./format.js";
import { candidatesOf, chosen, goTo, loaded, NAMES, pathOf, pick, point, state } from "./search_state.js";

const HEIGHT = 32, ROW = 38, GAP = 30, TOP = 26, LETTER = 8, NARROW = 50, WIDE = 118, MOST = 15;
const LEFT = 8; // of the point that a search starts from
const KINDS = { grows: "grows", finished: "finished", surpassed: "finished out", outside: "out", "end outside": "out", cut: "cut", stopped: "stopped", last: "finished" };

/** What a search is called. */
export const laneOf = (name) => (name === "beam" ? `beam, K = ${loaded.searches.beam.beam}` : "greedy");

const nodes = new Map(); // by name/step/at: {name, step, at, x, y, width, group, edge, kind, marks}
const heads = [];
const places = []; // of each step {x, width}

const clipped = (word) => (word.length > MOST ? `${word.slice(0, MOST - 1)}…` : word);
const key = ({ name, step, at }) => `${name}/${step}/${at}`;

/** Draw the whole tree, the beam's part in a box that scrolls by itself; what is to come is hidden. */
export function drawTree(box, legend) {
  nodes.clear();
  heads.length = places.length = 0;
  measure();
  const width = places.at(-1).x + places.at(-1).width + 12;
  const drawing = (height) => draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group" });
  const top = drawing(TOP);
  places.forEach(({ x, width: wide }, step) => heads.push(top.appendChild(
    draw("text", { class: "time", x: x + wide / 2, y: 15, onclick: () => goTo(step) }, `t = ${step + 1}`))));
  box.replaceChildren(el("div", { class: "lanes", "--width": `${width}px` }, top, ...NAMES.flatMap((name) => {
    const rows = Math.max(...loaded.searches[name].steps.map((step) => step.candidates.length));
    return [el("p", { class: "lane-name" }, laneOf(name)), el("div", { class: `lane ${name}` }, drawLane(drawing(ROW * rows), name))];
  })));
  drawLegend(legend);
}

function measure() {
  let x = LEFT + GAP;
  for (let step = 0; step <= loaded.lastStep; step += 1) {
    const longest = Math.max(0, ...NAMES.flatMap((name) => candidatesOf(name, step).map((one) => clipped(one.word).length)));
    const width = Math.min(WIDE, Math.max(NARROW, 14 + LETTER * longest));
    places.push({ x, width });
    x += width + GAP;
  }
}

function drawLane(svg, name) {
  const edges = svg.appendChild(draw("g", {}));
  svg.append(draw("circle", { class: "start", cx: LEFT, cy: 1 + HEIGHT / 2, r: 4 }));
  loaded.searches[name].steps.forEach(({ candidates }, step) => candidates.forEach((one, at) => {
    const { x, width } = places[step];
    const here = { name, step, at };
    const above = one.parent < 0 ? { x: LEFT, y: 1, width: 0 } : nodes.get(key({ name, step: step - 1, at: one.parent }));
    const node = { ...here, x, y: 1 + ROW * at, width };
    node.edge = edges.appendChild(draw("path", { class: "edge", d: curve(above.x + above.width, above.y, x, node.y) }));
    node.group = svg.appendChild(draw("g", {
      transform: `translate(${x} ${node.y})`, onclick: () => pick(here), onmouseenter: () => point(here), onmouseleave: () => point(null),
    }, draw("title", {}, `${one.word}, log p ${fixed(one.log_p, 3)}`), draw("rect", { width, height: HEIGHT, rx: 5 }),
    draw("text", { class: "word", x: width / 2, y: 14 }, clipped(one.word)), draw("text", { class: "sub", x: width / 2, y: 26 }, fixed(one.log_p, 2))));
    node.kind = KINDS[one.fate];
    nodes.set(key(here), node);
  }));
  return svg;
}

function curve(x0, y0, x1, y1) {
  const [a, b, middle] = [y0 + HEIGHT / 2, y1 + HEIGHT / 2, (x0 + x1) / 2];
  return `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}`;
}

function drawLegend(legend) {
  legend.replaceChildren(...[["grows", "in the beam"], ["finished", "finished"], ["out", "pruned"], ["stopped", "cannot pass the best finished"],
    ["cut", "cut at the limit"], ["best", "found"], ["now", "chosen"]].map(([kind, text]) => el("span", { class: `sample ${kind}` }, text)));
}

/** Show the tree up to this step, the path to the chosen extension in it. */
export function showTree(box, scroll) {
  const shown = chosen();
  const path = new Set(pathOf(shown).map(key));
  const over = state.step === loaded.lastStep;
  for (const [id, node] of nodes) {
    const { name, step, at, kind } = node;
    const marks = `${kind}${path.has(id) ? " now" : ""}${over && loaded.bestPath[name][step] === at ? " best" : ""}${step > state.step ? " later" : ""}${id === key(shown) ? " chosen" : ""}`;
    if (marks === node.marks) continue;
    node.marks = marks;
    node.group.setAttribute("class", `hypothesis ${marks}`);
    node.edge.setAttribute("class", `edge ${marks}`);
  }
  heads.forEach((head, step) => head.setAttribute("class", `time${step === state.step ? " now" : ""}${step > state.step ? " later" : ""}`));
  if (scroll) keepInView(box, nodes.get(key(shown)));
}

/** Scroll to the column of the step, and to the row of the chosen extension. */
function keepInView(box, { name, y }) {
  const lane = box.querySelector(`.lane.${name}`);
  if (y < lane.scrollTop || y + ROW > lane.scrollTop + lane.clientHeight) lane.scrollTop = y - lane.clientHeight / 2;
  const { x, width } = places[state.step];
  const [left, right] = [box.scrollLeft, box.scrollLeft + box.clientWidth];
  if (x + width + 20 > right || x - GAP - 20 < left) box.scrollLeft = Math.max(0, x + width + GAP - 0.72 * box.clientWidth);
}
