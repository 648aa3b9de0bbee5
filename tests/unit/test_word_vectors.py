"""Word vectors: alike words get alike vectors, and the same seed the same numbers."""

import numpy as np
import pytest

from plant.text.vocab import PADDING, UNKNOWN
from plant.train.streams import Text, text_of
from plant.train.word_vectors import train_word_vectors
from tests.made_up import documents_of

N_WORDS = 22
SMALL = {"size": 12, "epochs": 8, "subsample": 0.0, "learning_rate": 0.05}


def themed_text(*, unknown: bool = False) -> Text:
    """Documents about one of two themes, each with ten words of its own (2 to 11, 12 to 21)."""
    random = np.random.default_rng(0)
    rows = [(random.integers(0, 10, 60) + 2 + 10 * (number % 2)).tolist() for number in range(60)]
    if unknown:
        rows = [[token for word in row for token in (word, UNKNOWN)] for row in rows]
    return text_of([documents_of(rows, labels=[[]] * len(rows))])


def cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return unit @ unit.T


def test_words_of_one_theme_are_nearer_to_each_other_than_to_the_rest() -> None:
    near = cosines(train_word_vectors(themed_text(), N_WORDS, **SMALL))
    for word in range(2, N_WORDS):
        own = range(2, 12) if word < 12 else range(12, 22)
        others = [w for w in range(2, N_WORDS) if w not in own]
        assert min(near[word, [w for w in own if w != word]]) > max(near[word, others])


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    first, again, other = (train_word_vectors(themed_text(), N_WORDS, seed=seed, **SMALL) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_padding_is_zero_and_unknown_words_are_not_read() -> None:
    plain, mixed = (train_word_vectors(themed_text(unknown=unknown), N_WORDS, **SMALL) for unknown in (False, True))
    assert not plain[PADDING].any()
    assert plain.dtype == np.float32
    assert np.allclose(plain[UNKNOWN], mixed[UNKNOWN])


def test_words_that_the_text_has_not_keep_their_start() -> None:
    few, more = (train_word_vectors(themed_text(), N_WORDS + 3, epochs=e, size=8) for e in (1, 2))
    assert np.array_equal(few[N_WORDS:], more[N_WORDS:])
    assert not np.array_equal(few[2:N_WORDS], more[2:N_WORDS])


@pytest.mark.parametrize("rows", [[], [[]], [[2]], [[0, 1]]])
def test_a_text_too_short_to_learn_from_gives_finite_vectors(rows: list[list[int]]) -> None:
    documents = documents_of(rows, labels=[[]] * len(rows))
    assert np.isfinite(train_word_vectors(text_of([documents]), 5, size=4)).all()
