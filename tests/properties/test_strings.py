"""Flat strings are the tuple that they were made of, to all who read them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plant.store.strings import Strings

LISTS = st.lists(st.text(st.characters(codec=None), max_size=6), max_size=12)  # halves of characters among them


@given(LISTS, st.data())
def test_flat_strings_are_the_tuple_of_strings(strings: list[str], data: st.DataObject) -> None:
    flat, plain = Strings.of(strings), tuple(strings)
    assert (len(flat), list(flat), flat == plain, plain == flat) == (len(plain), strings, True, True)
    assert flat[1:-1] == plain[1:-1]
    assert flat != (*plain, "more")
    rows = data.draw(st.lists(st.integers(0, len(plain) - 1), max_size=5) if plain else st.just([]))
    assert flat.take(np.array(rows, np.int64)) == tuple(plain[row] for row in rows)
    assert [flat[np.int64(row - len(plain))] for row in rows] == [plain[row - len(plain)] for row in rows]


def test_many_strings_are_read_in_blocks() -> None:
    many = [str(number) for number in range(10_000)]
    assert list(Strings.of(many)[3:]) == many[3:]
