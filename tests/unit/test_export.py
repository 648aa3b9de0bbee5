"""An exported coder says what the coder says, to 1e-4, or is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from plant.coder import Coder
from plant.errors import InputError
from plant.systems.export import TOLERANCE, export_onnx
from tests.made_up import notes_of

onnxruntime = pytest.importorskip("onnxruntime")
NOTES = notes_of(60)
QUICK = ("prepare.min_count=1", "fit.epochs=1", "vectors.epochs=1", "rank.epochs=1", "encoder.embedding=8")


def fitted(recipe: str, *changes: str) -> Coder:
    texts, codes = [note.text for note in NOTES], [note.codes for note in NOTES]
    return Coder(recipe, *changes).fit(texts, codes, choose=0.2)


def found(path: Path, coder: Coder, texts: list[str]) -> np.ndarray:
    """What the model says of texts, read by its own metadata."""
    session = onnxruntime.InferenceSession(str(path))
    known = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(known["codes"])) == coder.classes_
    numbers = {word: number for number, word in enumerate(json.loads(known["vocabulary"]))}
    rows = [[numbers.get(word, 1) for word in text.split()] for text in texts]
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return session.run(None, {"tokens": padded})[0]


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("tfidf", ("prepare.min_count=1", "tfidf.min_documents=1", "choose.calibrate=true")),
        ("text-cnn-small", QUICK),
        ("bigru-small", ("prepare.min_count=1", "fit.epochs=1", "vectors.epochs=1", "encoder.hidden=8")),
        ("caml-small", (*QUICK, "encoder.filters=8")),
        ("laat-small", ("prepare.min_count=1", "fit.epochs=1", "vectors.epochs=1", "encoder.hidden=8")),
        ("msatt-kg-small", ("prepare.min_count=1", "fit.epochs=1", "vectors.epochs=1")),
    ],
)
def test_an_exported_coder_says_the_same(tmp_path: Path, recipe: str, changes: tuple[str, ...]) -> None:
    coder = fitted(recipe, *changes)
    assert export_onnx(coder.fitted, tmp_path / "model.onnx") <= TOLERANCE
    texts = [note.text for note in NOTES[:9]]
    np.testing.assert_allclose(found(tmp_path / "model.onnx", coder, texts), coder.predict_proba(texts), atol=TOLERANCE)


def test_parts_that_leave_no_true_trace_are_refused_clearly(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the parts of this coder cannot be exported"):
        export_onnx(fitted("plant-cnn", *QUICK, "encoder.filters=8").fitted, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("recipe", ["prior", "dictionary"])
def test_a_system_without_such_a_form_is_refused_clearly(tmp_path: Path, recipe: str) -> None:
    with pytest.raises(InputError, match="has no ONNX form"):
        export_onnx(fitted(recipe, "prepare.min_count=1").fitted, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
