// Play and pause, at the speed chosen; nothing moves for those who ask for no motion.

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Listen to the button and the speed; returns what starts and stops. */
export function player(button, speed, { next, isLast, rewind }) {
  let timer = null;
  function play() {
    if (timer === null && still.matches) return;
    if (timer === null && isLast()) rewind();
    const playing = timer === null;
    if (playing) {
      timer = setInterval(() => (isLast() ? play() : next()), Number(speed.value));
    } else {
      clearInterval(timer);
      timer = null;
    }
    button.textContent = playing ? "❙❙" : "▸";
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
  }
  speed.addEventListener("change", () => { if (timer !== null) { play(); play(); } });
  button.hidden = still.matches;
  still.addEventListener("change", () => { button.hidden = still.matches; });
  button.addEventListener("click", play);
  return play;
}
