// The codes: a grid with one tab stop, the reasons of the chosen one, and how far the note is.

import { $, fill, icon, make, measure, meter, percent, tell } from "./dom.js";

const CONTEXT = 60; // characters around a phrase

// The gravest that is said near all phrases of a code: one plain phrase is enough to believe it.
export function cautionOf(code) {
  const told = code.evidence.map((phrase) => phrase.caution ?? "");
  return told.length && told.every((caution) => caution) ? told[0] : "";
}

export class Codes {
  constructor(on) {
    this.on = on;
    this.grid = $("#grid");
    this.tab = "review";
    this.rows = new Map();
    this.groups = new Map();
    this.grid.addEventListener("click", (event) => this.#clicked(event));
    this.grid.addEventListener("mousemove", (event) => {
      const code = rowOf(event)?.dataset.code ?? null; // rows that move under a resting pointer are not looked at
      if ((event.movementX || event.movementY) && code !== this.pointed) on.previewed((this.pointed = code));
    });
    this.grid.addEventListener("mouseleave", () => on.previewed((this.pointed = null)));
    this.grid.addEventListener("focusin", (event) => {
      const row = rowOf(event);
      if (row && row !== this.stop) on.chosen(row.dataset.code, false);
    });
    this.#draggable();
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
    fill(this.grid, parts);
    this.choose(active, { focus: focused });
  }

  choose(code, { focus = false, scroll = false } = {}) {
    const row = this.rows.get(code);
    const stop = row ?? this.rows.values().next().value; // the one that Tab reaches
    if (this.stop && this.stop !== stop) {
      this.stop.setAttribute("aria-selected", "false");
      this.stop.tabIndex = -1;
    }
    if (stop) stop.tabIndex = 0;
    row?.setAttribute("aria-selected", "true");
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

  // What stays of a code as long as the note is open.
  #row(kept, code, readonly) {
    const caution = cautionOf(code);
    const key = [this.tab, readonly, code.title, code.chapter, code.probability, code.replaces, caution].join("|");
    if (kept?.key === key) return kept;
    const row = $("#row").content.firstElementChild.cloneNode(true);
    const added = code.probability === null;
    Object.assign(row, { key, caution, draggable: this.tab === "final" && !readonly });
    row.dataset.code = $(".name", row).textContent = code.code;
    $(".chapter", row).textContent = code.chapter;
    $(".title", row).textContent = $(".title", row).title = code.title;
    if (caution) $(".title", row).after(make("span", { class: "tag" }, caution));
    if (code.replaces) $(".title", row).after(make("span", { class: "tag plain" }, `in place of ${code.replaces}`));
    $(".percent", row).prepend(added ? "added" : percent(code.probability));
    if (added) $(".meter", row).remove();
    else measure($(".meter", row), code.probability);
    if (!readonly) row.lastElementChild.append($(`#acts-${this.tab}`).content.cloneNode(true));
    for (const button of row.lastElementChild.children) button.setAttribute("aria-label", `${button.title} ${code.code}`);
    return row;
  }

  // What decisions change.
  #state(row, code, threshold, place, count) {
    const verdict = code.verdict ?? "none";
    if (row.notch !== threshold && code.probability !== null) $("u", row).style.left = `${100 * (row.notch = threshold)}%`;
    for (const button of row.querySelectorAll(".move")) button.disabled = place === (button.dataset.act === "up" ? 0 : count - 1);
    if (row.dataset.verdict === verdict) return;
    row.dataset.verdict = verdict;
    row.setAttribute("aria-label", spoken(code, row.caution));
    for (const button of row.querySelectorAll("[aria-pressed]")) button.setAttribute("aria-pressed", button.dataset.act === verdict);
  }

