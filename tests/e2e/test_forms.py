"""A whole fit through the forms that other devices run: here on the CPU, so that what a GPU would run is run."""

from functools import cache

import numpy as np
import pytest

from plant.coder import Coder
from plant.nn.host import VARIABLE
from tests.made_up import notes_of

SMALL = ("prepare.min_count=1", "fit.epochs=2", "rank.epochs=3", "fit.batch=8", "fit.frozen_epochs=1")
# without dropout: compiled forms draw for the positions that labels look at, plain torch for all
CNN = ("encoder.filters=16", "encoder.embedding=16", "encoder.dropout=0.0", "decoder.dropout=0.0")
LSTM = ("pretrain.epochs=1", "pretrain.embedding=16", "pretrain.hidden=16", "pretrain.layers=2")
EXACT = ("fit.mixed_precision=false", "pretrain.mixed_precision=false")
RECIPES = {
    "planted": ("plant-cnn", *CNN, "decoder.listed=0"),
    "two-layer ranker": ("plant-cnn", *CNN, "decoder.listed=0", "rank.form=mlp", "rank.hidden=8"),
    "listed": ("plant-cnn", *CNN, "decoder.listed=5"),
    "learned too": ("plant-cnn", *CNN, "decoder.listed=0", "decoder.learned=true"),
    "one note at a time": ("plant", *LSTM, "fit.batch=1", "fit.epochs=1"),
    "names too": ("plant-interaction", *CNN),
    "attention alone": ("caml-small",),
    "a gru": ("bigru-small", "encoder.hidden=8"),
}
KERNELS = (
    "planting.inattention._keep", "planting.inattention._fill", "planting.pairs._two_layer_scores",
    "planting.pairs._two_layer_gradients", "planting.listed_step.loss_of", "planting.listed_step.evidence_of",
    "planting.listed_step.attention_of", "decoders.planted.fused_loss", "decoders.planted.fused_logits",
    "decoders.label_attention.fused_loss", "decoders.label_attention.fused_logits", "language.recurrence._read",
    "gated._read", "gated._go_back",
)  # fmt: skip


def texts_and_codes() -> tuple[list[str], list[tuple[str, ...]]]:
    notes = notes_of(60, n_codes=4)
    return [note.text for note in notes], [note.codes for note in notes]


def fitted(name: str, *changes: str) -> Coder:
    texts, codes = texts_and_codes()
    recipe, *options = RECIPES[name]
    return Coder(recipe, *SMALL, *options, *changes).fit(texts, codes, choose=0.3)


@cache
def by_kernels(name: str) -> Coder:
    return fitted(name)


@cache
def by_torch(name: str) -> Coder:
    with pytest.MonkeyPatch.context() as patch:
        as_elsewhere(patch)
        return fitted(name, *EXACT)


def as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on plain torch, and whoever calls a kernel all the same fails."""
    monkeypatch.setenv(VARIABLE, "torch")
    for kernel in KERNELS:
        monkeypatch.setattr(f"plant.nn.{kernel}", None)


@pytest.mark.parametrize("name", RECIPES)
def test_what_other_devices_run_fits_predicts_and_explains_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _ = texts_and_codes()
    compiled = by_kernels(name)
    expected, code = compiled.predict_proba(texts), compiled.classes_[0]
    words, predicted = compiled.explain(texts[0], code), compiled.predict(texts[:5])
    as_elsewhere(monkeypatch)
    coder = by_torch(name)
    np.testing.assert_allclose(coder.predict_proba(texts), expected, atol=2e-4)
    np.testing.assert_allclose(np.array(coder.explain(texts[0], code)), np.array(words), atol=2e-3)
    ours, theirs = coder.predict(texts[:5]), predicted
    assert [[scored.code for scored in one.ranked] for one in ours] == [
        [scored.code for scored in one.ranked] for one in theirs
    ]


@pytest.mark.parametrize("name", ["planted", "listed", "learned too"])
def test_a_fit_in_mixed_precision_gives_nearly_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _ = texts_and_codes()
    as_elsewhere(monkeypatch)
    exact, mixed = by_torch(name).predict_proba(texts), fitted(name).predict_proba(texts)
    np.testing.assert_allclose(mixed, exact, atol=0.1)
    assert np.abs(mixed - exact).mean() < 0.02
    assert not np.array_equal(mixed, exact)  # or nothing was rounded


@pytest.mark.parametrize("name", ["planted", "listed"])
def test_a_note_gets_the_same_scores_from_kernels_and_from_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _ = texts_and_codes()
    coder = by_kernels(name)
    expected = coder.predict_proba(texts)
    as_elsewhere(monkeypatch)
    np.testing.assert_allclose(coder.predict_proba(texts), expected, rtol=1e-4, atol=1e-6)
