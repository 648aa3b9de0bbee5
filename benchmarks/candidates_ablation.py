"""What each group of features and each stage of `candidates` earns: the same fit without it.

    python benchmarks/candidates_ablation.py CORPORA/cantemist --report dev1 --out DIR \\
        --set naming.codes=CORPORA/cantemist/icdo3_catalogue.tsv [--seeds 1] [--only WORD ...]
    python benchmarks/candidates_ablation.py CORPORA/codiesp_d --out DIR          # held-out scores of the judge alone

Readers are fitted once, in DIR; a variant that concerns the judge alone lists nothing anew. A group of features is left
out by giving the judge none of its values, at both levels. A way to candidates is left out by taking away the rows that
nothing else found. `--seeds` are those of the judge. Every result is a line of DIR/ablation.jsonl; what is there is not
fitted again. Held-out: fitted notes, each judged by what had not seen it, at the threshold that the same scores chose,
so that micro-F1 is a little too good there.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from plant.candidates import judge as judging
from plant.candidates.judge import MAXIMA, Lessons, columns_of, teach
from plant.candidates.listing import Lister, list_rows, right_rows
from plant.candidates.name_features import FLAGS
from plant.candidates.names import fit_namer
from plant.candidates.note_features import feature_names
from plant.candidates.phrases import gather_phrases
from plant.candidates.reader import Reader, TaughtNote, marked_wordings
from plant.candidates.rows import Rows, listed
from plant.candidates.words import words_of
from plant.data.corpus import Corpus, Documents, Role, TrainingView, gold_codes, held_out, training_view
from plant.data.roles import Plan
from plant.data.store import load_corpus
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.steps.candidates import PARTS, further_codes, lessons_of, parts_of, taught_notes
from plant.steps.fit import plan_of
from plant.steps.prepare import Request, prepare_once
from plant.steps.step import Root, Walk, WalkSettings, walk
from plant.store.keeper import InFolder
from plant.systems.candidates import LEAST

Keep = Callable[[Rows, Sequence[str]], NDArray[np.bool_]]
Change = Callable[[Reader, Sequence[TaughtNote], Sequence[str]], Reader]
MEASURES = ("MAP", "micro-F1")
CUES = ("section", "negation", "family before", "hypothesis", "history", "metastasis", "stage after", "grade before",
        "grade after")  # fmt: skip
SPANS = ("probability", "on path", "inside", "overlapping", "containing", "words", "marked", "stems marked", "named",
         "capitals", "place")  # fmt: skip
GROUPS: Mapping[str, tuple[str, ...]] = {
    "the span": SPANS,
    "cues and sections": CUES,
    "grades and numbers": ("grade inside", "grade behind", "spread", "grades agree", "numbers"),
    "equal wordings": ("folded", "stemmed", "bag", "by folded", "by stemmed", "by bag", "by book"),
    "parts of codes": ("part", "product", "by composed"),
    "nearest names and coverage": ("cosine", "family cosine", "span covered", "name", "family span", "family name",
                                   "by nearest"),
    "how frequent and which code": ("notes", "family notes", "in the book", "codes of the span", "value"),
    "note regression": ("note regression",),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """What is left out: features of rows, features of codes of notes, rows, or something of the readers."""

    name: str
    features: tuple[str, ...] = ()  # those that begin with these whole words
    of_codes: Callable[[str], bool] = lambda name: False
    keep: Keep | None = None
    change: Change | None = None


def only_by(*ways: str) -> Keep:
    """Rows that are found in any other way too, or by the note as a whole."""

    def keep(rows: Rows, features: Sequence[str]) -> NDArray[np.bool_]:
        others = [features.index(f"by {way}") for way in FLAGS if way not in ways]
        return (rows.features[:, others] > 0).any(axis=1) | (rows.first < 0)

    return keep


def not_lent(rows: Rows, features: Sequence[str]) -> NDArray[np.bool_]:
    """Rows of words as they stand, not of what an acronym stands for."""
    return ~(rows.features[:, features.index("lent")] > 0)


def placed(rows: Rows, features: Sequence[str]) -> NDArray[np.bool_]:
    """Rows of a span."""
    return rows.first >= 0


def without_tagger(reader: Reader, notes: Sequence[TaughtNote], codes: Sequence[str]) -> Reader:
    """Places by marked wordings and names alone."""
    return replace(reader, finder=replace(reader.finder, tagger=None))


def without_book(reader: Reader, notes: Sequence[TaughtNote], codes: Sequence[str]) -> Reader:
    """Names that coders marked alone."""
    counts = Counter(codes[label] for note in notes for label in note.labels)
    marked = marked_wordings(notes, codes, longest=reader.finder.options.longest)
    namer = fit_namer(marked, {}, counts, system=reader.namer.system, options=reader.namer.options)
    return replace(reader, namer=namer, finder=replace(reader.finder, names=gather_phrases(())))


VARIANTS = (
    Variant("whole"),
    *(Variant(f"no features: {group}", names) for group, names in GROUPS.items()),
    Variant("no features: rivals of level 2", of_codes=lambda name: name.startswith("rival")),
    Variant("no level 2 (it sees the best score of level 1)", of_codes=lambda name: name != "score 1"),
    Variant("no codes put together from parts", keep=only_by("composed")),
    Variant("no codes of nearest names", keep=only_by("nearest")),
    Variant("no codes of the note alone", keep=placed),
    Variant("no acronyms", keep=not_lent),
    Variant("no tagger", change=without_tagger),
    Variant("no names of the book", change=without_book),
)


@dataclass(frozen=True)
class Fit:
    """What the variants share."""

    view: TrainingView
    codes: tuple[str, ...]  # of the coder
    readers: tuple[Reader, ...]  # of the parts, then of all
    notes: tuple[TaughtNote, ...]  # all fitted ones
    lessons: Lessons
    reported: Documents
    gold: list[tuple[str, ...]]


def fitted(steps: Walk, recipe: Recipe, corpus: Corpus) -> Fit:
    view, reader = training_view(corpus), steps["reader"]
    codes = (*view.codes, *further_codes(view, recipe.naming))
    return Fit(
        view=view,
        codes=codes,
        readers=(*(steps[f"reader{part}"] for part in range(PARTS)), reader),
        notes=tuple(taught_notes(view, reader.language)),
        lessons=lessons_of(view, steps["candidates"], language=reader.language, seed=recipe.seed),
        reported=held_out(corpus, Role.REPORT, codes),
        gold=gold_codes(corpus, Role.REPORT),
    )


def changed(fit: Fit, change: Change, recipe: Recipe) -> Fit:
    """The fit with changed readers: candidates are listed anew."""
    parts = parts_of(fit.view, recipe.seed)
    seen = [[note for note, part in zip(fit.notes, parts, strict=True) if part != own] for own in range(PARTS)]
    taught = [*seen, fit.notes]
    readers = tuple(change(one, notes, fit.view.codes) for one, notes in zip(fit.readers, taught, strict=True))
    listers = [Lister(one, fit.codes) for one in readers]
    texts = map(fit.view.documents.text_of, range(len(fit.notes)))
    rows = [
        list_rows(listers[part], text, note.words, ())
        for part, text, note in zip(parts.tolist(), texts, fit.notes, strict=True)
    ]
    right = np.concatenate([right_rows(own, note) for own, note in zip(rows, fit.notes, strict=True)])
    found = listed(rows, n_features=len(listers[0].features))
    return replace(fit, readers=readers, lessons=replace(fit.lessons, listed=found, right=right))


def reported_rows(fit: Fit) -> tuple[Rows, ...]:
    reader = fit.readers[-1]
    lister = Lister(reader, fit.codes)
    texts = map(fit.reported.text_of, range(len(fit.reported)))
    return tuple(list_rows(lister, text, words_of(text, reader.stem), ()) for text in texts)


def left_out(rows: Rows, variant: Variant, features: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
    """The rows that a variant keeps, without the values of its features."""
    kept = np.ones(len(rows), bool) if variant.keep is None else variant.keep(rows, features)
    found = rows.take(kept)
    values = found.features.copy()
    values[:, [number for number, name in enumerate(features) if begins(name, variant.features)]] = np.nan
    return replace(found, features=values), kept


def begins(name: str, beginnings: Sequence[str]) -> bool:
    """Whether a name begins with one of some whole words."""
    return any(name == one or name.startswith(f"{one} ") for one in beginnings)


@contextmanager
def hidden(of_codes: Callable[[str], bool], names: Sequence[str]) -> Iterator[None]:
    """Level 2 without the values of some features."""
    columns = [number for number, name in enumerate(names) if of_codes(name)]
    original = judging.note_codes

    def shown(*arguments: Any, **options: Any) -> Any:
        found = original(*arguments, **options)
        values = found.features.copy()
        values[:, columns] = np.nan
        return replace(found, features=values)

    with patch.object(judging, "note_codes", shown):
        yield


def tried(fit: Fit, variant: Variant, rows: Sequence[Rows], *, seed: int) -> dict[str, Any]:
    """Measures of a variant on held-out fitted notes and on the reported ones."""
    lister = Lister(fit.readers[-1], fit.codes)
    columns, features = columns_of(fit.codes, lister.features, fit.view.codebook.system), lister.features
    starts = fit.lessons.listed.starts
    notes = [left_out(fit.lessons.listed.of(note), variant, features) for note in range(len(starts) - 1)]
    kept = np.concatenate([own for _, own in notes])
    lessons = replace(
        fit.lessons, listed=listed([own for own, _ in notes], n_features=len(features)), right=fit.lessons.right[kept]
    )
    with hidden(variant.of_codes, feature_names(features, columns.parts.shape[1], MAXIMA)):
        taught = teach(lessons, columns, seed=seed)
        found = [judging.judge_note((taught.judge,), left_out(own, variant, features)[0], columns) for own in rows]
    own, threshold = taught.held_out, judging.chosen_threshold([taught.held_out], lessons.gold)
    held = [(own.codes[first:last], own.scores[first:last]) for first, last in pairwise(own.starts.tolist())]
    gold = [tuple(fit.codes[code] for code in sorted(labels)) for labels in lessons.gold]
    measured = {f"held-out {name}": value for name, value in measures(fit, held, gold, threshold).items()}
    if rows:
        measured |= measures(fit, [(codes, scores) for codes, scores, _ in found], fit.gold, threshold)
    return {**measured, "rows": len(lessons.listed.rows)}


def measures(
    fit: Fit,
    judged: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]],
    gold: Sequence[tuple[str, ...]],
    threshold: float,
) -> dict[str, float]:
    shares = np.zeros(len(fit.codes), np.float32)
    shares[: len(fit.view.codes)] = fit.view.label_shares()
    scores = np.tile(LEAST * shares, (len(judged), 1)).astype(np.float32)
    for row, (codes, values) in enumerate(judged):
        scores[row, codes] = np.maximum(values, LEAST)
    ids = [str(row) for row in range(len(judged))]
    outcome = outcome_of(scored_densely(scores, ids=ids, codes=fit.codes, gold=gold, thresholds=threshold), areas=False)
    return {name: float(measure(name)(outcome)) for name in MEASURES}


def opened(arguments: argparse.Namespace) -> tuple[Recipe, Corpus, Walk]:
    recipe = load_recipe("candidates", arguments.set)
    plan = Plan(tuple(arguments.fit.split(",")), 0.0, (arguments.report,) if arguments.report else ())
    made = prepare_once(Request(arguments.source, plan=plan), arguments.out / "corpus", recipe)
    corpus = load_corpus(arguments.out / "corpus")
    settings = WalkSettings(keeper=InFolder(arguments.out))
    return recipe, corpus, walk(plan_of(recipe), {"corpus": Root(corpus, made.manifest.digest)}, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fit", default="train")
    parser.add_argument("--report", default="")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--only", nargs="*", default=[], help="words of the names of variants; all without")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many; called again, it goes on")
    arguments = parser.parse_args()
    if arguments.source is None or arguments.out is None:
        parser.print_usage()  # among all benchmarks: there are no notes to fit on
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines, until = arguments.out / "ablation.jsonl", time.monotonic() + 60 * arguments.minutes
    done = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    recipe, corpus, steps = opened(arguments)
    fit = fitted(steps, recipe, corpus)
    rows: tuple[Rows, ...] | None = None
    for seed in map(int, arguments.seeds.split(",")):
        for variant in VARIANTS:
            asked = not arguments.only or any(word in variant.name for word in arguments.only)
            known = any(line["variant"] == variant.name and line["seed"] == seed for line in done)
            if not asked or known or time.monotonic() > until:
                continue
            own = fit if variant.change is None else changed(fit, variant.change, recipe)
            if variant.change is None and rows is None:
                rows = reported_rows(fit)
            before = time.process_time()
            of_variant = rows if variant.change is None and rows is not None else reported_rows(own)
            line = {"variant": variant.name, "seed": seed, **tried(own, variant, of_variant, seed=seed)}
            line["cpu"] = round(time.process_time() - before, 1)
            print(json.dumps(line), flush=True)
            with lines.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
