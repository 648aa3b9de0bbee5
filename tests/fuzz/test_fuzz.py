"""Generated bad input over all verbs and loaders: no traceback, no word of a note, nothing half-written.

`make fuzz` runs the campaign; the tests run a short form of it. `PLANT_FUZZ` is the number of attempts of each kind,
`PLANT_FUZZ_TALLY` a file to which each kind adds what it came to, as a line of JSON.
"""

import json
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plant.cli.main import main
from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.store import save_corpus
from plant.errors import PlantError
from plant.recipe.reading import load_recipe
from plant.store.artifact import open_artifact
from plant.types import Note
from tests.fuzz import attempts
from tests.fuzz.attempts import Attempt, Outcome, changed_arrays, changed_manifest, faults, outcome_of
from tests.made_up import corpus_of, notes_of

EXAMPLES = int(os.environ.get("PLANT_FUZZ", "15"))
pytestmark = pytest.mark.usefixtures("unchecked", "compiled")
campaign = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PLANT_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def compiled() -> None:
    """Kernels that attempts need, compiled before the first of them."""
    corpus_of(notes_of(3))


FEW = ("prepare.min_count=1", "fit.epochs=1", "rank.epochs=1")
CODERS: Mapping[str, tuple[str, ...]] = {
    "tfidf": (),
    "prior": (),
    "dictionary": ("prepare.min_count=1", "naming.mined=false"),
    "plant-bow": (),
}
SLOWER: Mapping[str, tuple[str, ...]] = {"candidates": (), "plant-interaction": FEW, "caml-small": FEW}
FITTED = CODERS | SLOWER if "PLANT_FUZZ" in os.environ else CODERS
STEPS: Mapping[str, tuple[str, ...]] = {  # what stands between a corpus and a coder, and what it is made of
    "relevance": ("relate", "corpus"),
    "ranker": ("rank", "relevance", "--set=rank.epochs=1", "--device=cpu"),
    "language-model": ("pretrain", "corpus", "--set=pretrain.embedding=8", "--set=pretrain.hidden=8", "--device=cpu"),
}
MADE = (*FITTED, "corpus", *(STEPS if "PLANT_FUZZ" in os.environ else ()))
USES: Mapping[str, tuple[str, ...]] = {
    "corpus": ("show", "it", "--json"),
    "relevance": ("show", "it", "--code=C1"),
    "ranker": ("show", "it", "--code=C1"),
    "language-model": ("show", "it", "--prompt=worda", "--words=3"),
}


