// The note: its text whole, one text node per line, and evidence laid over it as highlights near the viewport.

import { idle, make } from "./dom.js";
import { before } from "./offsets.js";

const LINES = 20; // of a block, and
const LONGEST = 4000; // characters of a line, and about those of a block
const WIDE = 86; // characters of a line of the sheet: the height of a block is guessed
const FIRST = 1000; // pixels that are built at once; the rest follows when nobody waits, or it is asked for
const MORE = 8; // blocks that are built at a time then
const NEAR = 400; // pixels beyond what is in sight
const LONG = 150_000; // characters beyond which only what is near is laid out
const LAYERS = ["ev1", "ev2", "ev3", "doubt", "weak", "strong", "cue", "chosen"]; // the later ones lie above
const WORD = /[\p{L}\p{N}\p{M}]/u;
const CAN = typeof Highlight !== "undefined" && CSS.highlights !== undefined; // else the same pieces are <mark>
const FORCED = matchMedia("(forced-colors: active)"); // there all highlights look alike

// Spans cut into disjoint pieces: how many codes each speaks for, and which.
function segments(codes) {
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
    Object.assign(this, { host, scroller, rail, on, text: "", blocks: [], tops: [], segments: [], ends: [], own: [], near: [0, 0] });
    this.ticks = rail.querySelectorAll("path");
    this.frame = rail.querySelector("i");
    this.layers = Object.fromEntries(LAYERS.map((name) => [name, []]));
    this.frames = new Map();
    this.idly = idle();
    scroller.onscroll = () => this.#soon("scroll", () => this.#scrolled());
    host.onmousemove = (event) => this.#soon("point", () => this.#pointed(event));
    host.onmouseleave = () => on.hovered([]);
    host.onclick = (event) => this.#clicked(event);
    document.onselectionchange = () => this.#soon("selection", () => this.#selected());
    rail.onclick = (event) => this.#railed(event);
    const sizes = new ResizeObserver(() => this.#measure());
    for (const element of [scroller, host]) sizes.observe(element);
    FORCED.addEventListener("change", on.repaint);
  }

  show(text, sections) {
    this.text = text;
    this.blocks = blocks(text, new Set(sections.map((section) => section.start)));
    this.begins = this.blocks.map((block) => block.start);
    this.places = new WeakMap(); // where the text of a node stands
    Object.assign(this, { built: 0, tops: [], codes: null });
    let high = 0;
    const first = this.blocks.findIndex((block) => (high += block.height) > FIRST);
    this.near = [0, this.blocks.at(first).end];
    this.scroller.scrollTop = 0; // first, or the new text would be laid out twice
    this.host.replaceChildren();
    this.host.classList.toggle("long", text.length > LONG);
    this.host.style.minHeight = `${this.blocks.reduce((sum, block) => sum + block.height, 0)}px`;
    this.#build(first < 0 ? this.blocks.length : first + 1);
    this.idly(Array.from({ length: 1 + this.blocks.length / MORE }, () => () => this.#build(this.built + MORE)));
    this.choose(null);
  }

  // codes: what is lit; active: the code whose words stand out; mode: all, this or plain.
  light(codes, active, mode) {
    this.lit = mode === "all" && !FORCED.matches;
    const shown = this.lit ? codes : NONE;
    if (shown !== this.codes) {
      this.codes = shown;
      this.segments = segments(shown);
      this.ends = this.segments.map((segment) => segment.end);
      for (const depth of [1, 2, 3]) this.#lay(`ev${depth}`, this.segments.filter(({ codes }) => Math.min(3, codes.length) === depth));
      this.#lay("doubt", this.segments.filter(({ doubt }) => doubt));
    }
    const spans = (mode !== "plain" && active?.evidence) || NONE;
    const enough = Math.max(0, ...spans.map(weight)) / 2;
    this.#lay("strong", spans.filter((span) => weight(span) >= enough));
    this.#lay("weak", spans.filter((span) => weight(span) < enough));
    this.#lay("cue", spans.map((span) => span.cue).filter(Boolean));
    this.own = spans;
    this.#soon("draw", () => this.#draw());
  }

  reveal(start) {
    if (!this.blocks.length) return;
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
    if (lit) this.#build(this.blocks.length);
    this.#light(lit ? [0, Infinity] : [0, 0]);
    if (!lit) this.#scrolled();
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
    getSelection().setBaseAndExtent(...this.#ends({ start, end }));
    this.reveal(end - 1);
  }

  rectangle(start, end) {
    return this.#range({ start, end }).getBoundingClientRect();
  }

  // drawing

  // The blocks up to a number, those that are there already left as they are.
  #build(count) {
    const fresh = this.blocks.slice(this.built, count);
    for (const block of fresh) {
      block.element = make("div", { class: "block" });
      block.element.style.containIntrinsicSize = `auto ${block.height}px`;
      this.#fill(block, NONE);
    }
    this.host.append(...fresh.map((block) => block.element));
    this.built += fresh.length;
    if (this.built === this.blocks.length) this.host.style.minHeight = "";
  }

  // The lines of a block, a text node for each line of the text, cut where pieces of evidence begin and end.
  #fill(block, cuts) {
    block.pieces = [];
    block.element.replaceChildren(...block.runs.map((run) => {
      const line = make("div", { class: run.kind });
      for (const { start, end } of run) {
        const last = end < run.at(-1).end ? end + 1 : end; // line breaks within a paragraph are its blanks
        let at = start;
        const put = (stop, names) => {
          const node = document.createTextNode(this.text.slice(at, stop));
          this.places.set(node, at);
          block.pieces.push({ node, start: at });
          line.append(names ? make("mark", { class: names.map((name) => `at-${name}`).join(" ") }, node) : node);
          at = stop;
        };
        for (const cut of cuts.filter((one) => one.start < last && one.end > start)) {
          if (cut.start > at) put(cut.start);
          put(Math.min(cut.end, last), cut.codes);
        }
        if (at < last || start === last) put(last);
      }
      return line;
    }));
  }

  #blockAt(offset) {
    return Math.max(0, before(this.begins, offset + 1) - 1);
  }

  // The text node of a place, which is built if it is not there yet.
  #nodeAt(offset) {
    const place = this.#blockAt(offset);
    this.#build(place + 1);
    const { pieces } = this.blocks[place];
    const { node, start } = pieces.findLast((piece) => piece.start <= offset) ?? pieces[0];
    return [node, start];
  }

  #ends({ start, end }) {
    const [first, from] = this.#nodeAt(start);
    const [last, to] = this.#nodeAt(Math.max(start, end - 1));
    return [first, Math.min(first.length, start - from), last, Math.min(last.length, end - to)];
  }

  #range(span) {
    const [first, from, last, to] = this.#ends(span);
    const range = document.createRange();
    range.setStart(first, from);
    range.setEnd(last, to);
    return range;
  }

  // Spans of a layer, registered where they are near: the browser looks at all of them again at each change.
  #lay(name, spans) {
    this.layers[name] = spans;
    if (!CAN) return void this.#soon("mark", () => this.#mark());
    const [from, to] = this.near;
    const near = spans.filter((span) => span.end > from && span.start < to);
    if (!near.length) return void CSS.highlights.delete(name);
    const layer = new Highlight(...near.map((span) => fixed(...this.#ends(span))));
    layer.priority = LAYERS.indexOf(name);
    CSS.highlights.set(name, layer);
  }

  #light(near) {
    this.near = near;
    for (const name of LAYERS) this.#lay(name, this.layers[name]);
  }

  #mark() {
    const cuts = segments(LAYERS.map((name) => ({ code: name, evidence: this.layers[name] })));
    const [from, to] = this.near;
    for (const block of this.blocks.slice(0, this.built)) {
      if (block.end > from && block.start < to) this.#fill(block, cuts.filter((cut) => cut.start < block.end && cut.end > block.start));
    }
  }

  // Where blocks stand; of those not built, about.
  #measure() {
    let under = 0;
    for (const [place, block] of this.blocks.entries()) {
      block.top = place < this.built ? block.element.offsetTop : under;
      under = block.top + block.height;
    }
    this.tops = this.blocks.map((block) => block.top);
    this.blocks.forEach((block, place) => { block.tall = (this.tops[place + 1] ?? under) - block.top; });
    this.total = this.scroller.scrollHeight || 1;
    this.high = this.rail.clientHeight;
    this.frame.style.height = `${(100 * this.scroller.clientHeight) / this.total}%`;
    this.#draw();
    this.#scrolled();
  }

  // A tick for each phrase, long for the active code, in thousandths of the note.
  #draw() {
    if (this.tops.length !== this.blocks.length) return;
    const tick = ({ start }) => {
      const block = this.blocks[this.#blockAt(start)];
      const inside = (start - block.start) / Math.max(1, block.end - block.start);
      return Math.round((1000 * (block.top + block.tall * inside)) / this.total);
    };
    [[this.segments, "M7 ", "h7"], [this.own, "M0 ", "h14"]].forEach(([spans, from, to], place) => {
      const ticks = new Set(spans.map(tick));
      this.ticks[place].setAttribute("d", [...ticks].map((at) => from + at + to).join(""));
    });
  }

  // what people do

  #soon(name, act) {
    if (!this.frames.has(name)) requestAnimationFrame(() => {
      const latest = this.frames.get(name);
      this.frames.delete(name);
      latest();
    });
    this.frames.set(name, act);
  }

  #scrolled() {
    if (this.tops.length !== this.blocks.length || !this.blocks.length) return;
    const { scrollTop: top, clientHeight: tall } = this.scroller;
    const at = (place) => Math.max(0, before(this.tops, place) - 1);
    const [first, last] = [at(top - NEAR), at(top + tall + NEAR)];
    this.frame.style.translate = `0 ${(top * this.high) / this.total}px`;
    this.on.scrolled(this.begins[at(top + 60)]);
    if (last >= this.built) {
      this.#build(last + 1);
      return this.#measure();
    }
    const near = [this.begins[first], this.blocks[last].end];
    if (near.join() === this.near.join()) return;
    this.#light(near);
  }

  #offsetUnder(event) {
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const range = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const start = this.places?.get(caret ? caret.offsetNode : range?.startContainer);
    return start === undefined ? null : start + (caret ? caret.offset : range.startOffset);
  }

  #segmentUnder(event) {
    const offset = this.#offsetUnder(event);
    if (offset === null) return null;
    const found = [offset, offset - 1].map((place) => this.segments[before(this.ends, place + 1)]);
    return found.find((segment) => segment && this.#inside(segment, event)) ?? null;
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
    const segment = getSelection().isCollapsed && this.#segmentUnder(event);
    if (segment) this.on.picked(segment.codes);
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
    const start = this.places.get(node);
    if (start !== undefined) return start + offset;
    const pieces = this.blocks.slice(0, this.built).flatMap((block) => block.pieces);
    const point = document.createRange();
    point.setStart(node, offset);
    return pieces.find((piece) => point.comparePoint(piece.node, 0) >= 0)?.start ?? this.text.length;
  }

  #railed(event) {
    const box = this.rail.getBoundingClientRect();
    const share = (event.clientY - box.top) / box.height;
    this.scroller.scrollTop = share * this.scroller.scrollHeight - this.scroller.clientHeight / 2;
  }
}

