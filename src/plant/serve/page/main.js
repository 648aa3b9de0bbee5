// The desk: one note, its codes, and what a person decides.

import { ask, Refusal } from "./api.js";
import { Codes, cautionOf, showTally, showWhy } from "./codes.js";
import { Decisions } from "./decisions.js";
import { $, figure, make, plural, tell } from "./dom.js";
import { offsets } from "./offsets.js";
import { Search } from "./search.js";
import { NoteText } from "./text.js";

const EMPTY = "No notes are on the desk. Start the service with --notes FILE, or send them to /v1/notes.";
const WATCH = 15000; // milliseconds between looks for changes by others
const PATIENCE = 500; // milliseconds that a first note may take
const reviews = () => /reviewer|admin/.test(state.me?.role);
const state = { me: null, queue: [], counts: { open: 0, finished: 0 }, view: null, codes: [], active: null, preview: null,
  mode: "all", tab: "review", threshold: null, explainer: "", selection: null, letters: true, mine: true, listed: 100, lit: [], perSection: [] };

const text = new NoteText($("#text"), $("#note"), $("#rail"), {
  hovered: (codes) => codes_.near(codes),
  picked: (codes) => choose(codes[(codes.indexOf(state.active) + 1) % codes.length], { scroll: true }),
  selected: (span) => selected(span),
  scrolled: (offset) => currentSection(offset),
  repaint: () => light(),
});
const decisions = new Decisions({
  changed: () => refresh(), saving, signIn, conflict,
  merged: (by) => notice(`${by} has changed this note too; both are kept.`),
  refused: async (problem) => { notice(`Not saved: ${problem.message}.`); await open(state.view.note); },
});
const codes_ = new Codes({
  previewed: (code) => { state.preview = code; light(); },
  chosen: (code, jump) => choose(code, { jump }),
  acted: (act, code) => act === "up" || act === "down" ? move(code, act === "up" ? -1 : 1) : decide(code, act),
  dropped: (held, target) => moveTo(held, decisions.accepted().indexOf(target)),
});
const search = new Search({ taken, closed: () => text.choose(null) });

// what is shown

const codeOf = (code) => state.codes.find((one) => one.code === code) ?? null;
const accepted = () => decisions.accepted().map(codeOf).filter(Boolean);
const marksOf = (code) => decisions.get(code)?.evidence ?? [];
const evidenceOf = (code) => [...code.evidence, ...marksOf(code.code).map((mark) => ({ ...mark, weight: 1 }))];
const readonly = () => !state.view || state.view.state === "finished" || !state.mine;
const sections = () => state.view?.sections ?? [];

// The coder's codes and those that people added, each with its verdict; what is shown does not move when decided.
function rebuild() {
  const passes = (code) => (state.threshold === null ? code.suggested : code.probability >= state.threshold);
  const ranked = (state.view?.codes ?? []).map((code) => {
    const { verdict, replaces = "" } = decisions.get(code.code) ?? {};
    return { ...code, verdict, replaces, shown: passes(code) };
  });
  const known = new Set(ranked.map((code) => code.code));
  const added = [...decisions.by.values()].filter((one) => !known.has(one.code)).map((one) => ({
    ...one, probability: null, threshold: null, suggested: true, evidence: [], shown: true, added: true }));
  state.codes = [...added, ...ranked];
}

function refresh() {
  rebuild();
  const final = accepted();
  const groups = state.tab === "final" ? [["Reporting order", final]] : [
    ["Added by you", state.codes.filter((code) => code.added)],
    ["Suggested", state.codes.filter((code) => !code.added && code.shown)],
    ["Below", state.codes.filter((code) => !code.added && !code.shown)],
  ];
  if (!codeOf(state.active)) state.active = groups.flatMap(([, codes]) => codes)[0]?.code ?? null;
  const empty = !state.view ? "" : state.tab === "final" ? "Nothing is accepted yet: press A on a code."
    : "The coder suggests nothing here. Select words and press S to add a code.";
  codes_.show(groups, state.active, { threshold: state.threshold, tab: state.tab, readonly: readonly(), waiting: state.view?.codes === null, empty });
  tell("#tab-review .count", `${state.codes.filter((code) => code.shown).length}`);
  tell("#tab-final .count", `${final.length}`);
  showTally(state.codes);
  $("#undo").disabled = !decisions.done.length;
  $("#redo").disabled = !decisions.undone.length;
  $("#finish").disabled = readonly();
  // lit are the codes in sight that are not rejected, with what people marked
  state.lit = state.codes.filter((code) => (code.shown || code.verdict === "accept") && code.verdict !== "reject")
    .map((code) => ({ code: code.code, evidence: evidenceOf(code) }));
  state.perSection = perSection(state.lit.flatMap((code) => code.evidence));
  light();
  why();
}

