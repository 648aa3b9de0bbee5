// The search for a code: as one types, with the words that were selected; Enter never reaches the page behind.

import { ask } from "./api.js";
import { $, figure, idle, make, percent, tell } from "./dom.js";

const PAUSE = 60; // milliseconds after a key before the service is asked
const MOST = 15; // hits, a few more than are in sight, of which
const SEEN = 12; // are made at once, the others when nobody types

export class Search {
  constructor(on) {
    this.on = on;
    this.dialog = $("#search");
    this.input = $("#query");
    this.list = $("#hits");
    this.idly = idle();
    this.input.oninput = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#ask(), PAUSE);
    };
    this.input.onkeydown = (event) => this.#pressed(event);
    this.list.onclick = (event) => {
      const hit = event.target.closest(".hit");
      if (hit) this.#take(Number(hit.dataset.place));
    };
    this.dialog.onclose = () => on.closed();
  }

  // purpose: add or change; words: what is selected; listed: probabilities of codes in the list.
  open({ purpose, words, listed, replaces }) {
    Object.assign(this, { purpose, words, listed, place: 0, hits: [], answered: null });
    $(".with", this.dialog).hidden = !words;
    tell(".with mark", words.replace(/\s+/g, " "), this.dialog);
    tell(".what", purpose === "change" ? `take in place of ${replaces}` : "add as accepted", this.dialog);
    this.input.value = "";
    this.#show({ hits: [], total: 0 });
    this.dialog.showModal();
    this.input.focus();
    this.#ask();
  }

  async #ask() {
    const asked = this.input.value;
    try {
      const found = await ask("codes/search", { q: asked.slice(0, 200), words: this.words.slice(0, 300), limit: MOST });
      if (asked !== this.input.value) return;
      this.answered = asked;
      this.#show(found);
    } catch (problem) {
      tell(".none", `Not searched: ${problem.message}. Your decisions are safe; try again.`, this.dialog);
    }
  }

  #show({ hits, total }) {
    this.hits = hits;
    this.place = 0;
    this.list.replaceChildren();
    this.#make(SEEN);
    this.idly([() => this.#make(MOST)]);
    const typed = this.input.value.trim();
    const nothing = typed ? "No code has these words. Try fewer letters, or the beginning of the code." : "Type a code such as N17, or a few letters of its name.";
    tell(".none", total ? "" : nothing, this.dialog);
    tell(".total", total ? `${hits.length} of ${figure(total)} found` : "", this.dialog);
    this.input.ariaExpanded = hits.length > 0;
    this.#choose(0);
  }

  #make(count) {
    const made = this.list.childElementCount;
    this.list.append(...this.hits.slice(made, count).map((hit, place) => this.#row(hit, made + place)));
  }

  #row(hit, place) {
    const words = (this.input.value || this.words).toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    const inList = this.listed.get(hit.code);
    const told = [];
    if (hit.matched) told.push(make("small", {}, "also called ", ...lit(hit.matched, words)));
    if (!hit.leaf) told.push(make("small", {}, "a category: there are finer codes"));
    if (inList !== undefined) told.push(make("small", {}, inList === null ? "in the list, added by you" : `in the list, ${percent(inList)}`));
    return make("div", { class: "hit", role: "option", id: `hit-${place}`, "data-place": place, "aria-selected": "false" },
      make("b", {}, hit.code), make("span", {}, ...(hit.matched ? [hit.title] : lit(hit.title, words)), ...told), make("span", { class: "chapter" }, hit.chapter));
  }

  #choose(place) {
    const rows = this.list.children;
    if (rows[this.place]) rows[this.place].ariaSelected = "false";
    if (rows[place]) rows[place].ariaSelected = "true";
    if (place !== this.place) rows[place]?.scrollIntoView({ block: "nearest" });
    this.place = place;
    this.input.setAttribute("aria-activedescendant", this.hits.length ? `hit-${place}` : "");
  }

  #pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.hits.length) {
      event.preventDefault();
      this.#make(MOST);
      this.#choose((this.place + step + this.hits.length) % this.hits.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.#enter();
    }
    event.stopPropagation();
  }

  // Takes what was typed, never an older hit.
  async #enter() {
    clearTimeout(this.timer);
    if (this.input.value !== this.answered) await this.#ask();
    if (this.input.value === this.answered) this.#take(this.place);
  }

  #take(place) {
    const hit = this.hits[place];
    if (!hit) return;
    this.dialog.close();
    this.on.taken(hit, this.purpose);
  }
}

// A name with the beginnings of its words marked that were typed.
function lit(name, words) {
  const parts = [];
  for (const part of name.split(/([^\p{L}\p{N}]+)/u)) {
    const plain = part.toLowerCase();
    const hit = words.find((word) => plain.startsWith(word));
    if (hit) parts.push(make("em", {}, part.slice(0, hit.length)), part.slice(hit.length));
    else parts.push(part);
  }
  return parts;
}
