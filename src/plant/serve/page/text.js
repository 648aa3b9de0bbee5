// The note: its text whole, one text node per line, and evidence laid over it as highlights near the viewport.

import { make } from "./dom.js";
import { before } from "./offsets.js";

const LINES = 20; // of a block, which is lit or not as a whole
const LONGEST = 4000; // characters of a line
const LONG = 20000; // words from which on blocks far away are not laid out
const LAYERS = ["ev1", "ev2", "ev3", "doubt"];
const WORD = /[\p{L}\p{N}\p{M}]/u;
const CAN = typeof Highlight !== "undefined" && CSS.highlights !== undefined;

// Spans cut into disjoint pieces: how many codes each speaks for, and which.
export function segments(codes) {
  const events = [];
  for (const { code, evidence } of codes) {
    for (const span of evidence) {
      if (span.end > span.start) events.push([span.start, 1, code, span], [span.end, 0, code, span]);
    }
  }
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = new Map();
  const found = [];
  let last = 0;
  for (const [place, begins, code, span] of events) {
    if (open.size && place > last) {
      const spans = [...open.keys()];
      const names = [...new Set(open.values())];
      found.push({ start: last, end: place, codes: names, doubt: spans.some((one) => one.caution) });
    }
    if (begins) open.set(span, code);
    else open.delete(span);
    last = place;
  }
  return found;
}

