// The codes: a grid with one tab stop, the reasons of the chosen one, and how far the note is.

import { $, copy, fill, idle, items, make, measure, percent, tell, written } from "./dom.js";

const CONTEXT = 60; // characters around a phrase
const FIRST = 12; // rows made at once, more than are in sight; others when nobody waits

// The gravest that is said near all phrases of a code: one plain phrase is enough to believe it.
export const cautionOf = ({ evidence }) => (evidence.every((phrase) => phrase.caution) && evidence[0]?.caution) || "";

export function codeGrid(on) {
  const grid = $("#grid");
  const groups = new Map();
  const idly = idle(complete, FIRST);
  let rows = new Map();
  let near = [];
  let stop, pointed, held; // the row that Tab reaches, the codes under the pointer and being dragged

  const point = (code) => on.previewed((pointed = code));
  grid.onmousemove = (event) => {
    const code = codeAt(event) ?? null; // rows that move under a resting pointer are not looked at
    if ((event.movementX || event.movementY) && code !== pointed) point(code);
  };
  grid.onmouseleave = () => point(null);
  grid.onclick = (event) => {
    const code = codeAt(event);
    if (!code) return;
    const act = event.target.closest("[data-act]")?.dataset.act;
    on.chosen(code, !act);
    if (act) on.acted(act, code);
    rows.get(code)?.focus({ preventScroll: true });
  };
  grid.addEventListener("focusin", (event) => {
    const code = codeAt(event);
    if (code && code !== stop?.code.code) on.chosen(code, false);
  });
  grid.ondragstart = (event) => {
    held = codeAt(event);
    if (held) event.dataTransfer.setData("text/plain", held);
  };
  grid.ondragend = () => { held = null; };
  grid.ondragover = (event) => held && event.preventDefault();
  grid.ondrop = (event) => {
    const target = codeAt(event);
    event.preventDefault();
    if (target && target !== held) on.dropped(held, target);
  };

  // shown: [name, codes]; each code has its verdict. Rows that say the same as before stay as they are.
  function show(shown, active, { threshold, tab, readonly, waiting, empty }) {
    const focused = grid.contains(document.activeElement);
    const old = rows;
    rows = new Map();
    const parts = shown.filter(([, codes]) => codes.length).map(([name, codes]) => group(name, codes.map((code, place) => {
      const row = rowOf(old.get(code.code), code, readonly ? "" : tab);
      Object.assign(row, { threshold: threshold ?? code.threshold, ends: { up: place === 0, down: place === codes.length - 1 } });
      if (row.dataset.verdict !== (code.verdict ?? "none")) {
        row.dataset.verdict = code.verdict ?? "none";
        row.ariaLabel = spoken(code);
      }
      if (row.childElementCount) settle(row);
      rows.set(code.code, row);
      return row;
    })));
    if (waiting) parts.push(copy("#greys"));
    else if (!parts.length) parts.push(written("#empty", empty));
    const all = [...rows.values()];
    all.splice(0, FIRST).forEach(complete);
    idly(all);
    fill(grid, parts);
    choose(active, { focus: focused });
  }

  function group(name, own) {
    const found = groups.get(name) ?? copy("#group").firstChild;
    groups.set(name, found);
    found.ariaLabel = name;
    tell(found.firstChild.firstChild, `${name} · ${own.length}`);
    fill(found, [found.firstChild, ...own]);
    return found;
  }

  function choose(code, { focus, scroll } = {}) {
    const row = rows.get(code);
    if (row) complete(row);
    if (stop && stop !== row) Object.assign(stop, { ariaSelected: "false", tabIndex: -1 });
    stop = row ?? rows.values().next().value;
    if (stop) stop.tabIndex = 0;
    if (!row) return;
    row.ariaSelected = "true";
    if (focus) row.focus({ preventScroll: true });
    if (scroll) row.scrollIntoView({ block: "nearest" });
  }

  // The codes that the words under the pointer speak for.
  function light(codes) {
    for (const row of near) row.classList.remove("near");
    near = codes.map((code) => rows.get(code)).filter(Boolean);
    for (const row of near) row.classList.add("near");
  }

  function after(code, step) {
    const all = [...rows.keys()];
    return all[Math.max(0, Math.min(all.length - 1, all.indexOf(code) + step))];
  }

  return { show, choose, light, after };
}

