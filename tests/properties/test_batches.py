"""Batches lose nothing and mix nothing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plant.data.batches import predict_in_batches, shuffled_batches, sorted_batches
from plant.data.collate import collate
from tests.made_up import documents_of

lengths = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@given(lengths, st.integers(1, 9), st.integers(0, 5))
def test_an_epoch_has_every_document_once(many: list[int], size: int, epoch: int) -> None:
    batches = shuffled_batches(np.array(many), size=size, seed=3, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(many)))
    assert max(map(len, batches)) <= size


@given(lengths, st.integers(1, 9))
def test_prediction_batches_hold_every_document_once_and_few_tokens(many: list[int], size: int) -> None:
    batches = sorted_batches(np.array(many), size=size, tokens=40)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(many)))
    assert all(len(rows) == 1 or len(rows) * max(many[row] for row in rows) <= 40 for rows in batches)


@given(lengths, st.integers(1, 9))
def test_predictions_stand_in_the_rows_of_their_documents(many: list[int], size: int) -> None:
    documents = documents_of([[2] * length for length in many], labels=[[]] * len(many))
    told: list[tuple[int, int | None]] = []
    scores = predict_in_batches(
        lambda rows: np.stack([rows, np.diff(documents.token_starts)[rows]], axis=1).astype(np.float32),
        documents, n_labels=2, size=size, progress=lambda what, done, total: told.append((done, total)),
    )  # fmt: skip
    assert scores.tolist() == [[row, length] for row, length in enumerate(many)]
    assert told[-1] == (len(many), len(many))


def test_epochs_differ_and_repeat_with_the_seed() -> None:
    many = np.arange(50)
    first, second, again = (
        np.concatenate(shuffled_batches(many, size=4, seed=1, epoch=epoch)).tolist() for epoch in (0, 1, 0)
    )
    assert first == again != second


@given(st.lists(st.lists(st.integers(2, 9), max_size=7), min_size=1, max_size=5))
def test_collate_loses_nothing(tokens: list[list[int]]) -> None:
    documents = documents_of(tokens, labels=[[row % 3] for row in range(len(tokens))])
    batch = collate(documents, range(len(tokens)), n_labels=3)
    for row, expected in enumerate(tokens):
        assert batch.tokens[row][batch.mask[row]].tolist() == expected
        assert batch.targets is not None
        assert batch.targets[row].nonzero().ravel().tolist() == [row % 3]
