"""Code books in tables and JSON lines."""

import gzip
import os
from pathlib import Path

import pytest

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl, read_codebook
from plant.codes.icd import ancestors, codebook_for, guess_system, normalise
from plant.errors import ArtifactError, InputError

TABLE = (
    "code\tdescription\tparent\tes_source\tdescription_en\tsynonyms_en\n"
    "800\t\t\t\tNeoplasms, NOS\t\n"
    "8000/3\tNeoplasia maligna\t800\teCIE\tNeoplasm, malignant\tTumor, malignant|Cancer| Cancer\n"
)


def written(folder: Path, text: str | bytes, name: str = "labels.tsv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_description_goes_before_those_of_other_languages(tmp_path: Path) -> None:
    book = read_codebook(written(tmp_path, TABLE))
    assert book.names("8000/3") == ("Neoplasia maligna", "Neoplasm, malignant", "Tumor, malignant", "Cancer")


def test_the_language_asked_for_is_the_description(tmp_path: Path) -> None:
    book = read_codebook(written(tmp_path, TABLE), language="en")
    assert book.names("8000/3") == ("Neoplasm, malignant", "Neoplasia maligna", "Tumor, malignant", "Cancer")


def test_an_empty_description_gives_way_to_another_language(tmp_path: Path) -> None:
    assert read_codebook(written(tmp_path, TABLE)).description("800") == "Neoplasms, NOS"


def test_codes_keep_their_order_and_parents(tmp_path: Path) -> None:
    book = read_codebook(written(tmp_path, TABLE), system="icdo3")
    assert (book.system, book.codes, dict(book.parents)) == ("icdo3", ("800", "8000/3"), {"8000/3": "800"})


@pytest.mark.parametrize("name", ["codes.csv", "codes.txt", "codes"])
def test_commas_quotes_and_a_byte_order_mark_are_read(tmp_path: Path, name: str) -> None:
    text = '\ufeffCode,Description\r\nI10,"Hypertension, ""essential"""\r\n\r\n'
    assert read_codebook(written(tmp_path, text, name)).description("I10") == 'Hypertension, "essential"'


def test_a_code_alone_is_enough(tmp_path: Path) -> None:
    assert read_codebook(written(tmp_path, "code\nI10\n")).codes == ("I10",)


BAD = [
    ("", "no column code; found: none: the file is empty"),
    ("code\tdescription\n", "no codes below the column names"),
    ("label\tdescription\nI10\tx\n", "no column code; found: 'label', 'description'; expected: code"),
    ("code\tcode\nI10\tx\n", "two columns have the same name"),
    ("code\tdescription\nI10\tx\nE11\ty\nI10\tz\n", "line 4: the code 'I10' stands in an earlier line"),
    ("code\tdescription\nI10\tx\n\ty\n", "line 3: no code"),
    ("code\tdescription\nI10\tx\ty\n", "line 2: 3 cells under 2 columns"),
    (b"code\tdescription\nI10\tx\nE11\tM\xe9ni\xe8re\n", "line 3: bytes that are no UTF-8"),
    ('code\tdescription\nI10\tx\nE11\t"open\n', "line 3: .*quotes balanced"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_bad_table_is_refused_in_one_line_that_says_where(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_codebook(written(tmp_path, text))
    assert "labels.tsv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_language_is_refused_with_the_columns_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column description_fr; found: 'code', 'description'"):
        read_codebook(written(tmp_path, TABLE), language="fr")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the code file .*none.tsv: No such file"):
        read_codebook(tmp_path / "none.tsv")


BOOK = CodeBook(
    system="icd10cm",
    codes=("I10", "E11.9", "X"),
    descriptions={"I10": "Hypertension", "E11.9": "Diabetes\u2028 «tipo 2»", "9": "Circulatory"},
    synonyms={"I10": ("high blood pressure", "HTN | RR")},
    parents={"I10": "I10-I1A", "I10-I1A": "9", "E11.9": "E11"},
)


def test_json_lines_keep_everything() -> None:
    assert codebook_from_jsonl(codebook_to_jsonl(BOOK)) == BOOK


def test_an_empty_book_survives_json_lines() -> None:
    assert codebook_from_jsonl(codebook_to_jsonl(CodeBook("other", ()))) == CodeBook("other", ())


def test_a_codebook_is_read_from_a_file_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "codes.jsonl").write_text(codebook_to_jsonl(BOOK))
    assert read_codebook(tmp_path / "codes.jsonl") == BOOK


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_json_lines_that_are_cut_short_are_refused(cut: int) -> None:
    lines = codebook_to_jsonl(BOOK).split("\n")
    with pytest.raises(ArtifactError, match="cut short or foreign"):
        codebook_from_jsonl("\n".join(lines[:cut]))


@pytest.mark.parametrize("text", ["", "{}", "[1]\n", '{"system": "icd10cm", "co', '{"codes": 0, "nodes": 0}'])
def test_foreign_lines_are_refused(text: str) -> None:
    with pytest.raises(ArtifactError):
        codebook_from_jsonl(text)


def corpora() -> Path:
    return Path(os.environ.get("PLANT_CORPORA", Path(__file__).parents[3] / "shared" / "corpora"))


CORPORA = [("cantemist", "icdo3", 600), ("codiesp_d", "icd10cm", 2000), ("codiesp_p", "icd10pcs", 600)]


@pytest.mark.parametrize(("name", "system", "least"), CORPORA)
def test_code_files_of_the_corpora_are_read_and_agree_with_our_hierarchy(name: str, system: str, least: int) -> None:
    path = corpora() / name / "labels.tsv"
    if not path.is_file():
        pytest.skip("no corpora")
    book = read_codebook(path, system=system)
    leaves = [code for code in book.codes if code not in set(book.parents.values())]
    assert len(leaves) >= least
    assert [normalise(code, system) for code in leaves] == leaves
    assert guess_system(leaves) == system
    assert sum(ancestors(code, system) == book.ancestors(code) for code in leaves) / len(leaves) > 0.98


def test_a_codebook_of_official_names_survives_json_lines() -> None:
    book = codebook_for(["250.00", "96.71", "V15.82"], "icd9")
    assert codebook_from_jsonl(codebook_to_jsonl(book)) == book


def test_a_packed_table_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "codes.tsv.gz").write_bytes(gzip.compress(b"code\tdescription\nI10\tHypertension\n"))
    with pytest.raises(InputError, match=r"codes\.tsv\.gz.* is gzipped: unpack it first"):
        read_codebook(tmp_path / "codes.tsv.gz")