  #clicked(event) {
    const row = rowOf(event);
    if (!row) return;
    const act = event.target.closest("[data-act]")?.dataset.act;
    this.on.chosen(row.dataset.code, !act);
    if (act) this.on.acted(act, row.dataset.code);
    this.rows.get(row.dataset.code)?.focus({ preventScroll: true });
  }

  #draggable() {
    let held = null;
    this.grid.addEventListener("dragstart", (event) => {
      held = rowOf(event)?.dataset.code ?? null;
      event.dataTransfer.setData("text/plain", held ?? "");
    });
    this.grid.addEventListener("dragover", (event) => held && rowOf(event) && event.preventDefault());
    this.grid.addEventListener("drop", (event) => {
      const target = rowOf(event)?.dataset.code;
      event.preventDefault();
      if (held && target && target !== held) this.on.dropped(held, target);
      held = null;
    });
  }
}

export function showWhy(code, { text, sections, marks, readonly, jump, unmark }) {
  const panel = $("#why");
  $("h3 b", panel).textContent = code?.code ?? "";
  $("h3 span", panel).textContent = code?.title ?? "";
  $("p", panel).textContent = code?.path.join(" › ") ?? "";
  const list = $("ul", panel);
  const rows = code ? [...marks.map((mark) => ({ ...mark, mine: true })), ...code.evidence] : [];
  list.replaceChildren(...rows.map((phrase) => phraseRow(phrase, text, sections, jump, readonly ? null : unmark)));
  if (code && !rows.length) list.append(make("li", { class: "soft" }, code.probability === null ? "Added by you, without marked words. Select words and press W to mark them." : "The coder points at no words."));
  for (const [id, verdict] of [["#accept", "accept"], ["#reject", "reject"], ["#change", ""]]) {
    $(id).disabled = !code || readonly;
    if (verdict) $(id).setAttribute("aria-pressed", `${code?.verdict === verdict}`);
  }
}

function phraseRow(phrase, text, sections, jump, unmark) {
  const before = text.slice(Math.max(0, phrase.start - 12), phrase.start).split("\n").at(-1);
  const lead = phrase.caution && phrase.cue && phrase.cue.end <= phrase.start && phrase.start - phrase.cue.start < CONTEXT;
  const left = lead ? text.slice(phrase.cue.start, phrase.start) : before.includes(" ") ? before.slice(before.indexOf(" ") + 1) : "";
  const words = text.slice(phrase.start, phrase.end);
  const right = text.slice(phrase.end, phrase.end + CONTEXT);
  const shown = make("span", { class: "words" }, flat(lead ? left : ""), make("mark", {}, flat(words)), flat(right));
  const section = sections.findLast((one) => one.start <= phrase.start)?.title ?? "";
  const told = phrase.caution ? make("span", { class: "tag" }, phrase.caution) : make("span", { class: "at" }, phrase.mine ? "marked by you" : phrase.matched ? `“${phrase.matched}”` : section);
  const title = [phrase.matched && `a name of this code: ${phrase.matched}`, phrase.why, section].filter(Boolean).join(" · ");
  const button = make("button", { title: title || null, onclick: () => jump(phrase) }, phrase.mine ? icon("check") : meter(phrase.weight), shown, told);
  const item = make("li", {}, button);
  if (phrase.mine && unmark) button.addEventListener("keydown", (event) => event.key === "Delete" && unmark(phrase));
  return item;
}

export function showTally(codes) {
  const count = (verdict) => codes.filter((code) => code.verdict === verdict).length;
  const strip = $("#strip");
  const shown = codes.filter((code) => code.verdict || code.shown);
  while (strip.children.length > Math.min(40, shown.length)) strip.lastChild.remove();
  shown.slice(0, 40).forEach((code, place) => {
    const piece = strip.children[place] ?? strip.appendChild(make("i"));
    if (piece.className !== (code.verdict ?? "")) piece.className = code.verdict ?? "";
  });
  const open = shown.filter((code) => !code.verdict).length;
  tell($("#tally"), `${count("accept")} accepted · ${count("reject")} rejected · ${open} open`);
}

function spoken(code, caution) {
  const verdict = { accept: "accepted", reject: "rejected" }[code.verdict] ?? "undecided";
  const chance = code.probability === null ? "added by you" : percent(code.probability);
  return [`${code.code} ${code.title}`, chance, verdict, caution && `caution: ${caution}`].filter(Boolean).join(", ");
}

const rowOf = (event) => event.target.closest?.(".row[data-code]");
const flat = (text) => text.replace(/\s+/g, " ");