function light() {
  const active = codeOf(state.preview ?? state.active);
  text.light(state.lit, active && { code: active.code, evidence: evidenceOf(active) }, state.mode);
  const own = perSection(active ? evidenceOf(active) : []);
  own.forEach((mine, place) => {
    const count = $("#outline").children[place].lastChild;
    tell(count, `${mine || state.perSection[place] || ""}`);
    count.classList.toggle("own", mine > 0);
  });
}

// How many phrases begin in each section.
function perSection(spans) {
  const counts = sections().map(() => 0);
  for (const span of spans) {
    const place = sections().findLastIndex((section) => section.start <= span.start);
    if (place >= 0) counts[place]++;
  }
  return counts;
}

function why() {
  showWhy(codeOf(state.active), {
    text: state.view?.text ?? "", sections: sections(), marks: marksOf(state.active), readonly: readonly(),
    jump: (phrase) => text.reveal(phrase.start),
    unmark: (phrase) => decisions.step("marked words", [{ code: state.active, verdict: decisions.get(state.active).verdict,
      evidence: marksOf(state.active).filter((mark) => mark.start !== phrase.start) }]),
  });
}

// All is written before the focus moves, which asks the browser to lay out what was written.
function choose(code, { jump = false, scroll = false, focus = false } = {}) {
  if (!code) return;
  const changed = code !== state.active || state.preview;
  Object.assign(state, { active: code, preview: null });
  if (changed) { why(); light(); }
  codes_.choose(code, { scroll, focus });
  const strongest = codeOf(code)?.evidence[0] ?? marksOf(code)[0];
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
  const clears = found.verdict === verdict;
  const word = clears ? "cleared" : verdict === "accept" ? "accepted" : "rejected";
  act(`${code} ${word}`, [{ code, verdict: clears ? "none" : verdict }], about(found));
}

// What is told of codes that a note does not have yet.
const about = (...codes) => ({ about: Object.fromEntries(codes.map(({ code, title, chapter, path = [] }) => [code, { title, chapter, path }])) });
const bare = ({ start, end }) => ({ start, end });

function taken(hit, purpose) {
  const chosen = state.purposeSpan ? [bare(state.purposeSpan)] : [];
  const old = codeOf(state.active);
  const change = { code: hit.code, verdict: "accept" };
  if (purpose === "change" && old && old.code !== hit.code) {
    const kept = [...marksOf(old.code), ...(chosen.length ? chosen : old.evidence.slice(0, 1).map(bare))];
    act(`${old.code} changed to ${hit.code}`, [{ ...change, evidence: kept, replaces: old.code }, { code: old.code, verdict: "reject" }], about(hit, old));
  } else {
    const marks = chosen.length ? { evidence: [...marksOf(hit.code), ...chosen] } : {};
    act(`${hit.code} added and accepted`, [{ ...change, ...marks }], about(hit));
  }
  tabs("review");
  choose(hit.code, { scroll: true, focus: true });
  clearSelection();
}

function openSearch(purpose) {
  if (readonly()) return say("This note is read-only.");
  if (purpose === "change" && !codeOf(state.active)) return;
  state.purposeSpan = state.selection;
  if (state.selection) text.choose(state.selection);
  const words = state.selection ? state.view.text.slice(state.selection.start, state.selection.end) : "";
  const listed = new Map(state.codes.map((code) => [code.code, code.probability]));
  search.open({ purpose, words, listed, replaces: state.active });
}

function markWords() {
  const code = codeOf(state.active);
  if (!code || !state.selection || readonly()) return;
  const marks = [...marksOf(code.code), state.selection].map(bare);
  const verdict = code.verdict ?? "accept";
  act(`Words marked for ${code.code}`, [{ code: code.code, verdict, evidence: marks }], about(code));
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
  const label = again ? decisions.redo() : decisions.undo();
  if (label) say(`${again ? "Done again" : "Undone"}: ${label}`);
}

