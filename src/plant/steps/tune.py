"""Tune: knobs of a recipe, tried one set after the other; each is fitted, and judged by the choosing notes.

The reported notes are never looked at. What was tried lies in a journal, so that a study that is stopped goes on.
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from plant.data.corpus import Corpus, Role
from plant.errors import ArtifactError, InputError, RecipeError, quoted
from plant.recipe.reading import load_recipe
from plant.steps.evaluate import Settings, evaluate
from plant.steps.fit import fit_coder
from plant.steps.predict import score_role
from plant.steps.step import WalkSettings
from plant.store.artifact import atomic_files
from plant.store.keeper import InFolder, Shared
from plant.types import Progress, silent

PREPARED = "prepare."
MOST = 2**53  # whole numbers up to here are told apart as the numbers that Optuna draws
RANGE = re.compile(r"(?P<low>[^.]\S*?)\.\.(?P<high>\S+?)(?P<log>:log)?")


@dataclass(frozen=True)
class Knob:
    """A knob and what it may be: one of some values, or a number of a range, drawn by its logarithm where asked."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False

    def drawn(self, trial: Any) -> str:
        """The override that a trial of Optuna draws."""
        if self.choices:
            return f"{self.key}={trial.suggest_categorical(self.key, list(self.choices))}"
        if self.whole:
            return f"{self.key}={trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)}"
        return f"{self.key}={trial.suggest_float(self.key, self.low, self.high, log=self.log)!r}"

    @property
    def extremes(self) -> tuple[str, ...]:
        """The overrides of all its values, or of the ends of its range."""
        ends = (int(self.low), int(self.high)) if self.whole else (self.low, self.high)
        return tuple(f"{self.key}={value}" for value in self.choices or ends)


@dataclass(frozen=True)
class Tuned:
    """What came out: the best overrides, their value, and how many sets were tried in all."""

    best: tuple[str, ...]
    value: float
    trials: int


def read_knob(text: str) -> Knob:
    """A knob as it is spelled: `tfidf.cost=0.1..10:log`, `tfidf.longest=1..3`, `relate.form=mi,positive`."""
    key, sign, values = text.partition("=")
    if not sign or not key.strip() or not values.strip():
        raise RecipeError(f"cannot read {quoted(text)}: a range is section.key=LOW..HIGH, LOW..HIGH:log, or a,b,c")
    found = RANGE.fullmatch(values.strip())
    if found is None:
        return Knob(key.strip(), choices=tuple(part.strip() for part in values.split(",")))
    try:
        low, high = float(found["low"]), float(found["high"])
    except ValueError as error:
        raise RecipeError(f"{quoted(key.strip())}: the ends of a range are numbers, such as 0.1..10") from error
    if not (math.isfinite(low) and math.isfinite(high)) or max(abs(low), abs(high)) > MOST:
        raise RecipeError(f"{quoted(key.strip())}: the ends of a range are numbers up to {MOST:.0e}")
    if not low < high or (found["log"] and low <= 0):
        raise RecipeError(
            f"{quoted(key.strip())}: a range rises, and one that is drawn by its logarithm begins above 0"
        )
    whole = not any("." in found[end] or "e" in found[end].lower() for end in ("low", "high"))
    return Knob(key.strip(), low=low, high=high, whole=whole, log=bool(found["log"]))


def check_knobs(knobs: Sequence[Knob], recipe: str, overrides: Sequence[str] = ()) -> None:
    """Refuse what cannot be searched, before anything is read and fitted: each value of a knob must make a recipe."""
    set_by_hand, keys = set(_pairs(overrides)), [knob.key for knob in knobs]
    for key in keys:
        if keys.count(key) > 1 or key in set_by_hand:
            raise RecipeError(f"{quoted(key)} is given twice: one range for each knob, and none for one that is set")
        if key.startswith(PREPARED):
            raise RecipeError(f"{quoted(key)}: notes are prepared once, before the search; set it, and search anew")
    firsts = [knob.extremes[0] for knob in knobs]
    for knob in knobs:
        for value in knob.extremes:
            load_recipe(recipe, [*overrides, *firsts, value])


Trial = tuple[int, tuple[str, ...]]
"""The number of a set of knobs, and the overrides that it stands for."""
JudgeAll = Callable[[Sequence[Trial]], Iterable[tuple[int, float]]]
"""Called with some trials: the place of each, and its value, in any order."""


@dataclass(frozen=True)
class Search:
    """What the trials of a search have in common, besides the corpus."""

    recipe: str
    out: Path
    digest: str  # of the corpus
    measure: str


def judged(corpus: Corpus, about: Search, trial: Trial) -> float:
    """Fit one set of knobs and measure the choosing notes."""
    number, changes = trial
    keeper = Shared(about.out / "shared", InFolder(about.out / "trials" / str(number)), own=("coder",))
    fitted = fit_coder(corpus, load_recipe(about.recipe, changes), WalkSettings(keeper=keeper), digest=about.digest)
    scored = score_role(fitted, corpus, Role.CHOOSE, system=about.recipe, splits={})
    measured = evaluate(scored, Settings(rounds=0, without_frequent=())).measures
    if about.measure not in measured:
        raise InputError(f"unknown measure {quoted(about.measure)}; known: {', '.join(measured)}")
    return float(measured[about.measure].value)


