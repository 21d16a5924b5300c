// Rows as `summary` in rows.py gives them, drawn as a list. Texts are only ever put in as text, never as markup.
"use strict";
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const SYNSET = / \([^() ]+\.[a-z]\.\d\d\)/g;  // dog (dog.n.01)

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().map(child => typeof child === "string" ? child.replace(CONTROL, "\ufffd") : child));
  return made;
}

function marked(caption, edits) {
  const signs = [...caption], text = (from, to) => signs.slice(from, to).join("");  // offsets count code points
  let position = 0;
  const parts = edits.flatMap(([start, end, put]) => {
    const kept = text(position, start);
    position = end;
    return [kept, ...(end > start ? [element("del", {}, text(start, end))] : []), ...(put ? [element("ins", {}, put)] : [])];
  });
  return element("q", {}, parts, text(position));
}

const spoken = code => code.replaceAll("_", " ");
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// The estimated probability that something is wrong with a negative: it is true, unnatural, or compatible with its
// caption. The same as `risk` in rows.py, as are the colours.
function risk([, , , p_true, p_unnatural, p_compatible]) {
  return 1 - [p_true, p_unnatural, p_compatible].reduce((right, wrong) => right * (1 - (wrong ?? 0)), 1);
}

const colour = probability => probability <= 0.1 ? "good" : probability <= 0.25 ? "some" : "high";

// A row's scores as a dot of one colour, and in numbers for who points at it or tabs to it.
function dot(row) {
  const [, change, , ...scores] = row;
  const names = ["p_true", "p_unnatural", "p_compatible", "plausibility"], decimals = [4, 2, 2, 1];
  const numbers = names.map((name, at) => [name, scores[at]?.toFixed(decimals[at]).replace("-", "\u2212")])
    .filter(([, number]) => number !== undefined);
  if (!numbers.length) return "";
  const lines = numbers.map(([name, number]) => element("span", {}, `${name} `, element("b", {}, number)));
  if (change && change !== change.replace(SYNSET, "")) lines.unshift(element("span", {}, change));
  const kind = scores.slice(0, 3).some(score => score !== null) ? colour(risk(row)) : "few";
  return element("span", {class: `score ${kind}`, tabindex: "0", role: "img", "aria-label": numbers.flat().join(" ")},
    element("span", {class: "numbers"}, lines));
}

function drawn(caption, row, before = "", other = false) {
  const [operator, change, edits] = row, detail = row[7];
  const said = [before && spoken(before), change ? `${operator}: ${change.replace(SYNSET, "")}` : operator, detail];
  return element("li", other ? {class: "other"} : {}, edits.length ? marked(caption, edits) : "",
    element("small", {}, dot(row), said.filter(Boolean).join(" · ")));
}

const list = rows => element("ol", {class: "rows"}, rows);

// WCAG 1.4.13: what appears under the pointer can be sent away without moving it.
document.addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  document.activeElement?.closest(".score")?.blur();
  for (const shown of document.querySelectorAll(".score:hover")) {
    shown.classList.add("away");
    shown.addEventListener("pointerleave", () => shown.classList.remove("away"), {once: true});
  }
});
