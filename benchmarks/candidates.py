"""What fitting and reading by candidates costs as notes grow in number, and what it comes to at 50,000.

    python benchmarks/candidates.py [--notes 250 500 1000] [--words 1500] [--codes 8929] [--lines FILE] [--json]
    python benchmarks/candidates.py --lines FILE --notes                        # what the lines of earlier calls say
    python benchmarks/candidates.py --run RUN       # reading the reported notes of a run one by one, with evidence

Made-up notes (seed 1): sentences of 15 words of a Zipf vocabulary, codes by the same law, 16 drawn a note, each by one
of three wordings of its own, which is marked. One reader of all notes is fitted stage by stage; it lists candidates for
a number of new notes, and a judge learns from them. CPU seconds of one process. At the goal, a coder has a reader
of all notes, and for each deal of them three readers of two thirds and a judge of as many notes as ever teach one; each
stage grows as measured between the two largest numbers of notes, up to what it learns from at most.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plant.candidates import note_regression
from plant.candidates.crossfit import dealt, keys_of
from plant.candidates.gazetteer import fit_gazetteer
from plant.candidates.judge import Judge, Lessons, columns_of, judge_note, teach
from plant.candidates.listing import Lister, list_rows, right_rows
from plant.candidates.mentions import mentions_of
from plant.candidates.names import fit_namer
from plant.candidates.phrases import folded_tokens, stemmed_tokens
from plant.candidates.places import FinderOptions, fit_finder
from plant.candidates.rates import fit_rates
from plant.candidates.reader import Reader, TaughtNote, marked_wordings
from plant.candidates.rows import listed
from plant.candidates.words import stemmer, words_of
from plant.data.corpus import Role, held_out, take
from plant.data.store import load_corpus
from plant.recipe.schema import Candidates
from plant.steps.candidates import FOLDS, MOST_JUDGED
from plant.systems.coder import load_coder

CODES_OF_A_NOTE = 16
SENTENCE = 15  # words
WORDINGS = 3
GOAL = 50_000
LISTED = 200  # new notes that are listed and judged
SYSTEM, LANGUAGE = "other", ""
DEALS = Candidates().deals
READERS = (*[2 / 3] * 3 * DEALS, 1.0)  # of the fitted notes
OF_READER = ("words", "counting", "tagger", "names", "regression")
CAPS = {"tagger": FinderOptions().most_notes, "regression": note_regression.MOST_NOTES}
ENDS = {"regression"}  # beyond its cap it is not fitted at all


@dataclass(frozen=True)
class Made:
    """Made-up words, and the wordings of each code."""

    words: list[str]
    wordings: list[list[str]]


def made_up(n_codes: int, rng: np.random.Generator) -> Made:
    letters = np.array(list("abcdefghijklmnoprstuv"))
    words = ["".join(rng.choice(letters, rng.integers(4, 10))) for _ in range(20_000)]
    drawn = rng.integers(500, len(words), (n_codes, WORDINGS, 3))
    return Made(words, [[" ".join(words[word] for word in wording) for wording in own] for own in drawn])


def note_of(made: Made, key: int, length: int, rng: np.random.Generator) -> tuple[str, TaughtNote]:
    """The text of a note and what is taught of it: some of its sentences end with the wording of a code."""
    codes = np.unique(np.minimum(rng.zipf(1.3, CODES_OF_A_NOTE), len(made.wordings)) - 1)
    filler = np.minimum(rng.zipf(1.2, length), len(made.words)) - 1
    sentences = np.array_split(filler, max(length // SENTENCE, len(codes)))
    ends = dict(zip(rng.permutation(len(sentences))[: len(codes)].tolist(), codes.tolist(), strict=True))
    text, spans, labels = "", [], []
    for number, sentence in enumerate(sentences):
        text += " ".join(made.words[word] for word in sentence)
        if number in ends:
            wording = made.wordings[ends[number]][rng.integers(WORDINGS)]
            spans.append((len(text) + 1, len(text) + 1 + len(wording)))
            labels.append(ends[number])
            text += " " + wording
        text += ".\n"
    words = words_of(text, stemmer(LANGUAGE))
    mentions = mentions_of(words, np.array(spans, np.int32).reshape(-1, 2), np.array(labels, np.int32))
    return text, TaughtNote(key, words, mentions, frozenset(labels))


def timed(seconds: dict[str, float], stage: str, make: Callable[[], Any]) -> Any:
    before = time.process_time()
    made = make()
    seconds[stage] = time.process_time() - before
    return made


def reader_of(notes: Sequence[TaughtNote], codes: Sequence[str], seconds: dict[str, float]) -> Reader:
    """What `fit_reader` makes of the notes, each stage timed; counting is done twice, to tell it from the tagger."""
    words, mentions = [note.words for note in notes], [note.mentions for note in notes]
    spans = [frozenset((one.first, one.last) for one in own) for own in mentions]

    def count() -> None:
        fit_gazetteer([folded_tokens(note) for note in words], spans)
        fit_gazetteer([stemmed_tokens(note) for note in words], spans)
        fit_rates([note.stems for note in words], spans)

    timed(seconds, "counting", count)
    finder = timed(seconds, "tagger", lambda: fit_finder(words, mentions))
    seconds["tagger"] -= seconds["counting"]
    own = sorted({label for note in notes for label in note.labels})
    counts = np.bincount([label for note in notes for label in note.labels], minlength=len(codes))
    marked = marked_wordings(notes, codes, longest=22)
    namer = timed(
        seconds, "names", lambda: fit_namer(marked, {}, {codes[label]: counts[label] for label in own}, system=SYSTEM)
    )
    columns = {label: column for column, label in enumerate(own)}
    labels = [[columns[label] for label in sorted(note.labels)] for note in notes]
    regression = timed(
        seconds,
        "regression",
        lambda: note_regression.fit_regression([note.stems for note in words], labels, n_codes=len(own)),
    )
    keys = np.array(sorted(note.key for note in notes), np.int64)
    return Reader(finder, namer, regression, tuple(codes[label] for label in own), LANGUAGE, keys)


def measured(n_notes: int, *, length: int, n_codes: int) -> dict[str, float]:
    """CPU seconds of the stages, milliseconds of listing and judging a new note, and the peak of memory so far."""
    rng = np.random.default_rng(1)
    made = made_up(n_codes, rng)
    codes = tuple(f"C{code:05}" for code in range(n_codes))
    texts = [note_of(made, number, length, rng) for number in range(n_notes)]
    seconds: dict[str, float] = {}
    timed(seconds, "words", lambda: [words_of(text, stemmer(LANGUAGE)) for text, _ in texts])
    reader = reader_of([note for _, note in texts], codes, seconds)
    new = [note_of(made, n_notes + number, length, rng) for number in range(LISTED)]
    lister = Lister(reader, codes)
    list_rows(lister, *_read(new[0]), ())  # tables that are made once
    rows = timed(seconds, "listing", lambda: [list_rows(lister, *_read(note), ()) for note in new])
    ids = [f"new {number}" for number in range(LISTED)]
    lessons = Lessons(
        listed=listed(rows, n_features=len(lister.features)),
        right=np.concatenate([right_rows(own, note) for own, (_, note) in zip(rows, new, strict=True)]),
        gold=[note.labels for _, note in new],
        folds=dealt(ids, parts=FOLDS, seed=1, what="judge"),
        keys=keys_of(ids),
    )
    columns = columns_of(lister.codes, lister.features, SYSTEM)
    judge: Judge = timed(seconds, "judge", lambda: teach(lessons, columns, seed=1)).judge
    timed(seconds, "judging", lambda: [judge_note((judge,), own, columns) for own in rows])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    per_note = {"rows": len(lessons.listed.rows) / LISTED, "words of a name": len(reader.namer.taught)}
    return {**seconds, **per_note, "peak MB": peak}


def _read(note: tuple[str, TaughtNote]) -> tuple[str, Any]:
    return note[0], words_of(note[0], stemmer(LANGUAGE))


@dataclass(frozen=True)
class Growth:
    """How a stage grows with the notes, and its CPU seconds at the goal."""

    exponent: float
    seconds: float


def extrapolated(found: Mapping[int, Mapping[str, float]]) -> dict[str, Growth]:
    """Each stage at the goal: as it grew between the two largest numbers of notes, up to its cap."""
    small, large = sorted(found)[-2:]
    reached = {}
    for stage in OF_READER:
        cap = CAPS.get(stage, GOAL)
        at, beyond = min(large, cap), [share * GOAL for share in READERS]
        before, last = found[small][stage], found[large][stage]
        slope = float(np.log(last / before) / np.log(at / small)) if at > small else 0.0
        counted = [notes for notes in beyond if stage not in ENDS or notes <= cap]
        reached[stage] = Growth(slope, sum(last * (min(notes, cap) / at) ** slope for notes in counted))
    for stage in ("listing", "judge"):
        slope = float(np.log(found[large][stage] / found[small][stage]) / np.log(large / small))
        reached[stage] = Growth(slope, found[large][stage] * DEALS * MOST_JUDGED / LISTED)  # names no longer grow
    return reached


def read_one_by_one(run: Path) -> dict[str, float]:
    """CPU milliseconds of coding a note of a run, each by itself, with the phrases of its accepted codes."""
    coder, corpus = load_coder(run / "coder"), load_corpus(run / "corpus")
    notes = held_out(corpus, Role.REPORT, coder.codes)
    alone = [coder.reread(take(notes, np.array([row]))) for row in range(len(notes))]
    coder.probabilities(alone[0])  # tables that are made once
    words, seconds = [], []
    for note in alone:
        before = time.process_time()
        reading = coder.system.read(note, evidence=True)
        for label in np.flatnonzero(reading.scores[0] >= coder.thresholds).tolist():
            reading.phrases(0, label)
        seconds.append(time.process_time() - before)
        words.append(len(note.tokens))
    slope, level = np.polyfit(words, seconds, 1)
    return {
        "notes": len(notes), "words a note": float(np.mean(words)), "ms a note": 1000 * float(np.mean(seconds)),
        "ms of 700 words": 1000 * float(level + 700 * slope), "ms of the slowest": 1000 * max(seconds),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, nargs="*", default=[250, 500, 1000])
    parser.add_argument("--words", type=int, default=1500)
    parser.add_argument("--codes", type=int, default=8929)
    parser.add_argument("--lines", type=Path, help="file that each measurement is added to, and earlier ones read from")
    parser.add_argument("--run", type=Path, help="folder of a run: how long its coder reads")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(read_one_by_one(arguments.run)))
        return
    lines = arguments.lines.read_text().splitlines() if arguments.lines and arguments.lines.exists() else []
    found: dict[int, dict[str, float]] = {int(line["notes"]): line for line in map(json.loads, lines)}
    for count in arguments.notes:
        found[count] = {"notes": count, **measured(count, length=arguments.words, n_codes=arguments.codes)}
        print(json.dumps(found[count]), flush=True)
        if arguments.lines:
            with arguments.lines.open("a") as file:
                file.write(json.dumps(found[count]) + "\n")
    if len(found) < 2:
        return
    reached = extrapolated(found)
    total = sum(stage.seconds for stage in reached.values())
    if arguments.json:
        stages = {name: [growth.exponent, growth.seconds] for name, growth in reached.items()}
        print(json.dumps({"stages": stages, "hours at the goal": total / 3600}))
        return
    for name, growth in reached.items():
        print(f"{name}: grows with notes ** {growth.exponent:.2f}, at {GOAL:,} notes {growth.seconds / 60:.0f} CPU min")
    print(f"together {total / 3600:.1f} CPU hours on one core")


if __name__ == "__main__":
    main()