function selected(span) {
  state.selection = span;
  const bar = $("#toolbar");
  bar.hidden = !span || readonly();
  if (bar.hidden) return;
  const box = text.rectangle(span.start, span.end);
  const frame = $("#note-pane").getBoundingClientRect();
  tell("#mark-words span", state.active ? `Mark for ${state.active}` : "Mark");
  $("#mark-words").disabled = !state.active;
  const above = box.top - frame.top - 50;
  const top = above > 70 ? above : box.bottom - frame.top + 8;
  bar.style.top = `${Math.max(70, Math.min(frame.height - 60, top))}px`;
  bar.style.left = `${Math.max(8, Math.min(frame.width - bar.offsetWidth - 8, box.left - frame.left))}px`;
}

function clearSelection() {
  getSelection().removeAllRanges();
  text.choose(null);
  selected(null);
}

// Words are selected by arrows in the note.
function caret({ key, shiftKey }) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key], now = state.selection;
  const word = step && state.view && text.word(now ? (step > 0 ? now.end : now.start) : firstInSight(), step);
  if (!word) return false;
  const grown = shiftKey && now ? { start: Math.min(now.start, word.start), end: Math.max(now.end, word.end) } : word;
  text.select(grown.start, grown.end);
  return true;
}

const firstInSight = () => Number($("#outline [aria-current]")?.dataset.start ?? 0);

function lap(step) {
  const spans = state.lit.flatMap(({ code, evidence }) => evidence.map((span) => ({ ...span, code }))).sort((a, b) => a.start - b.start);
  if (!spans.length) return;
  const place = spans.findIndex((span) => span.start === state.lapped?.start && span.code === state.lapped?.code);
  const next = (state.lapped = spans[(place + step + spans.length) % spans.length]);
  choose(next.code, { scroll: true });
  text.reveal(next.start);
  say(`“${state.view.text.slice(next.start, next.end)}” speaks for ${next.code}`);
}

// notes

async function loadQueue() {
  let after = 0;
  const items = [];
  do {
    const part = await ask(`queue?after=${after}`);
    items.push(...part.items);
    state.counts = part.counts;
    after = part.next;
  } while (after !== null && items.length < 5000);
  state.queue = items;
  bar();
}

const placeOf = (note) => state.queue.findIndex((item) => item.note === note);

function bar() {
  const place = placeOf(state.view?.note);
  const total = state.counts.open + state.counts.finished;
  tell("#where b", place < 0 ? (total ? "Notes" : "No notes") : `Note ${place + 1}`);
  tell("#where span", place < 0 ? "" : ` of ${figure(total)}`);
  tell("#finished", total ? `${figure(state.counts.finished)} finished` : "");
  $("#progress i").style.width = `${total ? (100 * state.counts.finished) / total : 0}%`;
  Object.assign($("#progress"), { ariaValueMax: total || 1, ariaValueNow: state.counts.finished });
  $("#previous").disabled = place <= 0;
  $("#next").disabled = place < 0 || place >= state.queue.length - 1;
}

async function open(note) {
  if (decisions.unsaved && !confirm("Some decisions are not saved yet. Leave this note?")) return;
  notice("");
  clearSelection();
  state.asked = note;
  const [view, held] = await Promise.all([ask(`notes/${note}`), ask(`notes/${note}/hold`, { take: false })]);
  if (state.asked !== note) return;
  Object.assign(state, { lapped: null, active: null, preview: null, mine: held.mine });
  tabs("review");
  show(view);
  history.replaceState(null, "", `#${note}`);
  hold(held);
  const stale = view.codes && !view.model.current;
  if (stale) notice("Another coder has read this note; decisions stay.", ["Read again", () => predict(true)]);
  if (view.codes === null || (!stale && view.model.explainer !== state.explainer)) await predict(false);
}

function hold({ mine, holder }) {
  const changed = state.mine !== mine;
  state.mine = mine;
  const take = async () => { notice(""); hold(await ask(`notes/${state.view.note}/hold`, { take: true })); };
  if (!mine) notice(`${holder} has this note open: you can read it.`, ["Take over", take]);
  if (changed) refresh();
}

async function predict(again) {
  const note = state.view.note;
  if (again) notice("");
  const view = await ask(`notes/${note}/predict`, { explainer: state.explainer, again });
  if (state.view?.note === note) show(view, { keep: true });
}

