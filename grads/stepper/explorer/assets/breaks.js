// "Inject a bug": wrong backward passes, the tensors that become wrong, and the step where this begins.

import { data, isWrong, steps, tensors, firstBackward, variants, wrongOf } from "./data.js";
import { count, el, prose, iterations } from "./format.js";
import { breakIt, state } from "./state.js";

const FEW = 24; // names that are listed without being asked for

/** Draw the menu and the consequences of the chosen mistake. */
export function showBreaks(panel) {
  panel.hidden = !variants.size || Boolean(state.variant?.secret);
  if (panel.hidden) return;
  if (!panel.querySelector("select")) panel.append(menu(), el("div", { class: "damage" }));
  panel.querySelector("select").value = state.variant?.id ?? "";
  panel.classList.toggle("broken", Boolean(state.variant));
  panel.querySelector(".damage").replaceChildren(...(state.variant ? damage(state.variant) : []));
}

function menu() {
  const select = el("select", { id: "break", onchange: (event) => breakIt(event.target.value) },
    el("option", { value: "" }, "none: the backward pass is right"),
    [...variants.values()].map((variant) => el("option", { value: variant.id }, variant.title)));
  return el("p", { class: "menu" }, el("label", { for: "break" }, "Inject a bug: "), select);
}

function damage(variant) {
  const names = byName(variant);
  const wrong = wrongOf(variant);
  const failing = Object.keys(variant.verifications ?? {}).length;
  const all = (data.verifications ?? []).filter((verification) => verification.status === "verified").length;
  const first = steps.findIndex((step, number) => number >= firstBackward && step.targets.some((id) => wrong.has(id)));
  return [
    el("p", { class: "why" }, prose(variant.why)),
    el("p", { class: "edit" }, el("code", {}, variant.function), ": ", el("del", {}, variant.from), " ", el("ins", {}, variant.to)),
    el("p", {}, el("strong", {}, `✗ ${failing} of ${all} verifications fail.`), ` ${count(wrong.size, "tensor")} ${wrong.size === 1 ? "differs" : "differ"}. `,
      ...(first >= 0 ? ["First wrong: ", stepLink(first, variant), "."] : [])),
    el("details", { open: names.length <= FEW && matchMedia("(min-width: 761px)").matches }, el("summary", {}, "Which tensors become wrong, and from where"), el("ul", { class: "names", "aria-label": "Tensors that become wrong" }, names.map(([name, at, number]) =>
      el("li", {}, el("a", { href: address(at, variant) }, el("code", {}, name)), number > 1 ? ` ×${number}` : "", el("span", { class: "iteration" }, ` from step ${at + 1}`))))),
  ];
}

const address = (number, variant) => `#step=${number + 1}&break=${variant.id}`;

function stepLink(number, variant) {
  const step = steps[number];
  const name = tensors[step.targets.find((id) => isWrong(id, variant))].name;
  return el("a", { href: address(number, variant) }, el("code", {}, name), `, step ${number + 1}`, step.loops.length ? ` (${iterations(step.loops)})` : "");
}

/** The variables that become wrong, without their indices, with the first wrong step and the number of wrong tensors. */
function byName(variant) {
  const found = new Map();
  steps.forEach((step, number) => {
    if (number < firstBackward) return;
    for (const id of step.targets) {
      if (!isWrong(id, variant)) continue;
      const name = tensors[id].name.split(/[[.]/)[0];
      const before = found.get(name);
      found.set(name, before ? [name, before[1], before[2] + 1] : [name, number, 1]);
    }
  });
  return [...found.values()];
}
