"""A note with its evidence lit: in a terminal, and as one self-contained page."""

import sys
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from textwrap import shorten

from plant.types import Evidence, Prediction, ScoredCode

CONTEXT = 60  # characters of the note on either side of lit words in a terminal
PHRASES, PHRASE = 4, 60  # shown below a code, and their characters
BOLD, LIT, PLAIN = "\x1b[1m", "\x1b[30;43m", "\x1b[0m"

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 80rem; padding: 0 1rem; color: #222 }}
input[type=radio] {{ position: absolute; opacity: 0 }}
main {{ display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.5rem }}
.note {{ white-space: pre-wrap; overflow-wrap: anywhere }}
.codes {{ position: sticky; top: 1rem; align-self: start; max-height: 95vh; overflow: auto }}
.codes label {{ display: block; cursor: pointer; border-left: 4px solid transparent; padding: .15rem .5rem }}
.codes b {{ font-family: ui-monospace, monospace }} .refused {{ color: #666 }}
h2 {{ font-size: 1rem; margin: .8rem 0 .2rem }}
.said {{ font-size: .85rem; color: #555 }} .warned {{ color: #a33 }}
mark {{ background: none; color: inherit; border-bottom: 1px dotted #bbb }}
mark.denied {{ text-decoration: line-through 1px #a33 }} mark.supposed {{ text-decoration: underline wavy 1px #777 }}
{rules}
@media (max-width: 50rem) {{ main {{ display: block }} .codes {{ position: static; max-height: none }} }}
@media print {{ mark {{ font-weight: bold }} }}
</style>
<h1>{title}</h1>
{inputs}
<main>
<div class="note">{note}</div>
<div class="codes">
<p class="said">Choose a code to light the words that speak for it; the stronger the colour, the more they say. Dotted:
words that speak for some code. <mark class="denied">Struck out</mark>: negated, or of the family.
<mark class="supposed">Waved</mark>: supposed.</p>
<label for="k-all">all codes</label>
<h2>Accepted</h2>
{accepted}
<h2>Near misses</h2>
{missed}
</div>
</main>
</html>
"""
RULE = (
    "#k{n}:checked ~ main .c{n} {{ background: rgba(230, 159, 0, var(--w{n})); border-bottom: 2px solid #D55E00 }}\n"
    '#k{n}:checked ~ main label[for="k{n}"] {{ border-left-color: #D55E00; background: #fdf3e0 }}\n'
    '#k{n}:focus-visible ~ main label[for="k{n}"] {{ outline: 2px solid #06c }}'
)
ALL = "#k-all:checked ~ main mark { background: rgba(230, 159, 0, .35) }"
NOTHING = "no words of the note speak for it: it was accepted by how frequent it is, or by the note as a whole"


def terminal_text(text: str, prediction: Prediction, *, colour: bool | None = None) -> str:
    """Each code with the phrases that speak for it, in their surroundings."""
    colour = sys.stdout.isatty() if colour is None else colour
    blocks = [
        "\n".join([_headline(scored, colour), *_warned(scored), *_snippets(text, scored.evidence, colour)])
        for scored in prediction.ranked
    ]
    return f"note {prediction.id}\n\n" + "\n\n".join(blocks)


def html_page(text: str, prediction: Prediction) -> str:
    """One page, no outside hosts and no scripts: the note once, beside its codes."""
    ranked = list(enumerate(prediction.ranked))
    labels = {
        accepted: [_label(n, scored) for n, scored in ranked if scored.accepted == accepted]
        for accepted in (True, False)
    }
    inputs = [f'<input type="radio" name="code" id="k{n}"{" checked" if n == 0 else ""}>' for n, _ in ranked]
    return PAGE.format(
        title=escape(f"Note {prediction.id}"),
        rules="\n".join([ALL, *(RULE.format(n=n) for n, _ in ranked)]),
        inputs="\n".join(['<input type="radio" name="code" id="k-all">', *inputs]),
        note=_lit(text, prediction.ranked),
        accepted="\n".join(labels[True]) or "<p>none</p>",
        missed="\n".join(labels[False]) or "<p>none</p>",
    )


def _headline(scored: ScoredCode, colour: bool) -> str:
    mark = "+" if scored.accepted else " "
    bold, plain = (BOLD, PLAIN) if colour else ("", "")
    return f"{mark} {bold}{scored.code}{plain}  {scored.probability:.3f}  {shorten(scored.description, 90)}"


def _warned(scored: ScoredCode) -> list[str]:
    return [f"      ! {words}"] if (words := _warning(scored)) else []


def _snippets(text: str, evidence: Sequence[Evidence], colour: bool) -> list[str]:
    before, after = (LIT, PLAIN) if colour else (">", "<")
    return [
        f"      {100 * e.weight:3.0f} %  {_flat(text[max(0, e.start - CONTEXT) : e.start])}"
        f"{before}{_flat(text[e.start : e.end])}{after}{_flat(text[e.end : e.end + CONTEXT])}{_reason(e)}"
        for e in evidence
    ]


def _reason(evidence: Evidence) -> str:
    """Why words mean a code, and which codes they were also taken to mean; empty where a coder does not say."""
    also = f"also {', '.join(evidence.rivals)}" if evidence.rivals else ""
    around = ", ".join(evidence.cues)
    said = "; ".join(filter(None, (evidence.why, also, around)))
    return f"  [{said}]" if said else ""


def _flat(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")


def _label(number: int, scored: ScoredCode) -> str:
    """A code as one line to choose, with what is to be known of its evidence."""
    state = "" if scored.accepted else ' class="refused"'
    name = f"<b>{escape(scored.code)}</b> {escape(scored.description)} — {scored.probability:.3f}"
    warning = f'<br><span class="said warned">{escape(words)}</span>' if (words := _warning(scored)) else ""
    phrases = f'<br><span class="said">{said}</span>' if (said := _phrases(scored.evidence)) else ""
    return f'<label for="k{number}"{state}>{name}{phrases}{warning}</label>'


def _phrases(evidence: Sequence[Evidence]) -> str:
    """The first few words that speak for a code, each with what is said around it."""
    said = [f"“{shorten(_flat(own.text), PHRASE)}”{_around(own)}" for own in evidence]
    return escape(" · ".join(list(dict.fromkeys(said))[:PHRASES]))


def _around(evidence: Evidence) -> str:
    return f" ({', '.join(evidence.cues)})" if evidence.cues else ""


def _warning(scored: ScoredCode) -> str:
    """What a person who checks a code should know first."""
    if not scored.evidence:
        return NOTHING if scored.accepted else ""
    denied = [own for own in scored.evidence if {"negation", "family"}.intersection(own.cues)]
    return "all its words are negated or of the family" if len(denied) == len(scored.evidence) else ""


def _lit(text: str, ranked: Sequence[ScoredCode]) -> str:
    """The note once, cut where evidence of any code begins or ends; each piece knows the codes that it speaks for."""
    spans = [(number, own) for number, scored in enumerate(ranked) for own in scored.evidence]
    strongest = [max((own.weight for own in scored.evidence), default=1.0) or 1.0 for scored in ranked]
    borders = sorted({0, len(text), *(end for _, own in spans for end in (own.start, own.end))})
    parts = []
    for start, end in pairwise(borders):
        over = [(number, own) for number, own in spans if own.start <= start and end <= own.end]
        parts.append(_mark(escape(text[start:end]), over, strongest) if over else escape(text[start:end]))
    return "".join(parts)


def _mark(piece: str, over: Sequence[tuple[int, Evidence]], strongest: Sequence[float]) -> str:
    cues = {cue for _, own in over for cue in own.cues}
    kinds = ["denied"] * bool(cues & {"negation", "family"}) + ["supposed"] * ("hypothesis" in cues)
    classes = " ".join([*(f"c{number}" for number in dict(over)), *kinds])
    weights = "; ".join(f"--w{number}: {0.25 + 0.75 * own.weight / strongest[number]:.2f}" for number, own in over)
    reasons = "; ".join(dict.fromkeys(reason for _, own in over if (reason := _reason(own).strip(" []"))))
    title = f' title="{escape(reasons)}"' if reasons else ""
    return f'<mark class="{classes}" style="{weights}"{title}>{piece}</mark>'
