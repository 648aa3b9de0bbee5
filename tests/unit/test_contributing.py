"""The steps of CONTRIBUTING.md, each taken once: what is added that way is found, checked and used."""

import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float
from torch import Tensor, nn

from plant.cli.main import VERBS, main
from plant.coder import Coder
from plant.data import sources
from plant.data.corpus import Documents
from plant.data.notes import Source
from plant.data.sources import PUBLISHED, Published, SourceOptions, checked, open_source
from plant.errors import InputError, RecipeError
from plant.evaluate.measures import table
from plant.evaluate.measures.table import Measure, accepted_measures, divided, families_for, measure, ratio
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.significance.resampling import valued
from plant.nn.attention import masked_mean
from plant.nn.layers import WordEmbedding
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES
from plant.recipe.reading import load_recipe, named_recipes
from plant.recipe.schema import Recipe, Relate
from plant.registry import Registry
from plant.steps.fit import FITTERS, Fitted, Fitter, plan_of
from plant.steps.step import Root, Step, WalkSettings, Work, always, planned, walk
from plant.store.artifact import read_manifest, save_artifact
from plant.store.keeper import InFolder, Kind
from plant.systems.prior import PriorSystem
from plant.systems.system import PackedSystem, Reading
from plant.systems.table import UNPACK
from plant.tensors import Batch, Decoded, Encoded
from plant.types import Note, Progress
from plant.values import Count, Positive
from tests.contracts import test_baseline_parts as part_contracts
from tests.contracts import test_measure_contracts as measure_contracts
from tests.made_up import ReadingAlone, corpus_of, notes_of
from tests.scored_samples import matrix, scored


class Words(nn.Module):
    """An encoder: words by themselves."""

    def __init__(self, vocab_size: int, *, width: Count = 8) -> None:
        super().__init__()
        self.size = width
        self.words = WordEmbedding(vocab_size, size=width)

    def forward(self, batch: Batch) -> Encoded:
        return Encoded(self.words(batch.tokens, batch.mask), batch.tokens, batch.mask)


class Middle(nn.Module):
    """A decoder: the mean of the states, squeezed."""

    def __init__(self, input_size: int, n_labels: int, *, width: Count = 8) -> None:
        super().__init__()
        self.squeeze, self.output = nn.Linear(input_size, width), nn.Linear(width, n_labels)

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(self.output(self.squeeze(masked_mean(encoded.states, encoded.mask))))


class Squared(nn.Module):
    """A loss: the squared distance of probabilities from the truth."""

    def __init__(self, *, width: Positive = 1.0) -> None:
        super().__init__()
        self.width = width

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        assert batch.targets is not None
        return self.width * (decoded.logits.sigmoid() - batch.targets).square().mean()


parts = pytest.mark.parametrize(
    ("registry", "part"), [(ENCODERS, Words), (DECODERS, Middle), (LOSSES, Squared)], ids=("encoder", "decoder", "loss")
)


def listed(patch: pytest.MonkeyPatch, registry: Registry[object], part: type[nn.Module]) -> None:
    """Add a line to a table of parts, for the time of a test."""
    patch.setitem(registry.builders, "mine", part)  # type: ignore[arg-type]


def recipe_with(folder: Path, section: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f'extends = "caml-small"\n[prepare]\nmin_count = 1\n[{section}]\nname = "mine"\nwidth = 6\n')
    return str(path)


@parts
def test_a_listed_part_is_fitted_saved_and_opened(
    registry: Registry[object], part: type[nn.Module], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed(monkeypatch, registry, part)
    texts, codes = zip(*((note.text, note.codes) for note in notes_of(40, n_codes=3)), strict=True)
    coder = Coder(recipe_with(tmp_path, registry.kind), "fit.epochs=1").fit(texts, codes, choose=0.3)
    coder.save(tmp_path / "coder")
    np.testing.assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(texts), coder.predict_proba(texts))


@parts
def test_options_of_a_listed_part_are_checked_and_an_unlisted_one_is_unknown(
    registry: Registry[object], part: type[nn.Module], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe, kind = recipe_with(tmp_path, registry.kind), registry.kind
    with pytest.raises(RecipeError, match=f"unknown {kind} 'mine'"):
        Coder(recipe).fit(["some text", "other text"], [["A"], ["B"]])
    listed(monkeypatch, registry, part)
    with pytest.raises(RecipeError, match=f"{kind}.width must be"):
        Coder(recipe, f"{kind}.width=0").fit(["some text", "other text"], [["A"], ["B"]])


def test_contracts_hold_for_a_listed_encoder_and_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, ENCODERS, Words)
    listed(monkeypatch, DECODERS, Middle)
    part_contracts.test_padding_and_neighbours_change_nothing("mine", "mine")
    part_contracts.test_a_document_without_tokens_gets_finite_logits_and_gradients("mine", "mine")


