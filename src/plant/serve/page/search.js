// The search for a code: as one types, with the words that were selected; Enter never reaches the page behind.

import { ask } from "./api.js";
import { $, figure, make, percent, tell, written } from "./dom.js";

const PAUSE = 60; // milliseconds after a key before the service is asked
const MOST = 12; // hits, a few more than are in sight

export function codeSearch({ taken, closed }) {
  const dialog = $("#search");
  const input = $("#query");
  const list = $("#hits");
  let asked; // purpose: add or change; words: what is selected; listed: probabilities of codes in the list
  let hits, place, answered, timer;

  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(find, PAUSE);
  };
  input.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && hits.length) choose((place + step + hits.length) % hits.length);
    else if (event.key === "Enter") enter();
    if (step || event.key === "Enter") event.preventDefault();
    event.stopPropagation();
  };
  list.onclick = ({ target }) => take([...list.children].indexOf(target.closest(".hit")));
  dialog.onclose = closed;

  function open(wish) {
    asked = wish;
    answered = null;
    $(".with", dialog).hidden = !wish.words;
    tell(".with mark", wish.words.replace(/\s+/g, " "), dialog);
    tell(".what", wish.purpose === "change" ? `take in place of ${wish.replaces}` : "add as accepted", dialog);
    input.value = "";
    answer({ hits: [], total: 0 });
    dialog.showModal();
    input.focus();
    find();
  }

  async function find() {
    const q = input.value;
    try {
      const found = await ask("codes/search", { q, words: asked.words.slice(0, 300), limit: MOST });
      if (q !== input.value) return;
      answered = q;
      answer(found);
    } catch (problem) {
      tell(".none", `Not searched: ${problem.message}. Your decisions are safe; try again.`, dialog);
    }
  }

  function answer(found) {
    hits = found.hits;
    const words = (input.value || asked.words).toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    list.replaceChildren(...hits.map((hit, next) => row(hit, `hit-${next}`, words)));
    tell(".none", found.total ? "" : input.value.trim() ? "No code has these words: try fewer letters." : "Type a code, or letters of its name.", dialog);
    tell(".total", found.total ? `${hits.length} of ${figure(found.total)} found` : "", dialog);
    input.ariaExpanded = hits.length > 0;
    place = 0;
    choose(0);
  }

  function row({ code, title, chapter, matched, leaf }, id, words) {
    const option = written("#option", code, "", chapter);
    const told = option.children[1];
    option.id = id;
    told.append(...(matched ? [title, make("small", {}, "also called ", ...lit(matched, words))] : lit(title, words)));
    if (!leaf) told.append(make("small", {}, "a category: there are finer codes"));
    const chance = asked.listed.get(code);
    if (chance !== undefined) told.append(make("small", {}, `in the list, ${chance === null ? "added by you" : percent(chance)}`));
    return option;
  }

  function choose(next) {
    const [now, chosen] = [list.children[place], list.children[next]];
    if (now) now.ariaSelected = "false";
    if (chosen) chosen.ariaSelected = "true";
    if (next !== place) chosen?.scrollIntoView({ block: "nearest" });
    place = next;
    input.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }

  // Takes what was typed, never an older hit.
  async function enter() {
    clearTimeout(timer);
    if (input.value !== answered) await find();
    if (input.value === answered) take(place);
  }

  function take(chosen) {
    const hit = hits[chosen];
    if (!hit) return;
    dialog.close();
    taken(hit, asked.purpose);
  }

  return open;
}

// A name with the beginnings of its words marked that were typed.
function lit(name, words) {
  return name.split(/([^\p{L}\p{N}]+)/u).flatMap((part) => {
    const hit = words.find((word) => part.toLowerCase().startsWith(word));
    return hit ? [make("em", {}, part.slice(0, hit.length)), part.slice(hit.length)] : part;
  });
}