export class NoteText {
  constructor(host, scroller, rail, on) {
    Object.assign(this, { host, scroller, rail, on });
    this.pieces = [];
    this.starts = [];
    this.blocks = [];
    this.segments = [];
    this.near = new Set();
    this.chosen = null;
    this.watch = new IntersectionObserver((entries) => this.#seen(entries), { root: scroller, rootMargin: "400px 0px" });
    scroller.addEventListener("scroll", () => this.#soon(() => this.#scrolled(), "scroll"), { passive: true });
    host.addEventListener("mousemove", (event) => this.#soon(() => this.#pointed(event), "point"));
    host.addEventListener("mouseleave", () => on.hovered([]));
    host.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("selectionchange", () => this.#soon(() => this.#selected(), "selection"));
    rail.addEventListener("click", (event) => this.#railed(event));
    new ResizeObserver(() => this.#soon(() => this.#measure(), "measure")).observe(scroller);
    this.frames = new Map();
  }

  show(text, sections) {
    this.text = text;
    this.choose(null);
    this.watch.disconnect();
    this.near.clear();
    const headings = new Set(sections.map((section) => section.start));
    this.pieces = [];
    this.places = new Map(); // of elements
    this.lines = [];
    this.blocks = [];
    const all = document.createDocumentFragment();
    for (const run of paragraphs(text, headings)) {
      if (this.lines.length % LINES === 0) this.#block(all, run[0].start);
      this.#line(run, headings.has(run[0].start));
      this.blocks.at(-1).end = run.at(-1).end + 1;
    }
    this.starts = this.pieces.map((piece) => piece.start);
    this.host.classList.toggle("long", text.length > 6 * LONG);
    this.scroller.scrollTop = 0; // before the new text is there, or it would be laid out twice
    this.host.replaceChildren(all);
    for (const block of this.blocks) this.watch.observe(block.element);
    this.#soon(() => this.#measure(), "measure");
  }

  // codes: what is lit; active: the code whose words stand out; mode: all, this or plain.
  light(codes, active, mode) {
    const key = mode === "all" ? codes.map((one) => one.code).join(" ") : mode;
    if (codes !== this.codes || key !== this.key) {
      this.codes = codes;
      this.key = key;
      this.segments = segments(codes);
      this.ends = this.segments.map((segment) => segment.end);
      this.lit = mode === "all";
      for (const block of this.blocks) block.ranges = null;
      this.#register();
    }
    this.active = mode === "plain" ? null : active;
    this.#registerActive();
    this.#soon(() => {
      this.#ticks();
      this.#draw();
    }, "draw");
  }

  reveal(start) {
    if (!this.pieces.length) return;
    const box = this.#range(start, start + 1).getBoundingClientRect();
    const frame = this.scroller.getBoundingClientRect();
    if (box.top < frame.top + 60 || box.bottom > frame.bottom - 90) {
      this.scroller.scrollTop += box.top - frame.top - frame.height / 3;
    }
  }

  choose(span) {
    this.chosen = span;
    if (!CAN) return;
    if (span) CSS.highlights.set("chosen", new Highlight(this.#range(span.start, span.end)));
    else CSS.highlights.delete("chosen");
  }

  everything(lit) {
    if (lit) for (const block of this.blocks) this.near.add(block);
    else this.near = new Set(this.kept);
    this.#register();
  }

  // Words, whole: a selection that begins or ends within one takes all of it, marks around it are left out.
  snapped(start, end) {
    const text = this.text;
    while (start < end && !WORD.test(text[start]) && !high(text, start)) start++;
    while (end > start && !WORD.test(text[end - 1]) && !low(text, end - 1)) end--;
    if (start >= end) return null;
    while (start > 0 && (WORD.test(text[start - 1]) || low(text, start))) start--;
    while (end < text.length && (WORD.test(text[end]) || low(text, end))) end++;
    return { start, end };
  }

  // The next word from a place on, for those who select by keys.
  word(place, step) {
    let at = place;
    const inside = (index) => index >= 0 && index < this.text.length && WORD.test(this.text[index]);
    if (step > 0) {
      while (inside(at)) at++;
      while (at < this.text.length && !inside(at)) at++;
    } else {
      at--;
      while (at >= 0 && !inside(at)) at--;
      while (inside(at - 1)) at--;
    }
    return inside(at) ? this.snapped(at, at + 1) : null;
  }

  select(start, end) {
    const range = this.#range(start, end);
    getSelection().setBaseAndExtent(range.startContainer, range.startOffset, range.endContainer, range.endOffset);
    this.reveal(end - 1);
  }

  rectangle(start, end) {
    return this.#range(start, end).getBoundingClientRect();
  }

  codesAt(offset) {
    const place = before(this.ends || [], offset + 1);
    const segment = this.segments[place];
    return segment && segment.start <= offset ? segment : null;
  }

  // drawing

  #block(all, start) {
    const element = make("div", { class: "block" });
    all.append(element);
    this.blocks.push({ element, start, end: start, ranges: null, lines: [] });
    this.places.set(element, this.blocks.at(-1));
  }

  #line(run, heading) {
    const element = make("div", { class: heading ? "line heading" : run.length > 1 ? "line flow" : run[0].cut ? "line endless" : "line" });
    const [start, end] = [run[0].start, run.at(-1).end];
    for (const one of run) {
      const last = one.end < end ? one.end + 1 : one.end; // line breaks within a paragraph are its blanks
      if (last === one.start) continue;
      const node = document.createTextNode(this.text.slice(one.start, last));
      this.pieces.push({ node, start: one.start, end: last, line: this.lines.length });
      this.places.set(node, this.pieces.at(-1));
      element.append(node);
    }
    const line = { element, start, end, top: 0 };
    this.lines.push(line);
    this.blocks.at(-1).lines.push(line);
    this.places.set(element, line);
    this.blocks.at(-1).element.append(element);
  }

  #pieceAt(offset) {
    const place = Math.max(0, before(this.starts, offset + 1) - 1);
    return this.pieces[place];
  }

  #range(start, end) {
    const first = this.#pieceAt(start);
    const last = this.#pieceAt(Math.max(start, end - 1));
    const range = document.createRange();
    range.setStart(first.node, Math.min(first.node.length, Math.max(0, start - first.start)));
    range.setEnd(last.node, Math.min(last.node.length, Math.max(0, end - last.start)));
    return range;
  }

  #seen(entries) {
    for (const entry of entries) {
      const block = this.places.get(entry.target);
      if (!block) continue;
      if (entry.isIntersecting) this.near.add(block);
      else this.near.delete(block);
    }
    this.kept = new Set(this.near);
    this.#register();
  }

  #register() {
    if (!CAN || !this.pieces.length) return;
    const layers = LAYERS.map(() => new Highlight());
    layers[3].priority = 1;
    if (this.lit) {
      for (const block of this.near) {
        block.ranges ??= this.#rangesOf(block);
        for (const [layer, range] of block.ranges) layers[layer].add(range);
      }
    }
    LAYERS.forEach((name, layer) => CSS.highlights.set(name, layers[layer]));
  }

