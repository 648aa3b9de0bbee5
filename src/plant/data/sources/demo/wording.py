"""Words on paper: choices, abbreviations, slips of the pen, and marks on the words that speak for a code."""

import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from plant.types import Span

# In-band marks, so that sections can be put together as plain strings; `unmark` turns them into spans.
OPEN, CLOSE, END = "\x02", "\x03", "\x04"
MARK = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}([^{END}]*){END}")
CHOICE = re.compile(r"<([^<>]*)>")
FIRST_LETTER = re.compile(f"^((?:{OPEN}[^{CLOSE}]*{CLOSE})?)([a-z])")


def expand(template: str, rng: Random, slots: Mapping[str, object]) -> str:
    """Draw one branch of every `<a|b>`, innermost first, then fill the `{slots}`."""
    while "<" in template:
        template = CHOICE.sub(lambda choice: rng.choice(choice[1].split("|")), template)
    return template.format_map(slots) if "{" in template else template


def mark(text: str, codes: Iterable[str]) -> str:
    """The text, remembered as evidence of the codes."""
    joined = ",".join(codes)
    return f"{OPEN}{joined}{CLOSE}{text}{END}" if joined else text


def unmark(marked: str) -> tuple[str, dict[str, tuple[Span, ...]]]:
    """The bare text, and for each marked code the spans of its words."""
    pieces: list[str] = []
    spans: dict[str, list[Span]] = {}
    length = position = 0
    for found in MARK.finditer(marked):
        pieces += [marked[position : found.start()], found[2]]
        start = length + found.start() - position
        length = start + len(found[2])
        position = found.end()
        for code in found[1].split(","):
            spans.setdefault(code, []).append(Span(start, length))
    return "".join([*pieces, marked[position:]]), {code: tuple(places) for code, places in spans.items()}


def sentence(text: str) -> str:
    """The text with a capital at its start, inside of a mark too."""
    return FIRST_LETTER.sub(lambda found: found[1] + found[2].upper(), text)


def enumerated(items: Sequence[str]) -> str:
    """Items as running text: `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def abbreviated(text: str, rng: Random, abbreviations: Mapping[str, tuple[str, ...]]) -> str:
    """One word of the text cut short, where it has a word that people cut short."""
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if word in abbreviations]
    if not places:
        return text
    place = rng.choice(places)
    words[place] = rng.choice(abbreviations[words[place]])
    return " ".join(words)


def misspelt(text: str, rng: Random) -> str:
    """One long word with a letter lost, doubled or swapped with its neighbour; its first and last letters stay."""
    words = list(re.finditer(r"[A-Za-z]{6,}", text))
    if not words:
        return text
    word = rng.choice(words)
    place = rng.randrange(word.start() + 1, word.end() - 2)
    one, two = text[place], text[place + 1]
    slip = rng.choice((two, one + one + two, two + one))
    return text[:place] + slip + text[place + 2 :]


def wrapped(text: str, width: int) -> str:
    """Long lines broken at spaces; every character keeps its place, for a space only turns into a line break."""
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    start = 0
    while len(line) - start > width:
        space = line.rfind(" ", start + 1, start + width + 1)
        if space < 0:
            break
        line = line[:space] + "\n" + line[space + 1 :]
        start = space + 1
    return line
