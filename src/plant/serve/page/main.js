// The desk: one note, its codes, and what a person decides.

import { ask } from "./api.js";
import { cautionOf, codeGrid, showTally, showWhy } from "./codes.js";
import { Decisions } from "./decisions.js";
import { $, figure, make, plural, tell, written } from "./dom.js";
import { moved, offsets } from "./offsets.js";
import { codeSearch } from "./search.js";
import { noteText } from "./text.js";

const WATCH = 15000; // milliseconds between looks for changes by others
const PATIENCE = 500; // milliseconds that a first note may take

let me, queue = [], counts = { open: 0, finished: 0 }, listed; // who asks, all notes, and how many are listed
let note, mine = true, asked; // the one that is open, whether it is ours, and the id of the one that comes
let codes = [], lit = [], litIn = []; // all, those that are lit, and their phrases in each section
let active, preview, tab = "review"; // the chosen code, the one pointed at, the list
let mode = "all", threshold = null, explainer = ""; // null and "": as the coder does
let selection, searched, lapped, section; // spans: now, when the search began, last reached by key

const text = noteText($("#text"), $("#note"), $("#rail"), {
  hovered: (under) => grid.light(under),
  picked: (under) => choose(under[(under.indexOf(active) + 1) % under.length], { scroll: true }),
  selected, scrolled: currentSection, repaint: light,
});
const decisions = new Decisions({
  changed: refresh, saving, signIn, conflict,
  merged: (by) => notice(`${by} has changed this note too; both are kept.`),
  refused: async (problem) => { notice(`Not saved: ${problem.message}.`); await open(note.note); },
});
const grid = codeGrid({
  previewed: (code) => { preview = code; light(); },
  chosen: (code, jump) => choose(code, { jump }),
  acted: (act, code) => act === "up" || act === "down" ? move(code, act === "up" ? -1 : 1) : decide(code, act),
  dropped: (held, target) => moveTo(held, decisions.accepted().indexOf(target)),
});
const searchFor = codeSearch({ taken, closed: () => text.choose(null) });

// what is shown

const codeOf = (code) => codes.find((one) => one.code === code);
const accepted = () => decisions.accepted().map(codeOf);
const marksOf = (code) => decisions.get(code)?.evidence ?? [];
const readonly = () => note?.state !== "open" || !mine;
const sections = () => note?.sections ?? [];
const sectionAt = (offset) => sections().findLastIndex(({ start }) => start <= offset);

// The coder's codes and those that people added, with verdicts and spans: words that people marked, then phrases of the
// coder. What is shown does not move when decided.
function rebuild() {
  const shown = ({ suggested, probability }) => threshold === null ? suggested : probability >= threshold;
  const ranked = (note?.codes ?? []).map((code) => ({ ...code, shown: shown(code) }));
  const known = new Set(ranked.map(({ code }) => code));
  const added = [...decisions.by.values()].filter(({ code }) => !known.has(code));
  const all = [...added.map((one) => ({ ...one, probability: null, evidence: [], shown: true, added: true })), ...ranked];
  codes = all.map((code) => {
    const { verdict, replaces = "", evidence = [] } = decisions.get(code.code) ?? {};
    return { ...code, verdict, replaces, spans: [...evidence.map((mark) => ({ ...mark, weight: 1, mine: true })), ...code.evidence] };
  });
}

function refresh() {
  rebuild();
  const final = accepted();
  const groups = tab === "final" ? [["Reporting order", final]] : [
    ["Added by you", codes.filter((code) => code.added)],
    ["Suggested", codes.filter((code) => !code.added && code.shown)],
    ["Below", codes.filter((code) => !code.shown)],
  ];
  active = codeOf(active)?.code ?? groups.flatMap(([, own]) => own)[0]?.code;
  const empty = !note ? "" : tab === "final" ? "Nothing is accepted yet: press A on a code."
    : "The coder suggests nothing here. Select words and press S to add a code.";
  grid.show(groups, active, { threshold, tab, readonly: readonly(), waiting: note?.codes === null, empty });
  tell("#tab-review .count", `${codes.filter((code) => code.shown).length}`);
  tell("#tab-final .count", `${final.length}`);
  showTally(codes);
  $("#undo").disabled = !decisions.done.length;
  $("#redo").disabled = !decisions.undone.length;
  $("#finish").disabled = readonly();
  // lit are the codes in sight that are not rejected, with what people marked
  lit = codes.filter(({ shown, verdict }) => verdict === "accept" || (shown && verdict !== "reject"));
  litIn = perSection(lit.flatMap(({ spans }) => spans));
  light();
  why();
}