// Runs of lines in blocks, with their guessed heights; a section begins one, so that where blocks stand says where sections do.
function blocks(text, headings) {
  const found = [];
  for (const run of paragraphs(text, headings)) {
    const [{ start, cut }, { end }] = [run[0], run.at(-1)];
    const heading = headings.has(start);
    let block = found.at(-1);
    if (!block || heading || block.runs.length === LINES || block.end - block.start > LONGEST) found.push((block = { start, height: 0, runs: [] }));
    run.kind = heading ? "line heading" : run.length > 1 ? "line flow" : cut ? "line endless" : "line";
    block.runs.push(run);
    block.end = end + 1;
    block.height += end > start ? 28 * Math.ceil((end - start) / WIDE) : 13;
  }
  return found;
}

// Lines, and where a program has broken them at a fixed width, the paragraphs that they were: a break belongs to a
// paragraph if the first word behind it would not have fitted before it.
function paragraphs(text, headings) {
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
  if (width < 40 || width > 120) return lines.map((line) => [line]);
  const broken = ({ start, end }, next) => {
    if (end === start || next.end === next.start || headings.has(start) || headings.has(next.start)) return false;
    const word = /^\S+/.exec(text.slice(next.start, next.end))?.[0].length;
    return word !== undefined && end - start + 1 + word > width;
  };
  const breaks = lines.map((line, place) => place > 0 && broken(lines[place - 1], line));
  const wrapped = breaks.filter(Boolean).length >= Math.max(2, lines.length / 20);
  const runs = [];
  lines.forEach((line, place) => (wrapped && breaks[place] ? runs.at(-1).push(line) : runs.push([line])));
  return runs;
}

const NONE = [];
const fixed = (startContainer, startOffset, endContainer, endOffset) => new StaticRange({ startContainer, startOffset, endContainer, endOffset });
const weight = (span) => span.weight ?? 1;
const high = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xd800;
const low = (text, place) => (text.charCodeAt(place) & 0xfc00) === 0xdc00;