@dataclass
class Tally:
    """What the attempts of a kind came to: how they ended, by verb, and the CPU seconds of their commands."""

    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: float = 0.0


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    counted = Tally()
    yield counted
    if file := os.environ.get("PLANT_FUZZ_TALLY"):
        ends = {f"{verb} {code}": n for (verb, code), n in sorted(counted.ends.items())}
        line = {"kind": request.node.originalname, "seconds": round(counted.seconds, 1), "ends": ends}
        with open(file, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders that are right: coders of all kinds and a corpus."""
    folder = tmp_path_factory.mktemp("things")
    notes = notes_of(40)
    codes = [note.codes for note in notes]
    book = CodeBook("other", ("C0", "C1", "C2"), {"C0": "signc0x", "C1": "signc1x", "C2": "signc2x worda"})
    for recipe, changes in FITTED.items():
        marks = [marks_of(note) if recipe == "candidates" else {} for note in notes]
        coder = Coder(recipe, *changes).fit(
            [note.text for note in notes], codes, choose=0.2, evidence=marks,
            codebook=book if recipe == "plant-interaction" else None,
        )  # fmt: skip
        coder.save(folder / recipe)
    save_corpus(corpus_of(notes), folder / "corpus", recipe={})
    for name in MADE[len(FITTED) + 1 :]:
        verb, source, *options = STEPS[name]
        with pytest.raises(SystemExit, match="^0$"):
            main([verb, str(folder / source), "--out", str(folder / name), *options])
    return {name: folder / name for name in MADE}


def marks_of(note: Note) -> dict[str, list[tuple[int, int]]]:
    """Where the word stands that each code has."""
    words = {code: f"sign{code.lower()}x" for code in note.codes}
    return {code: [(note.text.index(word), note.text.index(word) + len(word))] for code, word in words.items()}


def holds(attempt: Attempt, things: Mapping[str, Path], tally: Tally) -> None:
    begun = time.process_time()
    outcome: Outcome = outcome_of(attempt, things)
    tally.seconds += time.process_time() - begun
    tally.ends[attempt.arguments[0], outcome.code] += 1
    assert not faults(attempt, outcome), (faults(attempt, outcome), attempt.arguments, outcome.printed[-300:])


@campaign
@given(attempt=attempts.reading())
def test_a_corpus_is_read_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.spoiling())
def test_a_spoiled_corpus_of_any_format_is_read_or_refused(
    things: Mapping[str, Path], tally: Tally, attempt: Attempt
) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.handling())
def test_verbs_take_what_is_theirs_or_refuse_it(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.coding())
def test_texts_are_coded_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.measuring())
def test_predictions_are_measured_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.fitting())
def test_a_corpus_is_fitted_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.naming())
def test_names_of_codes_are_added_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.commanding())
def test_commands_are_obeyed_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


@campaign
@given(attempt=attempts.cooking())
def test_recipes_are_understood_or_refused(things: Mapping[str, Path], tally: Tally, attempt: Attempt) -> None:
    holds(attempt, things, tally)


PLACES = [
    ("kind",),
    ("format",),
    ("plant_version",),
    ("recipe",),
    ("inputs",),
    ("facts",),
    ("files",),
    ("seal",),
    ("x",),
    ("facts", "temperature"),
    ("facts", "train_documents"),
    ("facts", "threshold_origin"),
    ("facts", "codes"),
    ("files", "vocab.txt"),
    ("files", "tensors.safetensors"),
    ("files", "../x"),
    ("recipe", "seed"),
    ("recipe", "x"),
    ("recipe", "prepare", "max_tokens"),
    ("inputs", "corpus"),
]


@campaign
@given(
    thing=st.sampled_from(MADE),
    place=st.sampled_from(PLACES),
    value=attempts.values,
    sealed=st.booleans(),
)
def test_a_changed_manifest_is_refused_or_harmless(
    things: Mapping[str, Path], tally: Tally, thing: str, place: tuple[str, ...], value: Any, sealed: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        changed_manifest(things[thing], Path(folder) / "it", place, value, sealed=sealed)
        verb = USES.get(thing, ("predict", "it", "x.csv", "--out", "new.jsonl"))
        attempt = Attempt({"x.csv": b"id,text\na,fever and cough\n"}, verb)
        holds(attempt, {"it": Path(folder) / "it"}, tally)


@campaign
@given(
    thing=st.sampled_from(MADE),
    number=st.integers(0, 10**3),
    place=st.integers(0, 10**6),
    value=st.sampled_from([-1, 0, 1, 255, 2**31 - 1, -(2**31), 1e9, math.nan, math.inf]),
    way=st.sampled_from(["value", "value", "cut", "type", "shape", "gone"]),
)
def test_changed_arrays_are_refused_or_harmless(
    things: Mapping[str, Path], tally: Tally, thing: str, number: int, place: int, value: float, way: str
) -> None:
    names = sorted(open_artifact(things[thing]).tensors)
    with tempfile.TemporaryDirectory() as folder:
        changed_arrays(things[thing], Path(folder) / "it", names[number % len(names)], place, value, way)
        verb = USES.get(thing, ("predict", "it", "x.csv", "--out", "new.jsonl"))
        attempt = Attempt({"x.csv": b"id,text\na,worda wordb signc1x\n"}, verb)
        holds(attempt, {"it": Path(folder) / "it"}, tally)


@campaign
@given(texts=attempts.values, codes=attempts.values, ids=attempts.values, top=attempts.values)
def test_python_callers_get_value_errors_and_no_word_of_a_note(
    things: Mapping[str, Path], tally: Tally, texts: Any, codes: Any, ids: Any, top: Any
) -> None:
    coder = Coder.load(things["tfidf"])
    for call in (
        lambda: Coder("prior").fit(texts, codes),
        lambda: coder.predict(texts, ids=ids, top=top),
        lambda: coder.predict_proba(texts),
        lambda: coder.score(texts, codes),
        lambda: coder.explain(texts, codes),
        lambda: coder.explained(texts, codes=codes),
        lambda: coder.add_codes(texts),
        lambda: load_recipe("prior", [str(texts)]),
    ):
        error = refusal_of(call)
        tally.ends["Python", 2 if error else 0] += 1
        assert error is None or (isinstance(error, ValueError) and attempts.CANARY not in str(error))


def refusal_of(call: Callable[[], object]) -> PlantError | None:
    try:
        call()
    except PlantError as error:
        return error
    return None


def test_an_attempt_that_fails_would_be_seen(things: Mapping[str, Path]) -> None:
    bad = Outcome(1, attempts.CANARY, frozenset({"./.half"}), "KeyError")
    assert len(faults(Attempt({}, ()), bad)) == 5
    good = outcome_of(
        Attempt(
            {"x.jsonl": json.dumps({"id": "a", "text": "worda"}).encode()},
            ("predict", "tfidf", "x.jsonl", "--out", "new.jsonl"),
        ),
        things,
    )
    assert (good.code, good.new) == (0, {"./new.jsonl"})