  #rangesOf(block) {
    const ranges = [];
    for (let place = before(this.ends, block.start + 1); place < this.segments.length; place++) {
      const segment = this.segments[place];
      if (segment.start >= block.end) break;
      const start = Math.max(segment.start, block.start);
      const range = this.#range(start, Math.min(segment.end, block.end));
      ranges.push([Math.min(3, segment.codes.length) - 1, range]);
      if (segment.doubt) ranges.push([3, range]);
    }
    return ranges;
  }

  #registerActive() {
    if (!CAN || !this.pieces.length) return;
    const layers = { weak: new Highlight(), strong: new Highlight(), cue: new Highlight() };
    const spans = this.active?.evidence ?? [];
    const greatest = Math.max(0, ...spans.map((span) => span.weight ?? 1));
    for (const span of spans) {
      const strong = (span.weight ?? 1) >= greatest / 2;
      layers[strong ? "strong" : "weak"].add(this.#range(span.start, span.end));
      if (span.cue) layers.cue.add(this.#range(span.cue.start, span.cue.end));
    }
    Object.entries(layers).forEach(([name, layer], place) => {
      layer.priority = 2 + place;
      CSS.highlights.set(name, layer);
    });
  }

  #measure() {
    const long = this.host.classList.contains("long"); // there, asking each line would lay out what nobody sees
    for (const { element, lines } of this.blocks) {
      const [top, height] = [element.offsetTop, long ? element.offsetHeight : 0];
      lines.forEach((line, place) => {
        line.top = long ? top + (height * place) / lines.length : line.element.offsetTop;
      });
    }
    const height = this.rail.clientHeight;
    const scale = devicePixelRatio || 1;
    if (this.rail.height !== Math.round(height * scale)) {
      this.rail.height = Math.round(height * scale);
      this.rail.width = Math.round(14 * scale);
    }
    this.tops = (this.lines ?? []).map((line) => line.top);
    this.total = this.scroller.scrollHeight;
    this.inSight = this.scroller.clientHeight;
    this.#ticks();
    this.#scrolled();
  }

  // Where the ticks of the rail stand and what colours they have: asked for when they change, not at each scroll.
  #ticks() {
    const styles = getComputedStyle(this.rail);
    const colour = (name) => resolved(styles, styles.getPropertyValue(name).trim());
    this.colours = { ink: colour("--ink"), quiet: colour("--ev3"), own: colour("--under") };
    const total = this.scroller.scrollHeight || 1;
    const place = (offset) => (this.lines[this.#pieceAt(offset)?.line ?? 0]?.top ?? 0) / total;
    this.quiet = this.lit && this.pieces.length ? this.segments.map((segment) => place(segment.start)) : [];
    this.own = this.pieces.length ? (this.active?.evidence ?? []).map((span) => place(span.start)) : [];
  }

  #draw() {
    if (!this.colours) return;
    const pen = this.rail.getContext("2d");
    const { width, height } = this.rail;
    const total = this.total || 1;
    const thick = Math.max(2, Math.round(height / 260));
    pen.clearRect(0, 0, width, height);
    pen.globalAlpha = 0.12;
    pen.fillStyle = this.colours.ink;
    pen.fillRect(0, (height * this.scroller.scrollTop) / total, width, (height * this.inSight) / total);
    pen.globalAlpha = 1;
    pen.fillStyle = this.colours.quiet;
    for (const share of this.quiet) pen.fillRect(width / 2, Math.round(height * share), width / 2, thick);
    pen.fillStyle = this.colours.own;
    for (const share of this.own) pen.fillRect(0, Math.round(height * share), width, thick);
  }

  // what people do

  #soon(act, name) {
    if (this.frames.has(name)) return void this.frames.set(name, act);
    this.frames.set(name, act);
    requestAnimationFrame(() => {
      const latest = this.frames.get(name);
      this.frames.delete(name);
      latest();
    });
  }

  #scrolled() {
    this.#draw();
    const top = this.scroller.scrollTop + 40;
    const line = this.lines?.[Math.max(0, before(this.tops ?? [], top + 1) - 1)];
    if (line) this.on.scrolled(line.start);
  }

  #offsetUnder(event) {
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const range = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const node = caret ? caret.offsetNode : range?.startContainer;
    const piece = node && this.places.get(node);
    if (!piece || piece.node !== node) return null;
    return piece.start + (caret ? caret.offset : range.startOffset);
  }

  #segmentUnder(event) {
    const offset = this.#offsetUnder(event);
    if (offset === null) return null;
    for (const place of [offset, offset - 1]) {
      const segment = this.codesAt(place);
      if (segment && this.#inside(segment, event)) return segment;
    }
    return null;
  }

  #inside(segment, event) {
    const boxes = [...this.#range(segment.start, segment.end).getClientRects()];
    const { clientX: x, clientY: y } = event;
    return boxes.some((box) => x >= box.left - 1 && x <= box.right + 1 && y >= box.top && y <= box.bottom);
  }

  #pointed(event) {
    if (event.buttons) return;
    const segment = this.lit ? this.#segmentUnder(event) : null;
    this.host.style.cursor = segment ? "pointer" : "";
    this.on.hovered(segment ? segment.codes : []);
  }

  #clicked(event) {
    if (!getSelection().isCollapsed) return;
    const segment = this.#segmentUnder(event);
    if (segment) this.on.picked(segment.codes, segment);
  }

  #selected() {
    const selection = getSelection();
    const range = selection.rangeCount ? selection.getRangeAt(0) : null;
    if (!range || range.collapsed || !this.host.contains(range.commonAncestorContainer)) return this.on.selected(null);
    const start = this.#offsetOf(range.startContainer, range.startOffset);
    const end = this.#offsetOf(range.endContainer, range.endOffset);
    this.on.selected(start < end ? this.snapped(start, end) : null);
  }

  #offsetOf(node, offset) {
    const place = this.places.get(node);
    if (place?.node) return place.start + offset;
    const child = this.places.get(node.childNodes[offset]);
    return child ? child.start : (place?.end ?? (offset ? this.text.length : 0));
  }

  #railed(event) {
    const box = this.rail.getBoundingClientRect();
    const share = (event.clientY - box.top) / box.height;
    this.scroller.scrollTop = share * this.scroller.scrollHeight - this.scroller.clientHeight / 2;
  }
}

