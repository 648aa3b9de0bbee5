// The codes: a grid with one tab stop, the reasons of the chosen one, and how far the note is.

import { $, fill, idle, items, make, measure, percent, tell } from "./dom.js";

const CONTEXT = 60; // characters around a phrase
const FIRST = 12; // rows that are made at once, more than are in sight; others when nobody waits

// The gravest that is said near all phrases of a code: one plain phrase is enough to believe it.
export function cautionOf(code) {
  const told = code.evidence.map((phrase) => phrase.caution ?? "");
  return told.length && told.every((caution) => caution) ? told[0] : "";
}

export class Codes {
  constructor(on) {
    this.on = on;
    this.grid = $("#grid");
    this.rows = new Map();
    this.groups = new Map();
    this.idly = idle();
    this.grid.onclick = (event) => this.#clicked(event);
    this.grid.onmousemove = (event) => {
      const code = rowOf(event)?.dataset.code ?? null; // rows that move under a resting pointer are not looked at
      if ((event.movementX || event.movementY) && code !== this.pointed) on.previewed((this.pointed = code));
    };
    this.grid.onmouseleave = () => on.previewed((this.pointed = null));
    this.grid.addEventListener("focusin", (event) => {
      const row = rowOf(event);
      if (row && row !== this.stop) on.chosen(row.dataset.code, false);
    });
    let held = null;
    this.grid.ondragstart = (event) => {
      held = rowOf(event)?.dataset.code;
      if (held) event.dataTransfer.setData("text/plain", held);
    };
    this.grid.ondragend = () => { held = null; };
    this.grid.ondragover = (event) => held && event.preventDefault();
    this.grid.ondrop = (event) => {
      const target = rowOf(event)?.dataset.code;
      event.preventDefault();
      if (target && target !== held) on.dropped(held, target);
    };
  }

  // groups: [name, codes]; each code has its verdict. Rows that say the same as before stay as they are.
  show(groups, active, { threshold, tab, readonly, waiting, empty }) {
    const focused = this.grid.contains(document.activeElement);
    const old = this.rows;
    this.tab = tab;
    this.rows = new Map();
    const shown = groups.filter(([, codes]) => codes.length);
    const parts = shown.map(([name, codes]) => {
      const rows = codes.map((code, place) => {
        const row = this.#row(old.get(code.code), code, readonly);
        this.#state(row, code, threshold ?? code.threshold, place, codes.length);
        this.rows.set(code.code, row);
        return row;
      });
      return this.#group(name, rows);
    });
    if (waiting) parts.push($("#greys").content.cloneNode(true));
    else if (!shown.length) parts.push(make("div", { role: "row" }, make("div", { role: "gridcell", class: "none soft" }, empty)));
    const all = [...this.rows.values()];
    all.slice(0, FIRST).forEach(complete);
    this.idly([1, 2, 3, 4].map((part) => () => all.slice(part * FIRST, part < 4 ? (part + 1) * FIRST : undefined).forEach(complete)));
    fill(this.grid, parts);
    this.choose(active, { focus: focused });
  }

  choose(code, { focus = false, scroll = false } = {}) {
    const row = this.rows.get(code);
    const stop = row ?? this.rows.values().next().value; // the one that Tab reaches
    if (row) complete(row);
    if (this.stop && this.stop !== stop) {
      this.stop.ariaSelected = "false";
      this.stop.tabIndex = -1;
    }
    if (stop) stop.tabIndex = 0;
    if (row) row.ariaSelected = "true";
    this.stop = stop;
    if (row && focus) row.focus({ preventScroll: true });
    if (row && scroll) row.scrollIntoView({ block: "nearest" });
  }

  near(codes) {
    for (const row of this.lit ?? []) row.classList.remove("near");
    this.lit = codes.map((code) => this.rows.get(code)).filter(Boolean);
    for (const row of this.lit) row.classList.add("near");
  }

  after(code, step) {
    const all = [...this.rows.keys()];
    const place = all.indexOf(code);
    if (place < 0) return all[0];
    return all[Math.min(all.length - 1, Math.max(0, place + step))];
  }

  #group(name, rows) {
    if (!this.groups.has(name)) {
      const head = make("div", { class: "group", role: "row" }, make("span", { role: "rowheader" }));
      this.groups.set(name, make("div", { role: "rowgroup", "aria-label": name }, head));
    }
    const group = this.groups.get(name);
    group.firstChild.firstChild.textContent = `${name} · ${rows.length}`;
    fill(group, [group.firstChild, ...rows]);
    return group;
  }

  // What stays of a code as long as the note is open; `complete` adds what is seen of it.
  #row(kept, code, readonly) {
    const caution = cautionOf(code);
    const key = [this.tab, readonly, code.title, code.chapter, code.probability, code.replaces, caution].join("|");
    if (kept?.key === key) return kept;
    const row = make("div", { class: "row", role: "row", tabindex: -1, "aria-selected": false, "data-code": code.code });
    return Object.assign(row, { key, code, caution, acts: readonly ? "" : this.tab, draggable: this.tab === "final" && !readonly });
  }

  // What decisions change.
  #state(row, code, threshold, place, count) {
    const verdict = code.verdict ?? "none";
    Object.assign(row, { threshold, first: place === 0, last: place === count - 1 });
    if (row.dataset.verdict !== verdict) {
      row.dataset.verdict = verdict;
      row.ariaLabel = spoken(code, row.caution);
    }
    if (row.childElementCount) settle(row);
  }

  #clicked(event) {
    const row = rowOf(event);
    if (!row) return;
    const act = event.target.closest("[data-act]")?.dataset.act;
    this.on.chosen(row.dataset.code, !act);
    if (act) this.on.acted(act, row.dataset.code);
    this.rows.get(row.dataset.code)?.focus({ preventScroll: true });
  }
}