function light() {
  const spans = codeOf(preview ?? active)?.spans ?? [];
  text.light(lit, spans, mode);
  perSection(spans).forEach((own, place) => {
    const count = $("#outline").children[place].lastChild;
    tell(count, `${own || litIn[place] || ""}`);
    count.classList.toggle("own", own > 0);
  });
}

// How many phrases begin in each section.
function perSection(spans) {
  const found = sections().map(() => 0);
  for (const { start } of spans) found[sectionAt(start)]++; // before the first, nothing is counted
  return found;
}

function why() {
  const code = active;
  showWhy(codeOf(code), {
    text: note?.text, sections: sections(), readonly: readonly(),
    jump: ({ start }) => text.reveal(start),
    unmark: ({ start }) => decisions.step("marked words", [{ code, verdict: decisions.get(code).verdict, evidence: marksOf(code).filter((mark) => mark.start !== start) }]),
  });
}

// The focus moves last: it asks the browser to lay out what was written.
function choose(code, { jump, ...how } = {}) {
  if (!code) return;
  const changed = code !== active || preview;
  [active, preview] = [code, null];
  if (changed) { why(); light(); }
  grid.choose(code, how);
  const strongest = codeOf(code)?.spans[0];
  if (jump && strongest) text.reveal(strongest.start);
}

// what is done

function act(label, ...step) {
  decisions.step(label, ...step);
  say(label);
}

function decide(code, verdict) {
  const found = codeOf(code);
  if (!found || readonly()) return;
  const [next, word] = found.verdict === verdict ? ["none", "cleared"] : [verdict, `${verdict}ed`];
  act(`${code} ${word}`, [{ code, verdict: next }], { about: [found] });
}

function taken(hit, purpose) {
  const chosen = searched ? [searched] : [];
  const old = codeOf(active);
  const change = { code: hit.code, verdict: "accept" };
  if (purpose === "change" && old && old.code !== hit.code) {
    change.evidence = [...marksOf(old.code), ...(chosen.length ? chosen : old.evidence.slice(0, 1).map(({ start, end }) => ({ start, end })))];
    change.replaces = old.code;
    act(`${old.code} changed to ${hit.code}`, [change, { code: old.code, verdict: "reject" }], { about: [hit, old] });
  } else {
    if (chosen.length) change.evidence = [...marksOf(hit.code), ...chosen];
    act(`${hit.code} added and accepted`, [change], { about: [hit] });
  }
  tabs("review");
  choose(hit.code, { scroll: true, focus: true });
  clearSelection();
}

function openSearch(purpose) {
  if (readonly()) return say("This note is read-only.");
  if (purpose === "change" && !active) return;
  searched = selection;
  if (searched) text.choose(searched);
  const words = searched ? note.text.slice(searched.start, searched.end) : "";
  searchFor({ purpose, words, listed: new Map(codes.map(({ code, probability }) => [code, probability])), replaces: active });
}

function markWords() {
  const found = codeOf(active);
  if (!found || !selection || readonly()) return;
  const { code, verdict = "accept" } = found;
  act(`Words marked for ${code}`, [{ code, verdict, evidence: [...marksOf(code), selection] }], { about: [found] });
  clearSelection();
}

const move = (code, step) => moveTo(code, decisions.accepted().indexOf(code) + step);
function moveTo(code, place) {
  const order = decisions.accepted().filter((own) => own !== code);
  if (place < 0 || place > order.length || readonly()) return;
  order.splice(place, 0, code);
  decisions.step(`${code} moved`, [], { order });
  say(`${code} is now number ${place + 1}`);
  choose(code, { scroll: true });
}

function undo(again) {
  const label = decisions.undo(again);
  if (label) say(`${again ? "Done again" : "Undone"}: ${label}`);
}

