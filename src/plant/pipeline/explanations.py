"""The explanations of a run measured, explainer by explainer; what is already measured is not measured again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from plant.data.corpus import Role, held_out
from plant.data.store import load_corpus
from plant.errors import InputError, unknown
from plant.stages.explanations import MEASURES, NAMES, Figures, applicable, explained_codes, measure_explainer
from plant.stages.fitted import load_coder
from plant.store.artifact import read_manifest, save_artifact
from plant.store.keeper import InFolder
from plant.types import Progress, silent

KIND = "explanation"


def measure_explanations(
    run: Path,
    *,
    notes: int,
    names: Sequence[str] = (),
    corpus: Path | None = None,
    progress: Progress = silent,
    told: Callable[[str, bool], None] = lambda name, new: None,
) -> Figures:
    """Every explainer that goes with the coder, or those that are named, on at most `notes` reported notes."""
    for name in names:
        if name not in NAMES:
            raise InputError(unknown("explainer", name, NAMES))
    folder = corpus or run / "corpus"
    fitted, source = load_coder(run / "coder"), load_corpus(folder)
    reported = explained_codes(fitted, held_out(source, Role.REPORT, fitted.codes), notes=notes)
    if not reported.examples:
        raise InputError(f"{run}: the coder accepts no code that could be explained in {notes:,} reported notes")
    tuning = explained_codes(fitted, held_out(source, Role.CHOOSE, fitted.codes), notes=notes)
    keeper = InFolder(run / "explanations", told)
    digests = {"coder": read_manifest(run / "coder").digest, "corpus": read_manifest(folder).digest}
    inputs = {**digests, "notes": str(notes)}
    return {
        name: keeper.once(
            name,
            inputs,
            lambda name=name: measure_explainer(fitted, name, tuning, reported, progress=progress),
            kind=KIND,
            save=_save,
            load=_load,
        )
        for name in names or [name for name in NAMES if applicable(fitted, name, reported)]
    }


def _save(figures: Mapping[str, float], path: Path, inputs: Mapping[str, str]) -> None:
    save_artifact(path, KIND, tensors={}, inputs=inputs, facts=figures)


def _load(path: Path) -> Mapping[str, float]:
    facts = read_manifest(path, KIND).facts
    return {measure: facts[measure] for measure in MEASURES if measure in facts}
