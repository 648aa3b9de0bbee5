"""Evidence as phrases against the words that people marked, beside the spans that phrases are made of.

    python benchmarks/phrases.py RUN [NOTES] [choose|report]

RUN is a run with marked notes, such as CANTEMIST's; accepted codes that people marked are counted, of the notes that it
reports on or of those that it chose by, which are the ones to look at while phrases are changed.
"""

import argparse
from pathlib import Path

import numpy as np

from plant.cli.console import print_table
from plant.data.corpus import Role, held_out, take
from plant.data.store import load_corpus
from plant.evaluate.explanations.plausibility import marked_tokens
from plant.explain.phrases import phrases, read_text
from plant.systems.coder import load_coder
from plant.types import Span

ENOUGH = 0.5  # of the union of two spans that they share to count as the same


def main(run: Path, notes: int, role: Role) -> None:
    """The table of both kinds of evidence."""
    fitted, corpus = load_coder(run / "coder"), load_corpus(run / "corpus")
    documents = held_out(corpus, role, fitted.codes)
    marked = np.flatnonzero(np.diff(documents.evidence_starts))
    rows = marked[np.unique(np.linspace(0, len(marked) - 1, min(notes, len(marked))).astype(int))]
    documents = take(documents, rows)
    pairs = [pair for row in range(len(documents)) for pair in _of_note(fitted, documents, row)]
    table = [["spans today", *_figures(pairs, 0)], ["phrases", *_figures(pairs, 1)]]
    print(f"{len(pairs):,} accepted, marked codes of {len(documents)} notes of {run.name}")
    print_table(["evidence", "token F1", "token IoU", "IoU F1", "spans a code", "words a span"], table)


def _of_note(fitted, documents, row):
    """For each accepted code with marks: today's spans, phrases, gold spans, and where the words stand."""
    text = documents.text_of(row)
    [prediction] = fitted.code(fitted.encode([text], ["0"]), top=0)
    read = read_text(text)
    place = slice(documents.evidence_starts[row], documents.evidence_starts[row + 1])
    labels, spans = documents.evidence_labels[place], documents.evidence_spans[place]
    for scored in prediction.ranked:
        gold = [Span(*span) for span in spans[labels == fitted.codes.index(scored.code)].tolist()]
        if gold and scored.accepted:
            before = [Span(one.start, one.end) for one in scored.evidence]
            after = phrases(read, scored.evidence, fitted.codebook.names(scored.code))
            yield (before, [Span(one.start, one.end) for one in after]), gold, read


def _figures(pairs, which: int) -> list[float]:
    """Means over codes: tokens that both have, and spans of which one overlaps the other by half of both together."""
    tokens, unions, hits, lengths = [], [], [], []
    for found, gold, read in pairs:
        own, right = (marked_tokens(read.starts, read.ends, spans) for spans in (found[which], gold))
        both = int((own & right).sum())
        tokens.append(2 * both / max(1, int(own.sum() + right.sum())))
        unions.append(both / max(1, int((own | right).sum())))
        hits.append(_span_f1(found[which], gold))
        lengths += [int(marked_tokens(read.starts, read.ends, [span]).sum()) for span in found[which]]
    spans = float(np.mean([len(found[which]) for found, _, _ in pairs]))
    return [*(float(np.mean(values)) for values in (tokens, unions, hits)), spans, float(np.mean(lengths))]


def _span_f1(found, gold) -> float:
    right = sum(any(_overlap(one, other) >= ENOUGH for other in gold) for one in found)
    met = sum(any(_overlap(one, other) >= ENOUGH for other in found) for one in gold)
    precision, recall = right / max(1, len(found)), met / len(gold)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _overlap(one: Span, other: Span) -> float:
    shared = max(0, min(one.end, other.end) - max(one.start, other.start))
    return shared / (one.end - one.start + other.end - other.start - shared)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("notes", type=int, nargs="?", default=100)
    parser.add_argument("role", choices=("choose", "report"), nargs="?", default="report")
    given = parser.parse_args()
    if given.run is None:
        parser.print_usage()  # among all benchmarks: there is no run with marked notes
    else:
        main(given.run, given.notes, Role[given.role.upper()])