function selected(span) {
  selection = span;
  const bar = $("#toolbar");
  bar.hidden = !span || readonly();
  if (bar.hidden) return;
  const box = text.rectangle(span.start, span.end);
  const frame = $("#note-pane").getBoundingClientRect();
  tell("#mark-words span", active ? `Mark for ${active}` : "Mark");
  $("#mark-words").disabled = !active;
  const above = box.top - frame.top - 50;
  bar.style.top = `clamp(70px, ${above > 70 ? above : box.bottom - frame.top + 8}px, 100% - 60px)`;
  bar.style.left = `clamp(8px, ${box.left - frame.left}px, 100% - ${bar.offsetWidth + 8}px)`;
}

function clearSelection() {
  getSelection().removeAllRanges();
  text.choose(null);
  selected(null);
}

// Arrows select words: from those that are selected on, or from the section in sight.
function caret({ key, shiftKey }) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key], now = selection;
  const from = (step > 0 ? now?.end : now?.start) ?? Number(section?.dataset.start ?? 0);
  const word = step && text.word(from, step);
  if (!word) return false;
  if (shiftKey && now) text.select(Math.min(now.start, word.start), Math.max(now.end, word.end));
  else text.select(word.start, word.end);
  return true;
}

function lap(step) {
  const found = lit.flatMap(({ code, spans }) => spans.map(({ start, end }) => ({ start, end, code }))).sort((a, b) => a.start - b.start);
  if (!found.length) return;
  const place = found.findIndex(({ start, code }) => start === lapped?.start && code === lapped.code);
  const { start, end, code } = (lapped = found[(place + step + found.length) % found.length]);
  choose(code, { scroll: true });
  text.reveal(start);
  say(`“${note.text.slice(start, end)}” speaks for ${code}`);
}

// notes

async function loadQueue() {
  let after = 0;
  const items = [];
  while (after !== null && items.length < 5000) {
    const part = await ask(`queue?after=${after}`);
    items.push(...part.items);
    counts = part.counts;
    after = part.next;
  }
  queue = items;
  bar();
}

const placeOf = (id) => queue.findIndex((item) => item.note === id);

function bar() {
  const place = placeOf(note?.note);
  const { open, finished } = counts;
  const total = open + finished;
  tell("#where b", place < 0 ? "Notes" : `Note ${place + 1}`);
  tell("#where span", place < 0 ? "" : ` of ${figure(total)}`);
  tell("#finished", `${figure(finished)} finished`);
  Object.assign($("#progress"), { max: total || 1, value: finished });
  $("#previous").disabled = place <= 0;
  $("#next").disabled = place < 0 || place >= queue.length - 1;
}

async function open(id) {
  if (decisions.unsaved && !confirm("Some decisions are not saved yet. Leave this note?")) return;
  notice("");
  clearSelection();
  asked = id;
  const [found, held] = await Promise.all([ask(`notes/${id}`), ask(`notes/${id}/hold`, { take: false })]);
  if (asked !== id) return;
  lapped = active = preview = null;
  mine = held.mine;
  tabs("review");
  show(found, true);
  history.replaceState(null, "", `#${id}`);
  hold(held);
  const stale = found.codes && !found.model.current;
  if (stale) notice("Another coder has read this note; decisions stay.", ["Read again", () => predict(true)]);
  if (found.codes === null || (!stale && found.model.explainer !== explainer)) await predict(false);
}

function hold(held) {
  const changed = mine !== held.mine;
  mine = held.mine;
  const take = async () => hold(await ask(`notes/${note.note}/hold`, { take: true }));
  if (!mine) notice(`${held.holder} has this note open: you can read it.`, ["Take over", take]);
  if (changed) refresh();
}

async function predict(again) {
  const id = note.note;
  const found = await ask(`notes/${id}/predict`, { explainer, again });
  if (note.note === id) show(found, false);
}

