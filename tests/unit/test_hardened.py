"""What a hostile or unlucky user meets: no text of a note is told, nothing is overwritten, no forged array believed."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.cli.demo import called
from plant.cli.main import main
from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.sources.bare import read_texts
from plant.data.sources.books import check_separator
from plant.data.store import load_corpus, save_corpus
from plant.errors import ArtifactError, InputError, without_texts
from plant.recipe.schema import Prepare
from plant.store.artifact import MANIFEST, atomic_files, check_apart, made_folder, open_artifact, save_artifact
from plant.store.checks import check_numbers, check_starts
from plant.store.keeper import InFolder, Kind, Origin
from tests.made_up import notes_of

CANARY = "CANARY"
TEXT = "CANARY1 fever and cough"
UNBROKEN = f"患者{CANARY}发热咳嗽三天"
ROWS = f"a,{TEXT},J18.9,train\nb,CANARY2 fever,J18.9,train\nc,CANARY3 cough,J18.9,dev\n"
TABLE = f"id,text,codes,split\n{ROWS}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def coder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted coder of tfidf."""
    folder = tmp_path_factory.mktemp("coder") / "coder"
    notes = list(notes_of(40))
    coder = Coder("tfidf", "prepare.min_count=1").fit([n.text for n in notes], [n.codes for n in notes], choose=0.2)
    coder.save(folder)
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 2) -> str:
    """What a command prints, all of it, after it ended with that code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert end.value.code == code, captured.err
    return captured.out + captured.err


BAD = {
    "no line of names": ({"x.csv": ROWS}, ()),
    "no line of names, one word": ({"x.csv": "a,CANARY,J18.9\nb,fever,J18.9\n"}, ()),
    "splits are texts": ({"x.csv": TABLE}, ("--split-column", "text")),
    "a split among texts": ({"x.csv": TABLE}, ("--split-column", "text", "--fit", "train")),
    "ids are texts": ({"x.csv": TABLE.replace("CANARY2 fever", "CANARY3 cough")}, ("--id-column", "text")),
    "codes are texts": ({"x.csv": TABLE}, ("--codes-column", "text", "--system", "icd10cm")),
    "a key of JSON is a text": ({"x.jsonl": '{"CANARY fever": 1, "id": "a"}\n'}, ()),
    "a list of splits has texts": ({"x.csv": TABLE, "s.csv": f"id,split\na,{TEXT}\na,train\n"}, ("--splits", "s.csv")),
    "a code book has texts": ({"x.csv": TABLE, "b.csv": f"code\n{TEXT}\n{TEXT}\n"}, ("--codebook", "b.csv")),
    "a code book without names": ({"x.csv": TABLE, "b.csv": f"{TEXT},x\n{TEXT},y\n"}, ("--codebook", "b.csv")),
    "evidence for a text": (
        {"x.jsonl": json.dumps({"id": "a", "text": TEXT, "evidence": [{"start": 0, "end": 1, "label": TEXT}]}) + "\n"},
        (),
    ),
    "evidence that is a text": ({"x.jsonl": json.dumps({"id": "a", "text": TEXT, "evidence": TEXT}) + "\n"}, ()),
    "a value of a recipe is a text": ({"x.csv": TABLE}, ("--set", f"seed={TEXT}")),
    "an override is a text": ({"x.csv": TABLE}, ("--set", TEXT)),
    "a recipe is a text": ({"x.csv": TABLE}, ("--recipe", TEXT)),
    "half a surrogate pair in an id": ({"x.jsonl": '{"id": "\\ud800", "text": "CANARY"}\n'}, ()),
    "half a surrogate pair in a code": ({"x.jsonl": '{"id": "a", "text": "CANARY", "codes": ["\\ud800"]}\n'}, ()),
    "half a surrogate pair in a group": ({"x.jsonl": '{"id": "a", "text": "CANARY", "group": "\\ud800"}\n'}, ()),
    "an id of 5,000 digits": ({"x.jsonl": f'{{"id": {"1" * 5000}, "text": "CANARY"}}\n'}, ()),
    "an id of 300 digits": ({"x.jsonl": f'{{"id": {"1" * 300}, "text": "CANARY"}}\n'}, ()),
    "a code of 300 characters": ({"x.jsonl": json.dumps({"id": "a", "text": "b", "codes": [CANARY * 50]}) + "\n"}, ()),
    "splits are texts without blanks": ({"x.csv": TABLE.replace(",train", f",{UNBROKEN}")}, ("--fit", "train")),
    "a code book has texts without blanks": (
        {"x.csv": TABLE, "b.csv": f"code\n{UNBROKEN}\n{UNBROKEN}\n"},
        ("--codebook", "b.csv"),
    ),
    "a key of JSON is a text without blanks": ({"x.jsonl": json.dumps({UNBROKEN: 1, "id": "a"}) + "\n"}, ()),
    "texts of one word as splits": ({"x.csv": "id,text,codes\na,CANARY,I10\n"}, ("--split-column", "text")),
    "texts of one word as ids": ({"x.csv": "text,codes\nCANARY,I10\nCANARY,I10\n"}, ("--id-column", "text")),
    "texts of one word as codes": ({"x.csv": "id,text\na,CANARY\n"}, ("--codes-column", "text")),
    "an id that is no name": ({"x.jsonl": '{"id": true, "text": "CANARY"}\n'}, ()),
    "columns by semicolons": ({"x.csv": TABLE.replace(",", ";")}, ()),
    "splits of other notes": ({"x.csv": TABLE, "s.csv": "id,split\nz,train\n"}, ("--splits", "s.csv")),
    "codes of other notes": ({"x.csv": TABLE, "c.txt": f"{TEXT}\n"}, ("--codes-file", "c.txt")),
    "codes of too few notes": ({"x.csv": TABLE}, ("--min-code-count", "1000")),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_corpus_is_one_line_without_a_word_of_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    files, options = BAD[case]
    for name, content in files.items():
        (folder / name).write_text(content)
    message = said(capsys, "prepare", next(iter(files)), "--out", "new/out", *options)
    assert CANARY not in message
    assert sum(line.startswith("plant: ") for line in message.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)  # nor is an empty folder left


@pytest.mark.parametrize(
    "arguments",
    [(TEXT,), ("predict", "coder", TEXT), ("predict", TEXT, "x.csv"), ("predict", "coder", "x.csv", "--top", TEXT),
     ("explain", "coder", "x.csv", "--note", TEXT), ("evaluate", "--gold", TEXT, "--predictions", TEXT),
     ("run", TEXT, "--out", "out"), ("predict", "coder", TEXT * 60), ("show", TEXT), ("study", TEXT, "--out", "x")],
)  # fmt: skip
def test_a_text_pasted_as_an_argument_is_not_repeated(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    (folder / "coder").symlink_to(coder_folder)
    (folder / "x.csv").write_text("id,text\na,fever\n")
    assert CANARY not in said(capsys, *arguments)


@pytest.mark.parametrize(
    ("case", "remedy"),
    [
        ("splits of other notes", "none of the 3 notes is in the list of splits, which has 1 ids"),
        ("codes of other notes", "none of the 1 codes of the notes is in the 1 of --codes-file"),
        ("evidence that is a text", "evidence is not written as"),
    ],
)
def test_lists_that_fit_nothing_are_told_as_such(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str, remedy: str
) -> None:
    files, options = BAD[case]
    for name, content in files.items():
        (folder / name).write_text(content)
    assert remedy in said(capsys, "prepare", next(iter(files)), "--out", "out", *options)


def test_a_text_of_a_script_without_blanks_is_no_path_and_a_short_name_in_it_is(folder: Path) -> None:
    note, name = "患者三天前开始发热咳嗽伴有胸痛", "病历.csv"
    assert note not in without_texts(f"no file {note} or {name}", [note, name])
    assert name in without_texts(f"no file {note} or {name}", [note, name])


def test_paths_with_a_blank_stay_readable(folder: Path) -> None:
    (folder / "my notes of the year 2020.csv").touch()
    names = ["my notes of the year 2020.csv", "no such.csv"]
    assert without_texts(" and ".join(names), names) == " and ".join(names)


def test_codes_of_the_hospital_are_kept_counted_and_told_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.csv").write_text(TABLE.replace("J18.9,dev", "J18.9;HOSP-77,dev"))
    message = said(capsys, "prepare", "x.csv", "--out", "out", "--system", "icd10cm", code=0)
    assert message.count("1 of 2 codes are not written as icd10cm writes codes: kept as they stand") == 1
    assert load_corpus(folder / "out").codes == ("HOSP-77", "J18.9")


def test_a_code_of_the_hospital_may_have_blanks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.csv").write_text(TABLE.replace("J18.9,dev", "J18.9;OPS 5 470,dev"))
    said(capsys, "prepare", "x.csv", "--out", "out", "--system", "icd10cm", code=0)
    assert load_corpus(folder / "out").codes == ("J18.9", "OPS 5 470")


@pytest.mark.parametrize("separator", ["|", ",", " ", "/", "\n"])
def test_codes_that_were_not_parted_are_told_with_their_separator(separator: str) -> None:
    with pytest.raises(InputError, match="as the separator of codes") as error:
        check_separator([separator.join(codes) for codes in (["I10", "E11.9"], ["J18.9", "I10"], ["E11.9"])])
    assert repr(separator) in str(error.value)


def test_codes_with_commas_of_no_known_system_are_left_alone() -> None:
    check_separator(["heart, left", "heart, right", "lung, left"])


def test_output_over_its_input_is_refused(folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.jsonl").write_text('{"id": "a", "text": "fever"}\n')
    (folder / "link.jsonl").symlink_to(folder / "notes.jsonl")
    for out in ("notes.jsonl", "link.jsonl"):
        assert "would destroy it" in said(capsys, "predict", coder_folder, "notes.jsonl", "--out", out)
    assert (folder / "notes.jsonl").read_text() == '{"id": "a", "text": "fever"}\n'


def test_what_was_skipped_is_written_over_no_notes_and_no_predictions(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shards").mkdir()
    for name in ("a", "b"):
        (folder / "shards" / f"{name}.jsonl").write_text(f'{{"id": "{name}", "text": "fever"}}\n')
    for skipped in ("shards/a.jsonl", "out/a.jsonl"):
        said(capsys, "predict", coder_folder, "shards/*.jsonl", "--out", "out", "--skip-bad", skipped)
    said(capsys, "predict", coder_folder, "shards/a.jsonl", "--out", "o.jsonl", "--skip-bad", "o.jsonl")
    assert (folder / "shards" / "a.jsonl").read_text() == '{"id": "a", "text": "fever"}\n'
    assert [path.name for path in folder.iterdir()] == ["shards"]


def test_measures_and_tables_are_written_over_nothing_that_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {"gold.tsv": "a\tC1\nb\tC1\n", "found.tsv": "a\tC1\t0.9\nb\tC1\t0.8\n"}
    for name, content in contents.items():
        (folder / name).write_text(content)
    files = ("--gold", "gold.tsv", "--predictions", "found.tsv")
    for out in contents:
        assert "would destroy it" in said(capsys, "evaluate", *files, "--submission", out)
        stem = out.removesuffix(".tsv")
        assert "would destroy it" in said(
            capsys, "compare", "found.tsv", "b=found.tsv", "--gold", "gold.tsv", "--out", stem
        )
    assert {path.name: path.read_text() for path in folder.iterdir()} == contents


def test_predictions_are_not_written_among_the_notes_of_several_files(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shards").mkdir()
    for name in ("a", "b"):
        (folder / "shards" / f"{name}.csv").write_text(f"id,text\n{name},fever\n")
    told = said(capsys, "predict", coder_folder, "shards/*.csv", "--out", "shards")
    assert "holds the notes that are read" in told
    assert sorted(path.name for path in (folder / "shards").iterdir()) == ["a.csv", "b.csv"]


def test_a_file_in_the_place_of_a_folder_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.csv").write_text(TABLE)
    (folder / "mine.toml").touch()
    told = said(capsys, "run", "x.csv", "--recipe", "prior", "--out", "mine.toml")
    assert "a file stands where a folder belongs" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("--notes", "nothing.csv"),
        ("--notes", "x.csv"),
        ("--notes", "x.csv", "--most", "-1"),
        ("--seconds", "inf"),
        ("--seconds", "nan"),
        ("--proxy-user", "x-user", "--proxy-from", "nowhere"),
    ],
)
def test_a_desk_that_is_refused_leaves_no_store(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    (folder / "x.csv").write_text(ROWS)  # without a line of names
    said(capsys, "serve", coder_folder, "--port", "0", "--store", "desk.sqlite", *arguments)
    assert [path.name for path in folder.iterdir()] == ["x.csv"]


def test_a_key_for_no_name_leaves_no_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the name of a key" in said(capsys, "serve", "keys", "add", "", "--store", "desk.sqlite")
    assert not list(folder.iterdir())


def test_tables_without_a_name_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.tsv", "b.tsv"):
        (folder / name).write_text("a\tC1\n")
    assert "need a name" in said(capsys, "compare", "a.tsv", "b.tsv", "--gold", "a.tsv", "--out", "/")


@pytest.mark.parametrize("arguments", [("--host", UNBROKEN * 9), ("--host", "a..b"), ("--host", "\0")])
def test_an_address_that_is_none_is_one_line(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert "cannot be listened at" in said(capsys, "serve", coder_folder, "--port", "0", *arguments)


def test_a_server_of_stores_whose_name_is_none_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psycopg")
    told = said(capsys, "serve", "keys", "list", "--store", f"postgresql://{UNBROKEN * 9}")
    assert "is no store of a desk" in told
    assert CANARY not in told


def test_a_page_takes_the_place_of_no_other_kind_of_file(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text(TABLE)
    (folder / "note.txt").write_text("fever")
    assert "name it .html" in said(capsys, "explain", coder_folder, "note.txt", "--html", "x.csv")
    assert (folder / "x.csv").read_text() == TABLE


def test_a_study_among_the_files_of_its_corpus_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "corpus").mkdir()
    (folder / "corpus" / "train.csv").write_text(TABLE)
    for out in ("corpus", "corpus/study"):
        assert "which is read" in said(capsys, "study", "--recipes", "prior", "--corpus", "corpus", "--out", out)
    assert [path.name for path in (folder / "corpus").iterdir()] == ["train.csv"]


def test_a_run_among_the_files_of_its_corpus_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "corpus").mkdir()
    (folder / "corpus" / "train.csv").write_text(TABLE)
    for out in ("corpus", "corpus/run"):
        assert "which is read" in said(capsys, "run", "corpus", "--recipe", "prior", "--out", out)
    assert [path.name for path in (folder / "corpus").iterdir()] == ["train.csv"]
    check_apart(folder / "corpus-2", [folder / "corpus"])


def test_a_coder_of_another_recipe_is_not_replaced_unasked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    said(capsys, "run", "notes.csv", "--recipe", "prior", "--out", "run", code=0)
    before = (folder / "run" / "coder" / MANIFEST).read_text()
    assert "--replace" in said(capsys, "run", "notes.csv", "--recipe", "prior", "--set", "seed=2", "--out", "run")
    assert (folder / "run" / "coder" / MANIFEST).read_text() == before
    said(capsys, "run", "notes.csv", "--recipe", "prior", "--set", "seed=2", "--out", "run", "--replace", code=0)
    assert (folder / "run" / "coder" / MANIFEST).read_text() != before


def test_links_stay_links_and_devices_stay_devices(folder: Path) -> None:
    (folder / "target.html").write_text("old")
    (folder / "link.html").symlink_to(folder / "target.html")
    with atomic_files([folder / "link.html"]) as (temporary,):
        temporary.write_text("new")
    assert (folder / "link.html").is_symlink()
    assert (folder / "target.html").read_text() == "new"
    os.mkfifo(folder / "pipe.html")
    with pytest.raises(InputError, match="no plain file"), atomic_files([folder / "pipe.html"]):
        pass


def test_several_files_take_their_places_together_or_not_at_all(folder: Path) -> None:
    def half() -> None:
        with atomic_files([folder / "new" / "a", folder / "new" / "b"]) as (one, _):
            one.write_text("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        half()
    assert not list(folder.iterdir())


def test_a_folder_that_was_made_for_nothing_goes_again_and_others_stay(folder: Path) -> None:
    (folder / "mine").mkdir()
    with pytest.raises(KeyError), made_folder(folder / "mine" / "deep" / "deeper"):
        raise KeyError
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_table_in_place_of_texts_is_refused() -> None:
    import pandas

    coder = Coder("prior", "prepare.min_count=1").fit(["fever", "cough"] * 5, [["R50"], ["R05"]] * 5, choose=0.2)
    frame = pandas.DataFrame({"text": ["fever"]})
    assert len(coder.predict(frame["text"])) == 1
    with pytest.raises(InputError, match="one column"):
        coder.predict(frame)  # type: ignore[call-overload]


@pytest.mark.parametrize("content", [b'{"id": "a", "text": "fever"}\n', b"id,text\na,fever\n", b"fever"])
def test_a_byte_order_mark_before_standard_input_changes_nothing(content: bytes) -> None:
    plain = list(read_texts("-", stream=io.BytesIO(content)))
    assert list(read_texts("-", stream=io.BytesIO(b"\xef\xbb\xbf" + content))) == plain
    assert plain[0].text == "fever"


@pytest.mark.parametrize(
    "content", [b"fi\xe9vre\n", b'{"id": "a", "text": "x"}\n{"text": "\xe9"}\n', b"id,text\n\xe9,x\n"]
)
def test_standard_input_that_is_not_utf_8_is_told_by_line(content: bytes) -> None:
    with pytest.raises(InputError, match="line [12].*not UTF-8"):
        list(read_texts("-", stream=io.BytesIO(content)))


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (TABLE.encode("utf-16"), "utf-16"),
        # Without a time of its own, or each worker would collect another test.
        (gzip.compress(TABLE.encode(), mtime=0), "gzipped"),
        (b"PK\x03\x04", "save it as CSV"),
    ],
    ids=["utf-16", "gzip", "zip"],
)
def test_bytes_of_another_kind_are_told_with_their_own_remedy(folder: Path, content: bytes, remedy: str) -> None:
    (folder / "x.csv").write_bytes(content)
    for name, stream in (("x.csv", None), ("-", io.BytesIO(content))):
        with pytest.raises(InputError, match=remedy):
            list(read_texts(name, stream=stream))


@pytest.mark.parametrize("content", ['[{"id": "a", "text": "fever"}]', '[\n{"id": "a", "text": "fever"}\n]'])
def test_a_list_of_json_on_standard_input_is_not_taken_for_one_text(content: str) -> None:
    with pytest.raises(InputError, match="one object per line"):
        list(read_texts("-", stream=io.BytesIO(content.encode())))


def test_closed_standard_input_is_one_line(coder_folder: Path) -> None:
    command = [sys.executable, "-m", "plant", "predict", str(coder_folder), "-"]
    ended = subprocess.run(command, preexec_fn=lambda: os.close(0), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "plant: standard input is closed: name a file of notes\n")


def test_letters_that_the_language_of_a_machine_lacks_are_printed(folder: Path, coder_folder: Path) -> None:
    (folder / "note.txt").write_text("fièvre 患者 signc1x")
    command = [sys.executable, "-m", "plant", "explain", str(coder_folder), "note.txt", "--code", "C1"]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False, cwd=folder
    )
    assert ended.returncode == 0, ended.stderr
    assert "fièvre" in ended.stdout.decode()


def test_a_text_that_begins_with_a_bracket_is_a_text() -> None:
    assert next(read_texts("-", stream=io.BytesIO(b"[**2101-3-4**] admitted"))).text == "[**2101-3-4**] admitted"


@pytest.mark.parametrize(
    "bad", ["{", "[]", '{"id": "b", "text": 1.5}', '{"id": "b"}', '{"id": "b", "text": "\\ud800"}']
)
def test_a_line_that_is_no_note_is_skipped_among_others(folder: Path, bad: str) -> None:
    content = f'{{"id": "a", "text": "fever"}}\n{bad}\n{{"id": "c", "text": "cough"}}\n'
    (folder / "x.jsonl").write_text(content)
    for name, stream in (("x.jsonl", None), ("-", io.BytesIO(content.encode()))):
        skipped: list[int] = []
        notes = read_texts(name, stream=stream, skipped=lambda number, why: skipped.append(number))  # noqa: B023
        assert [note.id for note in notes] == ["a", "c"]
        assert skipped == [2]


def test_a_bad_note_can_be_skipped_and_is_written_down(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"id": "a", "text": "fever"},
        {"id": "b", "text": " "},
        {"id": "a", "text": "again"},
        {"id": "c", "text": "x"},
    ]
    (folder / "notes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--out", "coded.jsonl", "--skip-bad", "skipped.jsonl")
    assert "2 notes skipped" in said(capsys, "predict", coder_folder, "notes.jsonl", *options, code=0)
    coded = [json.loads(line)["id"] for line in (folder / "coded.jsonl").read_text().splitlines()]
    skipped = [json.loads(line)["note"] for line in (folder / "skipped.jsonl").read_text().splitlines()]
    assert (coded, skipped) == (["a", "c"], [2, 3])


def forged(folder: Path, to: Path, change: Callable[[dict[str, Any]], object], *, sealed: bool = False) -> Path:
    """A copy whose manifest was changed; `sealed`: by somebody who knows how it is sealed (so that it is dropped)."""
    shutil.copytree(folder, to)
    manifest = json.loads((to / MANIFEST).read_text())
    change(manifest)
    if sealed:
        manifest.pop("seal")
    (to / MANIFEST).write_text(json.dumps(manifest))
    return to


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "temperature -1": lambda m: m["facts"].update(temperature=-1),
    "temperature of no number": lambda m: m["facts"].update(temperature=float("nan")),
    "temperature of another kind": lambda m: m["facts"].update(temperature=[1]),
    "temperature of 400 digits": lambda m: m["facts"].update(temperature=10**400),
    "temperature in letters": lambda m: m["facts"].update(temperature="1"),
    "notes without end": lambda m: m["facts"].update(train_documents=float("inf")),
    "format -1": lambda m: m.update(format=-1),
    "no files": lambda m: m.update(files={}),
    "files of another kind": lambda m: m.update(files=3),
    "a digest of another kind": lambda m: m["files"].update({"vocab.txt": 7}),
    "format of another kind": lambda m: m.update(format="1"),
    "recipe of another kind": lambda m: m.update(recipe=[1]),
    "no facts": lambda m: m.update(facts=None),
    "no vocabulary": lambda m: m["files"].pop("vocab.txt"),
    "no tensors": lambda m: m["files"].pop("tensors.safetensors"),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_manifest_is_refused(coder_folder: Path, tmp_path: Path, change: str, sealed: bool) -> None:
    with pytest.raises(ArtifactError):
        Coder.load(forged(coder_folder, tmp_path / "forged", CHANGES[change], sealed=sealed))


def test_a_manifest_that_only_says_something_else_is_refused_by_its_seal(coder_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="damaged"):
        Coder.load(forged(coder_folder, tmp_path / "forged", lambda m: m["facts"].update(splits={"name": "better"})))


@pytest.mark.parametrize("array", ["system.columns", "system.starts", "system.intercepts", "thresholds", "system.idf"])
@pytest.mark.parametrize("value", [-1, 2**31 - 1])
def test_arrays_that_point_out_of_their_tables_are_refused(
    coder_folder: Path, tmp_path: Path, array: str, value: int
) -> None:
    opened = open_artifact(coder_folder, "coder")
    tensors = {name: np.array(tensor) for name, tensor in opened.tensors.items()}
    if array in ("system.columns", "system.starts"):
        tensors[array][1] = value
    else:
        tensors[array] = tensors[array][:-1] if value < 0 else np.full_like(tensors[array], np.nan)
    files = {name: opened.text(name) for name in opened.manifest.files if name != "tensors.safetensors"}
    manifest = opened.manifest
    save_artifact(
        tmp_path / "forged", "coder", tensors=tensors, files=files, recipe=manifest.recipe, facts=manifest.facts
    )
    with pytest.raises(ArtifactError, match="make it again"):
        Coder.load(tmp_path / "forged")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("tokens", 0, 10**6), ("labels", 0, -1), ("token_starts", 1, 10**6), ("split", 0, 9), ("ids_starts", 1, 10**6)],
)
def test_a_forged_corpus_is_refused(tmp_path: Path, name: str, place: int, value: int) -> None:
    corpus = build_corpus(notes_of(20), CodeBook("other", ()), Prepare(min_count=1))
    facts = save_corpus(corpus, tmp_path / "good", recipe={}).facts
    array = np.array(open_artifact(tmp_path / "good").tensors[name])
    array[place] = value
    tensors = {**open_artifact(tmp_path / "good").tensors, name: array}
    opened = open_artifact(tmp_path / "good")
    files = {name: opened.text(name) for name in opened.manifest.files if name != "tensors.safetensors"}
    save_artifact(tmp_path / "bad", "corpus", tensors=tensors, files=files, facts=facts)
    load_corpus(tmp_path / "good")
    with pytest.raises(ArtifactError, match="make it again"):
        load_corpus(tmp_path / "bad")


def test_starts_and_numbers_are_as_a_plain_look_finds_them() -> None:
    check_starts("x", np.array([0, 2, 2, 5]), 5, rows=3)
    check_numbers("x", np.array([0, 4]), 5)
    for starts in ([0, 3, 2, 5], [1, 5], [0, 4], []):
        with pytest.raises(ArtifactError):
            check_starts("x", np.array(starts, np.int64), 5)
    with pytest.raises(ArtifactError):
        check_numbers("x", np.array([0.5]), 5)


def test_a_damaged_thing_of_a_run_is_made_again(tmp_path: Path) -> None:
    def load(path: Path) -> int:
        return int(open_artifact(path, "number").tensors["n"][0])

    def save(number: int, path: Path, /, *, recipe: Any, inputs: Any) -> None:
        save_artifact(path, "number", tensors={"n": np.array([number])}, inputs=inputs)

    keeper, kind, made = InFolder(tmp_path), Kind("number", save, load), []

    def make() -> int:
        made.append(1)
        return 7

    for _ in range(2):
        assert keeper.once("n", Origin({"a": "b"}), make, kind) == 7
    assert len(made) == 1
    content = bytearray((tmp_path / "n" / "tensors.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "n" / "tensors.safetensors").write_bytes(content)
    assert keeper.once("n", Origin({"a": "b"}), make, kind) == 7
    assert len(made) == 2
    (tmp_path / "n" / MANIFEST).write_text("{")
    with pytest.raises(ArtifactError, match="delete the folder"):
        keeper.once("n", Origin({"a": "b"}), make, kind)


def test_eight_bits_that_a_coder_does_not_have_are_refused(coder_folder: Path) -> None:
    with pytest.raises(InputError, match="no form in eight bits"):
        Coder.load(coder_folder).quantized()


def test_new_names_of_known_codes_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = CodeBook("other", ("R05", "R50"), {"R05": "cough", "R50": "fever"})
    texts, codes = ["a fever", "a cough"] * 10, [["R50"], ["R05"]] * 10
    Coder("dictionary", "prepare.min_count=1").fit(texts, codes, codebook=book, choose=0.2).save(folder / "coder")
    (folder / "more.tsv").write_text("code\tdescription\nR05\ttussis\nJ45\tasthma\n")
    message = said(capsys, "codes", "add", "coder", "more.tsv", "--out", "new", code=0)
    assert "1 codes that the coder knows have further names" in message
    assert "J45" in Coder.load(folder / "new").classes_


def test_sizes_that_no_memory_holds_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    options = ("--recipe", "caml-small", "--set", "encoder.filters=1000000000000", "--set", "vectors.epochs=1")
    assert "not enough memory" in said(capsys, "run", "notes.csv", "--out", "run", *options)


def test_an_option_that_a_part_does_not_have_is_told_before_anything_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text(TABLE)
    told = said(capsys, "run", "x.csv", "--recipe", "plant-cnn", "--set", "encoder.sizes=9", "--out", "run")
    assert "unknown option of encoder 'cnn'" in told
    assert not (folder / "run").exists()


def test_an_export_takes_the_place_of_no_other_kind_of_file(
    folder: Path, coder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text(TABLE)
    assert "name it .onnx" in said(capsys, "export", coder_folder, "--out", "x.csv")
    assert (folder / "x.csv").read_text() == TABLE


@pytest.mark.parametrize(
    ("column", "words"), [("--id-column", "column of ids"), ("--split-column", "column of splits")]
)
def test_texts_in_the_place_of_ids_and_splits_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], column: str, words: str
) -> None:
    (folder / "x.csv").write_text(TABLE.replace("fever", "high fever since one week and some more words"))
    told = said(capsys, "prepare", "x.csv", "--out", "out", column, "text")
    assert words in told
    assert CANARY not in told


def test_a_name_whose_bytes_are_no_utf_8_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9.csv")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / name).write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    said(capsys, "run", name, "--recipe", "prior", "--out", "out", code=0)
    load_corpus(folder / "out" / "corpus")


def test_input_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="wrap it in a list"):
        Coder("prior").fit("text", [["a"]])


def test_the_demo_names_a_program_that_can_be_called(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / ".venv" / "bin" / "plant"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    assert called() == ".venv/bin/plant"
    monkeypatch.setenv("PATH", str(program.parent))
    assert called() == "plant"
