"""The loss of predicting the next word, a few positions at a time: no array of all positions and all words exists."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORED = -100  # the target of a position that counts for nothing
POSITIONS = 512  # at a time: their logits still fit the cache, and products are large enough to run at full speed


def next_word_loss(
    states: Float[Tensor, "position size"],
    words: Float[Tensor, "token size"],
    bias: Float[Tensor, "token"],
    targets: Int[Tensor, "position"],
) -> Float[Tensor, ""]:
    """The mean cross-entropy of softmax(states words^T + bias) over the positions whose target is not `IGNORED`."""
    counted = targets != IGNORED
    if not bool(counted.all()):
        states, targets = states[counted], targets[counted]
    return _NextWord.apply(states, words, bias, targets)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class WordSample:
    """Words that stand for the whole vocabulary in one step: those to foresee there, and some drawn at random.

    `log_chance` is the logarithm of each word's chance to be in such a sample. Taken from the logits, it makes the sum
    over the sample an estimate of the sum over all words, and the loss one of the loss over all words.
    """

    words: Int[Tensor, "sampled"]
    log_chance: Float[Tensor, "sampled"]
    targets: Int[Tensor, "position"]  # numbered within the sample


def sample_words(targets: Int[Tensor, "position"], shares: Float[Tensor, "token"], *, drawn: int) -> WordSample:
    """Draw from torch's random state; `shares` are the words' shares of the training text."""
    counted = targets != IGNORED
    chosen = torch.zeros(len(shares), dtype=torch.bool, device=shares.device)
    chosen[targets[counted]] = True
    chosen[torch.randperm(len(shares))[:drawn].to(shares.device)] = True
    absent = (1 - shares).pow(int(counted.sum())) * max(0.0, 1 - drawn / len(shares))
    place = chosen.cumsum(0) - 1
    words = chosen.nonzero().squeeze(1)
    return WordSample(words, (1 - absent[words]).log(), torch.where(counted, place[targets.clamp(min=0)], IGNORED))


class _NextWord(torch.autograd.Function):
    """Forward computes the gradients as well: they need the same logits, which are not kept."""

    @staticmethod
    def forward(context: Any, states: Tensor, words: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        of_states, of_words, of_bias = torch.empty_like(states), torch.zeros_like(words), torch.zeros_like(bias)
        total = states.new_zeros(())
        for first in range(0, len(states), POSITIONS):
            rows = slice(first, first + POSITIONS)
            of_logits = torch.addmm(bias, states[rows], words.T).log_softmax(1)
            total -= of_logits.gather(1, targets[rows].unsqueeze(1)).sum()
            of_logits.exp_()
            of_logits[torch.arange(len(of_logits)), targets[rows]] -= 1
            torch.mm(of_logits, words, out=of_states[rows])
            of_words.addmm_(of_logits.T, states[rows])
            of_bias += of_logits.sum(0)
        count = max(1, len(states))
        context.save_for_backward(*(gradient.div_(count) for gradient in (of_states, of_words, of_bias)))
        return total / count

    @staticmethod
    @once_differentiable
    def backward(context: Any, of_loss: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * of_loss for gradient in context.saved_tensors), None
