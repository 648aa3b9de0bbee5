"""What scorers say of whole notes reaches the rows of candidates: log-odds, ranks, and where they looked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.candidates.listing import Lister, list_rows, why_of
from plant.candidates.reader import Book, Reader, fit_reader
from plant.candidates.said import Heard, Looks, heard_of, looks_of, said_together
from plant.candidates.words import words_of
from plant.types import Evidence
from tests.unit.test_candidates_listing import CODES, STEM, taught

TEXT = "Paciente sin antecedentes con tumoración en colon"


def looks(*found: tuple[int, int, int, float]) -> Looks:
    label, start, end, share = np.array(found).T
    return Looks(label.astype(np.int32), start.astype(np.int32), end.astype(np.int32), share.astype(np.float32))


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.5]), min_size=1, max_size=8))
def test_what_is_heard_of_labels_are_their_scores_and_ranks(scores: list[float]) -> None:
    values = np.array(scores, np.float32)
    heard = heard_of(np.arange(len(values), dtype=np.int32), values)
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    found = heard.of(np.arange(len(values) + 1))
    np.testing.assert_array_equal(found[:, :-1], [values, ranks])
    assert np.isnan(found[:, -1]).all()  # a label that the scorer does not know


def test_looks_are_shared_out_to_the_spans_that_they_met() -> None:
    found = looks((3, 0, 8, 0.5), (3, 20, 30, 0.25), (5, 0, 8, 1.0))
    labels = np.array([3, 3, 3, 3, 5, 7])
    starts, ends = np.array([4, 0, 10, 8, 25, 0]), np.array([9, 40, 20, 12, 30, 8])
    np.testing.assert_array_equal(found.shares(labels, starts, ends), np.float32([0.5, 0.75, 0, 0, 0, np.nan]))


def test_what_is_said_of_notes_comes_in_the_columns_of_a_coder() -> None:
    phrases = [[Evidence(0, 4, "abcd", 0.9)], []]
    first = Heard(np.int32([1, 0]), np.float32([2, -1]), looks_of([1, 0], phrases))
    second = Heard(np.int32([0, 1]), np.float32([0.5, 0.25]))
    said = said_together(("A", "B"), [first, second])
    heard = said.of(0, np.int32([-1, 6]))  # the coder has no code A, and B in column 6
    assert heard.labels.tolist() == [6]
    assert heard.values.tolist() == [2]
    assert (heard.looks.label.tolist(), heard.looks.end.tolist()) == ([6], [4])
    assert said.of(1, np.int32([3, 6])).labels.tolist() == [3, 6]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return fit_reader([taught(key) for key in range(6)], CODES, Book("icdo3", {}), language="spanish", seed=1)


def test_a_code_that_no_span_speaks_for_stands_where_a_scorer_looked(reader: Reader) -> None:
    start = TEXT.index("tumoración")
    seen = looks((4, start, start + len("tumoración"), 0.8))
    lister = Lister(reader, (*CODES, "9990/3"), ("plant",))  # of which the reader has not heard
    rows = list_rows(lister, TEXT, words_of(TEXT, STEM), [Heard(np.int32([4]), np.float32([1.0]), seen)])
    [row] = np.flatnonzero(rows.code == 4)
    assert TEXT[rows.start[row] : rows.end[row]] == "tumoración"
    assert rows.features[row, lister.features.index("plant look")] == np.float32(0.8)
    assert why_of(lister, rows.features[row]) == "where plant looked"
    unseen = list_rows(lister, TEXT, words_of(TEXT, STEM), [Heard(np.int32([4]), np.float32([1.0]))])
    assert unseen.first[unseen.code == 4].tolist() == [-1]