function show(view, { keep = false } = {}) {
  const units = offsets(view.text);
  const place = ({ start, end, ...rest }) => ({ ...rest, start: units.toUnit(start), end: units.toUnit(end) });
  const codes = view.codes?.map((code) => ({ ...code, evidence: code.evidence.map((phrase) => ({ ...place(phrase), cue: phrase.cue && place(phrase.cue) })) })) ?? null;
  state.view = { ...view, codes, sections: view.sections.map(place) };
  if (!keep) {
    text.show(view.text, state.view.sections);
    outline();
    decisions.load(view, units);
    if (state.threshold === null) slider(null);
  }
  const words = view.text.split(/\s+/).filter(Boolean).length;
  tell("#title", view.name);
  document.title = `${view.name} · plant desk`;
  const finished = view.state === "finished" ? ` · finished by ${view.finished_by}` : "";
  tell("#facts", `${plural(words, "word")}${view.model ? ` · read by ${view.model.name}` : ""}${finished}`);
  if (view.state === "finished") notice(`Finished by ${view.finished_by}: read-only.`, ...(reviews() ? [["Reopen", reopen]] : []));
  slider(state.threshold);
  bar();
  refresh();
  appear();
}

function outline() {
  $("#outline").replaceChildren(...state.view.sections.map(({ start, end, title }) =>
    make("button", { "data-start": start, "data-end": end, onclick: () => text.reveal(start) }, title, make("span"))));
}

function currentSection(offset) {
  const place = state.view?.sections.findLastIndex((section) => section.start <= offset) ?? -1;
  const button = $("#outline").children[place];
  if (button === state.section) return;
  state.section?.removeAttribute("aria-current");
  button?.setAttribute("aria-current", "true");
  state.section = button;
}

function step(by) {
  const next = state.queue[placeOf(state.view?.note) + by];
  if (next) open(next.note).catch(failed);
}

async function reopen() {
  await ask(`notes/${state.view.note}/reopen`, {}, { "If-Match": `"${state.view.version}"` });
  await loadQueue();
  await open(state.view.note);
}

const named = (codes) => codes.map((code) => code.code).join(", ");

function askToFinish() {
  if (readonly()) return;
  const dialog = $("#finishing");
  const final = accepted();
  const undecided = state.codes.filter((code) => code.shown && !code.verdict);
  const doubtful = final.filter((code) => cautionOf(code));
  tell("p", final.length ? `${plural(final.length, "code")}, in this order:` : "No code is accepted: the note will have none.", dialog);
  $("ol", dialog).replaceChildren(...final.map((code, place) => make("li", {}, make("span", { class: "soft" }, `${place + 1}`), make("b", {}, code.code), code.title)));
  const open = undecided.length ? `${plural(undecided.length, "suggestion")} stay undecided, which is not rejected: ${named(undecided.slice(0, 8))}${undecided.length > 8 ? " …" : ""}. ` : "";
  tell(".open", open + (doubtful.length ? `Accepted though the words are in doubt: ${named(doubtful)}.` : ""), dialog);
  dialog.showModal();
  $(".primary", dialog).focus();
}

async function finish() {
  $("#finishing").close();
  while (decisions.unsaved) await new Promise((wake) => setTimeout(wake, 100));
  const { note } = state.view;
  await ask(`notes/${note}/finish`, {}, { "If-Match": `"${decisions.version}"`, "Idempotency-Key": crypto.randomUUID() });
  say("Note finished");
  await loadQueue();
  const place = placeOf(note);
  const next = [...state.queue.slice(place + 1), ...state.queue.slice(0, place)].find((item) => item.state === "open");
  if (next) return open(next.note);
  await open(note);
  notice("All notes are finished. Export them in the settings, or put more on the desk.");
}

// what is told

const say = (words) => { tell("#voice", ""); requestAnimationFrame(() => tell("#voice", words)); };

function notice(words, ...acts) {
  const place = $("#notice");
  place.hidden = !words;
  tell("span", words, place);
  $(".acts", place).replaceChildren(...acts.map(([name, act]) => make("button", { onclick: () => Promise.resolve(act()).catch(failed) }, name)));
}

function saving(now, count) {
  const place = $("#saved");
  place.dataset.state = now;
  const words = { saved: "Saved", saving: "Saving …", waiting: `Not reached: ${plural(count, "step")} waiting` }[now];
  tell(place.lastChild, words);
  if (now === "waiting") say("The service is not reached. Your decisions wait here and are sent again.");
}

function failed(problem) {
  if (problem instanceof Refusal && problem.status === 401) return signIn().then(start, failed);
  notice(problem instanceof Refusal ? `${problem.message}.` : "The service is not reached. What was saved is safe; try again in a moment.", ["Try again", () => location.reload()]);
}

