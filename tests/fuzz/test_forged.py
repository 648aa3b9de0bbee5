"""Every array of a coder's folder, forged by somebody who knows digests and seals: refused in one line, or harmless.

Sizes that do not fit, missing arrays and values that are no numbers must be refused. A number that another fit might
have left is believed; then probabilities are probabilities and evidence lies within the text. All arrays of several
coders are `slow` (`make fuzz`); some arrays of a coder by candidates are tried with the other tests.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.store.artifact import TENSORS, Artifact, open_artifact, save_artifact
from tests.fuzz.attempts import Attempt, Outcome, faults, outcome_of
from tests.fuzz.test_fuzz import marks_of
from tests.made_up import notes_of

pytestmark = pytest.mark.usefixtures("unchecked")
TEXT = "worda signc0x and signc1x, wordb; no signc2x"
FEW = ("prepare.min_count=1", "fit.epochs=1", "rank.epochs=1")
SWEPT: Mapping[str, tuple[str, ...]] = {
    "candidates": ("candidates.deals=1",),
    "dictionary": ("prepare.min_count=1", "naming.mined=false"),
    "plant-bow": (),
    "tfidf": (),
    "xr-linear": ("xr_linear.smallest=2",),
    "plant-interaction": FEW,
    "plant-cnn": FEW,
    "caml-small": FEW,
}


def forgeries(array: np.ndarray) -> Iterator[tuple[str, np.ndarray | None]]:
    """Ways to forge an array, each with what comes of it; None where it is left out."""
    yield "gone", None
    yield "another axis", array.reshape(1, *array.shape)
    if array.ndim and len(array):
        yield "cut", array[: len(array) // 2]
        yield "longer", np.concatenate([array, array[-1:]])
    if array.dtype.kind == "f":
        yield "of integers", np.nan_to_num(array).clip(-1000, 1000).astype(np.int64)
    elif array.dtype.kind in "iu":
        yield "of floats", array.astype(np.float64)
    for place in sorted({0, array.size // 2, array.size - 1} if array.size else ()):
        for value in _values(array):
            changed = np.array(array)
            changed.reshape(-1)[place] = value
            if changed.tobytes() != array.tobytes():
                yield f"{value} at {place}", changed


def _values(array: np.ndarray) -> Sequence[Any]:
    if array.dtype.kind == "f":
        return (math.nan, math.inf, -1.0)
    if array.dtype.kind in "iu":
        ends = np.iinfo(array.dtype)
        return (
            ends.max,
            ends.min,
            int(array.max()) + 1 if int(array.max()) < ends.max else 0,
            *((-1,) if ends.min else ()),
        )
    return (not bool(array.reshape(-1)[0]),)


def must_be_refused(name: str, way: str) -> bool:
    """Whether nothing harmless can come of it.

    Of starts, one more is one more empty row, to which nothing points; of letters of words, another word.
    """
    if name.endswith(("starts", "taught.words", "further.words")) and way == "longer":
        return False
    return way in ("gone", "cut", "longer", "another axis") or way.startswith("nan")


def forged(opened: Artifact, to: Path, name: str, array: np.ndarray | None) -> None:
    """A copy of a folder with another array, digests and seal as they must be."""
    tensors = {key: value for key, value in opened.tensors.items() if key != name} | (
        {} if array is None else {name: array}
    )
    files = {file: opened.text(file) for file in opened.manifest.files if file != TENSORS}
    manifest = opened.manifest
    save_artifact(to, manifest.kind, tensors=tensors, files=files, recipe=manifest.recipe, facts=manifest.facts)


def wrong_with(name: str, way: str, attempt: Attempt, outcome: Outcome, predicted: str) -> list[str]:
    """What must not be."""
    wrong = faults(attempt, outcome)
    if outcome.code == 2 and len([line for line in outcome.printed.splitlines() if line.startswith("plant:")]) != 1:
        wrong.append("not one line")
    if outcome.code == 0 and must_be_refused(name, way):
        wrong.append("was believed")
    if outcome.code == 0:
        codes = json.loads(predicted)["codes"]
        sane = all(0 <= code["probability"] <= 1 for code in codes)
        inside = all(0 <= e["start"] <= e["end"] <= len(TEXT) for code in codes for e in code["evidence"])
        wrong += [] if sane and inside else ["probabilities or evidence that cannot be"]
    return wrong


def tried(opened: Artifact, name: str, room: Path) -> list[tuple[str, int, list[str]]]:
    """For every way to forge one array: how it ended and what is wrong with that; in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as told:
            for way, array in forgeries(np.array(opened.tensors[name])):
                told.write(json.dumps([way]) + "\n")
                told.flush()
                told.write(json.dumps(_one(opened, name, way, array, room)) + "\n")
                told.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        lines = [json.loads(line) for line in told]
    status = os.waitpid(child, 0)[1]
    found = [(way, code, wrong) for way, code, wrong in (line for line in lines if len(line) == 3)]
    return found if status == 0 else [*found, (lines[-1][0], -status, [f"the process died of {status}"])]


def _one(opened: Artifact, name: str, way: str, array: np.ndarray | None, room: Path) -> tuple[str, int, list[str]]:
    out = room / "found.jsonl"
    out.unlink(missing_ok=True)
    forged(opened, room / "it", name, array)
    attempt = Attempt({"x.txt": TEXT.encode()}, ("predict", "it", "x.txt", "--out", str(out)))
    outcome = outcome_of(attempt, {"it": room / "it"})
    return way, outcome.code, wrong_with(name, way, attempt, outcome, out.read_text() if outcome.code == 0 else "")


def fitted(recipe: str, folder: Path) -> Artifact:
    notes = notes_of(40)
    book = CodeBook("other", ("C0", "C1", "C2"), {"C0": "signc0x", "C1": "signc1x", "C2": "signc2x worda"})
    coder = Coder(recipe, *SWEPT[recipe]).fit(
        [note.text for note in notes], [note.codes for note in notes], choose=0.2,
        evidence=[marks_of(note) if recipe == "candidates" else {} for note in notes],
        codebook=book if recipe == "plant-interaction" else None,
    )  # fmt: skip
    coder.save(folder)
    return open_artifact(folder)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", SWEPT)
def test_no_forged_array_of_a_coder_does_harm(recipe: str, tmp_path: Path) -> None:
    opened = fitted(recipe, tmp_path / "coder")
    ends = {name: tried(opened, name, tmp_path) for name in opened.tensors}
    rows = [(name, *row) for name, found in ends.items() for row in found]
    refused = sum(code == 2 for _, _, code, _ in rows)
    assert refused < len(rows)  # the coder itself is opened
    print(f"{recipe}: {len(ends)} arrays, {len(rows)} forgeries, {refused} refused, {len(rows) - refused} harmless")
    wrong = [row for row in rows if row[3]]
    assert not wrong, "\n".join(map(repr, wrong))


def test_arrays_of_a_coder_by_candidates_are_looked_at(tmp_path: Path) -> None:
    opened = fitted("candidates", tmp_path / "coder")
    names = sorted(opened.tensors)[5::30]
    rows = [(name, *row) for name in names for row in tried(opened, name, tmp_path)]
    assert len(rows) > 20
    assert [row for row in rows if row[3]] == []
