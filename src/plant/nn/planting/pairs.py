"""Kernels of the two-layer ranker, w . relu(label half + token half): all scores of some labels and tokens, and back.

A numba form for the CPU and a plain torch form for every other device; neither holds an array label x token x hidden,
but the second for some labels at a time.
"""

import torch
from jaxtyping import Float, Int
from numba import njit
from torch import Tensor, where

ENTRIES_AT_ONCE = 1 << 23  # of an array [label, token, hidden]


def two_layer_scores_torch(
    label_half: Float[Tensor, "label hidden"],
    token_half: Float[Tensor, "token hidden"],
    output: Float[Tensor, "hidden"],
) -> Float[Tensor, "label token"]:
    """Scores without the output bias, some labels at a time: few launches, and little of label x token x hidden."""
    blocks = [
        (labels.unsqueeze(1) + token_half).relu() @ output
        for labels in label_half.split(_labels_at_once(len(token_half), len(output)))
    ]
    return torch.cat(blocks)


def two_layer_gradients_torch(
    label_half: Float[Tensor, "label hidden"],
    token_half: Float[Tensor, "token hidden"],
    output: Float[Tensor, "hidden"],
    places: Int[Tensor, "label kept"],
    slopes: Float[Tensor, "label kept"],
    of_labels: Float[Tensor, "label hidden"],
    of_tokens: Float[Tensor, "token hidden"],
    of_output: Float[Tensor, "hidden"],
) -> None:
    """Add the gradients of the survivors' scores to the last three arguments."""
    size = _labels_at_once(places.shape[1], len(output))
    every = (tensor.split(size) for tensor in (label_half, places, slopes, of_labels))
    for labels, survivors, ask, of_block in zip(*every, strict=True):
        hidden = labels.unsqueeze(1) + token_half[survivors]  # [label, kept, hidden]
        asked = where(hidden > 0, ask.unsqueeze(-1), 0.0)
        of_output += (asked * hidden).sum((0, 1))
        of_block += asked.sum(1) * output
        of_tokens.index_add_(0, survivors.flatten(), (asked * output).flatten(0, 1))


def _labels_at_once(n_tokens: int, hidden: int) -> int:
    return max(1, ENTRIES_AT_ONCE // max(1, n_tokens * hidden))


def two_layer_scores_numba(
    label_half: Float[Tensor, "label hidden"],
    token_half: Float[Tensor, "token hidden"],
    output: Float[Tensor, "hidden"],
) -> Float[Tensor, "label token"]:
    """`two_layer_scores_torch` as a kernel."""
    scores = output.new_empty(len(label_half), len(token_half))
    _two_layer_scores(*(t.detach().numpy() for t in (label_half, token_half, output, scores)))
    return scores


def two_layer_gradients_numba(*arguments: Tensor) -> None:
    """`two_layer_gradients_torch` as a kernel."""
    _two_layer_gradients(*(argument.detach().numpy() for argument in arguments))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _two_layer_scores(label_half, token_half, output, scores):  # type: ignore[no-untyped-def]
    zero = scores.dtype.type(0)
    for label in range(len(label_half)):
        for token in range(len(token_half)):
            total = zero
            for unit in range(len(output)):
                total += output[unit] * max(label_half[label, unit] + token_half[token, unit], zero)
            scores[label, token] = total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _two_layer_gradients(label_half, token_half, output, places, slopes, of_labels, of_tokens, of_output):  # type: ignore[no-untyped-def]
    zero = slopes.dtype.type(0)
    for label in range(len(label_half)):
        for kept in range(places.shape[1]):
            token, slope = places[label, kept], slopes[label, kept]
            for unit in range(len(output)):
                hidden = label_half[label, unit] + token_half[token, unit]
                passed = slope if hidden > zero else zero  # a choice, not a branch: it vectorises
                of_labels[label, unit] += passed * output[unit]
                of_tokens[token, unit] += passed * output[unit]
                of_output[unit] += passed * hidden
