// The codes: a grid with one tab stop, the reasons of the chosen one, and how far the note is.

import { $, icon, make, meter, percent, plural } from "./dom.js";

const CAUTIONS = { negated: "negated", family: "family", uncertain: "uncertain", history: "history" };
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
    this.grid.addEventListener("click", (event) => this.#clicked(event));
    this.grid.addEventListener("mousemove", (event) => {
      const code = rowOf(event)?.dataset.code ?? null; // rows that move under a resting pointer are not looked at
      if ((event.movementX || event.movementY) && code !== this.pointed) on.previewed((this.pointed = code));
    });
    this.grid.addEventListener("mouseleave", () => on.previewed((this.pointed = null)));
    this.grid.addEventListener("focusin", (event) => rowOf(event) && on.chosen(rowOf(event).dataset.code, false));
    this.#draggable();
  }

  // groups: [name, codes]; each code has its verdict.
  show(groups, active, { threshold, tab, readonly, waiting, empty }) {
    const focused = this.grid.contains(document.activeElement);
    this.tab = tab;
    this.rows = new Map();
    const shown = groups.filter(([, codes]) => codes.length);
    const parts = shown.map(([name, codes]) => this.#group(name, codes, threshold, readonly));
    if (waiting) parts.push(grey());
    else if (!shown.length) parts.push(make("div", { role: "row" }, make("div", { role: "gridcell", class: "none soft" }, empty)));
    this.grid.replaceChildren(...parts);
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
    for (const [own, row] of this.rows) row.classList.toggle("near", codes.includes(own));
  }

  after(code, step) {
    const all = [...this.rows.keys()];
    const place = all.indexOf(code);
    if (place < 0) return all[0];
    return all[Math.min(all.length - 1, Math.max(0, place + step))];
  }

  #group(name, codes, threshold, readonly) {
    const head = make("div", { class: "group", role: "row" }, make("span", { role: "rowheader" }, `${name} · ${codes.length}`));
    const rows = codes.map((code, place) => this.#row(code, threshold, readonly, place, codes.length));
    return make("div", { role: "rowgroup", "aria-label": name }, head, ...rows);
  }

  #row(code, threshold, readonly, place, count) {
    const caution = cautionOf(code);
    const tags = [];
    if (caution) tags.push(make("span", { class: "tag" }, CAUTIONS[caution] ?? caution));
    if (code.replaces) tags.push(make("span", { class: "tag plain" }, `in place of ${code.replaces}`));
    const seen = code.probability === null ? "" : percent(code.probability);
    const row = make(
      "div",
      {
        class: "row", role: "row", tabindex: -1, "data-code": code.code, "data-verdict": code.verdict ?? "none",
        "aria-selected": "false", "aria-label": spoken(code, caution), draggable: this.tab === "final" && !readonly ? "true" : null,
      },
      make("div", { role: "gridcell", class: "code" }, make("span", { class: "name" }, code.code), make("span", { class: "chapter" }, code.chapter)),
      make("div", { role: "gridcell" }, make("span", { class: "title", title: code.title }, code.title), ...tags),
      make("div", { role: "gridcell", class: "percent" }, seen || "added", code.probability === null ? null : meter(code.probability, threshold ?? code.threshold)),
      make("div", { role: "gridcell", class: "acts" }, ...(readonly ? [] : this.tab === "final" ? this.#moves(code, place, count) : this.#verdicts(code))),
    );
    this.rows.set(code.code, row);
    return row;
  }

  #verdicts(code) {
    const button = (act, name, word, verdict) =>
      make("button", { class: name, tabindex: -1, "data-act": act, "aria-label": `${word} ${code.code}`, "aria-pressed": `${code.verdict === verdict}`, title: word }, icon(act === "accept" ? "check" : "cross"));
    return [button("accept", "yes", "Accept", "accept"), button("reject", "no", "Reject", "reject")];
  }

  #moves(code, place, count) {
    const button = (act, word, off) =>
      make("button", { tabindex: -1, "data-act": act, "aria-label": `Move ${code.code} ${word}`, title: `Move ${word}`, disabled: off }, icon(act));
    return [button("up", "up", place === 0), button("down", "down", place === count - 1)];
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
  const told = phrase.caution ? make("span", { class: "tag" }, CAUTIONS[phrase.caution] ?? phrase.caution) : make("span", { class: "at" }, phrase.mine ? "marked by you" : phrase.matched ? `“${phrase.matched}”` : section);
  const title = [phrase.matched && `a name of this code: ${phrase.matched}`, phrase.why, section].filter(Boolean).join(" · ");
  const button = make("button", { title: title || null, onclick: () => jump(phrase) }, phrase.mine ? icon("check") : meter(phrase.weight), shown, told);
  const item = make("li", {}, button);
  if (phrase.mine && unmark) button.addEventListener("keydown", (event) => event.key === "Delete" && unmark(phrase));
  return item;
}

export function showTally(codes) {
  const count = (verdict) => codes.filter((code) => (code.verdict ?? "none") === verdict).length;
  const strip = $("#strip");
  const ordered = [...codes].filter((code) => code.verdict || code.shown);
  strip.replaceChildren(...ordered.slice(0, 40).map((code) => make("i", { class: code.verdict ?? "" })));
  const open = codes.filter((code) => !code.verdict && code.shown).length;
  $("#tally").textContent = `${count("accept")} accepted · ${count("reject")} rejected · ${open} open`;
}

function spoken(code, caution) {
  const verdict = { accept: "accepted", reject: "rejected" }[code.verdict] ?? "undecided";
  const chance = code.probability === null ? "added by you" : percent(code.probability);
  return [`${code.code} ${code.title}`, chance, verdict, caution && `caution: ${caution}`].filter(Boolean).join(", ");
}

function grey() {
  const row = () => make("div", { class: "row grey", role: "row" }, ...[60, 180, 40].map((width) => {
    const bar = make("i");
    bar.style.width = `${width}px`;
    return make("div", { role: "gridcell" }, bar, make("span", { class: "quiet" }, "being read"));
  }));
  return make("div", { role: "rowgroup", "aria-label": "Being read" }, ...Array.from({ length: 6 }, row));
}

const rowOf = (event) => event.target.closest?.(".row[data-code]");
const flat = (text) => text.replace(/\s+/g, " ");
export { plural };