// What stays of a code as long as the note is open; `complete` adds what is seen of it.
function rowOf(kept, code, acts) {
  const key = [acts, code.title, code.chapter, code.probability, code.replaces, cautionOf(code)].join("|");
  if (kept?.key === key) return kept;
  const row = copy("#row").firstChild;
  row.dataset.code = code.code;
  return Object.assign(row, { key, code, acts, draggable: acts === "final" });
}

// The cells of a row, made when it is near.
function complete(row) {
  if (row.childElementCount) return;
  const { code, title, chapter, probability, replaces } = row.code;
  row.append(copy("#cells"));
  const [name, titles, percents, acts] = row.children;
  name.firstChild.textContent = code;
  name.lastChild.textContent = chapter;
  titles.firstChild.textContent = titles.firstChild.title = title;
  const caution = cautionOf(row.code);
  if (caution) titles.append(make("span", { class: "tag" }, caution));
  if (replaces) titles.append(make("span", { class: "tag plain" }, `in place of ${replaces}`));
  if (probability === null) percents.replaceChildren("added");
  else {
    percents.prepend(percent(probability));
    measure(percents.lastChild, probability);
  }
  if (row.acts) acts.append(copy(`#acts-${row.acts}`));
  for (const button of acts.children) button.ariaLabel = `${button.title} ${code}`;
  settle(row);
}

// What decisions and the threshold change.
function settle(row) {
  const notch = $("u", row);
  if (notch) notch.style.left = `${100 * row.threshold}%`;
  for (const button of row.lastChild.children) {
    const { act } = button.dataset;
    if (act in row.ends) button.disabled = row.ends[act];
    else button.ariaPressed = act === row.dataset.verdict;
  }
}

// The phrases of a code; items of the last one are written anew, not made anew.
export function showWhy(code, { text, sections, readonly, jump, unmark }) {
  const panel = $("#why");
  const rows = code?.spans ?? [];
  tell("h3 b", code?.code ?? "", panel);
  tell("h3 span", code?.title ?? "", panel);
  tell("p", code?.path.join(" › ") ?? "", panel);
  panel.dataset.nothing = !code || rows.length ? "" : code.added ? "added" : "read";
  items($("ul", panel), rows.length, () => copy("#phrase")).forEach((item, place) => {
    const phrase = rows[place];
    writePhrase(item.firstChild, phrase, text, sections.findLast((one) => one.start <= phrase.start)?.title ?? "");
    item.onclick = () => jump(phrase);
    item.onkeydown = (event) => event.key === "Delete" && phrase.mine && !readonly && unmark(phrase);
  });
  for (const act of ["accept", "reject", "change"]) {
    const button = $(`#${act}`);
    button.disabled = !code || readonly;
    if (act !== "change") button.ariaPressed = act === code?.verdict;
  }
}

function writePhrase(button, { start, end, cue, caution, matched, mine, weight, why }, text, section) {
  const lead = caution && cue && cue.end <= start && start - cue.start < CONTEXT;
  const [meter, words, told] = button.children;
  const parts = [lead ? text.slice(cue.start, start) : "", text.slice(start, end), text.slice(end, end + CONTEXT)];
  parts.forEach((part, place) => tell(words.children[place], part.replace(/\s+/g, " ")));
  tell(told, caution || (mine ? "marked by you" : matched ? `“${matched}”` : section));
  told.className = caution ? "tag" : "at";
  button.title = [matched && `a name of this code: ${matched}`, why, section].filter(Boolean).join(" · ");
  meter.className = mine ? "meter mine" : "meter";
  measure(meter, weight);
}

export function showTally(codes) {
  const shown = codes.filter((code) => code.verdict || code.shown);
  const count = (verdict) => shown.filter((code) => code.verdict === verdict).length;
  items($("#strip"), Math.min(40, shown.length), () => make("i")).forEach((piece, place) => { piece.className = shown[place].verdict ?? ""; });
  tell("#tally", `${count("accept")} accepted · ${count("reject")} rejected · ${count(undefined)} open`);
}

function spoken(code) {
  const verdict = { accept: "accepted", reject: "rejected" }[code.verdict] ?? "undecided";
  const chance = code.probability === null ? "added by you" : percent(code.probability);
  const caution = cautionOf(code);
  return `${code.code} ${code.title}, ${chance}, ${verdict}${caution && `, caution: ${caution}`}`;
}

const codeAt = (event) => event.target.closest?.(".row[data-code]")?.dataset.code;
