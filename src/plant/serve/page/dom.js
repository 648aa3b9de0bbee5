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

// Widths go through the CSSOM: the policy of the page allows no style attributes.
export function meter(share, notch = null) {
  const fill = make("i");
  fill.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  const bar = make("span", { class: "meter", "aria-hidden": "true" }, fill);
  if (notch !== null) {
    const mark = make("u");
    mark.style.left = `${100 * notch}%`;
    bar.append(mark);
  }
  return bar;
}

export const percent = (value) => `${value >= 0.995 ? 100 : value < 0.005 ? "< 1" : Math.round(100 * value)} %`;

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export function closable(dialog) {
  for (const button of dialog.querySelectorAll(".close")) button.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
