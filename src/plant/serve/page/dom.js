// Elements made of text only: nothing that was written in a note is ever read as HTML.

const PAUSE = 400; // milliseconds in which what is in sight comes to rest

export const $ = (selector, within = document) => within.querySelector(selector);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
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
  const element = typeof place === "string" ? $(place, within) : place;
  if (element.textContent !== words) element.textContent = words;
}

// Widths go through the CSSOM: the policy of the page allows no style attributes.
export function measure(bar, share) {
  bar.firstChild.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return bar;
}

// A queue of acts done one by one while nobody waits; a new one drops what is left of the last.
export function idle() {
  const soon = globalThis.requestIdleCallback ?? ((act) => setTimeout(act, 20)); // Safari
  let timer = 0;
  let now = [];
  return (acts) => {
    const own = (now = [...acts]);
    const next = () => {
      if (own !== now || !own.length) return;
      own.shift()();
      soon(next);
    };
    clearTimeout(timer);
    timer = setTimeout(next, PAUSE);
  };
}

export const percent = (value) => `${value >= 0.995 ? 100 : value < 0.005 ? "< 1" : Math.round(100 * value)} %`;

// Thousands by hand: the browser's own way loads tables of languages first.
export const figure = (count) => `${count}`.replace(/\B(?=(\d{3})+$)/g, ",");

export const plural = (count, one, many = `${one}s`) => `${figure(count)} ${count === 1 ? one : many}`;
