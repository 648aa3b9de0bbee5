// The note: its text whole, one text node per line, and evidence laid over it as highlights near the viewport.

import { idle, make } from "./dom.js";
import { before } from "./offsets.js";

const LINES = 20; // of a block, and
const LONGEST = 4000; // characters, about
const WIDE = 86; // characters of a line of the sheet: the height of a block is guessed
const FIRST = 1000; // pixels that are built at once; the rest follows when nobody waits, or it is asked for
const MORE = 8; // blocks that are built at a time then
const NEAR = 400; // pixels beyond what is in sight
const LONG = 150_000; // characters beyond which only what is near is laid out
const LAYERS = ["ev1", "ev2", "ev3", "doubt", "weak", "strong", "cue", "chosen"]; // the later ones lie above
const WORDS = /[\p{L}\p{N}\p{M}]+|\p{Emoji_Presentation}/gu;
const CAN = globalThis.Highlight && CSS.highlights; // else the same pieces are <mark>
const FORCED = matchMedia("(forced-colors: active)"); // there all highlights look alike
const NONE = [];

export function noteText(host, scroller, rail, on) {
  const ticks = rail.querySelectorAll("path");
  const frame = rail.querySelector("i");
  const layers = new Map(LAYERS.map((name) => [name, NONE])); // the spans of each
  const frames = new Map(); // what the next frame will do
  const idly = idle(() => build(built + 1), MORE);
  let text = "", blocks = [], begins = [], built = 0, near = [0, 0];
  let places; // where the text of a node stands
  let words; // found when they are first asked for
  let tops = [], total = 1; // where blocks stand, and the height of the note
  let shown, pieces = [], ends = [], own = NONE, lit; // what is lit, cut into pieces; spans of the chosen code

  function show(note, lines) {
    text = note;
    blocks = blocksOf(lines);
    begins = blocks.map((block) => block.start);
    places = new WeakMap();
    built = 0;
    tops = [];
    words = shown = null;
    let under = 0;
    const first = blocks.findIndex((block) => (under += block.height) > FIRST);
    near = [0, blocks.at(first).end];
    scroller.scrollTop = 0; // first, or the new text would be laid out twice
    host.replaceChildren();
    host.classList.toggle("long", text.length > LONG);
    host.style.minHeight = `${blocks.reduce((sum, block) => sum + block.height, 0)}px`;
    build(first < 0 ? blocks.length : first + 1);
    idly(blocks.slice(built));
    choose(null);
  }

  // codes: what is lit; active: spans that stand out; mode: all, this or plain.
  function light(codes, active, mode) {
    lit = mode === "all" && !FORCED.matches;
    const wanted = lit ? codes : NONE;
    if (wanted !== shown) {
      shown = wanted;
      pieces = segments(shown);
      ends = pieces.map((piece) => piece.end);
      for (const depth of [1, 2, 3]) lay(`ev${depth}`, pieces.filter((piece) => Math.min(3, piece.codes.length) === depth));
      lay("doubt", pieces.filter((piece) => piece.doubt));
    }
    own = mode === "plain" ? NONE : active;
    const enough = Math.max(0, ...own.map((span) => span.weight)) / 2;
    lay("strong", own.filter((span) => span.weight >= enough));
    lay("weak", own.filter((span) => span.weight < enough));
    lay("cue", own.map((span) => span.cue).filter(Boolean));
    soon(draw);
  }

  function reveal(start) {
    if (!blocks.length) return;
    const box = rectangle(start, start + 1);
    const seen = scroller.getBoundingClientRect();
    if (box.top < seen.top + 60 || box.bottom > seen.bottom - 90) scroller.scrollTop += box.top - seen.top - seen.height / 3;
  }

  const choose = (span) => lay("chosen", span ? [span] : NONE);

  function everything() {
    build(blocks.length);
    relight([0, Infinity]);
  }

  const allWords = () => (words ??= [...text.matchAll(WORDS)].map(({ 0: word, index }) => ({ start: index, end: index + word.length })));

  // Words, whole: a selection takes all of those that it touches, marks around them are left out.
  function snapped(start, end) {
    const touched = allWords().filter((word) => word.end > start && word.start < end);
    return touched.length ? { start: touched[0].start, end: touched.at(-1).end } : null;
  }

  // The next word from a place on, for those who select by keys.
  const word = (place, step) => step > 0 ? allWords().find(({ start }) => start >= place) : allWords().findLast(({ end }) => end <= place);

  function select(start, end) {
    getSelection().removeAllRanges();
    getSelection().addRange(rangeOf({ start, end }));
    reveal(end - 1);
  }

  const rectangle = (start, end) => rangeOf({ start, end }).getBoundingClientRect();

  // drawing

  // The blocks up to a number, those that are there already left as they are.
  function build(count) {
    const fresh = blocks.slice(built, count);
    for (const block of fresh) {
      block.element = make("div", { class: "block" });
      block.element.style.containIntrinsicSize = `auto ${block.height}px`;
      write(block, NONE);
    }
    host.append(...fresh.map((block) => block.element));
    built += fresh.length;
    if (built === blocks.length) host.style.minHeight = "";
  }

  // The lines of a block, a text node for each, cut where pieces of evidence begin and end.
  function write(block, cuts) {
    block.nodes = [];
    block.element.replaceChildren(...block.lines.map(({ start, end, kind }) => {
      const line = make("div", { class: `line ${kind}` });
      let at = start;
      const put = (stop, names) => {
        const node = new Text(text.slice(at, stop));
        places.set(node, at);
        block.nodes.push(node);
        line.append(names ? make("mark", { class: names.map((name) => `at-${name}`).join(" ") }, node) : node);
        at = stop;
      };
      for (const cut of cuts.filter((one) => one.start < end && one.end > start)) {
        if (cut.start > at) put(cut.start);
        put(Math.min(cut.end, end), cut.codes);
      }
      if (at < end || start === end) put(end);
      return line;
    }));
  }

  const blockAt = (offset) => Math.max(0, before(begins, offset + 1) - 1);

  // The text node of a place, which is built if it is not there yet, and the place in it.
  function point(offset, behind = 0) {
    const place = blockAt(offset);
    build(place + 1);
    const { nodes } = blocks[place];
    const node = nodes.findLast((one) => places.get(one) <= offset) ?? nodes[0];
    return [node, Math.min(node.length, offset + behind - places.get(node))];
  }

  function borders({ start, end }) {
    const [startContainer, startOffset] = point(start);
    const [endContainer, endOffset] = point(Math.max(start, end - 1), end > start ? 1 : 0);
    return { startContainer, startOffset, endContainer, endOffset };
  }

  function rangeOf(span) {
    const { startContainer, startOffset, endContainer, endOffset } = borders(span);
    const range = new Range();
    range.setStart(startContainer, startOffset);
    range.setEnd(endContainer, endOffset);
    return range;
  }

  // Spans of a layer, registered where they are near: the browser looks at all of them again at each change.
  function lay(name, spans) {
    layers.set(name, spans);
    if (!CAN) return soon(mark);
    const seen = spans.filter(isNear);
    if (!seen.length) return CSS.highlights.delete(name);
    const layer = new Highlight(...seen.map((span) => new StaticRange(borders(span))));
    layer.priority = LAYERS.indexOf(name);
    CSS.highlights.set(name, layer);
  }

  const isNear = ({ start, end }) => end > near[0] && start < near[1];

  function relight(now) {
    near = now;
    for (const [name, spans] of layers) lay(name, spans);
  }

  function mark() {
    const cuts = segments([...layers].map(([code, spans]) => ({ code, spans })));
    for (const block of blocks.slice(0, built).filter(isNear)) write(block, cuts);
  }

  // Where blocks stand; of those not built, about.
  function measure() {
    let under = 0;
    tops = blocks.map(({ element, height }, place) => {
      const top = place < built ? element.offsetTop : under;
      under = top + height;
      return top;
    });
    total = scroller.scrollHeight || 1;
    frame.style.height = `${(100 * scroller.clientHeight) / total}%`;
    draw();
    scrolled();
  }

  // A tick for each phrase, long for the active code, in thousandths of the note.
  function draw() {
    if (tops.length !== blocks.length) return;
    const tick = ({ start }) => {
      const place = blockAt(start);
      const block = blocks[place];
      const tall = (tops[place + 1] ?? tops[place] + block.height) - tops[place];
      return Math.round((1000 * (tops[place] + (tall * (start - block.start)) / (block.end - block.start))) / total);
    };
    [[pieces, "M7 ", "h7"], [own, "M0 ", "h14"]].forEach(([spans, from, to], path) => {
      const marks = new Set(spans.map(tick));
      ticks[path].setAttribute("d", [...marks].map((at) => from + at + to).join(""));
    });
  }

  // what people do

  // What is asked for twice before the next frame is done once, as it was asked for last.
  function soon(act, event) {
    if (!frames.size) requestAnimationFrame(() => {
      const now = [...frames];
      frames.clear();
      for (const [latest, told] of now) latest(told);
    });
    frames.set(act, event);
  }

  function scrolled() {
    if (tops.length !== blocks.length || !blocks.length) return;
    const { scrollTop: top, clientHeight: tall } = scroller;
    const at = (pixel) => Math.max(0, before(tops, pixel) - 1);
    const last = at(top + tall + NEAR);
    frame.style.translate = `0 ${(100 * top) / total}cqh`;
    on.scrolled(begins[at(top + 60)]);
    if (last >= built) {
      build(last + 1);
      return measure();
    }
    const now = [begins[at(top - NEAR)], blocks[last].end];
    if (now.join() !== near.join()) relight(now);
  }

  function pieceUnder({ clientX: x, clientY: y }) {
    const caret = document.caretPositionFromPoint?.(x, y);
    const start = places?.get(caret?.offsetNode);
    if (start === undefined) return null;
    const hit = (box) => x >= box.left - 1 && x <= box.right + 1 && y >= box.top && y <= box.bottom;
    const found = [0, 1].map((back) => pieces[before(ends, start + caret.offset - back + 1)]);
    return found.find((piece) => piece && [...rangeOf(piece).getClientRects()].some(hit)) ?? null;
  }

  function pointed(event) {
    if (event.buttons) return;
    const codes = (lit && pieceUnder(event)?.codes) || NONE;
    host.style.cursor = codes.length ? "pointer" : "";
    on.hovered(codes);
  }

  function clicked(event) {
    const piece = getSelection().isCollapsed && pieceUnder(event);
    if (piece) on.picked(piece.codes);
  }

  function selected() {
    const selection = getSelection();
    const range = selection.rangeCount ? selection.getRangeAt(0) : null;
    if (!range || range.collapsed || !host.contains(range.commonAncestorContainer)) return on.selected(null);
    on.selected(snapped(offsetOf(range.startContainer, range.startOffset), offsetOf(range.endContainer, range.endOffset)));
  }

  // Selections also end between elements: there, the first text behind counts.
  function offsetOf(node, offset) {
    if (places.has(node)) return places.get(node) + offset;
    const border = new Range();
    border.setStart(node, offset);
    const behind = blocks.slice(0, built).flatMap((block) => block.nodes).find((one) => border.comparePoint(one, 0) >= 0);
    return places.get(behind) ?? text.length;
  }

  scroller.onscroll = () => soon(scrolled);
  host.onmousemove = (event) => soon(pointed, event);
  host.onmouseleave = () => on.hovered(NONE);
  host.onclick = clicked;
  document.onselectionchange = () => soon(selected);
  rail.onclick = ({ clientY }) => {
    const box = rail.getBoundingClientRect();
    scroller.scrollTop = ((clientY - box.top) / box.height) * scroller.scrollHeight - scroller.clientHeight / 2;
  };
  const sizes = new ResizeObserver(measure);
  for (const element of [scroller, host]) sizes.observe(element);
  FORCED.addEventListener("change", on.repaint);
  return { show, light, reveal, choose, everything, scrolled, word, select, rectangle };
}

