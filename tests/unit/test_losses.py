"""Losses equal their published sums, written as loops over documents and labels."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from plant.errors import RecipeError
from plant.nn import losses
from plant.tensors import Batch, Decoded

FREQUENCIES = torch.tensor([0.5, 0.2, 0.05, 0.01, 0.3], dtype=torch.float64)
TARGETS = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.float64)


@pytest.fixture
def logits() -> Tensor:
    return 3 * torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def batch(targets: Tensor) -> Batch:
    tokens = torch.ones(len(targets), 1, dtype=torch.long)
    return Batch(tokens, tokens.bool(), targets)


def mean_of(term: Callable[[float, float, int, int], float], logits: Tensor) -> Tensor:
    terms = [
        term(float(logits[d, label]), float(TARGETS[d, label]), d, label)
        for d in range(len(logits))
        for label in range(logits.shape[1])
    ]
    return torch.tensor(sum(terms) / len(terms), dtype=torch.float64)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def cross_entropy(z: float, y: float) -> float:
    return -y * math.log(sigmoid(z)) - (1 - y) * math.log(1 - sigmoid(z))


def of_truth(z: float, y: float) -> float:
    return sigmoid(z) if y else 1 - sigmoid(z)


def even_weight(document: int, label: int) -> float:
    drawn = sum(float(TARGETS[document, other] / FREQUENCIES[other]) for other in range(5))
    return 0.1 + sigmoid(10 * (1 / float(FREQUENCIES[label]) / drawn - 0.2))


def test_bce_is_the_mean_cross_entropy(logits: Tensor) -> None:
    assert_close(losses.BCE()(Decoded(logits), batch(TARGETS)), mean_of(lambda z, y, d, i: cross_entropy(z, y), logits))


def test_smoothing_moves_targets_towards_one_half(logits: Tensor) -> None:
    expected = mean_of(lambda z, y, d, i: cross_entropy(z, 0.9 * y + 0.05), logits)
    assert_close(losses.BCE(smoothing=0.1)(Decoded(logits), batch(TARGETS)), expected)


def test_balanced_positives_weigh_as_much_as_negatives(logits: Tensor) -> None:
    def term(z: float, y: float, document: int, label: int) -> float:
        positives = float(TARGETS[document].sum())
        return cross_entropy(z, y) * ((5 - positives) / positives if y else 1)

    assert_close(losses.BalancedBCE()(Decoded(logits), batch(TARGETS)), mean_of(term, logits))


def test_balanced_loss_gives_no_gradient_beyond_its_limit() -> None:
    logits = torch.tensor([[20.0, 1.0]], requires_grad=True)
    losses.BalancedBCE()(Decoded(logits), batch(torch.tensor([[0.0, 1.0]]))).backward()
    assert logits.grad is not None
    assert logits.grad[0, 0] == 0
    assert logits.grad[0, 1] < 0


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_focal_is_damped_by_the_probability_of_the_truth(logits: Tensor, share: float) -> None:
    def term(z: float, y: float, document: int, label: int) -> float:
        return cross_entropy(z, y) * (share * (1 - of_truth(z, y)) ** 2 + 1 - share)

    assert_close(losses.Focal(share=share)(Decoded(logits), batch(TARGETS)), mean_of(term, logits))


@pytest.mark.parametrize("margin", [0.05, 0.0])
def test_asymmetric_shifts_and_damps_negatives(logits: Tensor, margin: float) -> None:
    def term(z: float, y: float, document: int, label: int) -> float:
        shifted = max(sigmoid(z) - margin, 0)
        return -(1 - sigmoid(z)) * math.log(sigmoid(z)) if y else -(shifted**4) * math.log(1 - shifted)

    assert_close(losses.Asymmetric(margin=margin)(Decoded(logits), batch(TARGETS)), mean_of(term, logits))


def test_rebalanced_weighs_labels_as_if_sampled_evenly(logits: Tensor) -> None:
    def term(z: float, y: float, document: int, label: int) -> float:
        return even_weight(document, label) * (1 - of_truth(z, y)) ** 2 * cross_entropy(z, y)

    assert_close(losses.Rebalanced(FREQUENCIES)(Decoded(logits), batch(TARGETS)), mean_of(term, logits))


def test_distribution_balanced_tolerates_negatives(logits: Tensor) -> None:
    def term(z: float, y: float, document: int, label: int) -> float:
        share = float(FREQUENCIES[label])
        shifted = z - 0.05 * math.log(1 / share - 1) / 2
        sharp = shifted if y else 2 * shifted
        focal = (1 - of_truth(sharp, y)) ** 2 * cross_entropy(sharp, y)
        return even_weight(document, label) * focal / (1 if y else 2)

    assert_close(losses.DistributionBalanced(FREQUENCIES)(Decoded(logits), batch(TARGETS)), mean_of(term, logits))


def test_joint_loss_counts_every_label_and_parent_once(logits: Tensor) -> None:
    parents = torch.tensor([0, 0, 1, 2, 2])
    parent_logits = torch.randn(4, 3, dtype=torch.float64)
    decoded = Decoded(logits, {"parent_logits": parent_logits})
    children = [[0, 1], [2], [3, 4]]
    parent_targets = torch.stack([TARGETS[:, own].amax(1) for own in children], dim=1)
    entropies = [losses.BCE()(Decoded(z), batch(y)) for z, y in [(logits, TARGETS), (parent_logits, parent_targets)]]
    assert_close(losses.JointBCE(parents)(decoded, batch(TARGETS)), (5 * entropies[0] + 3 * entropies[1]) / 8)


def test_described_loss_adds_the_distances_of_gold_labels(logits: Tensor) -> None:
    distance = torch.rand(5, dtype=torch.float64)
    loss = losses.DescribedBCE(strength=0.5)(Decoded(logits, {"description_distance": distance}), batch(TARGETS))
    gold = sum(float(distance[label]) for d in range(4) for label in range(5) if TARGETS[d, label]) / 4
    assert_close(loss, losses.BCE()(Decoded(logits), batch(TARGETS)) + 0.5 * gold)


@pytest.mark.parametrize("loss", [losses.JointBCE(torch.tensor([0, 0, 1, 2, 2])), losses.DescribedBCE()])
def test_a_loss_names_the_decoder_that_it_needs(loss: torch.nn.Module, logits: Tensor) -> None:
    with pytest.raises(RecipeError, match="use it with decoder"):
        loss(Decoded(logits), batch(TARGETS))


EVERY = {
    "bce": losses.BCE(smoothing=0.1),
    "balanced": losses.BalancedBCE(),
    "focal": losses.Focal(share=0.5),
    "asymmetric": losses.Asymmetric(),
    "rebalanced": losses.Rebalanced(FREQUENCIES),
    "distribution-balanced": losses.DistributionBalanced(FREQUENCIES),
}


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_those_of_finite_differences(name: str, logits: Tensor) -> None:
    assert torch.autograd.gradcheck(lambda z: EVERY[name](Decoded(z), batch(TARGETS)), logits.requires_grad_())


@pytest.mark.parametrize("name", EVERY)
def test_extreme_logits_and_documents_without_labels_stay_finite(name: str) -> None:
    logits = torch.tensor([[200.0, -200.0, 0, 50, -50]], dtype=torch.float64, requires_grad=True)
    loss = EVERY[name](Decoded(logits), batch(torch.zeros(1, 5, dtype=torch.float64)))
    loss.backward()
    assert logits.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", EVERY)
def test_better_logits_cost_less(name: str) -> None:
    better, worse = (sign * 2.0 * (2 * TARGETS - 1) for sign in (1, -1))
    assert EVERY[name](Decoded(better), batch(TARGETS)) < EVERY[name](Decoded(worse), batch(TARGETS))


def test_r_drop_is_cross_entropy_and_the_mean_of_both_divergences() -> None:
    first, second = torch.randn(2, 3, 5, dtype=torch.float64)
    targets = (torch.rand(3, 5) < 0.4).double()
    tokens = torch.ones(6, 1, dtype=torch.long)
    batch = Batch(tokens, tokens > 0, targets.repeat(2, 1), passes=2)
    entropy = (mean_entropy(first, targets) + mean_entropy(second, targets)) / 2
    p, q = first.softmax(1), second.softmax(1)
    divergence = ((p * (p / q).log()).sum(1) + (q * (q / p).log()).sum(1)).mean() / 2 / 5
    found = losses.RDrop(strength=3.0)(Decoded(torch.cat([first, second])), batch)
    assert_close(found, entropy + 3 * divergence)


def mean_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return -(targets * logits.sigmoid().log() + (1 - targets) * (1 - logits.sigmoid()).log()).mean()
