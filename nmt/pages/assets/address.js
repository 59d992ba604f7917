// The address of what is shown, written once the steps pause: writing it takes a tenth of a step, and
// a browser refuses more than 200 in ten seconds. Each pause is a place that the browser's Back returns to.

const PAUSE = 100; // milliseconds

let waiting = null;

/** Show an address; of several in quick succession, the last. */
export function showAddress(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (location.hash !== text) history.pushState(null, "", text); }, PAUSE);
}

/** Forget an address that is not yet shown: the reader has gone to another. */
export function forgetAddress() {
  clearTimeout(waiting);
}
