"""Trees over labels: clusters of equal size, candidates from the level above, products of chances, mean weights."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch.testing import assert_close

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import TrainingView, take, training_view
from plant.data.label_tree import LabelTree, grow_tree, halved
from plant.errors import ArtifactError, InputError, RecipeError
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Prepare
from plant.systems.classifier import ClassifierSystem
from plant.systems.label_tree import LabelTreeSystem, TreeOfNetworks, unpack_label_tree
from plant.systems.members import member_recipes
from plant.systems.system import Known, PackedSystem
from plant.train.label_tree import averaged
from tests.made_up import notes_of

TINY = ("prepare.min_count=1", "fit.epochs=1", "vectors.train=false", "encoder.embedding=8", "encoder.hidden=6",
        "decoder.hidden=8", "fit.batch=8")  # fmt: skip


def view_of(n_codes: int) -> TrainingView:
    return training_view(build_corpus(notes_of(60, n_codes=n_codes), CodeBook("other", ()), Prepare(min_count=1)))


@pytest.mark.parametrize(
    ("n_codes", "branches", "height", "sizes"),
    [(13, 4, 1, (4, 13)), (13, 2, 2, (4, 8, 13)), (13, 2, 9, (2, 4, 8, 13)), (13, 4, 0, (13,)), (3, 4, 2, (3,))],
)
def test_levels_have_clusters_of_equal_size(n_codes: int, branches: int, height: int, sizes: tuple[int, ...]) -> None:
    view = view_of(n_codes)
    tree, again = (grow_tree(view, branches=branches, height=height, seed=1) for _ in range(2))
    assert tree.sizes == sizes
    assert all(np.array_equal(*pair) for pair in zip(tree.above, again.above, strict=True))
    for up in tree.above:
        counts = np.bincount(up)
        assert counts.max() - counts.min() <= 1


def test_halves_are_those_that_lie_together() -> None:
    random = np.random.default_rng(0)
    vectors = np.zeros((9, 4))
    group = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])
    vectors[np.arange(9), 2 * group] = 1
    vectors[:, 1::2] = random.random((9, 2)) * 0.1
    first, second = halved(csr_matrix(vectors), 1, np.random.default_rng(3))
    assert {tuple(first), tuple(second)} == {(0, 2, 4, 6, 8), (1, 3, 5, 7)}


def networks(tree: LabelTree, view: TrainingView, *, beam: int) -> TreeOfNetworks:
    """A tree with random weights."""
    recipe = load_recipe("attentionxml-small", TINY)
    levels = []
    for level, size in enumerate(tree.sizes):
        codes = view.codes if level == len(tree.sizes) - 1 else tuple(f"node {n}" for n in range(size))
        given = Given(view.vocab, codes, view.codebook, np.full(size, 0.3, np.float32))
        with torch.random.fork_rng():
            torch.manual_seed(level)
            levels.append(ClassifierSystem(recipe, build_classifier(recipe, given), given))
    return TreeOfNetworks(tree, tuple(levels), beam)


def test_without_levels_above_it_is_the_plain_form() -> None:
    view = view_of(6)
    tree = networks(LabelTree((), 6), view, beam=1)
    found = LabelTreeSystem((tree,), 6).read(view.documents).scores
    np.testing.assert_allclose(found, tree.levels[0].read(view.documents).scores, atol=1e-6)


def test_with_one_label_in_each_leaf_and_a_full_beam_it_is_the_product_of_plain_forms() -> None:
    view = view_of(6)
    order = np.array([3, 1, 5, 0, 2, 4], np.int32)
    tree = networks(LabelTree((order,), 6), view, beam=6)
    found = LabelTreeSystem((tree,), 6).read(view.documents).scores
    above, below = (level.read(view.documents).scores for level in tree.levels)
    np.testing.assert_allclose(found, below * above[:, order], atol=1e-6)


def test_a_narrow_beam_follows_the_best_clusters_alone() -> None:
    view, up = view_of(6), np.array([0, 0, 1, 1, 2, 2], np.int32)
    tree = networks(LabelTree((up,), 6), view, beam=1)
    found = LabelTreeSystem((tree,), 6).read(view.documents).scores
    above, below = (level.read(view.documents).scores for level in tree.levels)
    best = above.argmax(1)[:, None] == up
    np.testing.assert_allclose(found, np.where(best, below * above[:, up], 0), atol=1e-6)


def test_other_documents_change_nothing_and_trees_are_averaged() -> None:
    view, up = view_of(6), np.array([0, 0, 1, 1, 2, 2], np.int32)
    trees = tuple(networks(LabelTree((up[::step],), 6), view, beam=2) for step in (1, -1))
    found = LabelTreeSystem(trees, 6).read(view.documents).scores
    alone = [LabelTreeSystem((tree,), 6).read(view.documents).scores for tree in trees]
    np.testing.assert_allclose(found, (alone[0] + alone[1]) / 2, atol=1e-6)
    one = LabelTreeSystem(trees, 6).read(take(view.documents, np.array([4]))).scores
    np.testing.assert_allclose(one[0], found[4], atol=1e-6)


def test_what_is_learned_from_lies_below_true_clusters_first() -> None:
    tree = TreeOfNetworks(LabelTree((np.array([0, 0, 1, 1, 2, 2], np.int32),), 6), (), 2)
    found = (np.arange(3, dtype=np.int32), np.array([0.9, 0.5, 0.1], np.float32))
    assert tree.candidates(found, 0, first=np.array([2], np.int32)).tolist() == [0, 1, 4, 5]
    assert tree.candidates(found, 0, first=np.array([0, 1, 2], np.int32)).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_mean_of_weights_is_that_of_all_epochs() -> None:
    epochs = [{"w": torch.randn(3), "n": torch.tensor(number)} for number in range(4)]
    mean = None
    for number, weights in enumerate(epochs):
        mean = averaged(mean, weights, number + 1)
    assert mean is not None
    assert_close(mean["w"], torch.stack([weights["w"] for weights in epochs]).mean(0))


def test_trees_are_kept_and_explained(tmp_path: Path) -> None:
    notes = notes_of(30, n_codes=6)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    changes = ("label_tree.branches=2", "label_tree.height=2", "label_tree.beam=2", "label_tree.average_from=1")
    coder = Coder("attentionxml-tree-small", *TINY, *changes, "label_tree.trees=2").fit(texts, codes, choose=0.2)
    scores = coder.predict_proba(texts[:6])
    coder.save(tmp_path / "coder")
    loaded = Coder.load(tmp_path / "coder")
    np.testing.assert_array_equal(loaded.predict_proba(texts[:6]), scores)
    assert coder.predict(texts[:1])[0].ranked[0].evidence
    with pytest.raises(InputError, match="explained by 'attention' only"):
        coder.predict(texts[:1], explainer="occlusion")


@pytest.mark.slow
def test_a_tree_learns_the_words_of_codes() -> None:
    notes = notes_of(150, n_codes=12)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    changes = ("fit.epochs=10", "encoder.hidden=32", "decoder.hidden=32", "encoder.embedding=32")
    coder = Coder("attentionxml-tree-small", *TINY, *changes, "label_tree.branches=4", "label_tree.beam=2")
    coder = coder.fit(texts[:120], codes[:120], choose=0.2)
    scores = coder.predict_proba(texts[120:])
    best = [coder.classes_[label] in row for label, row in zip(scores.argmax(1), codes[120:], strict=True)]
    assert np.mean(best) > 0.9


@pytest.mark.parametrize(
    ("change", "reason"),
    [("decoder.name=label-attention", "has decoder 'attention-xml'"), ("loss.name=focal", "and loss 'bce'"),
     ("fit.frozen_epochs=1", "trains whole networks")],
)  # fmt: skip
def test_what_trees_do_not_take_is_refused(change: str, reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        member_recipes(load_recipe("attentionxml-tree", [change]))


def test_clusters_are_halved() -> None:
    with pytest.raises(RecipeError, match="must be 2, 4, 8"):
        grow_tree(view_of(3), branches=3, height=1, seed=1)


def test_a_tree_that_does_not_hang_together_is_refused() -> None:
    known = Known(view_of(6).vocab, tuple("abcdef"), CodeBook("other", ()))
    packed = PackedSystem("label-tree", {"levels": [2], "beam": 1}, {"above.0.0": np.zeros(4, np.int32)})
    with pytest.raises(ArtifactError, match="does not hang together"):
        unpack_label_tree(replace(packed, parts=()), known)
