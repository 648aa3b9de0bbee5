// Elements made of text only: nothing that was written in a note is ever read as HTML.

const PAUSE = 400; // milliseconds in which what is in sight comes to rest

export const $ = (selector, within = document) => within.querySelector(selector);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// What a template of the page holds, once more.
export const copy = (template) => $(template).content.cloneNode(true);

// One with words for each of its children.
export function written(template, ...words) {
  const element = copy(template).firstChild;
  words.forEach((word, place) => { element.children[place].textContent = word; });
  return element;
}

// Children as given, touched only where they differ: what stays is not laid out again.
export function fill(parent, children) {
  const now = parent.childNodes;
  if (now.length !== children.length || children.some((child, place) => child !== now[place])) parent.replaceChildren(...children);
}

// So many children, those that are there kept.
export function items(list, count, one) {
  while (list.children.length > count) list.lastChild.remove();
  while (list.children.length < count) list.append(one());
  return [...list.children];
}

// What stays the same is not laid out again.
export function tell(place, words, within) {
  const element = place.nodeType ? place : $(place, within);
  if (element.textContent !== words) element.textContent = words;
}

// Widths go through the CSSOM: the policy of the page allows no style attributes.
export const measure = (bar, share) => { bar.firstChild.style.width = `${Math.round(100 * share)}%`; };

// Does an act with each of some things while nobody waits, so many at a time; new things take the place of what is left.
export function idle(act, many) {
  const soon = globalThis.requestIdleCallback ?? ((next) => setTimeout(next, 20)); // Safari
  let timer, left;
  const next = () => {
    left.splice(0, many).forEach(act);
    if (left.length) soon(next);
  };
  return (things) => {
    left = [...things];
    clearTimeout(timer);
    timer = setTimeout(next, PAUSE);
  };
}

export const percent = (value) => `${value >= 0.995 ? 100 : value < 0.005 ? "< 1" : Math.round(100 * value)} %`;

// Thousands by hand: the browser's own way loads tables of languages first.
export const figure = (count) => `${count}`.replace(/\B(?=(\d{3})+$)/g, ",");

export const plural = (count, one) => `${figure(count)} ${one}${count === 1 ? "" : "s"}`;
