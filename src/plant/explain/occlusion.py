"""Explanations by leaving words out: how much the probability falls when they are unknown."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import SubwordEncoder
from plant.tensors import Batch, Encoded, Subwords
from plant.text.vocab import UNKNOWN

WINDOW = 3  # words hidden at a time
COPIES = 16  # of a document read at once


@torch.no_grad()
def occlusion(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """The fall of each label's logit when the word, among its neighbours, is hidden; a mean over windows."""
    rows = [_one(classifier, encoded.document(row), labels) for row in range(len(encoded.tokens))]
    weights = encoded.states.new_zeros(len(rows), len(labels), encoded.mask.shape[1], dtype=torch.float32)
    for place, row in enumerate(rows):
        weights[place, :, : row.shape[1]] = row
    return weights


def _one(classifier: Classifier, document: Encoded, labels: Int[Tensor, "asked"]) -> Tensor:
    """The windows slide by one word, so each word is hidden `WINDOW` times."""
    length = document.tokens.shape[1]
    if length == 0:
        return torch.zeros(len(labels), 0)
    whole = _logits(classifier, document, torch.zeros(1, length, dtype=torch.bool), labels)[0]
    total, times = torch.zeros(len(labels), length), torch.zeros(length)
    starts = torch.arange(1 - WINDOW, length)
    for block in starts.split(COPIES):
        hidden = (torch.arange(length) >= block.unsqueeze(1)) & (torch.arange(length) < block.unsqueeze(1) + WINDOW)
        falls = (whole - _logits(classifier, document, hidden, labels)).cpu()  # [copy, asked]
        total = total + falls.T @ hidden.float()
        times = times + hidden.float().sum(0)
    return total / times


def _logits(
    classifier: Classifier, document: Encoded, hidden: Bool[Tensor, "copy time"], labels: Int[Tensor, "asked"]
) -> Tensor:
    """The logits of copies of a document in which some words are unknown, and their sub-words blank."""
    hidden = hidden.to(document.tokens.device)
    tokens = torch.where(hidden, UNKNOWN, document.tokens)
    subwords, encoder = document.subwords, classifier.encoder
    if subwords is not None and isinstance(encoder, SubwordEncoder):
        subwords = _hidden_subwords(subwords, hidden, encoder.blank)
    return classifier(Batch(tokens, torch.ones_like(hidden), subwords=subwords)).logits[:, labels]


def _hidden_subwords(subwords: Subwords, hidden: Bool[Tensor, "copy time"], blank: int) -> Subwords:
    words = subwords.words.expand(len(hidden), -1)
    read = words < hidden.shape[1]  # a limit on windows leaves later words unread
    gone = read & hidden.gather(1, words.clamp(max=hidden.shape[1] - 1))
    return Subwords(torch.where(gone, blank, subwords.numbers), words)
