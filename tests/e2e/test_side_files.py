"""What is reused was made from the same files, those beside the notes included."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plant.data.sources.options import SourceOptions
from plant.errors import InputError
from plant.recipe.reading import load_recipe
from plant.steps.explanations import measure_explanations
from plant.steps.fit import key_of_coder
from plant.steps.prepare import Request, prepare_once
from plant.steps.run import Run, run
from plant.studies.fittings import Notes
from plant.studies.study import planned, study
from tests.made_up import notes_of

MATCHING = ("fit.epochs=1", "naming.mined=false")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    path = tmp_path / "notes.csv"
    path.write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    return path


def request_of(notes: Path, **options: str) -> Request:
    return Request(str(notes), SourceOptions(**options))  # type: ignore[arg-type]


def splits_of(path: Path, shift: int) -> str:
    names = ("train", "train", "train", "dev", "test")
    rows = [f"n{number},{names[(number + shift) % 5]}" for number in range(40)]
    path.write_text("\n".join(["id,split", *rows]) + "\n")
    return str(path)


def codes_of(path: Path, codes: int) -> str:
    path.write_text("".join(f"C{label}\n" for label in range(codes)))
    return str(path)


def book_of(path: Path, word: int) -> str:
    path.write_text("code,description\n" + "".join(f"C{label},signc{label}x {word}\n" for label in range(5)))
    return str(path)


@pytest.mark.parametrize(("option", "write"), [("splits", splits_of), ("codes_file", codes_of), ("codebook", book_of)])
def test_a_corpus_is_prepared_anew_when_a_file_beside_its_notes_changes(
    notes: Path, tmp_path: Path, option: str, write: Callable[[Path, int], str]
) -> None:
    made = []
    for content in (2, 2, 3):
        options = {option: write(tmp_path / "side.csv", content)}
        made.append(prepare_once(request_of(notes, **options), tmp_path / "corpus", load_recipe("prior")).new)
    assert made == [True, False, True]


def fitted(notes: Path, out: Path, *changes: str, recipe: str = "interaction") -> tuple[Run, list[str]]:
    made: list[str] = []
    done = run(
        request_of(notes, codebook=book_of(notes.parent / "book.csv", 1)),
        load_recipe(recipe, [*MATCHING, *changes]),
        out,
        name="x",
        notify=lambda name, new: made.append(name) if new else None,
    )
    return done, made


@pytest.mark.parametrize("knob", ["synonyms", "codes"])
def test_a_coder_is_fitted_anew_when_a_table_of_names_changes(notes: Path, tmp_path: Path, knob: str) -> None:
    table = tmp_path / "names.csv"
    made = []
    for word in ("worda", "worda", "wordb"):
        column = "synonyms" if knob == "synonyms" else "description"
        table.write_text(f"code,{column}\nC{1 if knob == 'synonyms' else 77},{word}\n")
        made.append("coder" in fitted(notes, tmp_path / "run", f"naming.{knob}='{table}'")[1])
    assert made == [True, False, True]


def test_a_coder_is_fitted_anew_when_the_recipe_of_a_member_changes(notes: Path, tmp_path: Path) -> None:
    member, both = tmp_path / "member.toml", tmp_path / "both.toml"
    both.write_text(f'system = "members"\nmembers = ["prior", "{member}"]\n')
    made = []
    for cost in (1.0, 1.0, 2.0):
        member.write_text(f'system = "tfidf"\n[tfidf]\ncost = {cost}\n')
        made.append("coder" in fitted(notes, tmp_path / "run", recipe=str(both))[1])
    assert made == [True, False, True]


def test_a_checkpoint_that_changed_in_its_folder_is_another_input(tmp_path: Path) -> None:
    recipe = load_recipe("plant", ['encoder.name="transformer"', f"encoder.folder='{tmp_path}'"])
    digests = []
    for weights in ("one", "one", "two"):
        (tmp_path / "model.safetensors").write_text(weights)
        digests.append(key_of_coder(recipe, "corpus"))
    assert digests[0] == digests[1] != digests[2]


def test_a_study_fits_anew_what_a_changed_table_of_names_decides(tmp_path: Path) -> None:
    table = tmp_path / "names.csv"
    made_from = []
    for word in ("worda", "worda", "wordb"):
        table.write_text(f"code,synonyms\nC1,{word}\n")
        made_from.append(planned("interaction", 1, tmp_path, [f"naming.synonyms='{table}'"], "").made_from)
    assert made_from[0] == made_from[1] != made_from[2]


def test_recipe_files_of_one_name_are_refused_before_any_is_fitted(notes: Path, tmp_path: Path) -> None:
    for folder in ("ra", "rb"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.toml").write_text('system = "prior"\n')
    said: list[str] = []
    recipes = [str(tmp_path / "ra" / "x.toml"), str(tmp_path / "rb" / "x.toml")]
    with pytest.raises(InputError, match=r"ra/x.toml and .*rb/x.toml would share a folder"):
        study(recipes, (1,), Notes(str(notes)), tmp_path / "out", say=said.append)
    assert not said


def test_a_recipe_or_seed_named_twice_counts_once(notes: Path, tmp_path: Path) -> None:
    called: list[Path] = []

    def call(arguments: object, log: Path) -> float | None:
        called.append(log)
        log.write_text("enough")
        return None

    with pytest.raises(InputError, match="enough"):
        study(("prior", "prior"), (1, 1), Notes(str(notes)), tmp_path / "out", call=call)
    assert called == [tmp_path / "out" / "prior-seed1" / "run.log"]


def test_explanations_of_another_corpus_are_measured_anew(notes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fitted(notes, folder, recipe="tfidf")
    other = tmp_path / "other.csv"
    other.write_text(notes.read_text().replace("worda", "wordb"))
    prepare_once(Request(str(other)), tmp_path / "corpus", load_recipe("tfidf"))
    told: list[bool] = []
    for corpus in (None, None, tmp_path / "corpus"):
        measure_explanations(
            folder, notes=3, names=["contribution"], corpus=corpus, notify=lambda name, new: told.append(new)
        )
    assert told == [True, False, True]
