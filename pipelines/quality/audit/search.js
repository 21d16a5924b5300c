// The search of the audit's page. Its data are scripts beside the page, since a page that is opened from a disk can read
// no other file; each calls `unpack` with compressed JSON (see search.py). They are loaded when somebody first searches.
const SHOWN = 20, place = document.getElementById("search"), inputs = [...place.querySelectorAll("input, select")];
const [results, status, more] = ["results", "status", "more"].map(name => place.querySelector(`.${name}`));
const part = name => place.querySelector(`[name="${name}"]`).value;
const images = [];
let loading = null, found = [], shown = 0, timer = 0;

function load() {
  loading ??= (async () => {
    const files = Number(place.dataset.files);
    for (let file = 0; file < files; file++) {
      status.textContent = `Loading ${file + 1} of ${files} …`;
      for (const one of await loaded(`rows/${String(file).padStart(5, "0")}.js`)) images.push(one);
    }
  })();
  return loading;
}

function loaded(source) {
  return new Promise((resolve, reject) => {
    window.unpack = packed => {
      const signs = atob(packed), bytes = new Uint8Array(signs.length);
      for (let at = 0; at < bytes.length; at++) bytes[at] = signs.charCodeAt(at);
      new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json().then(resolve, reject);
    };
    const script = element("script", {src: source});
    script.onerror = () => reject(new Error(`${source} is not beside this page: keep the folder rows with it`));
    script.onload = () => script.remove();
    document.head.append(script);
  });
}

const escaped = text => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

// Words must begin where a word does: "man" finds "man" and "manhole", not "woman". A phrase stands in quotes.
function terms(query) {
  const found = query.match(/"[^"]+"|[^\s"]+/g) ?? [];
  return found.map(word => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(word.replaceAll('"', ""))}`, "iu"));
}

// Whether a number is between two inputs; one without a number is, if both are empty.
function range(name) {
  const [low, high] = ["from", "to"].map(end => part(`${name}_${end}`));
  if (low === "" && high === "") return () => true;
  return value => value !== null && (low === "" || value >= +low) && (high === "" || value <= +high);
}

function search() {
  const words = terms(part("words")), operator = part("operator"), kind = part("kind");
  const [trueEnough, oddEnough] = ["p_true", "p_unnatural"].map(range), rejected = one => REASONS.has(one);
  const kinds = {"": () => true, none: () => false, rejected, negatives: one => one === "negatives" || one === "refined"};
  const ofKind = kinds[kind] ?? (one => one === kind);
  const counts = {captions: 0, made: 0, rejected: 0};
  found = [];
  for (const [, captions, rows] of images) {
    const left = captions.map(([id, text]) => words.filter(word => !word.test(text) && !word.test(id)));
    const made = new Set(), hit = new Set();
    const matching = rows.map(([number, its, name, , edits, p_true, p_unnatural]) => {
      const matches = ofKind(its) && (!operator || name === operator) && trueEnough(p_true) && oddEnough(p_unnatural)
        && left[number].every(word => edits.some(([, , put]) => word.test(put)));
      if (kinds.negatives(its)) made.add(number);
      if (matches) hit.add(number);
      if (matches && its !== "no_candidate") counts[rejected(its) ? "rejected" : "made"]++;
      return matches;
    });
    captions.forEach((_, number) => {
      const bare = kind === "none" && !made.has(number) && !left[number].length;
      if (bare || hit.has(number)) found.push([captions, number, rows, matching]);
    });
  }
  const texts = [count(counts.made, "text"), count(counts.rejected, "rejected candidate")].join(" and ");
  status.textContent = `${kind === "none" ? "" : `${texts} of `}${count(found.length, "caption")}`;
  results.replaceChildren();
  shown = 0;
  show();
}

function show() {
  for (const one of found.slice(shown, shown + SHOWN)) results.append(card(...one));
  shown = Math.min(shown + SHOWN, found.length);
  more.hidden = shown === found.length;
  more.textContent = `Show more: ${(found.length - shown).toLocaleString("en")} left`;
}

function card(captions, number, all, matching) {
  const [id, caption] = captions[number], others = captions.filter((_, one) => one !== number);
  const rows = all.map(([of, ...row], at) => ({of, row, matches: matching[at]})).filter(({of}) => of === number);
  rows.sort((one, other) => other.matches - one.matches);  // those that match come first
  const lines = some => list(some.map(({row: [kind, ...row], matches}) =>
    drawn(caption, row, kind === "negatives" ? "" : kind, !matches)));
  const made = rows.filter(({row: [kind]}) => !REASONS.has(kind)), rejected = rows.filter(one => !made.includes(one));
  const parts = [element("h3", {}, caption), element("small", {class: "soft"}, id)];
  if (others.length) parts.push(element("ul", {class: "siblings", "aria-label": "Other captions of the image"},
    others.map(([, text]) => element("li", {}, text))));
  parts.push(made.length ? lines(made) : element("p", {}, "No negatives."));
  if (rejected.length) {
    const details = element("details", {}, element("summary", {}, `Rejected: ${tally(rejected)}`));
    details.addEventListener("toggle", () => details.children.length === 1 && details.append(lines(rejected)));
    details.open = !made.some(({matches}) => matches);
    parts.push(details);
  }
  return element("article", {class: "operator"}, parts);
}

function tally(rows) {
  const counts = new Map();
  for (const {row: [kind]} of rows) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one).map(([kind, n]) => `${spoken(kind)} ${n}`).join(", ");
}

function ask() {
  const given = inputs.filter(({value}) => value).map(({name, value}) => [name, value]);
  history.replaceState(null, "", `#${new URLSearchParams(given.length ? given : [["search", ""]])}`);
  load().then(search, error => { status.textContent = error.message; });
}

const REASONS = new Set(place.dataset.reasons.split(" "));
more.addEventListener("click", show);
for (const input of inputs) {
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 150);
  });
}
for (const hidden of document.querySelectorAll("[data-script]")) hidden.hidden = false;
const asked = new URLSearchParams(location.hash.slice(1));  // audit.html#words=dog&operator=noun
for (const input of inputs) input.value = asked.get(input.name) ?? "";
if (inputs.some(({value}) => value)) {
  place.scrollIntoView();
  ask();
}
