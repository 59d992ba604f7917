// Keys: one step, one cell, the ends, play or pause; up and down from number to number.

import { steps } from "./data.js";
import { advance, goTo, state } from "./state.js";

const place = ({ pass, cell }) => JSON.stringify([pass, cell ? [cell.side, cell.t, cell.part, cell.layer] : null]);

/** The next step in a direction that is at another cell. */
export function otherCell(direction) {
  const here = place(steps[state.step]);
  let number = state.step;
  while (steps[number] && place(steps[number]) === here) number += direction;
  if (direction < 0 && steps[number]) {
    const before = place(steps[number]);
    while (steps[number - 1] && place(steps[number - 1]) === before) number -= 1; // its first step
  }
  return number;
}

/** Listen to the keyboard; `play` starts and stops. */
export function listen(play) {
  const moves = {
    ArrowLeft: (cells) => goTo(cells ? otherCell(-1) : advance(-1)),
    ArrowRight: (cells) => goTo(cells ? otherCell(1) : advance(1)),
    Home: () => goTo(advance(1, -1)), End: () => goTo(steps.length - 1), " ": play,
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.matches?.("input") && event.key === " ") return;
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches?.("select, summary")) return;
    if (event.key === " " && event.target.matches?.("button, a, summary")) return;
    if (moves[event.key]) {
      event.preventDefault();
      moves[event.key](event.shiftKey);
    } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && event.target.matches?.(".cell")) {
      event.preventDefault();
      neighbour(event.target, event.key === "ArrowDown" ? 1 : -1);
    }
  });
}

function neighbour(cell, direction) {
  const cells = [...cell.closest("table").querySelectorAll(".cell")];
  const next = cells[cells.indexOf(cell) + direction];
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
