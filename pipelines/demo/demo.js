// The page of the demo: asks the server, shows what it answers.
const form = document.querySelector("form"), status = document.querySelector(".status"), button = form.querySelector("button");
const preset = form.elements.preset, boxes = [...form.querySelectorAll("[name=operators]")];
const results = document.querySelector(".results"), code = document.querySelector(".code");
let ready = false;  // whether the models are loaded
const BEST = 2;  // of each operator, which are shown before the others

function say(text, kind = "") {
  status.textContent = text;
  status.className = `status ${kind}`;
}

async function ask() {
  const {captions, preset, operators: _, ...limits} = Object.fromEntries(new FormData(form));
  const operators = preset || boxes.filter(box => box.checked).map(box => box.value);
  if (!captions.trim()) return say("Type a caption first.", "error");
  if (!operators.length) return say("Choose an operator under Settings.", "error");
  const question = {captions: captions.split("\n").filter(line => line.trim()), operators, ...limits};
  button.disabled = true;
  results.classList.add("old");
  results.inert = code.inert = true;
  say(`Working …${ready ? "" : " The models are being loaded, which takes some seconds."}`, "busy");
  const headers = {"Content-Type": "application/json"};
  try {
    const reply = await fetch("negatives", {method: "POST", headers, body: JSON.stringify(question)})
      .catch(() => { throw new Error("The server does not answer. Start it again with: negcap demo"); });
    const answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error);
    ready = true;
    show(answer);
  } catch (error) {
    results.replaceChildren();
    code.hidden = true;
    say(error.message, "error");
  }
  results.classList.remove("old");
  results.inert = code.inert = false;
  button.disabled = false;
}

function show({captions, reasons, notes, python, commands}) {
  const number = lists => lists.reduce((total, rows) => total + rows.length, 0);
  const negatives = number(captions.map(caption => caption.negatives));
  const rejected = number(captions.flatMap(({rejections: {no_candidate, ...others}}) => Object.values(others)));
  const counts = `${count(negatives, "negative")}, ${count(rejected, "rejected candidate")}.`;
  say([counts, ...notes.map(sentence)].join(" "), notes.length ? "error" : "");
  results.replaceChildren(...captions.map(caption => card(caption, reasons)));
  code.hidden = false;
  code.querySelectorAll("pre").forEach((block, at) => { block.textContent = [python, commands][at]; });
}

const sentence = text => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

function card({caption, graph, negatives, rejections}, reasons) {
  return element("article", {class: "operator"}, element("h2", {}, caption), drawnGraph(graph),
    element("h3", {}, "Negatives"), madeOf(caption, negatives), rejectedOf(caption, rejections, reasons));
}

// The best negatives of each operator, in the order of the operators, and a button for all.
function madeOf(caption, negatives) {
  if (!negatives.length) return element("p", {}, "None.");
  const best = bestOf(negatives), rows = element("div", {}, list(best.map(row => drawn(caption, row))));
  if (best.length < negatives.length) {
    const more = element("button", {type: "button", "aria-expanded": "false"}, `Show all ${negatives.length}`);
    more.addEventListener("click", () => {
      const all = more.getAttribute("aria-expanded") === "false";
      rows.firstChild.replaceWith(list((all ? negatives : best).map(row => drawn(caption, row))));
      more.setAttribute("aria-expanded", all);
      more.textContent = all ? "Show the best only" : `Show all ${negatives.length}`;
    });
    rows.append(more);
  }
  return rows;
}

// Operators may make the same sentence: it is shown once.
function bestOf(negatives) {
  const shown = new Set(), text = row => JSON.stringify(row[2]);
  return [...new Set(negatives.map(([operator]) => operator))].flatMap(name => {
    const rows = negatives.filter(row => row[0] === name && !shown.has(text(row)));
    const best = rows.sort((row, other) => risk(row) - risk(other)).slice(0, BEST);
    for (const row of best) shown.add(text(row));
    return best;
  });
}

function rejectedOf(caption, {no_candidate: nothing, ...rejections}, reasons) {
  const parts = Object.entries(rejections).map(([reason, rows]) => element("details", rows.length > 6 ? {} : {open: ""},
    element("summary", {}, element("b", {}, spoken(reason)), ` ${rows.length}: ${reasons[reason]}`),
    list(rows.map(row => drawn(caption, row)))));
  if (nothing) parts.push(element("p", {class: "soft"},
    `No candidate: ${nothing.map(([operator]) => operator).join(", ")}. ${sentence(reasons.no_candidate)}`));
  const number = Object.values(rejections).reduce((total, rows) => total + rows.length, 0);
  return parts.length ? element("details", {}, element("summary", {}, number ? `Rejected: ${count(number, "candidate")}` : "Why?"), parts) : "";
}

// Each object with its attributes, and what it is to others.
function drawnGraph({objects, attributes, relations}) {
  const chip = (text, kind) => element("span", {class: kind}, text);
  const of = (pairs, object) => pairs.filter(([, its]) => its === object).map(([value]) => [chip(value, "attribute"), " "]);
  const alone = object => relations.every(([, , other]) => other !== object);
  const told = objects.filter(object => alone(object) || attributes.some(([, its]) => its === object)
    || relations.some(([subject]) => subject === object));
  const lines = told.map(object => element("li", {}, of(attributes, object).flat(), chip(object, "object"),
    relations.filter(([subject]) => subject === object).flatMap(([, name, other], at) =>
      [at ? "\u2003" : " ", `${name} \u2192 `, chip(other, "object")])));
  return lines.length ? element("ul", {class: "graph", "aria-label": "Scene graph"}, lines) : "";
}

// A preset checks its operators; whoever checks others has an own choice.
function checkPreset() {
  const names = preset.selectedOptions[0].dataset.operators?.split(" ");
  if (names) boxes.forEach(box => { box.checked = names.includes(box.value); });
}

preset.addEventListener("change", checkPreset);
boxes.forEach(box => box.addEventListener("change", () => { preset.value = ""; }));
checkPreset();
form.addEventListener("submit", event => { event.preventDefault(); ask(); });
// A number that is out of bounds could not be seen in folded settings.
form.addEventListener("invalid", () => { form.querySelector("details").open = true; }, true);
form.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !button.disabled) form.requestSubmit();
});
for (const copy of code.querySelectorAll("button")) {
  copy.addEventListener("click", () => {
    const block = copy.previousElementSibling;
    getSelection().selectAllChildren(block);
    navigator.clipboard?.writeText(block.textContent).then(() => { copy.textContent = "Copied"; }, () => {});
  });
}
ask();
