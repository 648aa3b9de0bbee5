"""Negation, family and hypothesis around evidence: found, shown, and heeded only where that is asked for."""

import doctest
import json
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path

import pytest

import plant.explain.around
from benchmarks.cues import measured
from plant.cli.highlight import NOTHING, html_page, terminal_text
from plant.cli.main import main
from plant.coder import Coder
from plant.data.sources import open_source
from plant.explain.around import cues_around, is_denied, with_cues
from plant.types import Evidence, Prediction, ScoredCode

ENGLISH = (
    "The patient was seen in the clinic and has a cough. No fever or rash was noted. Mother had asthma. Possible gout."
)
SPANISH = "Paciente que acude a la consulta con tos de tres días. No presenta fiebre. Madre con asma. Sospecha de gota."


def span(text: str, word: str) -> tuple[int, int]:
    return text.index(word), text.index(word) + len(word)


def coded(text: str, *words: str) -> Prediction:
    codes = (ScoredCode(w, w, 0.9, True, (Evidence(*span(text, w), w, 1.0),)) for w in words)
    return Prediction("7", tuple(codes))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ENGLISH,
            {
                "cough": (),
                "fever": ("negation",),
                "rash": ("negation",),
                "asthma": ("family",),
                "gout": ("hypothesis",),
            },
        ),
        (SPANISH, {"tos": (), "fiebre": ("negation",), "asma": ("family",), "gota": ("hypothesis",)}),
        ("Der Patient hat kein Fieber und die Lunge ist frei von Entzündung", {"Fieber": ()}),
    ],
)
def test_cues_are_told_of_what_they_speak_of(text: str, said: dict[str, tuple[str, ...]]) -> None:
    assert dict(zip(said, cues_around(text, [span(text, word) for word in said]), strict=True)) == said


def test_the_example_is_true() -> None:
    given = {"Evidence": Evidence, "Prediction": Prediction, "ScoredCode": ScoredCode}
    ended = doctest.testmod(plant.explain.around, extraglobs=given)
    assert (ended.attempted, ended.failed) == (4, 0)


def test_what_is_denied_is_taken_back_only_where_asked_and_keeps_its_place() -> None:
    prediction = coded(ENGLISH, "fever", "cough", "gout")
    told, heeded = with_cues(prediction, ENGLISH), with_cues(prediction, ENGLISH, heed=True)
    assert told.accepted == ("fever", "cough", "gout")
    assert heeded.accepted == ("cough", "gout")
    assert [s.code for s in heeded.ranked] == [s.code for s in prediction.ranked]
    assert [s.probability for s in heeded.ranked] == [s.probability for s in prediction.ranked]
    assert is_denied(told.ranked[0])
    assert not is_denied(ScoredCode("x", "", 1.0, True))


class Page(HTMLParser):
    """The text of the note, and the classes and styles of its marks."""

    def __init__(self) -> None:
        super().__init__()
        self.note, self.marks, self.inside, self.labels = "", [], False, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "div":
            self.inside = found.get("class") == "note"
        if tag == "mark" and self.inside:
            self.marks.append((found["class"], found["style"]))
        self.labels += tag == "label"

    def handle_data(self, data: str) -> None:
        self.note += data if self.inside else ""


def test_the_page_has_the_note_once_with_the_words_of_all_codes() -> None:
    text = ENGLISH + " <b>&"
    first = ScoredCode(
        "A", "a", 0.9, True, (Evidence(0, 11, "The patient", 0.5), Evidence(*span(text, "fever"), "fever", 1.0))
    )
    second = ScoredCode("B", "b", 0.2, False, (Evidence(4, 15, "patient was", 1.0),))
    bare = ScoredCode("C", "c", 0.8, True)
    page = Page()
    html = html_page(text, with_cues(Prediction("7", (first, bare, second)), text))
    page.feed(html)
    assert page.note.strip() == text
    assert page.labels == 4  # all codes, and each
    assert [classes for classes, _ in page.marks] == ["c0", "c0 c2", "c2", "c0 denied"]
    assert NOTHING in html
    assert "“The patient” · “fever” (negation)" in html
    assert "<script" not in html
    assert "all its words are negated" not in html


def test_a_code_without_evidence_is_said_to_have_none_and_denied_evidence_is_told() -> None:
    shown = terminal_text("x", Prediction("7", (ScoredCode("C", "c", 0.8, True),)), colour=False)
    assert f"! {NOTHING}" in shown
    denied = terminal_text(ENGLISH, with_cues(coded(ENGLISH, "fever"), ENGLISH), colour=False)
    assert "! all its words are negated or of the family" in denied
    assert ">fever< or rash was noted" in denied
    assert "[negation]" in denied


def test_the_command_line_tells_and_heeds_cues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the patient came to the ward with fever", "the patient came to the ward with a cough"] * 10
    Coder("tfidf", "prepare.min_count=1").fit(texts, [["R50"], ["R05"]] * 10, choose=0.2).save(tmp_path / "coder")
    (tmp_path / "note.txt").write_text("The patient came to the ward and had no fever")

    def found(*options: str) -> dict[str, bool]:
        with pytest.raises(SystemExit, match="0"):
            main(["predict", str(tmp_path / "coder"), str(tmp_path / "note.txt"), *options])
        codes = json.loads(capsys.readouterr().out)["codes"]
        return {code["code"]: code["accepted"] for code in codes}

    assert found()["R50"]
    assert found("--cues")["R50"]
    assert not found("--heed-cues")["R50"]
    with pytest.raises(SystemExit, match="0"):
        main(["explain", str(tmp_path / "coder"), str(tmp_path / "note.txt"), "--html", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    assert page.index("Near misses") < page.index("<b>R05</b>")


@pytest.mark.usefixtures("unchecked")
def test_heeding_cues_raises_precision_on_the_embedded_corpus_and_leaves_map_alone() -> None:
    notes = list(islice(open_source("demo").notes(), 160))
    (_, _, _, before, *_, map_before), (_, _, _, after, *_, map_after) = measured("dictionary", notes)
    assert after > before + 0.03
    assert map_after == map_before
