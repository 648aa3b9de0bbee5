"""Explanations by leaving words out: how much the probability falls when they are unknown."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.classifier import Classifier
from plant.tensors import Batch, Encoded
from plant.text.vocab import UNKNOWN

WINDOW = 3  # words hidden at a time
COPIES = 16  # of a document read at once


@torch.no_grad()
def occlusion(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """The fall of each label's logit when the word, among its neighbours, is hidden; a mean over windows."""
    rows = [
        _one(classifier, encoded.tokens[row : row + 1, : int(encoded.mask[row].sum())], labels)
        for row in range(len(encoded.tokens))
    ]
    weights = encoded.states.new_zeros(len(rows), len(labels), encoded.mask.shape[1], dtype=torch.float32)
    for place, row in enumerate(rows):
        weights[place, :, : row.shape[1]] = row
    return weights


def _one(classifier: Classifier, tokens: Int[Tensor, "1 time"], labels: Int[Tensor, "asked"]) -> Tensor:
    """The windows slide by one word, so each word is hidden `WINDOW` times."""
    length = tokens.shape[1]
    if length == 0:
        return torch.zeros(len(labels), 0)
    whole = _logits(classifier, tokens, labels)[0]
    total, times = torch.zeros(len(labels), length), torch.zeros(length)
    starts = torch.arange(1 - WINDOW, length)
    for block in starts.split(COPIES):
        hidden = (torch.arange(length) >= block.unsqueeze(1)) & (torch.arange(length) < block.unsqueeze(1) + WINDOW)
        copies = torch.where(hidden.to(tokens.device), UNKNOWN, tokens)
        falls = (whole - _logits(classifier, copies, labels)).cpu()  # [copy, asked]
        total = total + falls.T @ hidden.float()
        times = times + hidden.float().sum(0)
    return total / times


def _logits(classifier: Classifier, tokens: Int[Tensor, "copy time"], labels: Int[Tensor, "asked"]) -> Tensor:
    batch = Batch(tokens, torch.ones_like(tokens, dtype=torch.bool))
    return classifier(batch).logits[:, labels]