function show(found, fresh) {
  const units = offsets(found.text);
  const place = (span) => span && moved(span, units.toUnit);
  const phrase = (one) => ({ ...place(one), cue: place(one.cue) });
  const read = found.codes?.map((code) => ({ ...code, evidence: code.evidence.map(phrase) })) ?? null;
  note = { ...found, codes: read, sections: found.sections.map(place) };
  if (fresh) {
    text.show(found.text, found.lines.map(place));
    $("#outline").replaceChildren(...sections().map(({ start, title }) =>
      make("button", { "data-start": start, onclick: () => text.reveal(start) }, title, make("span"))));
    decisions.load(found, units);
  }
  const finished = found.state === "finished" ? `inished by ${found.finished_by}` : "";
  tell("#title", found.name);
  document.title = `${found.name} · plant desk`;
  const facts = [plural(found.text.split(/\s+/).filter(Boolean).length, "word"), found.model && `read by ${found.model.name}`, finished && `f${finished}`];
  tell("#facts", facts.filter(Boolean).join(" · "));
  if (finished) notice(`F${finished}: read-only.`, ...(reviews() ? [["Reopen", reopen]] : []));
  slider(threshold);
  bar();
  refresh();
  appear();
}

function currentSection(offset) {
  const button = $("#outline").children[sectionAt(offset)];
  if (button === section) return;
  if (section) section.ariaCurrent = null;
  if (button) button.ariaCurrent = "true";
  section = button;
}

function step(by) {
  const next = queue[placeOf(note?.note) + by];
  if (next) open(next.note);
}

async function reopen() {
  await ask(`notes/${note.note}/reopen`, {}, { "If-Match": `"${note.version}"` });
  await loadQueue();
  await open(note.note);
}

function askToFinish() {
  if (readonly()) return;
  const dialog = $("#finishing");
  const named = (some) => some.map(({ code }) => code).join(", ");
  const final = accepted();
  const open = codes.filter((code) => code.shown && !code.verdict);
  const doubtful = final.filter(cautionOf);
  tell("p", final.length ? `${plural(final.length, "code")}, in this order:` : "No code is accepted: the note will have none.", dialog);
  $("ol", dialog).replaceChildren(...final.map(({ code, title }, place) => written("#final", place + 1, code, title)));
  const told = [open.length && `${plural(open.length, "suggestion")} stay undecided, which is not rejected: ${named(open)}.`,
    doubtful.length && `Accepted though the words are in doubt: ${named(doubtful)}.`];
  tell(".open", told.filter(Boolean).join(" "), dialog);
  dialog.showModal();
  $(".primary", dialog).focus();
}

async function finish() {
  $("#finishing").close();
  while (decisions.unsaved) await new Promise((wake) => setTimeout(wake, 100));
  const id = note.note;
  await ask(`notes/${id}/finish`, {}, { "If-Match": `"${decisions.version}"`, "Idempotency-Key": crypto.randomUUID() });
  say("Note finished");
  await loadQueue();
  const next = [...queue.slice(placeOf(id)), ...queue].find((item) => item.state === "open");
  await open(next?.note ?? id);
  if (!next) notice("All notes are finished. Export them in the settings, or put more on the desk.");
}

// what is told

const say = (words) => { tell("#voice", ""); requestAnimationFrame(() => tell("#voice", words)); };

function notice(words, ...acts) {
  const place = $("#notice");
  place.hidden = !words;
  tell("span", words, place);
  $(".acts", place).replaceChildren(...acts.map(([name, act]) => make("button", { onclick: () => { notice(""); return act(); } }, name)));
}

function saving(now, count) {
  const place = $("#saved");
  place.dataset.state = now;
  tell(".waiting", `Not reached: ${plural(count, "step")} waiting`, place);
  if (now === "waiting") say("The service is not reached. Your decisions wait here and are sent again.");
}

function failed(problem) {
  if (problem.status === 401) return signIn().then(start);
  notice(problem.status ? `${problem.message}.` : "The service is not reached. What was saved is safe; try again in a moment.", ["Try again", () => location.reload()]);
}

function signIn() {
  const dialog = $("#sign-in");
  dialog.showModal();
  return new Promise((signed) => {
    dialog.onsubmit = async (event) => {
      event.preventDefault();
      try {
        await ask("session", { token: $("#token").value });
        $("#token").value = "";
        dialog.close();
        signed();
      } catch (problem) {
        tell(".wrong", problem.message, dialog);
      }
    };
  });
}

