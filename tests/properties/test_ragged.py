"""Rows of different lengths in one array are what lists of lists are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plant.store.ragged import Ragged, offsets, owners, places

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=6)


def lists(ragged: Ragged) -> list[list[int]]:
    return [ragged.row(number).tolist() for number in range(len(ragged))]


@given(ROWS)
def test_rows_come_back(rows: list[list[int]]) -> None:
    ragged = Ragged.of(rows, np.int32)
    assert lists(ragged) == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert (ragged.values.dtype, ragged.starts.dtype) == (np.int32, np.int64)


@given(ROWS, st.data())
def test_rows_are_taken_in_any_order_and_more_than_once(rows: list[list[int]], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    taken = Ragged.of(rows, np.int32).take(np.array(asked, np.int64))
    assert lists(taken) == [rows[number] for number in asked]


@given(ROWS)
def test_every_value_has_the_row_it_stands_in(rows: list[list[int]]) -> None:
    found = owners(Ragged.of(rows, np.int32).starts)
    assert found.tolist() == [number for number, row in enumerate(rows) for _ in row]


@given(st.lists(st.integers(0, 9), max_size=9))
def test_offsets_are_the_sums_of_the_lengths_before(lengths: list[int]) -> None:
    expected = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    assert offsets(lengths).tolist() == offsets(np.array(lengths, np.int32)).tolist() == expected
    assert offsets(np.array(lengths, np.bool_)).tolist()[-1] == sum(map(bool, lengths))


@given(ROWS)
def test_one_index_serves_parallel_arrays(rows: list[list[int]]) -> None:
    ragged = Ragged.of(rows, np.int32)
    every = places(ragged.starts, np.arange(len(rows))[::-1])
    expected = [value * 2 for row in reversed(rows) for value in row]
    assert (ragged.values * 2)[every.values].tolist() == expected
