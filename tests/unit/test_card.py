"""Every coder folder has a card: what it was fitted on, its figures once there are some, and its limits."""

import json
from pathlib import Path

import pytest

from plant.cli.main import main
from plant.coder import Coder
from plant.store.artifact import open_artifact
from plant.systems.card import CARD_JSON, CARD_TEXT
from tests.made_up import notes_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(folder / "notes.csv"), "--recipe", "tfidf", "--out", str(folder / "run")])
    return folder / "run"


def test_a_run_leaves_a_card_with_the_figures_of_its_report(run: Path) -> None:
    card = json.loads((run / "coder" / CARD_JSON).read_text())
    report = json.loads((run / "report" / "report.json").read_text())
    assert card["figures"]["MAP"]["value"] == pytest.approx(report["measures"]["MAP"]["value"])
    assert (card["fitted_notes"], card["codes"], card["recipe"]) == (24, 5, "tfidf")
    text = (run / "coder" / CARD_TEXT).read_text()
    assert f"| MAP | {card['figures']['MAP']['value']:.4f} |" in text
    assert "## Limits" in text


def test_a_card_names_no_note_and_no_word(run: Path) -> None:
    text = (run / "coder" / CARD_TEXT).read_text() + (run / "coder" / CARD_JSON).read_text()
    assert not [word for word in (*(note.id for note in notes_of(40)), "wordb", "signc1x") if f'"{word}"' in text]
    assert "wordb" not in text


def test_a_saved_coder_has_a_card_without_figures_and_no_digest_speaks_of_it(tmp_path: Path) -> None:
    coder = Coder("prior", "prepare.min_count=1").fit(["fever", "cough"] * 5, [["R50"], ["R05"]] * 5, choose=0.2)
    coder.save(tmp_path / "coder")
    assert "no notes were reported" in (tmp_path / "coder" / CARD_TEXT).read_text()
    (tmp_path / "coder" / CARD_TEXT).write_text("our own words")
    assert CARD_TEXT not in open_artifact(tmp_path / "coder", "coder").manifest.files
    Coder.load(tmp_path / "coder")