class Careless(nn.Module):
    """An encoder that counts padding: the mean of all positions is added to each."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.size = 4
        self.words = WordEmbedding(vocab_size, size=4)

    def forward(self, batch: Batch) -> Encoded:
        states = self.words(batch.tokens, batch.mask)
        return Encoded(states + states.mean(1, keepdim=True), batch.tokens, batch.mask)


def test_contracts_notice_an_encoder_that_counts_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, ENCODERS, Careless)
    with pytest.raises(AssertionError):
        part_contracts.test_padding_and_neighbours_change_nothing("mine", "max-pool")


def open_letters(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """A made-up published corpus: a text per file, its codes in the first line."""

    def notes() -> Iterator[Note]:
        for path in sorted(folder.glob("*.letter")):
            codes, _, text = path.read_text().partition("\n")
            yield Note(path.stem, text, tuple(codes.split()), split="train")

    return Source("letters", notes)


def is_letters(folder: Path) -> bool:
    return any(folder.glob("*.letter"))


@pytest.mark.parametrize("named", ["", "letters"])
def test_a_listed_source_is_recognised_or_named(named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one.letter").write_text("I10 E11.9\nHigh blood pressure.")
    options = SourceOptions(source=named)
    with pytest.raises(InputError):
        open_source(str(tmp_path), options=options)
    letters = {**PUBLISHED, "letters": Published(is_letters, open_letters)}
    monkeypatch.setattr(sources, "PUBLISHED", MappingProxyType(letters))
    notes = list(checked(open_source(str(tmp_path), options=options).notes()))
    assert [(note.id, note.codes) for note in notes] == [("one", ("I10", "E11.9"))]


def right_share() -> Measure:
    return ratio("right share", "Share of the accepted codes that are gold, all documents together.",
                 lambda o: o.right, lambda o: o.accepted_counts)  # fmt: skip


def test_a_listed_measure_has_a_value_an_interval_and_keeps_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "accepted_measures", lambda: (*accepted_measures(), right_share()))
    outcome = outcome_of(scored(*matrix()))
    assert "right share" in [found.name for found in families_for(outcome)["Accepted codes"]]
    expected = divided(outcome.right.sum(keepdims=True), outcome.accepted_counts.sum(keepdims=True))
    assert measure("right share")(outcome) == pytest.approx(expected[0])
    value = valued(outcome, [measure("right share")], rounds=50)["right share"]
    assert value.low < value.value < value.high
    measure_contracts.test_perfect_scores_give_one("right share")
    measure_contracts.test_no_accepted_code_is_no_error("right share")


def test_a_recipe_file_of_the_package_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with resources.as_file(resources.files("plant.recipes")) as packaged:
        folder = Path(shutil.copytree(packaged, tmp_path / "recipes"))
    (folder / "mine.toml").write_text('extends = "tfidf"\n[tfidf]\ncost = 7.0\n')
    monkeypatch.setattr("plant.recipe.reading.resources.files", lambda package: folder)
    assert "mine" in named_recipes()
    assert (load_recipe("mine").system, load_recipe("mine").tfidf.cost) == ("tfidf", 7.0)


def test_a_recipe_file_of_ones_own_is_fitted(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "tfidf"\n[prepare]\nmin_count = 1\n[tfidf]\nmin_documents = 1\n')
    texts, codes = zip(*((note.text, note.codes) for note in notes_of(40, n_codes=3)), strict=True)
    coder = Coder(tmp_path / "mine.toml").fit(texts, codes, choose=0.3)
    assert coder.recipe.tfidf.min_documents == 1
    assert coder.predict_proba(texts[:2]).shape == (2, 3)


def _lengths(work: Work) -> dict[str, int]:
    return {"words": len(work["view"].documents.tokens), "at least": work.section(Relate).keep}


def _save_lengths(
    thing: Mapping[str, int], path: Path, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]
) -> None:
    save_artifact(path, "lengths", tensors={}, recipe=recipe, inputs=inputs, facts=thing)


LENGTHS = Step(
    "lengths",
    _lengths,
    always("view"),
    ("relate",),
    Kind("lengths", _save_lengths, lambda path: dict(read_manifest(path, "lengths").facts)),
)


def test_a_planned_step_is_made_once_and_anew_when_its_section_changes(tmp_path: Path) -> None:
    made: list[bool] = []
    settings = WalkSettings(InFolder(tmp_path, lambda name, new: made.append(new)))
    given = {"corpus": Root(corpus_of(notes_of(20)), "digest")}
    for keep in (5, 5, 6):
        recipe = Recipe(relate=Relate(keep=keep))
        plan = [*plan_of(recipe), planned(LENGTHS, recipe)]
        assert walk(plan, given, settings)["lengths"]["at least"] == keep
    assert made == [True, False, True]


def test_a_listed_verb_is_parsed_run_and_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = ModuleType("plant.cli.greet")
    verb.configure = lambda parser: parser.add_argument("name")  # type: ignore[attr-defined]
    verb.run = lambda arguments: print(f"hello {arguments.name}")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "plant.cli.greet", verb)
    monkeypatch.setitem(VERBS, "greet", "say hello")
    for arguments, code, shown in ((["greet", "you"], 0, "hello you"), (["--help"], 0, "say hello")):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
        assert shown in capsys.readouterr().out


def test_a_listed_system_is_fitted_kept_and_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    halves = PriorSystem(np.full(3, 0.5, np.float32))
    fitter = Fitter(lambda work: Fitted(Halves(halves)), always("view"))
    monkeypatch.setattr("plant.steps.fit.FITTERS", {**FITTERS, "prior": fitter})
    monkeypatch.setattr("plant.systems.table.UNPACK", {**UNPACK, "halves": lambda packed, known: Halves(halves)})
    texts, codes = zip(*((note.text, note.codes) for note in notes_of(40, n_codes=3)), strict=True)
    coder = Coder("prior").fit(texts, codes, choose=0.3)
    coder.save(tmp_path / "coder")
    assert (Coder.load(tmp_path / "coder").predict_proba(texts[:2]) == 0.5).all()


@dataclass(frozen=True)
class Halves(ReadingAlone):
    """Believes everything by half."""

    prior: PriorSystem

    def read(self, documents: Documents, *, evidence: bool = False) -> Reading:
        return self.prior.read(documents, evidence=evidence)

    def pack(self) -> PackedSystem:
        return PackedSystem("halves")