function conflict(mine, theirs, by) {
  const dialog = $("#conflict");
  const word = { accept: "accepted", reject: "rejected", none: "left open" };
  tell("p", `${by} has ${word[theirs.verdict]} ${mine.code}; you have ${word[mine.verdict]} it. Whose decision stays?`, dialog);
  dialog.showModal();
  return new Promise((chosen) => {
    dialog.onclose = () => chosen(dialog.returnValue === "mine");
  });
}

// controls

function tabs(chosen) {
  tab = chosen;
  for (const button of $("[role=tablist]").children) {
    const own = button.dataset.do === chosen;
    Object.assign(button, { ariaSelected: own, tabIndex: own ? 0 : -1 });
  }
  $("#list").setAttribute("aria-labelledby", `tab-${chosen}`);
}

const setTab = (name) => { tabs(name); refresh(); };

function setMode(chosen) {
  mode = chosen;
  $(`#mode [value=${mode}]`).checked = true;
  light();
}

function slider(from) {
  threshold = from;
  const shown = ($("#threshold").value = Math.round(100 * (from ?? note?.codes?.[0]?.threshold ?? 0.5)));
  tell("#from output", `${shown} %`);
}

function showQueue(most) {
  listed = most;
  const dialog = $("#queue");
  const typed = $("#find-note").value.trim().toLowerCase();
  const found = queue.filter(({ name }) => name.toLowerCase().includes(typed));
  tell(".counts", `${plural(counts.open, "open note")}, ${counts.finished} finished`, dialog);
  $("ul", dialog).replaceChildren(...found.slice(0, most).map((item) => make("li", {}, inQueue(item))));
  $(".none", dialog).hidden = found.length > 0;
  $(".more", dialog).hidden = found.length <= most;
  dialog.showModal();
}

function inQueue(item) {
  const { name, holder, decided, words } = item;
  const finished = item.state === "finished";
  const told = finished ? "finished" : holder ? `with ${holder}` : decided ? `${decided} decided` : plural(words, "word");
  const line = written("#queued", name, told);
  line.onclick = () => { $("#queue").close(); open(item.note); };
  line.lastChild.classList.toggle("done", finished);
  if (item.note === note?.note) line.ariaCurrent = "true";
  return line;
}

const reviews = () => /reviewer|admin/.test(me?.role);

async function openSettings() {
  $("#settings").showModal();
  const { models: [model], catalogue } = await ask("models");
  const select = $("#explainer");
  select.replaceChildren(select.options[0], ...model.explainers.map((name) => new Option(name)));
  select.value = explainer;
  $("#export").hidden = !reviews();
  tell("#settings .about", `Coder ${model.name}: ${plural(model.codes, "code")}, digest ${model.digest.slice(0, 16)}. ${figure(catalogue)} codes can be searched. plant ${me?.version}.`);
}

function toPrint() {
  tell("#sheet-for-print h2", note?.name ?? "");
  $("#sheet-for-print tbody").replaceChildren(...accepted().map(({ code, title }, place) => written("#printed", place + 1, code, title)));
  text.everything();
}

const next = (by) => choose(grid.after(active, by), { scroll: true, focus: true });
const DO = { // what buttons name in data-do
  accept: () => decide(active, "accept"), reject: () => decide(active, "reject"), change: () => openSearch("change"),
  undo, redo: () => undo(true), previous: () => step(-1), next: () => step(1), mark: markWords,
  queue: () => showQueue(100), more: () => showQueue(listed + 200), search: () => openSearch("add"), keys: () => $("#keys").showModal(),
  settings: openSettings, ask: askToFinish, finish, theme,
  own: () => { slider(null); refresh(); }, review: () => setTab("review"), final: () => setTab("final"),
};
const LETTERS = {
  j: () => next(1), k: () => next(-1), a: DO.accept, r: DO.reject, c: DO.change, s: DO.search, w: DO.mark, n: DO.next, p: DO.previous,
  q: DO.queue, "?": DO.keys, "]": () => lap(1), "[": () => lap(-1), e: () => setMode({ all: "this", this: "plain", plain: "all" }[mode]),
};

