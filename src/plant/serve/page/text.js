// The note: its text whole, one text node per line, and evidence laid over it as highlights near the viewport.

import { make } from "./dom.js";
import { before } from "./offsets.js";

const LINES = 20; // of a block, which is laid out and lit or not as a whole
const LONGEST = 4000; // characters of a line
const WIDE = 86; // characters of a line of the sheet, by which the height of a block is guessed
const NEAR = 500; // pixels beyond what is in sight
const LAYERS = ["ev1", "ev2", "ev3", "doubt", "weak", "strong", "cue", "chosen"]; // the later ones lie above
const WORD = /[\p{L}\p{N}\p{M}]/u;
const CAN = typeof Highlight !== "undefined" && CSS.highlights !== undefined; // else the same pieces are <mark>
const FORCED = matchMedia("(forced-colors: active)"); // there all highlights look alike

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
      const doubt = [...open.keys()].some((one) => one.caution);
      found.push({ start: last, end: place, codes: [...new Set(open.values())], doubt });
    }
    if (begins) open.set(span, code);
    else open.delete(span);
    last = place;
  }
  return found;
}

export class NoteText {
  constructor(host, scroller, rail, on) {
    Object.assign(this, { host, scroller, rail, on, text: "", pieces: [], starts: [], blocks: [], segments: [], ends: [] });
    this.canvas = rail.querySelector("canvas");
    this.frame = rail.querySelector("i");
    this.layers = {};
    this.frames = new Map();
    scroller.addEventListener("scroll", () => this.#soon("scroll", () => this.#scrolled()), { passive: true });
    host.addEventListener("mousemove", (event) => this.#soon("point", () => this.#pointed(event)));
    host.addEventListener("mouseleave", () => on.hovered([]));
    host.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("selectionchange", () => this.#soon("selection", () => this.#selected()));
    rail.addEventListener("click", (event) => this.#railed(event));
    const sizes = new ResizeObserver(() => this.#measure());
    for (const element of [scroller, host]) sizes.observe(element); // blocks get their true height when they are near
    for (const look of [FORCED, matchMedia("(prefers-color-scheme: dark)")]) look.addEventListener("change", on.repaint);
  }

  show(text, sections) {
    this.text = text;
    this.codes = this.key = null;
    this.blocks = [];
    const headings = new Set(sections.map((section) => section.start));
    for (const run of paragraphs(text, headings)) this.#line(run, headings.has(run[0].start));
    this.#list();
    this.begins = this.blocks.map((block) => block.start);
    this.near = this.blocks.slice(0, 2); // until they are measured
    this.scroller.scrollTop = 0; // before the new text is there, or it would be laid out twice
    this.host.replaceChildren(...this.blocks.map((block) => block.element));
    for (const block of this.blocks) block.element.style.containIntrinsicSize = `auto ${block.height}px`;
    this.choose(null);
  }

  // codes: what is lit; active: the code whose words stand out; mode: all, this or plain.
  light(codes, active, mode) {
    this.lit = mode === "all" && !FORCED.matches;
    const shown = this.lit ? codes : [];
    const key = shown === this.codes ? this.key : JSON.stringify(shown);
    this.codes = shown;
    if (key !== this.key) {
      this.key = key;
      this.segments = segments(shown);
      this.ends = this.segments.map((segment) => segment.end);
      this.#register();
    }
    const spans = (mode !== "plain" && active?.evidence) || [];
    const enough = Math.max(0, ...spans.map(weight)) / 2;
    this.#lay("strong", spans.filter((span) => weight(span) >= enough));
    this.#lay("weak", spans.filter((span) => weight(span) < enough));
    this.#lay("cue", spans.map((span) => span.cue).filter(Boolean));
    this.own = spans;
    this.#soon("draw", () => this.#draw());
  }

  reveal(start) {
    if (!this.pieces.length) return;
    const box = this.rectangle(start, start + 1);
    const frame = this.scroller.getBoundingClientRect();
    if (box.top < frame.top + 60 || box.bottom > frame.bottom - 90) {
      this.scroller.scrollTop += box.top - frame.top - frame.height / 3;
    }
  }

  choose(span) {
    this.#lay("chosen", span ? [span] : []);
  }

  everything(lit) {
    this.near = lit ? this.blocks : [];
    if (lit) this.#register();
    else this.#scrolled();
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
    const inside = (index) => index >= 0 && index < this.text.length && WORD.test(this.text[index]);
    let at = step > 0 ? place : place - 1;
    if (step > 0) while (inside(at)) at++;
    while (at >= 0 && at < this.text.length && !inside(at)) at += step;
    return inside(at) ? this.snapped(at, at + 1) : null;
  }

  select(start, end) {
    const range = this.#range({ start, end });
    getSelection().setBaseAndExtent(range.startContainer, range.startOffset, range.endContainer, range.endOffset);
    this.reveal(end - 1);
  }

  rectangle(start, end) {
    return this.#range({ start, end }).getBoundingClientRect();
  }

  codesAt(offset) {
    const segment = this.segments[before(this.ends, offset + 1)];
    return segment && segment.start <= offset ? segment : null;
  }

  // drawing

  // A section begins a block, so that where blocks stand says where sections do.
  #line(run, heading) {
    let block = this.blocks.at(-1);
    if (!block || heading || block.lines.length === LINES) {
      block = { element: make("div", { class: "block" }), start: run[0].start, height: 0, lines: [] };
      this.blocks.push(block);
    }
    const kind = heading ? "line heading" : run.length > 1 ? "line flow" : run[0].cut ? "line endless" : "line";
    const line = { element: make("div", { class: kind }), start: run[0].start, end: run.at(-1).end, run };
    this.#fill(line, []);
    block.element.append(line.element);
    block.lines.push(line);
    block.end = line.end + 1;
    block.height += line.end > line.start ? 28 * Math.ceil((line.end - line.start) / WIDE) : 13;
  }

  // The text nodes of a line, cut where pieces of evidence begin and end; without pieces, one for each line of the text.
  #fill(line, cuts) {
    line.pieces = [];
    const nodes = [];
    for (const one of line.run) {
      const last = one.end < line.end ? one.end + 1 : one.end; // line breaks within a paragraph are its blanks
      const inside = cuts.filter((cut) => cut.start < last && cut.end > one.start);
      const places = [...new Set([one.start, ...inside.flatMap(({ start, end }) => [start, end]), last])]
        .filter((place) => place >= one.start && place <= last);
      for (let index = 1; index < places.length; index++) {
        const [start, end] = [places[index - 1], places[index]];
        const node = document.createTextNode(this.text.slice(start, end));
        const cut = inside.find((piece) => piece.start <= start && piece.end >= end);
        line.pieces.push({ node, start, end });
        nodes.push(cut ? make("mark", { class: cut.codes.map((name) => `at-${name}`).join(" ") }, node) : node);
      }
    }
    line.element.replaceChildren(...nodes);
  }

  #list() {
    this.pieces = this.blocks.flatMap((block) => block.lines.flatMap((line) => line.pieces));
    this.starts = this.pieces.map((piece) => piece.start);
    this.places = new Map(this.pieces.map((piece) => [piece.node, piece]));
  }

  #range({ start, end }) {
    const at = (offset) => this.pieces[Math.max(0, before(this.starts, offset + 1) - 1)];
    const [first, last] = [at(start), at(Math.max(start, end - 1))];
    const range = document.createRange();
    range.setStart(first.node, Math.min(first.node.length, Math.max(0, start - first.start)));
    range.setEnd(last.node, Math.min(last.node.length, Math.max(0, end - last.start)));
    return range;
  }

  #lay(name, spans) {
    if (!spans.length && !this.layers[name]?.length) return;
    this.layers[name] = spans;
    if (!CAN) return void this.#soon("mark", () => this.#mark());
    const layer = new Highlight(...(this.pieces.length ? spans.map((span) => this.#range(span)) : []));
    layer.priority = LAYERS.indexOf(name);
    CSS.highlights.set(name, layer);
  }

  #mark() {
    const named = LAYERS.map((name) => ({ code: name, evidence: this.layers[name] ?? [] }));
    const cuts = segments(named);
    for (const block of this.near) {
      const own = cuts.filter((cut) => cut.start < block.end && cut.end > block.start);
      for (const line of block.lines) this.#fill(line, own);
    }
    this.#list();
  }

  #register() {
    const layers = { ev1: [], ev2: [], ev3: [], doubt: [] };
    for (const block of this.near) {
      for (let place = before(this.ends, block.start + 1); this.segments[place]?.start < block.end; place++) {
        const { start, end, codes, doubt } = this.segments[place];
        const part = { start: Math.max(start, block.start), end: Math.min(end, block.end) };
        layers[`ev${Math.min(3, codes.length)}`].push(part);
        if (doubt) layers.doubt.push(part);
      }
    }
    for (const name in layers) this.#lay(name, layers[name]);
  }

  // Where blocks stand; of those that were never near, only about.
  #measure() {
    for (const block of this.blocks) [block.top, block.tall] = [block.element.offsetTop, block.element.offsetHeight];
    this.tops = this.blocks.map((block) => block.top);
    this.total = this.scroller.scrollHeight || 1;
    this.frame.style.height = `${(100 * this.scroller.clientHeight) / this.total}%`;
    this.#draw();
    this.#scrolled();
  }

