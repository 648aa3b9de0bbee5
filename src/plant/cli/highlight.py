"""A note with its evidence lit: in a terminal, and as one self-contained page."""

import sys
from collections.abc import Sequence
from html import escape
from textwrap import shorten

from plant.types import Evidence, Prediction, ScoredCode

CONTEXT = 60  # characters of the note on either side of lit words in a terminal
BOLD, LIT, PLAIN = "\x1b[1m", "\x1b[30;43m", "\x1b[0m"

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222 }}
details {{ border-top: 1px solid #bbb; padding: .4rem 0 }}
summary {{ cursor: pointer }} summary b {{ font-family: ui-monospace, monospace }}
.refused {{ color: #666 }} .note {{ white-space: pre-wrap; margin: .8rem 0 }}
mark {{ background: rgba(230, 159, 0, var(--w)); padding: 0 .1em; border-bottom: 2px solid #D55E00 }}
@media print {{ mark {{ background: none; font-weight: bold }} }}
</style>
<h1>{title}</h1>
<p>Click a code to see the words that speak for it; the stronger the colour, the more they say.</p>
{codes}
</html>
"""


def terminal_text(text: str, prediction: Prediction, *, colour: bool | None = None) -> str:
    """Each code with the phrases that speak for it, in their surroundings."""
    colour = sys.stdout.isatty() if colour is None else colour
    blocks = [
        "\n".join([_headline(scored, colour), *_snippets(text, scored.evidence, colour)])
        for scored in prediction.ranked
    ]
    return f"note {prediction.id}\n\n" + "\n\n".join(blocks)


def html_page(text: str, prediction: Prediction) -> str:
    """One page, no outside hosts; the whole note under each code."""
    codes = "\n".join(_details(text, scored, opened=number == 0) for number, scored in enumerate(prediction.ranked))
    return PAGE.format(title=escape(f"Note {prediction.id}"), codes=codes)


def _headline(scored: ScoredCode, colour: bool) -> str:
    mark = "+" if scored.accepted else " "
    bold, plain = (BOLD, PLAIN) if colour else ("", "")
    return f"{mark} {bold}{scored.code}{plain}  {scored.probability:.3f}  {shorten(scored.description, 90)}"


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
    said = "; ".join(filter(None, (evidence.why, also)))
    return f"  [{said}]" if said else ""


def _flat(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")


def _details(text: str, scored: ScoredCode, *, opened: bool) -> str:
    state = "" if scored.accepted else ' class="refused"'
    title = f"<b>{escape(scored.code)}</b> {escape(scored.description)} — {scored.probability:.3f}"
    verdict = "accepted" if scored.accepted else "not accepted"
    return (
        f"<details{' open' if opened else ''}><summary{state}>{title} ({verdict})</summary>"
        f'<div class="note">{_lit(text, scored.evidence)}</div></details>'
    )


def _lit(text: str, evidence: Sequence[Evidence]) -> str:
    """The note with its evidence in marks; spans of one code do not overlap."""
    strongest = max((e.weight for e in evidence), default=1.0) or 1.0
    parts, position = [], 0
    for span in sorted(evidence, key=lambda e: e.start):
        parts.append(escape(text[position : span.start]))
        strength = 0.25 + 0.75 * span.weight / strongest
        title = f' title="{escape(_reason(span).strip(" []"))}"' if _reason(span) else ""
        parts.append(f'<mark style="--w: {strength:.2f}"{title}>{escape(text[span.start : span.end])}</mark>')
        position = span.end
    return "".join([*parts, escape(text[position:])])