// Lines, and where a program has broken them at a fixed width, the paragraphs that they were: a break belongs to a
// paragraph if the first word behind it would not have fitted before it.
export function paragraphs(text, headings) {
  const lines = [];
  for (let start = 0; start <= text.length; ) {
    const stop = text.indexOf("\n", start);
    const end = stop < 0 ? text.length : stop;
    for (let place = start; ; ) {
      let cut = Math.min(end, place + LONGEST); // of an endless line each part is laid out by itself
      if (cut < end && low(text, cut)) cut++;
      lines.push({ start: place, end: cut, cut: end - start > LONGEST });
      if (cut === end) break;
      place = cut;
    }
    if (stop < 0) break;
    start = end + 1;
  }
  const width = lines.reduce((most, { start, end }) => Math.max(most, end - start), 0);
  const broken = ({ start, end }, next) => {
    if (next.end === next.start || headings.has(start) || headings.has(next.start)) return false;
    const word = /^\S+/.exec(text.slice(next.start, Math.min(next.end, next.start + width)))?.[0].length;
    return word !== undefined && end > start && end - start + 1 + word > width;
  };
  const breaks = lines.map((line, place) => place > 0 && broken(lines[place - 1], line));
  const wrapped = width >= 40 && width <= 120 && breaks.filter(Boolean).length >= Math.max(2, lines.length / 20);
  const runs = [];
  lines.forEach((line, place) => (wrapped && breaks[place] ? runs.at(-1).push(line) : runs.push([line])));
  return runs;
}

const high = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xd800;
const low = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xdc00;

// What a colour of two themes is now: canvas does not know light-dark().
function resolved(styles, value) {
  if (!value.startsWith("light-dark")) return value;
  const [light, dark] = value.slice(value.indexOf("(") + 1, value.lastIndexOf(")")).split(",");
  const scheme = styles.colorScheme;
  const isDark = scheme === "dark" || (scheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  return (isDark ? dark : light).trim();
}
