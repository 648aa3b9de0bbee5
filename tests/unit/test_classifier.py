"""The classifier: one loss, whichever way it is computed."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from plant.nn.classifier import Classifier
from plant.nn.decoders.label_attention import LabelAttention, prior_logits
from plant.nn.decoders.pooled import MaxPool
from plant.nn.encoders.cnn import CNN
from plant.nn.losses import BCE, BalancedBCE, smoothed
from plant.nn.parts.protocols import Decoder, Loss
from plant.tensors import Batch

N_TOKENS, N_LABELS = 30, 6


def batch_of(lengths: tuple[int, ...] = (9, 4)) -> Batch:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(1, N_TOKENS, mask.shape, generator=generator) * mask
    return Batch(tokens, mask, (torch.rand(len(lengths), N_LABELS, generator=generator) < 0.4).float())


def classifier_of(decoder: type[Decoder], criterion: Loss) -> Classifier:
    torch.manual_seed(0)
    encoder = CNN(N_TOKENS, dropout=0.0)
    return Classifier(encoder, decoder(encoder.size, N_LABELS), criterion)


@pytest.mark.parametrize("criterion", [BCE(), BCE(smoothing=0.1), BalancedBCE()], ids=["bce", "smoothed", "balanced"])
@pytest.mark.parametrize("decoder", [LabelAttention, MaxPool])
def test_the_loss_is_that_of_the_logits(decoder: type[Decoder], criterion: Loss) -> None:
    classifier, batch = classifier_of(decoder, criterion), batch_of()
    parameters = list(classifier.parameters())
    found, expected = classifier.loss(batch), criterion(classifier(batch), batch)
    assert_close(found, expected)
    true = torch.autograd.grad(expected, parameters)
    for ours, theirs in zip(torch.autograd.grad(found, parameters), true, strict=True):
        assert_close(ours, theirs)


def test_the_loss_of_stored_features_is_the_loss() -> None:
    classifier, batch = classifier_of(LabelAttention, BCE()), batch_of()
    assert_close(classifier.loss_of(classifier.encode(batch), batch), classifier.loss(batch))


def test_smoothing_reaches_the_fused_loss() -> None:
    classifier, batch = classifier_of(LabelAttention, BCE(smoothing=0.2)), batch_of()
    logits = classifier(batch).logits
    assert_close(classifier.loss(batch), F.binary_cross_entropy_with_logits(logits, smoothed(batch.targets, 0.2)))


def test_a_loss_without_targets_is_an_error() -> None:
    batch = batch_of()
    with pytest.raises(ValueError, match="targets"):
        classifier_of(LabelAttention, BCE()).loss(Batch(batch.tokens, batch.mask))


def test_biases_start_at_the_log_odds_of_the_labels() -> None:
    frequencies = torch.tensor([0.5, 0.01, 0.0, 1.0])
    probabilities = prior_logits(frequencies, 4).sigmoid()
    assert_close(probabilities, torch.tensor([0.5, 0.01, 1e-5, 1 - 1e-5]))


def test_without_frequencies_biases_start_at_zero() -> None:
    assert LabelAttention(4, 3).bias.abs().max() == 0
    assert LabelAttention(4, 3, frequencies=torch.tensor([0.1, 0.2, 0.3]), start_at_prior=False).bias.abs().max() == 0
