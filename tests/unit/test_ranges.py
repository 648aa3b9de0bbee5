"""Labels spread over processes: the parts have the logits, losses and gradients of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.testing import assert_close

from plant.coder import Coder
from plant.data.collate import collate
from plant.data.corpus import renumber_labels, training_view
from plant.errors import InputError
from plant.nn.classifier import Classifier
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.planting.ranker import BilinearRanker
from plant.recipe.schema import Part, Recipe
from plant.steps.relate import relate
from plant.store.artifact import open_artifact
from plant.systems.coder import load_coder, save_coder, save_rows
from plant.train.ranges import Ranged, check_ranges, label_range, ranged_classifier
from plant.train.seed import seeded
from plant.train.together import Alone
from tests.made_up import corpus_of, notes_of

VIEW = training_view(corpus_of(notes_of(30)))
PLANTED = {"k": 3, "dropout": 0.3}
DECODERS = [
    Part("label-attention", {"dropout": 0.3}),
    Part("planted", PLANTED),
    Part("planted", {**PLANTED, "learned": False}),
    Part("planted", {**PLANTED, "learned": False, "listed": 3}),  # each process lists other words, dropout is the same
]


@dataclass(frozen=True)
class OneOf:
    """A process of several, the others of which are not there."""

    rank: int
    size: int
    others: float = 0.0  # what their values sum to
    by_labels: bool = True

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None: ...

    def sum_gradients(self, parameters: Sequence[nn.Parameter], *, micro_batches: int) -> None: ...

    def clip(self, parameters: Sequence[nn.Parameter], most: float) -> None: ...

    def wait(self) -> None: ...

    def totals(self, values: Sequence[float]) -> list[float]:
        return [value + self.others for value in values]

    def gathered(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows


def recipe_of(decoder: Part) -> Recipe:
    return Recipe(encoder=Part("cnn", {"embedding": 8, "filters": 6, "dropout": 0.3}), decoder=decoder)


def given_for(recipe: Recipe) -> Given:
    with seeded(7):
        ranker = BilinearRanker(len(VIEW.vocab), len(VIEW.codes), size=4)
    made = {"relevance": relate(VIEW, recipe.relate), "ranker": ranker}
    return Given(VIEW.vocab, VIEW.codes, VIEW.codebook, VIEW.label_shares(), **made)


def loss_of(classifier: Classifier, labels: range) -> torch.Tensor:
    """The sum over labels, and its gradients; the same random numbers for every part."""
    documents = renumber_labels(VIEW.documents, np.array(labels, np.int64), n_labels=len(VIEW.codes))
    torch.manual_seed(3)
    loss = classifier.train().loss(collate(documents, range(6), n_labels=len(labels))) * len(labels)
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize(
    ("decoder", "size"), [*zip(DECODERS, (2, 3, 2, 3), strict=True)], ids=["plain", "planted", "focused", "listed"]
)
def test_parts_have_the_logits_losses_and_gradients_of_the_whole(decoder: Part, size: int) -> None:
    recipe = recipe_of(decoder)
    given = given_for(recipe)
    with seeded(recipe.seed):
        whole = build_classifier(recipe, given)
    parts = [ranged_classifier(recipe, given, OneOf(rank, size)) for rank in range(size)]
    batch = collate(VIEW.documents, range(6), n_labels=len(VIEW.codes))
    with torch.no_grad():
        logits = [one.part.eval()(batch).logits for one in parts]
        assert_close(torch.cat(logits, 1), whole.eval()(batch).logits, rtol=0, atol=1e-6)
    with seeded(0):
        loss, losses = loss_of(whole, range(len(VIEW.codes))), [loss_of(one.part, one.labels) for one in parts]
    assert_close(torch.stack(losses).sum(), loss, rtol=1e-6, atol=1e-6)
    own = parts[0].own
    assert "decoder.learned.weights" in own or "decoder.weights" in own
    assert not any(name.startswith("encoder.") for name in own)
    gradients = [dict(one.part.named_parameters()) for one in parts]
    for name, parameter in whole.named_parameters():
        theirs = [found[name].grad for found in gradients]
        joined = None if theirs[0] is None else torch.cat(theirs) if name in own else torch.stack(theirs).sum(0)
        assert_close(joined, parameter.grad, rtol=1e-4, atol=1e-5)


def test_parts_become_the_whole_again() -> None:
    recipe = recipe_of(DECODERS[1])
    given = given_for(recipe)
    with seeded(recipe.seed):
        whole, again = build_classifier(recipe, given), build_classifier(recipe, given)
    one = ranged_classifier(recipe, given, OneOf(0, 1))
    found = one.rejoin(again).state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.state_dict().items())


def test_a_coder_saved_in_ranges_is_the_coder_saved_whole(tmp_path: Path) -> None:
    """Each of three processes writes the rows of its labels; put together again in two, and whole, it has all bits."""
    notes = notes_of(30)
    fitted = Coder("prior", "prepare.min_count=1").fit([n.text for n in notes], [n.codes for n in notes]).fitted
    save_coder(fitted, tmp_path / "whole")
    for size in (3, 2):
        parts = [tmp_path / f"{rank}-of-{size}" for rank in range(size)]
        for rank, part in enumerate(parts):
            save_rows(fitted, part, label_range(len(fitted.codes), rank, size))
        save_coder(fitted, tmp_path / "coder", parts=parts)
        fitted = load_coder(tmp_path / "coder")
        assert len(list((tmp_path / "coder").glob("tensors-*"))) == size
    save_coder(fitted, tmp_path / "again")
    one, two, parted = (open_artifact(tmp_path / name) for name in ("whole", "again", "coder"))
    assert two.manifest.digest == one.manifest.digest
    assert {name: array.tobytes() for name, array in parted.tensors.items()} == {
        name: array.tobytes() for name, array in one.tensors.items()
    }


def test_the_gradient_is_clipped_by_the_norm_of_all_labels() -> None:
    shared, own = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    shared.grad, own.grad = torch.tensor([1.0, 2.0]), torch.tensor([2.0])
    Ranged(OneOf(0, 2, others=16.0), frozenset({id(own)})).clip([shared, own], 0.5)  # 1 + 4, 4, and 16 elsewhere
    assert_close(shared.grad, torch.tensor([0.1, 0.2]))
    assert_close(own.grad, torch.tensor([0.2]))
    Alone().clip([shared, own], 10.0)
    assert_close(shared.grad, torch.tensor([0.1, 0.2]))


def test_every_label_has_one_process() -> None:
    for size in range(1, 8):
        assert [label for rank in range(size) for label in label_range(7, rank, size)] == list(range(7))
    with pytest.raises(InputError, match="7 labels are spread over 8 processes"):
        label_range(7, 0, 8)


@pytest.mark.parametrize("changed", [{"decoder": Part("lsan")}, {"loss": Part("rdrop")}])
def test_parts_that_look_at_all_labels_are_refused(changed: dict[str, Part]) -> None:
    with pytest.raises(InputError, match="labels are spread over processes with"):
        check_ranges(replace(recipe_of(DECODERS[0]), **changed))
