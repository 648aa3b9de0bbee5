"""Explanations by gradients of a label's logit with respect to the token states that the decoder reads."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plant.errors import InputError
from plant.explain.attention import attention
from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import reads_windows
from plant.tensors import Encoded

STEPS = 16


def gradient_x_input(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """What each state adds to the logit to first order: negative where a word speaks against the code."""
    return _slopes(classifier, _without_padding(encoded), labels, scale=1.0)


def integrated_gradients(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """The gradient averaged on the way from no states to the states; the weights of a label add up to its evidence."""
    encoded = _without_padding(encoded)
    middles = [(step + 0.5) / STEPS for step in range(STEPS)]
    return torch.stack([_slopes(classifier, encoded, labels, scale=middle) for middle in middles]).mean(0)


def attention_x_integrated_gradients(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """Attention weighed by integrated gradients, after which words that are looked at to no effect vanish."""
    return attention(classifier, encoded, labels) * integrated_gradients(classifier, encoded, labels)


def _without_padding(encoded: Encoded) -> Encoded:
    states = torch.where(encoded.mask.unsqueeze(-1), encoded.states.detach(), 0.0)  # padding may hold anything
    return replace(encoded, states=states)


def _slopes(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"], *, scale: float
) -> Float[Tensor, "batch asked time"]:
    if reads_windows(classifier.decoder):
        raise InputError("this decoder reads windows, not words: explain it by attention or occlusion")
    states = (encoded.states * scale).requires_grad_()
    with torch.enable_grad():
        logits = classifier.decoder(replace(encoded, states=states)).logits
        slopes = [_slope(logits[:, label].sum(), states) for label in labels.tolist()]
    weights = torch.stack([(slope * encoded.states).sum(-1) for slope in slopes], dim=1)
    return torch.where(encoded.mask.unsqueeze(1), weights, 0.0)


def _slope(logit: Float[Tensor, ""], states: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time size"]:
    slope = None
    if logit.requires_grad:
        (slope,) = torch.autograd.grad(logit, states, retain_graph=True, allow_unused=True)
    if slope is None:
        raise InputError("this decoder does not look at the encoder's states: explain it by attention or occlusion")
    return slope
