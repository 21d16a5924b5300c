// Rows as `summary` in rows.py gives them, drawn as a list. Texts are only ever put in as text, never as markup.
"use strict";
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().map(one => typeof one === "string" ? one.replace(CONTROL, "\ufffd") : one));
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

function drawn(caption, [operator, change, edits, p_true, p_unnatural, p_compatible, plausibility, detail], before = "", other = false) {
  const numbers = [["p_true", p_true?.toFixed(4)], ["p_unnatural", p_unnatural?.toFixed(2)], ["p_compatible", p_compatible?.toFixed(2)],
    ["plausibility", plausibility?.toFixed(1).replace("-", "\u2212")]].filter(([, value]) => value !== undefined);
  const said = [before && spoken(before), change ? `${operator}: ${change}` : operator,
    ...numbers.map(pair => pair.join("\u00a0")), detail];
  return element("li", other ? {class: "other"} : {}, edits.length ? marked(caption, edits) : "",
    element("small", {}, said.filter(Boolean).join("\u00a0· ")));
}

const list = rows => element("ol", {class: "rows"}, rows);