// Spans cut into disjoint pieces: how many codes each speaks for, and which.
function segments(codes) {
  const events = codes.flatMap(({ code, spans }) => spans.flatMap(({ start, end, caution }) => {
    const one = { code, caution };
    return end > start ? [[start, one], [end, one]] : [];
  })).sort((a, b) => a[0] - b[0]);
  const open = new Set();
  const found = [];
  let last = 0;
  for (const [place, one] of events) {
    if (open.size && place > last) {
      const now = [...open];
      found.push({ start: last, end: place, codes: [...new Set(now.map(({ code }) => code))], doubt: now.some(({ caution }) => caution) });
    }
    if (!open.delete(one)) open.add(one);
    last = place;
  }
  return found;
}

// Lines in blocks, with their guessed heights; a section begins one, so that where blocks stand says where sections do.
function blocksOf(lines) {
  const found = [];
  for (const line of lines) {
    const { start, end, kind } = line;
    let block = found.at(-1);
    if (!block || kind === "heading" || block.lines.length === LINES || block.end - block.start > LONGEST) found.push((block = { start, height: 0, lines: [] }));
    block.lines.push(line);
    block.end = end + 1;
    block.height += end > start ? 28 * Math.ceil((end - start) / WIDE) : 13;
  }
  return found;
}

