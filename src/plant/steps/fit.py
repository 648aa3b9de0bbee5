"""fit: from what earlier steps made to a system for each member of a recipe, and from those to a coder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.candidates.judge import TaughtJudge, chosen_threshold
from plant.codes.further import further_book, further_files
from plant.data.corpus import Corpus, Documents, Role, TrainingView, held_out
from plant.errors import InputError
from plant.evaluate.choosing.calibration import calibrated, fit_temperature, logits_of
from plant.evaluate.choosing.pairs import ACCEPTABLE, are_many
from plant.evaluate.choosing.thresholds import tune_global_threshold, tune_label_thresholds
from plant.evaluate.scores.forms import RankedLists, ranked
from plant.evaluate.scores.lists import Lists
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Choose, Recipe
from plant.steps.candidates import (
    judged_rows,
    nothing_to_look_for,
    of_deal,
    plan_of_scorers,
    scorer_model,
    steps_by_candidates,
)
from plant.steps.relate import RELATE, relate
from plant.steps.step import EVERYTHING, Planned, Root, Step, WalkSettings, Work, always, planned, walk
from plant.steps.views import VIEWS
from plant.systems.blend import MembersSystem, blended_on
from plant.systems.bow import fit_bow
from plant.systems.candidates import CandidatesSystem
from plant.systems.coder import CODER, FittedCoder, add_codes, add_recombined
from plant.systems.dictionary import fit_dictionary
from plant.systems.members import first_recipe, member_recipes, scorer_recipes
from plant.systems.prior import fit_prior
from plant.systems.system import FittedSystem, best_of_each, pairs_said, probabilities
from plant.systems.tfidf import fit_tfidf
from plant.systems.trees import fit_trees
from plant.systems.xr_linear import fit_xr_linear
from plant.train.history import ClassifierEpoch

SHARED = ("corpus", *(step.name for step in VIEWS))  # what the members of a recipe have in common
WITHOUT_NETWORK = ("prior", "tfidf", "dictionary", "plant-bow", "trees", "xr-linear")  # systems
FALLBACK = "plant"  # in place of candidates where no word is marked and no code has a name
FIRST = "first"  # where the steps to the system stand whose best codes another re-ranks
Chosen = NDArray[np.float32] | RankedLists  # scores of choosing notes
CROSS_FITTED = ("candidates",)  # systems that choose their threshold on fitted notes, each held out in its turn


@dataclass(frozen=True)
class Fitted:
    """A fitted system and how its training went."""

    system: FittedSystem
    history: tuple[ClassifierEpoch, ...] = ()
    threshold: float | None = None  # where it was chosen by cross-fitting: no choosing notes are needed then


def _classifier(work: Work) -> Fitted:
    from plant.steps.classifier import make_classifier  # torch, for those that need it

    return Fitted(*make_classifier(work))


def _needs_of_classifier(recipe: Recipe) -> tuple[str, ...]:
    from plant.steps.classifier import needs_of_classifier

    return needs_of_classifier(recipe)


def _tfidf(work: Work) -> Fitted:
    return Fitted(fit_tfidf(work["view"], work.recipe.tfidf, seed=work.recipe.seed, progress=work.progress))


def _dictionary(work: Work) -> Fitted:
    return Fitted(fit_dictionary(work["view"], work.recipe.naming, progress=work.progress))


def _bow(work: Work) -> Fitted:
    relevance, recipe = work["relevance"].thing, work.recipe
    again = partial(relate, recipe=recipe.relate, progress=work.progress)
    return Fitted(fit_bow(work["view"], relevance, recipe.bow, relate=again, seed=recipe.seed, progress=work.progress))


def _xr_linear(work: Work) -> Fitted:
    return Fitted(fit_xr_linear(work["view"], work.recipe.xr_linear, seed=work.recipe.seed, progress=work.progress))


@dataclass(frozen=True)
class Fitter:
    """How a system that a recipe names is fitted, and what that needs."""

    make: Callable[[Work], Fitted]
    needs: Callable[[Recipe], tuple[str, ...]]


def _candidates(work: Work) -> Fitted:
    """Judges of what readers listed, and the reader of all fitted notes; PLANT where there is nothing to look for."""
    view, recipe = work["view"], work.recipe
    if not recipe.candidates.scorers and nothing_to_look_for(view, recipe.naming):
        work.progress("no word is marked and no code has a name: PLANT is fitted, not candidates", 1, 1)
        _check(work["choosing"].documents)
        return work[f"{FALLBACK}/model"]
    judges = [of_deal("judge", deal) for deal in range(recipe.candidates.deals)]
    work.ahead("reader", *judges)
    reader, names = work["reader"], recipe.candidates.scorers
    taught: list[TaughtJudge] = [work[judge] for judge in judges]
    gold = [frozenset(view.documents.labels_of(row).tolist()) for row in judged_rows(view, recipe.seed).tolist()]
    system = CandidatesSystem(
        reader=replace(reader, seen=reader.seen[:0]),  # a coder that is given away tells of no note
        judges=tuple(one.judge for one in taught),
        codes=view.codes,
        shares=view.label_shares(),
        coding=view.codebook.system,
        names=names,
        scorers=tuple(work[scorer_model(number)].system for number in range(len(names))),
    )
    return Fitted(system, threshold=chosen_threshold([one.held_out for one in taught], gold))


def _needs_of_candidates(recipe: Recipe) -> tuple[str, ...]:
    scorers = map(scorer_model, range(len(recipe.candidates.scorers)))
    judges = (of_deal("judge", deal) for deal in range(recipe.candidates.deals))
    return ("view", "choosing", "reader", *judges, f"{FALLBACK}/model", *scorers)


def _kept(work: Work) -> Fitted:
    from plant.steps.kept import make_kept

    first = work.get(f"{FIRST}/model")
    return Fitted(*make_kept(work, None if first is None else first.system))


def _needs_of_kept(recipe: Recipe) -> tuple[str, ...]:
    return ("view", "choosing", "transformer", *((f"{FIRST}/model",) if recipe.kept.first else ()))


def _label_tree(work: Work) -> Fitted:
    from plant.steps.classifier import make_label_tree

    return Fitted(*make_label_tree(work))


FITTERS: Mapping[str, Fitter] = {
    "prior": Fitter(lambda work: Fitted(fit_prior(work["view"])), always("view")),
    "tfidf": Fitter(_tfidf, always("view")),
    "candidates": Fitter(_candidates, _needs_of_candidates),
    "dictionary": Fitter(_dictionary, always("view")),
    "plant-bow": Fitter(_bow, always("view", "relevance")),
    "trees": Fitter(
        lambda work: Fitted(fit_trees(work["view"], work.recipe.trees, progress=work.progress)), always("view")
    ),
    "xr-linear": Fitter(_xr_linear, always("view")),
    "kept": Fitter(_kept, _needs_of_kept),
    "label-tree": Fitter(_label_tree, _needs_of_classifier),
    "classifier": Fitter(_classifier, _needs_of_classifier),
}

MODEL = Step(
    "model",
    lambda work: FITTERS[work.recipe.system].make(work),
    lambda recipe: FITTERS[recipe.system].needs(recipe),
    sections=EVERYTHING,
    files=lambda recipe: (recipe.naming.synonyms,),
)


def models_of(recipe: Recipe) -> tuple[str, ...]:
    """The names of the fitted systems of a recipe."""
    return tuple(f"member{number}/model" for number in range(len(recipe.members))) or ("model",)


def _models(work: Work) -> dict[str, Fitted]:
    """All members: what processes that train together have to do with a coder, but for the one that keeps it."""
    if chooses(work.recipe):
        _check(work["choosing"].documents)  # before anything is fitted
    return {name: work[name] for name in models_of(work.recipe)}


def _coder(work: Work) -> FittedCoder:
    """All members, thresholds and temperature; then the further codes that the recipe names."""
    fitted = _models(work)
    recipe, view, choosing = work.recipe, work["view"], work["choosing"].documents
    system = joined([one.system for one in fitted.values()], recipe.choose, view, choosing)
    histories = {name.partition("/")[0]: [asdict(epoch) for epoch in one.history] for name, one in fitted.items()}
    unread = sum(system.unread(documents) for documents in (view.documents, choosing))
    facts = {**work.settings.facts, "history": histories, **({"subwords_unread": unread} if unread else {})}
    threshold = next(iter(fitted.values())).threshold if recipe.system in CROSS_FITTED else None
    coder = tuned(system, recipe, view, choosing, facts, threshold=threshold)
    if table := _further_codes(recipe):
        coder = _with_further_codes(coder, table, work["corpus"], view, threshold=threshold)
    return add_recombined(coder, view.codes) if isinstance(coder.system, CandidatesSystem) else coder


def chooses(recipe: Recipe) -> bool:
    """Whether thresholds, or how long a network is trained, are decided on choosing notes."""
    scored = any(scorer.system == "classifier" for scorer in scorer_recipes(recipe))
    return recipe.system not in CROSS_FITTED or scored


def _check(choosing: Documents) -> None:
    if not len(choosing.labels):
        raise InputError(
            "no note is left for choosing thresholds: choose by a split, or by a share above 0 (such as 0.1) of more "
            "notes; only candidates, with marked words or names of codes, can do without"
        )


def joined(systems: Sequence[FittedSystem], choose: Choose, view: TrainingView, choosing: Documents) -> FittedSystem:
    """Several systems as one, weighed on the choosing notes where the recipe asks for it."""
    if len(systems) == 1:
        return systems[0]
    return MembersSystem(tuple(systems)) if choose.blend == "mean" else blended_on(tuple(systems), view, choosing)


def tuned(
    system: FittedSystem,
    recipe: Recipe,
    view: TrainingView,
    choosing: Documents,
    facts: Mapping[str, Any],
    *,
    threshold: float | None = None,
) -> FittedCoder:
    """Thresholds, and the temperature where the recipe asks for it, from the choosing notes; or the threshold given."""
    temperature, n_labels = 1.0, len(view.codes)
    if threshold is not None:
        origin = f"micro-F1 on {len(view.documents):,} fitted notes, each scored by what had not seen it (global)"
        return _coder_of(system, recipe, view, np.full(n_labels, threshold, np.float32), temperature, origin, facts)
    many = are_many(len(choosing), n_labels)
    look: Callable[..., Chosen] = best_of if many else probabilities
    scores = look(system, choosing, n_labels=n_labels)
    if recipe.choose.calibrate:
        temperature = _temperature(system, scores, choosing, n_labels=n_labels)
        scores = _calibrated(scores, temperature)
    found = thresholds(scores, choosing, recipe.choose, n_labels=n_labels)
    origin = f"{recipe.choose.goal} on {len(choosing):,} notes held out for choosing ({recipe.choose.thresholds})"
    return _coder_of(system, recipe, view, found, temperature, origin, facts)


def _coder_of(
    system: FittedSystem,
    recipe: Recipe,
    view: TrainingView,
    thresholds: NDArray[np.float32],
    temperature: float,
    origin: str,
    facts: Mapping[str, Any],
) -> FittedCoder:
    return FittedCoder(
        recipe=recipe,
        vocab=view.vocab,
        codebook=view.codebook,
        codes=view.codes,
        system=system,
        thresholds=thresholds,
        temperature=temperature,
        train_counts=view.label_counts(),
        train_documents=len(view.documents),
        facts={**facts, "threshold_origin": origin},
    )


def best_of(system: FittedSystem, choosing: Documents, *, n_labels: int) -> RankedLists:
    """The best labels of each choosing note: no threshold accepts more of them."""
    most = min(ACCEPTABLE, n_labels)
    return ranked(
        *best_of_each(system, choosing, most=most, n_labels=n_labels), thresholds=np.zeros(n_labels, np.float32)
    )


def _temperature(system: FittedSystem, scores: Chosen, choosing: Documents, *, n_labels: int) -> float:
    """That of all scores, or of pairs that stand for them."""
    if not isinstance(scores, RankedLists):
        return fit_temperature(logits_of(scores), choosing.targets(n_labels))
    pairs = pairs_said([system], choosing, n_labels=n_labels)
    return fit_temperature(logits_of(pairs.scores[0]), pairs.truth, pairs.counts)


def _calibrated(scores: Chosen, temperature: float) -> Chosen:
    if isinstance(scores, RankedLists) and scores.values is not None:
        return replace(scores, values=calibrated(scores.values, temperature).astype(np.float32))
    return scores if isinstance(scores, RankedLists) else calibrated(scores, temperature).astype(np.float32)


def thresholds(scores: Chosen, choosing: Documents, recipe: Choose, *, n_labels: int) -> NDArray[np.float32]:
    """One threshold per label, tuned on the choosing notes."""
    targets = Lists(choosing.labels, choosing.label_starts)
    if recipe.thresholds == "per-label":
        return tune_label_thresholds(scores, targets, shrinkage=recipe.shrinkage, n_labels=n_labels)
    best = tune_global_threshold(scores, targets, measure=recipe.goal)
    return np.full(n_labels, best, np.float32)


def _further_codes(recipe: Recipe) -> str:
    """The table of further codes of the first member that names one."""
    return next((member.naming.codes for member in member_recipes(recipe) if member.naming.codes), "")


def _with_further_codes(
    fitted: FittedCoder, table: str, corpus: Corpus, view: TrainingView, *, threshold: float | None
) -> FittedCoder:
    """The coder with the codes of a table, known by their names; thresholds are tuned with them."""
    book = further_book(table, system=view.codebook.system)
    grown = add_codes(fitted, book, view)
    if threshold is not None:
        return grown
    choosing = grown.reread(held_out(corpus, Role.CHOOSE, grown.codes))
    n_labels = len(grown.codes)
    many = are_many(len(choosing), n_labels)
    scores = best_of(grown.system, choosing, n_labels=n_labels) if many else grown.probabilities(choosing)
    scores = _calibrated(scores, grown.temperature) if many and grown.temperature != 1 else scores
    return replace(grown, thresholds=thresholds(scores, choosing, fitted.recipe.choose, n_labels=n_labels))


def _needs_of_coder(recipe: Recipe) -> tuple[str, ...]:
    return (*SHARED[:3], *models_of(recipe))


MODELS = Step("models", _models, _needs_of_coder, sections=EVERYTHING)
FIT = Step(
    "coder",
    _coder,
    _needs_of_coder,
    sections=EVERYTHING,
    kind=CODER,
    files=lambda recipe: further_files(_further_codes(recipe)),
)


def needs_torch(recipe: Recipe) -> bool:
    """Whether steps of networks are among those of a recipe; torch takes seconds to load, and 150 MB."""
    return recipe.system not in WITHOUT_NETWORK


def steps_to_model(recipe: Recipe) -> tuple[Step, ...]:
    """The steps from views to the model of a recipe; one of no transformer does not say of what shape it is."""
    if not needs_torch(recipe):
        return RELATE, MODEL
    from plant.steps.classifier import OF_NETWORKS, asked_of
    from plant.steps.transform import TRANSFORM

    asked = asked_of(recipe) if recipe.system == "classifier" else ("transformer",) if recipe.system == "kept" else ()
    return RELATE, *(step for step in OF_NETWORKS if step is not TRANSFORM or "transformer" in asked), MODEL


def every_step() -> tuple[Step, ...]:
    """All steps from a corpus to a coder, of whatever recipe."""
    from plant.steps.classifier import OF_NETWORKS

    return *VIEWS, *steps_by_candidates(Recipe()), RELATE, *OF_NETWORKS, MODEL, FIT


def plan_of(recipe: Recipe) -> Iterator[Planned]:
    """The steps from a corpus to a coder that a recipe takes, those of its members apart."""
    members = member_recipes(recipe)
    for step in VIEWS:
        yield planned(step, recipe)
    for number, member in enumerate(members):
        prefix = f"member{number}/" if recipe.members else ""
        by_candidates = steps_by_candidates(member) if member.system == "candidates" else ()
        for step in (*by_candidates, *steps_to_model(member)):
            yield planned(step, member, prefix=prefix, given=SHARED)
        scorers = [(scorer, steps_to_model(scorer)) for scorer in scorer_recipes(member)]
        yield from plan_of_scorers(member, scorers, prefix=prefix, shared=SHARED)
        if first := first_recipe(member):
            for step in steps_to_model(first):
                yield planned(step, first, prefix=f"{prefix}{FIRST}/", given=SHARED)
        if by_candidates:
            plant = replace(load_recipe("plant-cnn"), seed=member.seed, prepare=member.prepare)
            for step in steps_to_model(plant):
                yield planned(step, plant, prefix=f"{prefix}{FALLBACK}/", given=SHARED)
    yield planned(FIT, recipe)


def fit_coder(corpus: Corpus, recipe: Recipe, settings: WalkSettings | None = None, *, digest: str = "") -> FittedCoder:
    """Fit every member of a recipe, then thresholds and temperature; `digest` stands for the corpus."""
    coder: FittedCoder = walk(plan_of(recipe), {"corpus": Root(corpus, digest)}, settings)["coder"]
    return coder


def key_of_coder(recipe: Recipe, corpus: str) -> str:
    """One number for all that decides a coder, `corpus` standing for its notes."""
    return walk(plan_of(recipe), {"corpus": Root(None, corpus)}).key("coder")