function signIn() {
  const dialog = $("#sign-in");
  return new Promise((signed) => {
    const form = $("form", dialog);
    form.onsubmit = async (event) => {
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
    if (!dialog.open) dialog.showModal();
  });
}

function conflict(mine, theirs, by) {
  const dialog = $("#conflict");
  const word = { accept: "accepted", reject: "rejected", none: "left open" };
  tell("p", `${by} has ${word[theirs.verdict]} ${mine.code}; you have ${word[mine.verdict]} it. Whose decision stays?`, dialog);
  dialog.showModal();
  return new Promise((chosen) => {
    const end = (own) => { dialog.close(); chosen(own); };
    $(".mine", dialog).onclick = () => end(true);
    $(".theirs", dialog).onclick = () => end(false);
  });
}

// controls

function tabs(chosen) {
  state.tab = chosen;
  for (const tab of [$("#tab-review"), $("#tab-final")]) {
    const own = tab.id === `tab-${chosen}`;
    tab.ariaSelected = own;
    tab.tabIndex = own ? 0 : -1;
  }
  $("#list").setAttribute("aria-labelledby", `tab-${chosen}`);
}

const setTab = (name) => { tabs(name); refresh(); };
function setMode(mode) {
  state.mode = mode;
  $(`#mode [value=${mode}]`).checked = true;
  light();
}

function slider(threshold) {
  state.threshold = threshold;
  const own = state.view?.codes?.[0]?.threshold ?? 0.5;
  const shown = ($("#threshold").value = Math.round(100 * (threshold ?? own)));
  tell("#from output", `${shown} %`);
}

function showQueue() {
  const dialog = $("#queue");
  const typed = $("#find-note").value.trim().toLowerCase();
  const found = state.queue.filter((item) => item.name.toLowerCase().includes(typed));
  const shown = found.slice(0, state.listed);
  tell(".counts", `${plural(state.counts.open, "open note")}, ${state.counts.finished} finished`, dialog);
  $("ul", dialog).replaceChildren(...shown.map((item) => make("li", {}, make("button", {
    "aria-current": item.note === state.view?.note ? "true" : null, onclick: () => { dialog.close(); open(item.note).catch(failed); } },
    make("span", {}, item.name), make("span", { class: item.state === "finished" ? "soft done" : "soft" },
      item.state === "finished" ? "finished" : item.holder ? `with ${item.holder}` : item.decided ? `${item.decided} decided` : plural(item.words, "word"))))));
  $(".none", dialog).hidden = found.length > 0;
  tell(".none", state.queue.length ? "No note has this in its name." : EMPTY, dialog);
  $(".more", dialog).hidden = shown.length === found.length;
  if (!dialog.open) dialog.showModal();
}

async function openSettings() {
  $("#settings").showModal();
  const { models, catalogue } = await ask("models");
  const [model] = models;
  const select = $("#explainer");
  select.replaceChildren(select.options[0], ...model.explainers.map((name) => new Option(name)));
  select.value = state.explainer;
  $("#export").hidden = !reviews();
  tell("#settings .about", `Coder ${model.name}: ${plural(model.codes, "code")}, digest ${model.digest.slice(0, 16)}. ${figure(catalogue)} codes can be searched. plant ${state.me?.version}.`);
}

function toPrint() {
  $("#sheet-for-print").replaceChildren(make("h2", {}, state.view?.name ?? ""), make("table", {}, make("tbody", {}, ...accepted().map((code, place) =>
    make("tr", {}, make("td", {}, `${place + 1}`), make("td", {}, code.code), make("td", {}, code.title))))));
  text.everything(true);
}

const next = (by) => choose(codes_.after(state.active, by), { scroll: true, focus: true });
const DO = { // what buttons name in data-do
  accept: () => decide(state.active, "accept"), reject: () => decide(state.active, "reject"), change: () => openSearch("change"),
  undo: () => undo(false), redo: () => undo(true), previous: () => step(-1), next: () => step(1), mark: markWords,
  queue: () => { state.listed = 100; showQueue(); }, search: () => openSearch("add"), keys: () => $("#keys").showModal(),
  settings: () => openSettings().catch(failed), ask: askToFinish, finish: () => finish().catch(failed), theme,
  own: () => { slider(null); refresh(); }, more: () => { state.listed += 200; showQueue(); }, review: () => setTab("review"), final: () => setTab("final"),
};
const LETTERS = {
  j: () => next(1), k: () => next(-1), a: DO.accept, r: DO.reject, c: DO.change, s: DO.search, w: DO.mark, n: DO.next, p: DO.previous,
  q: DO.queue, "?": DO.keys, "]": () => lap(1), "[": () => lap(-1), e: () => setMode({ all: "this", this: "plain", plain: "all" }[state.mode]),
};

// What a key means where the focus is, if anything.
function meaning(event) {
  const within = (selector) => event.target.closest(selector);
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const way = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (event.ctrlKey || event.metaKey) return { z: event.shiftKey ? DO.redo : DO.undo, y: DO.redo, Enter: DO.ask }[key];
  if (key === "F6") return () => (within("#note-pane") ? $("#grid [tabindex='0']") : $("#note"))?.focus();
  if (within("[role=tab]") && key.startsWith("Arrow")) return () => { setTab(state.tab === "final" ? "review" : "final"); $(`#tab-${state.tab}`).focus(); };
  if (within("input, select, textarea")) return null;
  if (event.altKey) return way && (() => move(state.active, way));
  if (way && within("#grid")) return () => next(way);
  if (key === "Enter" && within("#grid") && !within("button")) return () => choose(state.active, { jump: true });
  if (key === "Escape") return clearSelection;
  if (within("#note") && caret(event)) return () => {};
  return state.letters && (within("#grid, #note") || event.target === document.body) ? LETTERS[key] : null;
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  say(`${dark ? "Light" : "Dark"} theme`);
}

function connect() {
  document.onkeydown = (event) => {
    const done = $("dialog[open]") ? null : meaning(event);
    if (done) { event.preventDefault(); done(); }
  };
  document.onclick = ({ target }) => {
    if (target.matches("dialog:not(.firm)") || target.closest(".close")) target.closest("dialog").close(); // beside it, or its button
    DO[target.closest("[data-do]")?.dataset.do]?.();
  };
  document.addEventListener("cancel", (event) => event.target.matches(".firm") && event.preventDefault(), true); // these want an answer
  $("#mode").onchange = (event) => setMode(event.target.value);
  $("#threshold").oninput = (event) => { slider(Number(event.target.value) / 100); refresh(); };
  $("#find-note").oninput = showQueue;
  $("#toolbar").onmousedown = (event) => event.preventDefault();
  $("#letters").onchange = (event) => { state.letters = event.target.checked; };
  $("#type").onchange = (event) => { document.documentElement.dataset.type = event.target.value; };
  $("#explainer").onchange = (event) => { state.explainer = event.target.value; if (state.view) predict(false).catch((problem) => { state.explainer = ""; failed(problem); }); };
  addEventListener("beforeunload", (event) => decisions.unsaved && event.preventDefault());
  addEventListener("beforeprint", toPrint);
  addEventListener("afterprint", () => text.everything(false));
  setInterval(watch, WATCH);
}

async function watch() {
  if (!state.view || decisions.unsaved || document.hidden) return;
  const note = state.view.note;
  try {
    const answer = await ask(`notes/${note}`, undefined, {}, "HEAD");
    if (!decisions.unsaved) saving("saved", 0);
    if (state.mine && state.view.state === "open") await ask(`notes/${note}/hold`, { take: false });
    const version = Number(answer.headers.get("ETag")?.replaceAll('"', ""));
    if (version <= decisions.version) return;
    const view = await ask(`notes/${note}`);
    if (decisions.unsaved || note !== state.view.note) return; // decided meanwhile: what is sent finds out itself
    decisions.load(view, offsets(view.text));
    refresh();
    notice("Someone else has changed this note: what they decided is shown.");
  } catch (problem) {
    if (!(problem instanceof Refusal)) saving("waiting", 0);
  }
}

const appear = () => document.body.classList.remove("waiting");

async function start() {
  setTimeout(appear, PATIENCE);
  document.fonts.load("17px Desk Serif"); // before the note asks for it, which would be laid out twice
  [state.me] = await Promise.all([ask("me"), loadQueue()]);
  const { name, role } = state.me;
  Object.assign($("#who"), { textContent: name.slice(0, 2).toUpperCase(), ariaLabel: `You are ${name}`, title: `${name}, ${role}` });
  saving("saved", 0);
  const asked = state.queue.find((item) => item.note === location.hash.slice(1));
  const first = asked ?? state.queue.find((item) => item.state === "open") ?? state.queue[0];
  if (first) await open(first.note);
  else {
    refresh();
    tell("#facts", EMPTY);
    appear();
  }
}

connect();
start().catch(failed);