  // A tick for each phrase, long for the active code; canvas knows no light-dark(), so the rail's own colours are asked.
  #draw() {
    const scale = devicePixelRatio || 1;
    const [width, height] = [Math.round(14 * scale), Math.round(this.rail.clientHeight * scale)];
    if (this.tops?.length !== this.blocks.length || !height) return;
    if (this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, width, height);
    const { color, outlineColor } = getComputedStyle(this.rail);
    const tick = ({ start }, left) => {
      const block = this.blocks[Math.max(0, before(this.begins, start + 1) - 1)];
      const inside = (start - block.start) / Math.max(1, block.end - block.start);
      pen.rect(left, Math.round((height * (block.top + block.tall * inside)) / this.total), width - left, Math.max(2, Math.round(height / 260)));
    };
    for (const [spans, colour, left] of [[this.segments, color, width / 2], [this.own ?? [], outlineColor, 0]]) {
      pen.beginPath();
      pen.fillStyle = colour;
      for (const span of spans) tick(span, left);
      pen.fill();
    }
  }

  // what people do

  #soon(name, act) {
    if (!this.frames.has(name)) {
      requestAnimationFrame(() => {
        const latest = this.frames.get(name);
        this.frames.delete(name);
        latest();
      });
    }
    this.frames.set(name, act);
  }

  // Evidence is registered for what is near, in the frame that scrolls: the browser looks at all of it again at each change.
  #scrolled() {
    if (this.tops?.length !== this.blocks.length || !this.blocks.length) return;
    const top = this.scroller.scrollTop;
    const at = (place) => Math.max(0, before(this.tops, place) - 1);
    this.frame.style.translate = `0 ${(top * this.rail.clientHeight) / this.total}px`;
    this.on.scrolled(this.begins[at(top + 60)]);
    const near = this.blocks.slice(at(top - NEAR), at(top + this.scroller.clientHeight + NEAR) + 1);
    if (near[0] === this.near[0] && near.at(-1) === this.near.at(-1)) return;
    this.near = near;
    this.#register();
  }

  #offsetUnder(event) {
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const range = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const piece = this.places?.get(caret ? caret.offsetNode : range?.startContainer);
    return piece ? piece.start + (caret ? caret.offset : range.startOffset) : null;
  }

  #segmentUnder(event) {
    const offset = this.#offsetUnder(event);
    if (offset === null) return null;
    return [offset, offset - 1].map((place) => this.codesAt(place)).find((segment) => segment && this.#inside(segment, event)) ?? null;
  }

  #inside(segment, { clientX: x, clientY: y }) {
    const boxes = [...this.#range(segment).getClientRects()];
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

  // Selections also end between elements: there, the first piece behind counts.
  #offsetOf(node, offset) {
    const piece = this.places.get(node);
    if (piece) return piece.start + offset;
    const point = document.createRange();
    point.setStart(node, offset);
    let [low, high] = [0, this.pieces.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (point.comparePoint(this.pieces[middle].node, 0) < 0) low = middle + 1;
      else high = middle;
    }
    return this.pieces[low]?.start ?? this.text.length;
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

const weight = (span) => span.weight ?? 1;
const high = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xd800;
const low = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xdc00;
