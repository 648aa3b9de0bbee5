// Elements made of text only: nothing that was written in a note is ever read as HTML.

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

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

// Children as given, touched only where they differ: what stays is not laid out again.
export function fill(parent, children) {
  const now = parent.childNodes;
  if (now.length !== children.length || children.some((child, place) => child !== now[place])) parent.replaceChildren(...children);
}

export function tell(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

// Widths go through the CSSOM: the policy of the page allows no style attributes.
export function measure(bar, share) {
  bar.firstChild.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return bar;
}

export const meter = (share) => measure(make("span", { class: "meter", "aria-hidden": "true" }, make("i")), share);

export const percent = (value) => `${value >= 0.995 ? 100 : value < 0.005 ? "< 1" : Math.round(100 * value)} %`;

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export function closable(dialog) {
  for (const button of dialog.querySelectorAll(".close")) button.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
