"""Texts to be coded that come by standard input."""

import io

import pytest

from plant.data.sources.bare import read_texts
from plant.errors import InputError


def texts(content: str, **columns: str) -> dict[str, str]:
    return {note.id: note.text for note in read_texts("-", **columns, stream=io.BytesIO(content.encode()))}


@pytest.mark.parametrize(
    "content",
    [
        "id,text\na,fever\nb,cough\n",
        "\ufeffid,text\r\na,fever\r\nb,cough\r\n",
        "id\ttext\na\tfever\nb\tcough",
        '"text","id","codes"\n"fever",a,J18.9\n"cough",b,\n',
        '{"id": "a", "text": "fever"}\n{"id": "b", "text": "cough"}\n',
    ],
)
def test_a_table_by_standard_input_is_read_row_by_row(content: str) -> None:
    assert texts(content) == {"a": "fever", "b": "cough"}


def test_cells_may_hold_line_breaks_and_commas() -> None:
    assert texts('id,text\na,"fever,\nand ""cough"""\n') == {"a": 'fever,\nand "cough"'}


def test_a_column_may_be_named() -> None:
    assert texts("note id,body\na,fever\n", text_column="body", id_column="note id") == {"a": "fever"}


@pytest.mark.parametrize(
    "content", ["Note\nfever, cough", "Note, fever and cough\n", "text: fever,id\n", "fever,cough"]
)
def test_a_text_is_one_note(content: str) -> None:
    assert texts(content) == {"stdin": content}


def test_a_row_that_is_too_short_and_a_column_that_is_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="standard input, line 2: the row has 1 cells"):
        texts("id,text\na\n")
    with pytest.raises(InputError, match="no column 'txet'"):
        texts("id,text\na,fever\n", text_column="txet")
