"""How well places of mentions are found: exact spans of the likeliest tags, marked mentions among all places, and cost.

    python benchmarks/places.py [--json]                                                        # the embedded corpus
    python benchmarks/places.py CORPORA/cantemist --fit train --report dev1 --language spanish [--vectors] [--json]
    python benchmarks/places.py CORPORA/codiesp_d --fit train --folds 3 --language spanish [--json]

Times are CPU seconds of this process, milliseconds are CPU time of a note, its words included. With `--vectors`, words
are clustered by vectors of the fitted and the unlabelled texts. With `--folds`, fitted notes are read by finders of the
others. `--set` changes an option of the finder. With `--self-training N`, each finder reads N texts without codes and
is fitted again on these too, marked where it was sure (`--sure`).
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from plant.candidates.clusters import WordClusters, cluster_words
from plant.candidates.mentions import Mention, mentions_of
from plant.candidates.places import Finder, FinderOptions, Places, find_places, fit_finder
from plant.candidates.words import NoteWords, stemmer, words_of
from plant.data.sources import open_source
from plant.store.ragged import offsets
from plant.text.tokenizer import tokenize
from plant.text.vocab import build_vocab
from plant.train.streams import Text
from plant.train.word_vectors import train_word_vectors
from plant.types import Note

BARE = "background"  # the split of texts without codes


@dataclass(frozen=True)
class Marked:
    """Notes as readers see them, and what was marked in each."""

    notes: Sequence[Note]
    words: Sequence[NoteWords]
    mentions: Sequence[tuple[Mention, ...]]

    def take(self, rows: Sequence[int]) -> "Marked":
        return Marked(*([getattr(self, each.name)[row] for row in rows] for each in fields(self)))


def marked(notes: Sequence[Note], language: str) -> Marked:
    """The words and mentions of some notes; codes are told apart by number."""
    stem = stemmer(language)
    number = {code: place for place, code in enumerate(sorted({code for note in notes for code in note.evidence}))}
    words = [words_of(note.text, stem) for note in notes]
    return Marked(notes, words, [_mentions(note, each, number) for note, each in zip(notes, words, strict=True)])


def _mentions(note: Note, words: NoteWords, number: dict[str, int]) -> tuple[Mention, ...]:
    rows = [(span.start, span.end, number[code]) for code, spans in note.evidence.items() for span in spans]
    table = np.array(rows, np.int32).reshape(-1, 3)
    return mentions_of(words, table[:, :2], table[:, 2])


def clusters_of(texts: Sequence[str]) -> WordClusters:
    """Clusters of all words that stand three times in some texts, by vectors of those texts."""
    words = [tokenize(text).forms for text in texts]
    vocab = build_vocab(Counter(word for each in words for word in each), min_count=3)
    tokens = [vocab.encode(each) for each in words]
    text = Text(np.concatenate(tokens), offsets([len(each) for each in tokens]))
    return cluster_words(vocab.tokens[2:], train_word_vectors(text, len(vocab), seed=1)[2:], seed=1)


def spans(places: Places, which: Any = slice(None)) -> set[tuple[int, int]]:
    return set(zip(places.first[which].tolist(), places.last[which].tolist(), strict=True))


def read(finder: Finder, reported: Marked, language: str) -> tuple[Counter[str], float]:
    """Counts over the notes, and CPU seconds of reading them from their texts."""
    stem = stemmer(language)
    find_places(finder, words_of(reported.notes[0].text, stem))  # compiled before the clock starts
    begun = time.process_time()
    found = [find_places(finder, words_of(note.text, stem)) for note in reported.notes]
    taken = time.process_time() - begun
    counts: Counter[str] = Counter(notes=len(reported.notes))
    for places, mentions in zip(found, reported.mentions, strict=True):
        gold, path = {(each.first, each.last) for each in mentions}, spans(places, places.on_path)
        counts += Counter(
            marked=len(gold),
            tagged=len(path),
            right=len(gold & path),
            found=len(gold & spans(places)),
            places=len(places),
        )
    return counts, taken


def self_taught(finder: Finder, bare: Sequence[NoteWords], *, sure: float) -> list[tuple[Mention, ...]]:
    """Spans of the likeliest tags of texts that nobody marked, where all their tags are likely enough."""
    found = [find_places(finder, words) for words in bare]
    kept = [places.on_path & (places.probability >= sure) for places in found]
    pairs = [sorted(spans(places, which)) for places, which in zip(found, kept, strict=True)]
    return [tuple(Mention(first, last, 0) for first, last in own) for own in pairs]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", default="demo")
    parser.add_argument("--fit", default="train", help="splits, with commas between")
    parser.add_argument("--report", default="", help="a split (dev without a corpus)")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--language", default="")
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--self-training", type=int, default=0, metavar="N")
    parser.add_argument("--sure", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="option=number")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def options_of(changes: Sequence[str]) -> FinderOptions:
    kinds = {each.name: type(each.default) for each in fields(FinderOptions)}
    named = dict(change.split("=", 1) for change in changes)
    return FinderOptions(**{name: kinds[name](value) for name, value in named.items()})


def tasks_of(fitted: Marked, reported: Marked, folds: int) -> list[tuple[Marked, Marked]]:
    """What each finder is fitted on and what it reads."""
    fold_of = np.arange(len(fitted.notes)) % max(1, folds)
    parts = [(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)) for fold in range(folds)]
    return [(fitted.take(rest.tolist()), fitted.take(part.tolist())) for rest, part in parts] or [(fitted, reported)]


def measured(total: Counter[str]) -> dict[str, float]:
    return {
        "F1": 2 * total["right"] / (total["marked"] + total["tagged"]),
        "P": total["right"] / total["tagged"],
        "R": total["right"] / total["marked"],
        "marked among places": total["found"] / total["marked"],
        "places a note": total["places"] / total["notes"],
    }


def main() -> None:
    given = parsed()
    if given.corpus == "demo" and not given.folds:
        given.report = given.report or "dev"
    notes = list(open_source(given.corpus).notes())
    fitted = marked([note for note in notes if note.split in given.fit.split(",")], given.language)
    reported = marked([note for note in notes if note.split and note.split == given.report], given.language)
    bare = [note.text for note in notes if note.split == BARE]
    further = [words_of(text, stemmer(given.language)) for text in bare[: given.self_training]]
    begun = time.process_time()
    clusters = clusters_of([*(note.text for note in fitted.notes), *bare]) if given.vectors else None
    seconds, total = {"clustering": time.process_time() - begun, "fitting": 0.0, "reading": 0.0}, Counter[str]()
    tasks = tasks_of(fitted, reported, given.folds)
    for taught, asked in tasks:
        begun = time.process_time()
        fit = partial(fit_finder, clusters=clusters, options=options_of(given.set), seed=given.seed)
        finder = fit(taught.words, taught.mentions)
        if further:
            marks = self_taught(finder, further, sure=given.sure)
            finder = fit([*taught.words, *further], [*taught.mentions, *marks])
        seconds["fitting"] += time.process_time() - begun
        counts, taken = read(finder, asked, given.language)
        total, seconds["reading"] = total + counts, seconds["reading"] + taken
    result = {
        "fitted notes": len(tasks[0][0].notes),
        **measured(total),
        "clustering CPU s": seconds["clustering"],
        "fitting CPU s": seconds["fitting"] / len(tasks),
        "reading ms": 1000 * seconds["reading"] / total["notes"],
    }
    print(json.dumps(result) if given.json else "\n".join(f"{name:20} {each:10.4f}" for name, each in result.items()))


if __name__ == "__main__":
    main()
