"""What holds for every code, not only for the listed ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.codes.icd import KNOWN_SYSTEMS, ancestors, guess_system, normalise, normalise_all
from plant.codes.systems import SYSTEMS, normal_form
from plant.errors import CodeError

SINGLE = [name for name in SYSTEMS if name != "other"]
names = st.text(max_size=20)
trees = st.dictionaries(names, names, max_size=8)


@pytest.mark.parametrize("system", SINGLE)
@given(data=st.data())
def test_codes_survive_case_blanks_and_normalising_twice(system: str, data: st.DataObject) -> None:
    code = data.draw(st.from_regex(SYSTEMS[system].written, fullmatch=True))
    assert normalise(f"  {code.lower()}\t", system) == code


@pytest.mark.parametrize("system", ["icd10cm", "icdo3"])
@given(data=st.data())
def test_the_sign_within_a_code_may_be_left_out(system: str, data: st.DataObject) -> None:
    code = data.draw(st.from_regex(SYSTEMS[system].written, fullmatch=True))
    assert normalise(code.replace(".", "").replace("/", "", 1), system) == code


@pytest.mark.parametrize("system", KNOWN_SYSTEMS)
@given(text=st.text(max_size=12))
def test_any_text_is_a_code_or_refused_in_one_line(system: str, text: str) -> None:
    if (written := normal_form(text.strip(), system)) is not None:
        assert normalise(text, system) == normalise(written, system) == written
    else:
        with pytest.raises(CodeError, match=r"^[^\n]+$"):
            normalise(text, system)


@pytest.mark.parametrize("system", ["icd9-diagnosis", "icd9-procedure", "icd10pcs", "icdo3"])
@given(data=st.data())
def test_an_ancestor_of_an_ancestor_is_an_ancestor(system: str, data: st.DataObject) -> None:
    code = data.draw(st.from_regex(SYSTEMS[system].written, fullmatch=True))
    above = ancestors(code, system)
    for place, node in enumerate(above):
        if SYSTEMS[system].written.fullmatch(node):
            assert ancestors(node, system) == above[place + 1 :]


@given(st.lists(st.sampled_from(["25000", "4019 ", "v1582", "38.9"])))
def test_many_codes_are_normalised_as_one_by_one(codes: list[str]) -> None:
    assert normalise_all(codes, "icd9-diagnosis") == [normalise(code, "icd9-diagnosis") for code in codes]


@given(st.lists(st.text(max_size=8)))
def test_a_guess_is_always_a_known_system(codes: list[str]) -> None:
    assert guess_system(codes) in KNOWN_SYSTEMS


@given(st.lists(names, unique=True), trees, st.dictionaries(names, st.lists(names, max_size=3).map(tuple)), trees)
def test_json_lines_keep_every_codebook(
    codes: list[str],
    descriptions: dict[str, str],
    synonyms: dict[str, tuple[str, ...]],
    parents: dict[str, str],
) -> None:
    book = CodeBook("other", tuple(codes), descriptions, synonyms, parents)
    assert codebook_from_jsonl(codebook_to_jsonl(book)) == book


@given(trees)
def test_ancestors_end_even_in_a_circle(parents: dict[str, str]) -> None:
    book = CodeBook("other", tuple(parents), parents=parents)
    assert all(len(set(above)) == len(above) for above in map(book.ancestors, parents))
