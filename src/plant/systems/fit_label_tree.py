"""How trees of networks are fitted: level by level from the top, each on what the levels above let through."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plant.data.batches import TOGETHER, prediction_batches
from plant.data.corpus import Documents, TrainingView, take
from plant.data.label_tree import LabelTree, grow_tree, lifted
from plant.evaluate.choosing.judge import BestScores, judge_on
from plant.evaluate.choosing.judge import best_scores as best_of
from plant.evaluate.scores.lists import Lists
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.recipe.schema import Recipe
from plant.store.ragged import Ragged
from plant.systems.classifier import ClassifierSystem
from plant.systems.label_tree import Found, LabelTreeSystem, TreeOfNetworks, nodes_of
from plant.systems.system import Known
from plant.train.history import ClassifierEpoch
from plant.train.label_tree import LevelLessons, train_level
from plant.train.loop import Runtime
from plant.train.seed import seeded

QUERIES = "decoder.queries"  # what is a node's own


def fit_label_tree(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[LabelTreeSystem, tuple[ClassifierEpoch, ...]]:
    """Trees of different seeds, one after the other; how the last level of each went is told."""
    trees, history = [], list[ClassifierEpoch]()
    for number in range(recipe.label_tree.trees):
        own = replace(recipe, seed=recipe.seed + 1000 * number)
        tree, epochs = _fitted(view, choosing, own, given, gold=gold, runtime=runtime, name=f"tree {number + 1}")
        trees.append(tree)
        history += epochs
    return LabelTreeSystem(tuple(trees), len(view.codes)), tuple(history)


def _fitted(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    runtime: Runtime[ClassifierEpoch],
    name: str,
) -> tuple[TreeOfNetworks, list[ClassifierEpoch]]:
    section = recipe.label_tree
    tree = grow_tree(view, branches=section.branches, height=section.height, seed=recipe.seed)
    networks, history = TreeOfNetworks(tree, (), section.beam), list[ClassifierEpoch]()
    for level in range(len(tree.sizes)):
        network = _network(view, recipe, given, tree, level, device=runtime.device)
        if networks.levels:
            _start_from(network, networks.levels[-1])
        grown = replace(networks, levels=(*networks.levels, network))
        lessons = LevelLessons(
            network.classifier.readable(view.documents),
            _asked(networks, view.documents, level),
            lifted(view.documents, tree.to_level(level)),
            _measured(grown, choosing, network.given.codes, gold, level),
            f"{name}, level {level + 1} of {len(tree.sizes)}",
        )
        history += train_level(
            network.classifier,
            lessons,
            recipe.fit,
            average_from=section.average_from,
            seed=recipe.seed,
            runtime=runtime,
        )
        networks = grown
    return networks, history


def _network(
    view: TrainingView, recipe: Recipe, given: Given, tree: LabelTree, level: int, *, device: str
) -> ClassifierSystem:
    codes = nodes_of(Known(view.vocab, view.codes, view.codebook), tree, level).codes
    nodes = lifted(view.documents, tree.to_level(level))
    counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *nodes]), minlength=len(codes))
    shares = (counts / max(1, len(nodes))).astype(np.float32)
    plain = replace(recipe, system="classifier")
    own = replace(given, codes=codes, frequencies=shares)
    with seeded(recipe.seed + level):
        return ClassifierSystem(plain, build_classifier(plain, own).to(device), own, device)


def _start_from(network: ClassifierSystem, above: ClassifierSystem) -> None:
    """Begin with what the level above learned of words and of the classifier that its nodes share."""
    learned = above.classifier.state_dict()
    own = {name: tensor for name, tensor in network.classifier.state_dict().items() if name != QUERIES}
    network.classifier.load_state_dict({name: learned[name] for name in own}, strict=False)


def _asked(above: TreeOfNetworks, documents: Documents, level: int) -> list[NDArray[np.int32]]:
    """The nodes that each fitted note is asked for: below the true nodes above and the best others; all at the top."""
    if not level:
        return [np.arange(above.tree.sizes[0], dtype=np.int32)] * len(documents)
    true = lifted(documents, above.tree.to_level(level - 1))
    found = _descended(above, documents)
    return [above.candidates(own, level - 1, first=first) for own, first in zip(found, true, strict=True)]


def _descended(networks: TreeOfNetworks, documents: Documents) -> list[Found]:
    found: dict[int, Found] = {}
    for rows in prediction_batches(documents, size=TOGETHER):
        found |= zip(rows.tolist(), networks.descend(take(documents, rows)), strict=True)
    return [found[row] for row in range(len(documents))]


def _measured(
    networks: TreeOfNetworks, choosing: Documents, codes: tuple[str, ...], gold: Sequence[Sequence[str]], level: int
) -> Callable[[], dict[str, float]]:
    """How well the choosing notes find the nodes of a level; those of labels are measured by their codes."""
    last = level == len(networks.tree.sizes) - 1
    nodes = Ragged.of(lifted(choosing, networks.tree.to_level(level)), np.int32)
    own = replace(choosing, labels=nodes.values, label_starts=nodes.starts)
    names = gold if last else [[codes[node] for node in own.labels_of(row)] for row in range(len(own))]
    judge = judge_on(own, codes, names)

    def measured() -> dict[str, float]:
        found = _descended(networks, choosing)
        rows = ((np.array([row]), _filled(one, len(codes))) for row, one in enumerate(found))
        scores: BestScores = best_of(rows, Lists(own.labels, own.label_starts))
        return dict(judge(scores))

    return measured


def _filled(found: Found, n_nodes: int) -> NDArray[np.float32]:
    scores = np.zeros((1, n_nodes), np.float32)
    scores[0, found[0]] = found[1]
    return scores
