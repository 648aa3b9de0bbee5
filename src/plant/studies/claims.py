"""The claims of the papers as studies: which variants are fitted, what is measured of each run, what that says."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from plant.errors import InputError
from plant.evaluate.measures.table import MACRO_F1, MACRO_F1_HARMONIC, measure
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.prior import prior_of
from plant.evaluate.scores.scored import Scored, load_scored
from plant.evaluate.significance.resampling import valued
from plant.store.artifact import read_manifest
from plant.studies.curves import data_saved
from plant.studies.fittings import Notes
from plant.studies.leak import APART, LEAKED, random_sources
from plant.studies.variants import ENDS, Row, RowsOf, Run, Variant
from plant.studies.words import case_findings, case_measures, case_rows, token_rows

CHANCE = 0.05  # how far from 0.5 an AUC of random labels may be
RARE = 50  # codes of the rare ones
FLOOR = "frequency prior"  # the row that knows how frequent codes are, and nothing of the note
LOW_SHOT = ("P@5", "P@15", "MAP")
RARE_MEASURES = ("macro-AUC", "micro-AUC", MACRO_F1, MACRO_F1_HARMONIC, "micro-F1")


@dataclass(frozen=True)
class Settings:
    """What a study is asked for: quickly, for tests; of these recipes instead of its own."""

    quick: bool = False
    recipes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # those that a claim writes


@dataclass(frozen=True)
class Claim:
    """A study of a claim: rows of each run, a table of their means over seeds, by `keys`, and what they say.

    With an `axis`, one of the keys, measures are drawn as lines over it, else as bars, or not `drawn` at all. `settled`
    has the last word on the rows of all runs, once they are together.
    """

    name: str
    question: str
    variants: Callable[[Settings], tuple[Variant, ...]]
    rows: RowsOf
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    axis: str = ""
    drawn: bool = True
    findings: Callable[[Sequence[Row]], list[str]] = lambda rows: []
    settled: Callable[[Sequence[Row]], list[Row]] = list
    sources: Callable[[Notes, Path], Mapping[str, str]] | None = None  # notes of its own, made of those given


def _of(settings: Settings, own: Sequence[str], *, least: int = 1) -> tuple[str, ...]:
    chosen = settings.recipes or tuple(own)
    if len(chosen) < least:
        raise InputError("--recipes: this study compares two recipes or more, the planted one first, its twin last")
    return chosen


def scored_of(run: Run) -> Scored:
    """What a run predicted for the reported notes."""
    return replace(load_scored(run.folder / "predictions"), codebook=None)


def measured(run: Run, scored: Scored, measures: Sequence[str]) -> Row:
    """A row of some measures, with intervals over the reported notes where resampling notes gives one."""
    outcome = outcome_of(scored, areas=any("AUC" in name for name in measures))
    found = valued(outcome, [measure(name) for name in measures])
    ends = {name: (one.low, one.high) for name, one in found.items() if one.low is not None and one.high is not None}
    intervals = {f"{name} {end}": value for name, both in ends.items() for end, value in zip(ENDS, both, strict=True)}
    return {**_about(run), **{name: one.value for name, one in found.items()}, **intervals}


def beside_floor(run: Run, scored: Scored, measures: Sequence[str], key: str) -> list[Row]:
    """A row of some measures, and that of the prior, which every run knows: the same for all of the same notes."""
    prior = prior_of(scored)
    floor = [] if prior is None else [{**measured(run, prior, measures), key: FLOOR, "variant": FLOOR}]
    return [measured(run, scored, measures), *floor]


def once(rows: Sequence[Row], *keys: str) -> list[Row]:
    """The rows, those of the prior but once for each seed and value of the keys, and behind all others."""
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row["variant"] == FLOOR:
            first.setdefault((row["seed"], *(row[key] for key in keys)), row)
    return [*(row for row in rows if row["variant"] != FLOOR), *first.values()]


def _about(run: Run) -> dict[str, Any]:
    return {
        "variant": run.variant.name,
        "seed": run.seed,
        **run.variant.about,
        "CPU minutes": round(run.cost.cpu_minutes, 2),
    }


# low-shot: how many notes does planting save?

LOW_SHOT_RECIPES = ("plant-cnn", "plant-cnn-learned")
ALONE = ("relate.named=0.0", "relate.marked=false")  # mutual information, without names and marks


def low_shot_variants(settings: Settings) -> tuple[Variant, ...]:
    """Every recipe on growing draws of notes, the planted one in two forms; what is not drawn is not used at all."""
    planted, *others = _of(settings, LOW_SHOT_RECIPES, least=2)
    sizes = (12, 0) if settings.quick else (25, 50, 100, 200, 400, 0)
    forms = [(planted, ""), (planted, " alone"), *((other, "") for other in others)]
    return tuple(_drawn(recipe, form, size) for size in sizes for recipe, form in forms)


def _drawn(recipe: str, form: str, size: int) -> Variant:
    changes = (f"prepare.fitted_notes={size}", "prepare.seed={seed}", *(ALONE if form else ()))
    name, system = Path(recipe).stem, f"{Path(recipe).stem}{form and ', mutual information alone'}"
    about = {"system": system, "drawn": str(size or "all")}
    return Variant(f"{name}{form.replace(' ', '-')}-{size or 'all'}", recipe, changes, about)


def low_shot_rows(run: Run, notes: Notes) -> Iterable[Row]:
    scored = scored_of(run)
    return [{**row, "notes": scored.train_documents} for row in beside_floor(run, scored, LOW_SHOT, "system")]


def low_shot_settled(rows: Sequence[Row]) -> list[Row]:
    """The same number of notes for all seeds of a draw: those that drawing choosing notes leaves differ by a few."""
    draws = [row.get("drawn", row["variant"]) for row in rows]  # what was kept before draws had names has none
    least: dict[str, int] = {}
    for draw, row in zip(draws, rows, strict=True):
        least[draw] = min(row["notes"], least.get(draw, row["notes"]))
    return once([{**row, "notes": least[draw]} for draw, row in zip(draws, rows, strict=True)], "notes")


def low_shot_findings(rows: Sequence[Row]) -> list[str]:
    """For each planted system and measure, the factor of notes that it saves against the last one, the twin."""
    systems = list(dict.fromkeys(row["system"] for row in rows if row["system"] != FLOOR))
    twin, said = systems[-1], []
    for system in systems[:-1]:
        for name in LOW_SHOT[:2]:
            saved = data_saved(_points(rows, system, name), _points(rows, twin, name))
            said.append(f"{name}: {system} {saved.said(twin)}")
    return [*said, "The paper: 1/10 of the notes for P@5, 1/5 for P@15."]


def _points(rows: Sequence[Row], system: str, name: str) -> list[tuple[int, int, float]]:
    return [(row["seed"], row["notes"], row[name]) for row in rows if row["system"] == system]


# overfit: what do sixty epochs do?


def overfit_variants(settings: Settings) -> tuple[Variant, ...]:
    """Sixty epochs of the planted recipe and of its twin, without early stopping."""
    epochs = 2 if settings.quick else 60
    changes = (f"fit.epochs={epochs}", "fit.patience=0")
    recipes = _of(settings, LOW_SHOT_RECIPES, least=2)
    return tuple(Variant(Path(one).stem, one, changes, {"system": Path(one).stem}) for one in recipes)


def overfit_rows(run: Run, notes: Notes) -> Iterable[Row]:
    """A row for each epoch: the loss of fitted notes, and loss and precision of choosing ones."""
    histories = read_manifest(run.folder / "coder").facts["history"]
    for member, epochs in histories.items():
        for epoch in epochs:
            on_choosing = {"choosing loss": epoch["measures"]["loss"], "P@15": epoch["measures"]["P@15"]}
            system = run.variant.name if len(histories) == 1 else f"{run.variant.name}, {member}"
            yield {
                **_about(run),
                "system": system,
                "epoch": epoch["number"],
                "fitted loss": epoch["loss"],
                **on_choosing,
            }


def overfit_findings(rows: Sequence[Row]) -> list[str]:
    said = []
    for system in dict.fromkeys(row["system"] for row in rows):
        curve = _mean_by(rows, system, "epoch", "choosing loss")
        best = min(curve, key=lambda epoch: curve[epoch])
        last = max(curve)
        said.append(
            f"{system}: the loss of choosing notes is least after epoch {best} ({curve[best]:.3f}) and "
            f"{curve[last] / curve[best]:.2f} times that after epoch {last}"
        )
    return said


def _mean_by(rows: Sequence[Row], system: str, key: str, value: str) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["system"] == system:
            found.setdefault(row[key], []).append(row[value])
    return {at: float(np.mean(values)) for at, values in sorted(found.items())}


# ablation: what is each part worth?

PRINTED = "plant-printed-small-forward"
MASK = "decoder.inattention=mask"
ABLATED = ("MAP", "micro-F1", "P@5", "P@15", "macro-AUC")
ABLATIONS: Mapping[str, tuple[str, ...]] = {
    "as printed (A + S + P)": (),
    "A + S": ("decoder.planted=false",),
    "A + P": ("decoder.static=false",),
    "S + P": ("decoder.learned=false", MASK),
    "A": ("decoder.static=false", "decoder.planted=false"),
    "S": ("decoder.learned=false", "decoder.planted=false", MASK),
    "P": ("decoder.learned=false", "decoder.static=false", MASK),
    "k = 5": ("decoder.k=5",),
    "k = 10": ("decoder.k=10",),
    "k = 30": ("decoder.k=30",),
    "inattention as a mask": (MASK,),
    "shares instead of raw relevance": ('decoder.static_values="normalised"',),
    "learned scales": ('decoder.scales="learned"',),
    "not stateful": ("fit.segment=0", "decoder.segment=0"),
    "one rate for all": ("fit.layer_rate=1.0", "fit.ranker_rate=1.0"),
    "all unfrozen at once": ("fit.frozen_epochs=0", "fit.unfreezing_epochs=0", "fit.epochs=8"),
    "backward": ("pretrain.direction=backward",),
    "bilinear ranker": ("rank.form=bilinear",),
    "ranker from random vectors": ("rank.vectors=random",),
    "normalised relevance": ("relate.form=normalised",),
    "positive relevance": ("relate.form=positive",),
    "names": ("relate.named=8.0",),
    "names and marks": ("relate.named=8.0", "relate.marked=true"),
}


def ablation_variants(settings: Settings) -> tuple[Variant, ...]:
    """The printed recipe with one thing changed at a time."""
    (recipe,) = _of(settings, (PRINTED,))[:1]
    names = list(ABLATIONS)[:2] if settings.quick else list(ABLATIONS)
    return tuple(Variant(_folder(name), recipe, ABLATIONS[name], {"change": name}) for name in names)


def _folder(name: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return "-".join(words)


def ablation_rows(run: Run, notes: Notes) -> Iterable[Row]:
    return beside_floor(run, scored_of(run), ABLATED, "change")


def ablation_settled(rows: Sequence[Row]) -> list[Row]:
    return once(rows)


def ablation_findings(rows: Sequence[Row]) -> list[str]:
    """How far each change raises or lowers MAP, seed by seed against the recipe unchanged."""
    first = rows[0]["change"]
    base = {row["seed"]: row["MAP"] for row in rows if row["change"] == first}
    said = []
    for change in dict.fromkeys(row["change"] for row in rows if row["change"] not in (first, FLOOR)):
        steps = [row["MAP"] - base[row["seed"]] for row in rows if row["change"] == change and row["seed"] in base]
        if steps:
            said.append(f"{change}: MAP {np.mean(steps):+.4f} (seeds {min(steps):+.4f} to {max(steps):+.4f})")
    return said


# rare: codes of few notes

RARE_RECIPES = (
    "plant-cnn",
    "plant-cnn-learned",
    "plant-printed-small",
    "interaction",
    "dictionary",
    "label-descriptions-small",
    "prior",
)


def rare_variants(settings: Settings) -> tuple[Variant, ...]:
    own = ("plant-cnn", "prior") if settings.quick else RARE_RECIPES
    return tuple(Variant(Path(one).stem, one, (), {"system": Path(one).stem}) for one in _of(settings, own))


def rarest(scored: Scored, most: int = RARE) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The codes of the fewest fitted notes, one at least, that some reported note has; of equals the first by name."""
    counts = np.asarray(scored.train_counts)
    reported = np.isin(np.arange(scored.n_labels), scored.gold.labels)
    known = np.flatnonzero(reported & (counts > 0)).tolist()
    chosen = sorted(known, key=lambda label: (counts[label], scored.codes[label]))[:most]
    return np.isin(np.arange(scored.n_labels), chosen)


