// Makes ../assets/formulas.json and ../assets/katex.css from formulas.txt: npm install && npm run build
//
// formulas.json: statement -> {tag, html, note}: its equation's number; html is KaTeX's, with MathML for those who listen.
// katex.css: KaTeX's style sheet with its fonts, cut down to the characters in use, as data.
// And of the site, whose formulas `python website/formulas.py` collects: website/formulas.json, docs/stylesheets/katex.css.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import katex from "katex";
import subsetFont from "subset-font";

const HERE = dirname(fileURLToPath(import.meta.url));
const ASSETS = join(HERE, "..", "assets");
const ROOT = join(HERE, "..", "..", "..", "..");
const KATEX = join(dirname(createRequire(import.meta.url).resolve("katex/package.json")), "dist");
const FACES = [ // file, family, weight, style
  ["Main-Regular", "KaTeX_Main", "normal", "normal"],
  ["Main-Bold", "KaTeX_Main", "bold", "normal"],
  ["Math-Italic", "KaTeX_Math", "normal", "italic"],
  ["Math-BoldItalic", "KaTeX_Math", "bold", "italic"],
  ["Size1-Regular", "KaTeX_Size1", "normal", "normal"],
  ["Size2-Regular", "KaTeX_Size2", "normal", "normal"],
  ["Size3-Regular", "KaTeX_Size3", "normal", "normal"],
  ["Size4-Regular", "KaTeX_Size4", "normal", "normal"],
];

const macros = {
  "\\onehot": "\\boldsymbol{1}", "\\dd": "d", "\\hhat": "\\hat{\\boldsymbol{h}}",
  "\\htilde": "\\tilde{\\boldsymbol{h}}", "\\hbars": "\\bar{\\boldsymbol{H}}",
};
for (const name of "acefhimopqrsuvxyzACEHJKQTUVWXYZ") macros["\\" + name] = `\\boldsymbol{${name}}`;

function blocks(text) {
  const found = [];
  for (const line of text.split("\n")) {
    if (!line.trim() || line.startsWith("# ")) continue;
    if (!line.startsWith(" ")) found.push({ key: line.trim().split(/\s+/).join(" "), tex: "", note: "" });
    else if (line.trim().startsWith(";")) found.at(-1).note += line.trim().slice(1).trim();
    else found.at(-1).tex += line.trim();
  }
  return found;
}

const formulas = {};
for (const { key, tex, note } of blocks(readFileSync(join(HERE, "formulas.txt"), "utf8"))) {
  if (key in formulas) throw new Error(`twice: ${key}`);
  const tag = tex.match(/\\tag\{([^}]*)\}/)?.[1] ?? ""; // the page sets it: KaTeX's would lie on narrow ones
  const html = katex.renderToString(tex.replace(/\s*\\tag\{[^}]*\}/, ""), {
    displayMode: true, output: "htmlAndMathml", throwOnError: true, strict: "error",
    macros: { ...macros },
  });
  formulas[key] = { tag, html, note };
}
writeFileSync(join(ASSETS, "formulas.json"), JSON.stringify(formulas, null, 1) + "\n");

/** KaTeX's style sheet, its fonts with the characters of these formulas only. */
async function sheet(typeset) {
  const visible = typeset.map((html) =>
    html.replace(/<span class="katex-mathml">.*?<\/math><\/span>/gs, "").replace(/<[^>]*>/g, ""));
  const characters = [...new Set([...visible.join("").replace(/&[a-z#0-9]+;/g, "&<>'\"") , ..." ()[],.|0123456789"])].sort().join("");
  const faces = [];
  for (const [file, family, weight, style] of FACES) {
    const whole = readFileSync(join(KATEX, "fonts", `KaTeX_${file}.woff2`));
    const part = await subsetFont(whole, characters, { targetFormat: "woff2" });
    faces.push(`@font-face{font-family:${family};font-weight:${weight};font-style:${style};` +
      `src:url(data:font/woff2;base64,${part.toString("base64")}) format("woff2")}`);
  }
  const rules = readFileSync(join(KATEX, "katex.min.css"), "utf8").replace(/@font-face\{[^}]*\}/g, "");
  if (/url\(/.test(rules)) throw new Error("katex.css loads something");
  const notice = "/* KaTeX (MIT licence) and its fonts, (c) 2013-2020 Khan Academy and contributors: KATEX-LICENSE.txt */";
  console.log(`${typeset.length} formulas, ${characters.length} characters`);
  return [notice, ...faces, rules, ""].join("\n");
}

const equations = Object.values(formulas).map(({ html }) => html);
writeFileSync(join(ASSETS, "katex.css"), await sheet(equations));

const SITE = join(ROOT, "website", "formulas.json");
const site = {};
for (const key of Object.keys(JSON.parse(readFileSync(SITE, "utf8")))) { // the keys are what the site asks for
  const [display, tex] = [key.startsWith("$$"), key.replace(/^\$+|\$+$/g, "")];
  site[key] = katex.renderToString(tex, {
    displayMode: display, output: "htmlAndMathml", throwOnError: true, strict: "error" });
}
writeFileSync(SITE, JSON.stringify(site, null, 1) + "\n");
writeFileSync(join(ROOT, "docs", "stylesheets", "katex.css"), await sheet([...equations, ...Object.values(site)]));