// The cells of a row, made when it is near.
function complete(row) {
  if (row.childElementCount) return;
  const { code, caution } = row;
  row.append($("#cells").content.cloneNode(true));
  const [name, title, percents, acts] = row.children;
  name.firstChild.textContent = code.code;
  name.lastChild.textContent = code.chapter;
  title.firstChild.textContent = title.firstChild.title = code.title;
  if (caution) title.append(make("span", { class: "tag" }, caution));
  if (code.replaces) title.append(make("span", { class: "tag plain" }, `in place of ${code.replaces}`));
  percents.prepend(code.probability === null ? "added" : percent(code.probability));
  if (code.probability === null) percents.lastChild.remove();
  else measure(percents.lastChild, code.probability);
  if (row.acts) acts.append($(`#acts-${row.acts}`).content.cloneNode(true));
  for (const button of acts.children) button.ariaLabel = `${button.title} ${code.code}`;
  settle(row);
}

function settle(row) {
  const notch = $("u", row);
  if (notch && row.notch !== row.threshold) notch.style.left = `${100 * (row.notch = row.threshold)}%`;
  for (const button of row.lastElementChild.children) {
    const act = button.dataset.act;
    if (button.className === "move") button.disabled = act === "up" ? row.first : row.last;
    else button.ariaPressed = act === row.dataset.verdict;
  }
}

// The phrases of a code; items of the last one are written anew, not made anew.
export function showWhy(code, { text, sections, marks, readonly, jump, unmark }) {
  const panel = $("#why");
  const rows = code ? [...marks.map((mark) => ({ ...mark, mine: true })), ...code.evidence] : [];
  const nothing = code && !rows.length && (code.probability === null ? "Added by you, without marked words. Select words and press W to mark them." : "The coder points at no words.");
  tell("h3 b", code?.code ?? "", panel);
  tell("h3 span", code?.title ?? "", panel);
  tell("p", code?.path.join(" › ") ?? "", panel);
  tell(".nothing", nothing || "", panel);
  items($("ul", panel), rows.length, () => $("#phrase").content.firstElementChild.cloneNode(true)).forEach((item, place) => {
    const phrase = rows[place];
    writePhrase(item.firstChild, phrase, text, sections);
    item.onclick = () => jump(phrase);
    item.onkeydown = (event) => { if (event.key === "Delete" && phrase.mine && !readonly) unmark(phrase); };
  });
  for (const id of ["#accept", "#reject", "#change"]) {
    $(id).disabled = !code || readonly;
    if (id !== "#change") $(id).ariaPressed = id === `#${code?.verdict}`;
  }
}

function writePhrase(button, phrase, text, sections) {
  const { start, end, cue, caution, matched, mine } = phrase;
  const lead = caution && cue && cue.end <= start && start - cue.start < CONTEXT;
  const [meter, words, told] = button.children;
  const section = sections.findLast((one) => one.start <= start)?.title ?? "";
  [lead ? text.slice(cue.start, start) : "", text.slice(start, end), text.slice(end, end + CONTEXT)].forEach((part, place) => tell(words.children[place], flat(part)));
  tell(told, caution || (mine ? "marked by you" : matched ? `“${matched}”` : section));
  told.className = caution ? "tag" : "at";
  button.title = [matched && `a name of this code: ${matched}`, phrase.why, section].filter(Boolean).join(" · ");
  meter.className = mine ? "meter mine" : "meter";
  measure(meter, mine ? 1 : phrase.weight);
}

export function showTally(codes) {
  const count = (verdict) => codes.filter((code) => code.verdict === verdict).length;
  const shown = codes.filter((code) => code.verdict || code.shown);
  const pieces = items($("#strip"), Math.min(40, shown.length), () => make("i"));
  pieces.forEach((piece, place) => { piece.className = shown[place].verdict ?? ""; });
  const open = shown.filter((code) => !code.verdict).length;
  tell("#tally", `${count("accept")} accepted · ${count("reject")} rejected · ${open} open`);
}

function spoken(code, caution) {
  const verdict = { accept: "accepted", reject: "rejected" }[code.verdict] ?? "undecided";
  const chance = code.probability === null ? "added by you" : percent(code.probability);
  return [`${code.code} ${code.title}`, chance, verdict, caution && `caution: ${caution}`].filter(Boolean).join(", ");
}

const rowOf = (event) => event.target.closest?.(".row[data-code]");
const flat = (text) => text.replace(/\s+/g, " ");