def rare_rows(run: Run, notes: Notes) -> Iterable[Row]:
    scored = scored_of(run)
    few = scored.only(rarest(scored))
    fitted = {"codes": few.n_labels, "fitted notes at most": int(few.train_counts.max(initial=0))}
    return [{**measured(run, few, RARE_MEASURES), **fitted}]


# leak: what random labels show of every recipe, and would show if reported notes were fitted on

LEAK_RECIPES = (
    "prior", "tfidf", "dictionary", "interaction", "caml-small", "plant-cnn", "plant-cnn-learned", "plant",
    "plant-printed-small", "candidates",
)  # fmt: skip


def leak_variants(settings: Settings) -> tuple[Variant, ...]:
    """Every recipe on random labels, with the reported notes apart, and with copies of them among the fitted ones."""
    recipes = _of(settings, ("tfidf", "prior") if settings.quick else LEAK_RECIPES)
    return tuple(
        Variant(f"{Path(one).stem}-{kind}", one, (), {"system": Path(one).stem, "reported notes": kind}, source)
        for one in recipes
        for kind, source in settings.sources.items()
    )


def leak_rows(run: Run, notes: Notes) -> Iterable[Row]:
    return [measured(run, scored_of(run), ("macro-AUC", "MAP"))]


def leak_findings(rows: Sequence[Row]) -> list[str]:
    """The systems whose AUC is not that of chance although the reported notes were apart."""
    apart = {row["system"]: row["macro-AUC"] for row in rows if row["reported notes"] == APART}
    leaking = [f"{system} ({area:.3f})" for system, area in apart.items() if abs(area - 0.5) > CHANCE]
    shown = [row["macro-AUC"] for row in rows if row["reported notes"] == LEAKED]
    said = f"On random labels {len(apart) - len(leaking)} of {len(apart)} systems have an AUC within {CHANCE} of 0.5"
    return [
        said + (f"; not so: {', '.join(leaking)}." if leaking else "."),
        f"With copies of the reported notes among the fitted ones it goes up to {max(shown, default=0.5):.3f}.",
    ]