def tune(
    corpus: Corpus,
    recipe: str,
    knobs: Sequence[Knob],
    out: Path,
    *,
    digest: str,
    overrides: Sequence[str] = (),
    trials: int = 20,
    measure: str = "MAP",
    seed: int = 1,
    progress: Progress = silent,
    judge: JudgeAll | None = None,
    at_once: int = 1,
) -> Tuned:
    """Try sets of knobs until there are `trials` of them; `out` keeps journal, table, and the best as a recipe.

    With `judge`, sets are drawn and judged `at_once`, and told in the order in which they were drawn: what is tried
    depends on how many are tried at once, not on which was done first.
    """
    check_knobs(knobs, recipe, overrides)
    optuna = _optuna()
    if not (corpus.role == Role.CHOOSE).any():
        raise InputError("no note is left for choosing, by which sets of knobs are judged: name a split, or a share")

    about = Search(recipe, out, digest, measure)

    def changes_of(trial: Any) -> tuple[str, ...]:
        return (*overrides, *(knob.drawn(trial) for knob in knobs))

    def value_of(trial: Any) -> float:
        return judged(corpus, about, (trial.number, changes_of(trial)))

    out.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal.JournalFileBackend(str(_mended(out / "journal.log")))
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(journal),
        study_name="search",
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=judge is not None),
    )
    _check_same(study, _fingerprint(recipe, overrides, knobs, (digest, measure)), out)
    while (done := len(finished(study))) < trials:
        if judge is None:
            study.optimize(value_of, n_trials=1)
        else:
            asked = [study.ask() for _ in range(min(at_once, trials - done))]
            values = dict(judge([(trial.number, changes_of(trial)) for trial in asked]))
            for place, trial in enumerate(asked):
                study.tell(trial, values[place])
        progress("sets of knobs", len(finished(study)), trials)
    best = tuple(f"{key}={value}" for key, value in study.best_params.items())
    _write(out, recipe, finished(study), (*overrides, *best))
    return Tuned(best, float(study.best_value), len(finished(study)))


def finished(study: Any) -> list[Any]:
    """The trials that came to an end; those that were killed are drawn again."""
    return [trial for trial in study.trials if trial.state.is_finished() and trial.value is not None]


def _fingerprint(recipe: str, overrides: Sequence[str], knobs: Sequence[Knob], further: Sequence[str]) -> str:
    """What a search is of, in place of all that it is of."""
    told = [asdict(load_recipe(recipe, overrides)), [asdict(knob) for knob in knobs], *further]
    return blake2b(json.dumps(told, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def _check_same(study: Any, fingerprint: str, out: Path) -> None:
    """Refuse to go on with a search of something else, whose values mean nothing here."""
    if not study.trials:
        study.set_user_attr("search", fingerprint)
    elif study.user_attrs.get("search") != fingerprint:
        raise InputError(
            f"{out} has a search of other notes, another recipe, other ranges or another measure: choose another folder"
        )


def _mended(journal: Path) -> Path:
    """The journal without a last line that a kill or a full disk left unfinished: nothing could follow it."""
    content = journal.read_bytes() if journal.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    try:
        sound = all(isinstance(json.loads(line), dict) for line in whole.splitlines())
    except ValueError:
        sound = False
    if not sound:
        raise ArtifactError(f"{journal} is damaged: delete it, and what is fitted already is only measured again")
    if whole != content:
        os.truncate(journal, len(whole))
    return journal


def _write(out: Path, recipe: str, trials: Sequence[Any], best: Sequence[str]) -> None:
    """A table of all trials, best first, and the best as a recipe of its own."""
    table = io.StringIO()
    keys = sorted({key for trial in trials for key in trial.params})
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["trial", "value", *keys])
    for trial in sorted(trials, key=lambda trial: -trial.value):
        writer.writerow([trial.number, repr(trial.value), *(trial.params.get(key, "") for key in keys)])
    name = str(Path(recipe).resolve()) if recipe.endswith(".toml") else recipe
    lines = [f"extends = {_toml(name)}", *(f"{key} = {_toml_of(value)}" for key, value in _pairs(best).items())]
    with atomic_files([out / "trials.csv", out / "best.toml"]) as (rows, toml):
        rows.write_text(table.getvalue(), encoding="utf-8")
        toml.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pairs(changes: Sequence[str]) -> Mapping[str, str]:
    return {key.strip(): value.strip() for key, _, value in (change.partition("=") for change in changes)}


def _toml_of(value: str) -> str:
    """A value as TOML writes it: as it stands where it is TOML already, else a string."""
    import tomllib

    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return _toml(value)
    return value


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError("tuning needs Optuna: pip install 'plant-xmtc[hpo]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