// What a key means where the focus is, if anything.
function meaning(event) {
  const within = (selector) => event.target.closest(selector);
  const key = event.key.toLowerCase();
  const way = { arrowup: -1, arrowdown: 1 }[key];
  if (event.ctrlKey || event.metaKey) return { z: event.shiftKey ? DO.redo : DO.undo, y: DO.redo, enter: DO.ask }[key];
  if (key === "f6") return () => (within("#note-pane") ? $("#grid [tabindex='0']") : $("#note"))?.focus();
  if (within("[role=tab]") && key.startsWith("arrow")) return () => { setTab(tab === "final" ? "review" : "final"); $(`#tab-${tab}`).focus(); };
  if (within("input, select, textarea")) return null;
  if (event.altKey) return way && (() => move(active, way));
  if (way && within("#grid")) return () => next(way);
  if (key === "enter" && within("#grid") && !within("button")) return () => choose(active, { jump: true });
  if (key === "escape") return clearSelection;
  if (within("#note") && caret(event)) return () => {};
  return $("#letters").checked && (within("#grid, #note") || event.target === document.body) ? LETTERS[key] : null;
}

function theme() {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  say(`${dark ? "Light" : "Dark"} theme`);
}

async function watch() {
  if (!note || decisions.unsaved || document.hidden) return;
  const id = note.note;
  try {
    const answer = await ask(`notes/${id}`, undefined, {}, "HEAD");
    if (!decisions.unsaved) saving("saved", 0);
    if (!readonly()) await ask(`notes/${id}/hold`, { take: false });
    if (Number(answer.headers.get("ETag")?.replaceAll('"', "")) <= decisions.version) return;
    const found = await ask(`notes/${id}`);
    if (decisions.unsaved || id !== note.note) return; // decided meanwhile: what is sent finds out itself
    decisions.load(found, offsets(found.text));
    refresh();
    notice("Someone else has changed this note: what they decided is shown.");
  } catch (problem) {
    if (!problem.status) saving("waiting", 0);
  }
}

const appear = () => document.body.classList.remove("waiting");

async function start() {
  setTimeout(appear, PATIENCE);
  document.fonts.load("17px Desk Serif"); // before the note asks for it, which would be laid out twice
  [me] = await Promise.all([ask("me"), loadQueue()]);
  const { name, role } = me;
  Object.assign($("#who"), { textContent: name.slice(0, 2).toUpperCase(), ariaLabel: `You are ${name}`, title: `${name}, ${role}` });
  saving("saved", 0);
  const linked = queue.find((item) => item.note === location.hash.slice(1));
  const first = linked ?? queue.find((item) => item.state === "open") ?? queue[0];
  if (first) return open(first.note);
  refresh();
  tell("#facts", "No notes are on the desk. Start the service with --notes FILE, or send them to /v1/notes.");
  appear();
}

document.onkeydown = (event) => {
  const done = $("dialog[open]") ? null : meaning(event);
  if (done) { event.preventDefault(); done(); }
};
document.onclick = ({ target }) => {
  if (target.matches("dialog:not(.firm)") || target.closest(".close")) target.closest("dialog").close(); // beside it, or its button
  DO[target.closest("[data-do]")?.dataset.do]?.();
};
document.addEventListener("cancel", (event) => event.target.matches(".firm") && event.preventDefault(), true); // these want an answer
$("#mode").onchange = ({ target }) => setMode(target.value);
$("#threshold").oninput = ({ target }) => { slider(target.value / 100); refresh(); };
$("#find-note").oninput = () => showQueue(listed);
$("#toolbar").onmousedown = (event) => event.preventDefault();
$("#explainer").onchange = ({ target }) => {
  explainer = target.value;
  if (note) predict(false).catch((problem) => { explainer = ""; throw problem; });
};
addEventListener("unhandledrejection", (event) => { event.preventDefault(); failed(event.reason); });
addEventListener("beforeunload", (event) => decisions.unsaved && event.preventDefault());
addEventListener("beforeprint", toPrint);
addEventListener("afterprint", text.scrolled);
setInterval(watch, WATCH);
start();