# tokens and case-study: words, beside what people marked


def one_variant(settings: Settings) -> tuple[Variant, ...]:
    """One planted recipe."""
    return tuple(Variant(Path(one).stem, one) for one in _of(settings, ("plant-cnn",))[:1])


CLAIMS: Mapping[str, Claim] = {
    claim.name: claim
    for claim in (
        Claim(
            "low-shot",
            "How many notes does planting save?",
            low_shot_variants,
            low_shot_rows,
            ("system", "notes"),
            LOW_SHOT,
            axis="notes",
            findings=low_shot_findings,
            settled=low_shot_settled,
        ),
        Claim(
            "overfit",
            "What do sixty epochs do to a planted decoder, and to its twin?",
            overfit_variants,
            overfit_rows,
            ("system", "epoch"),
            ("fitted loss", "choosing loss", "P@15"),
            axis="epoch",
            findings=overfit_findings,
        ),
        Claim(
            "ablation",
            "What is each part of the printed method worth?",
            ablation_variants,
            ablation_rows,
            ("change",),
            ABLATED,
            findings=ablation_findings,
            settled=ablation_settled,
        ),
        Claim(
            "rare",
            f"What of the {RARE} rarest codes that some reported note has?",
            rare_variants,
            rare_rows,
            ("system",),
            RARE_MEASURES,
        ),
        Claim(
            "tokens",
            "Which words speak for a code?",
            one_variant,
            token_rows,
            ("code", "title", "mutual information", "ranker", "marked"),
            (),
        ),
        Claim(
            "case-study",
            "Which words does each explainer name, and which did people mark?",
            one_variant,
            case_rows,
            ("note", "code", "marked", "attention", "static", "planted", "gradient"),
            case_measures(),
            drawn=False,  # a bar for each code of each note tells nothing
            findings=case_findings,
        ),
        Claim(
            "leak",
            "What do random labels show, and what would a leak?",
            leak_variants,
            leak_rows,
            ("system", "reported notes"),
            ("macro-AUC", "MAP"),
            findings=leak_findings,
            sources=random_sources,
        ),
    )
}
