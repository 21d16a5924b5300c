// The page of the demo: asks the server, shows what it answers.
const form = document.querySelector("form"), status = document.querySelector(".status"), button = form.querySelector("button");
const preset = form.elements.preset, boxes = [...form.querySelectorAll("[name=operators]")];
const results = document.querySelector(".results"), code = document.querySelector(".code");

function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("error", wrong);
}

async function ask() {
  const {captions, preset, operators: _, ...limits} = Object.fromEntries(new FormData(form));
  const operators = preset || boxes.filter(box => box.checked).map(box => box.value);
  if (!operators.length) return say("Choose an operator.", true);
  const question = {captions: captions.split("\n").filter(line => line.trim()), operators, ...limits};
  button.disabled = true;
  results.replaceChildren();
  code.hidden = true;
  say("Working … the first time, the models are loaded, which takes some seconds.");
  try {
    const headers = {"Content-Type": "application/json"};
    const reply = await fetch("negatives", {method: "POST", headers, body: JSON.stringify(question)});
    const answer = await reply.json();
    if (reply.ok) show(answer);
    else say(answer.error, true);
  } catch {
    say("negcap demo does not answer: has it ended?", true);
  }
  button.disabled = false;
}

function show({captions, reasons, notes, python, commands}) {
  const sum = some => some.reduce((total, one) => total + one.length, 0);
  const made = sum(captions.map(one => one.negatives));
  const rejected = sum(captions.flatMap(({rejections: {no_candidate, ...some}}) => Object.values(some)));
  say([`${count(made, "negative")}, ${count(rejected, "rejected candidate")}.`, ...notes].join(" "));
  results.replaceChildren(...captions.map(one => card(one, reasons)));
  code.hidden = false;
  code.querySelectorAll("pre").forEach((block, at) => { block.textContent = [python, commands][at]; });
}

function card({caption, graph, negatives, rejections}, reasons) {
  const parts = [element("h2", {}, caption), element("h3", {}, "Scene graph"), drawnGraph(graph), element("h3", {}, "Negatives")];
  parts.push(negatives.length ? list(negatives.map(row => drawn(caption, row))) : element("p", {}, "None."));
  parts.push(element("h3", {}, "Rejected"));
  for (const [reason, rows] of Object.entries(rejections)) {
    parts.push(element("details", rows.length > 6 ? {} : {open: ""},
      element("summary", {}, `${spoken(reason)} ${rows.length}: ${reasons[reason]}`), list(rows.map(row => drawn(caption, row)))));
  }
  return element("article", {class: "operator"}, parts);
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
      [at ? ", " : " ", `${name} \u2192 `, chip(other, "object")])));
  return lines.length ? element("ul", {class: "graph"}, lines) : element("p", {}, "No objects.");
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
form.elements.captions.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
for (const copy of code.querySelectorAll("button")) {
  copy.addEventListener("click", () => {
    const block = copy.previousElementSibling;
    getSelection().selectAllChildren(block);
    navigator.clipboard?.writeText(block.textContent).then(() => { copy.textContent = "Copied"; }, () => {});
  });
}
ask();
