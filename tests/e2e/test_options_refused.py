"""Options that cannot be obeyed are refused with one line, never passed over."""

import re
from pathlib import Path

import pytest

from plant.cli.main import main
from tests.made_up import notes_of

PAIR = ("compare", "run", "other")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes.csv, two runs, and files of gold codes and predictions."""
    folder = tmp_path_factory.mktemp("options")
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    (folder / "gold.tsv").write_text("n1\tC1\nn2\tC2\n")
    (folder / "found.tsv").write_text("n1\tC1\t0.9\nn2\tC1\t0.8\n")
    for name, recipe in (("run", "tfidf"), ("other", "prior")):
        with pytest.raises(SystemExit, match="0"):
            main(["run", str(folder / "notes.csv"), "--recipe", recipe, "--out", str(folder / name)])
    return folder


def refusal(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a command that must end with code 2 and one line."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = capsys.readouterr().err
    assert end.value.code == 2, said
    lines = [line for line in said.splitlines() if line.startswith("plant:")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "run", "--rounds", "-1"), "--rounds -1"),
        (("evaluate", "run", "--seed", "-1"), "--seed -1"),
        (("evaluate", "run", "--cutoffs", "0"), "--cutoffs 0"),
        (("evaluate", "run", "--cutoffs", "5,99999999999999999999999"), "a cutoff is at least 1, and 100,000 at most"),
        ((*PAIR, "--rounds", "-1"), "--rounds -1"),
        ((*PAIR, "--seed", "-1"), "--seed -1"),
        (("evaluate", "run", "--threshold", "0"), "--threshold is for files"),
        (("evaluate", "run", "--train", "gold.tsv"), "--train is for files"),
        (("evaluate", "run", "--codebook", "gold.tsv"), "--codebook is for files"),
        (("evaluate", "run", "--task", "codiesp"), "--task.*--submission"),
        (("evaluate", "run", "--top", "3"), "--top.*--submission"),
        (("evaluate", "run", "--explanations", "0"), "--explanations 0"),
        (("evaluate", "run", "--explanations", "-3"), "--explanations -3"),
        (("evaluate", "run", "--explainers", "attention"), "--explainers.*--explanations"),
        (("evaluate", "run", "--without-frequent", "-2"), "--without-frequent -2"),
        (("evaluate", "--gold", "gold.tsv", "--predictions", "found.tsv", "--explanations"), "needs a RUN"),
        ((*PAIR, "--threshold", "0.5"), "--threshold is for files"),
        (("compare", "run", "found.tsv", "--gold", "gold.tsv", "--threshold", "0.5"), "--threshold is for files"),
        ((*PAIR, "--gold", "gold.tsv"), "--gold is for files"),
        (("show", "language-model", "run"), "run has no language-model; it has corpus, coder, predictions"),
        (("show", "relevance", "run"), "run has no relevance; it has corpus, coder, predictions"),
        (("predict", "run", "notes.csv"), "run is a run: its coder is run/coder"),
        (("explain", "run", "notes.csv"), "run is a run: its coder is run/coder"),
        (("predict", "run/coder", "notes.csv", "--no-evidence", "--explainer", "foo"), "unknown explainer 'foo'"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    folder: Path,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert re.search(message, refusal(arguments, capsys))


def test_what_a_limit_on_length_cuts_is_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, out = str(folder / "notes.csv"), str(tmp_path / "run")
    lost = [len(note.text.split()) - 5 for note in notes_of(40) if len(note.text.split()) > 5]
    sentence = f"{sum(lost):,} tokens of {len(lost)} notes were cut by prepare.max_tokens"
    for command in (
        ("run", notes, "--recipe", "prior", "--set", "prepare.max_tokens=5", "--out", out),
        ("run", notes, "--recipe", "prior", "--set", "prepare.max_tokens=5", "--out", out),  # nothing is made again
        ("predict", f"{out}/coder", notes),
    ):
        with pytest.raises(SystemExit, match="0"):
            main(command)
        assert sentence in capsys.readouterr().err
