"""Guessing hidden sub-words: what is hidden, and a transformer with the head that guesses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.errors import InputError
from plant.nn.language.transformer import POOLER, Transformer, config_of, transformers_library
from plant.text.subwords import SubwordTokenizer

HIDDEN, SWAPPED = 0.8, 0.1  # of the sub-words to be guessed; the rest stand as they are (Devlin et al. 2019)


@dataclass(frozen=True)
class Questions:
    """Windows with some sub-words hidden, and where those are."""

    inputs: Int[Tensor, "window position"]
    asked: Bool[Tensor, "window position"]


class MaskedModel(nn.Module):
    """A transformer and its head; the guess is computed at the hidden places alone."""

    def __init__(self, transformer: Transformer, *, head: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        library, config = transformers_library(), config_of(transformer.config)
        self.network: Any = library.AutoModelForMaskedLM.from_config(config, trust_remote_code=False)
        if transformer.weights:  # a transformer of which only the shape is known is filled afterwards
            self.network.base_model.load_state_dict(transformer.weights)
        if head:
            self.network.load_state_dict(head, strict=False)

    def forward(
        self,
        questions: Questions,
        mask: Bool[Tensor, "window position"],
    ) -> Float[Tensor, "asked piece"]:
        """The logits of every sub-word at each hidden place."""
        return self.guess(questions.asked, input_ids=questions.inputs, attention_mask=mask.long())

    def guess(self, asked: Bool[Tensor, "window position"], **inputs: Tensor) -> Float[Tensor, "asked piece"]:
        """The logits of every sub-word at some places of what the network is given."""
        heads = [part for name, part in self.network.named_children() if name != self.network.base_model_prefix]
        if len(heads) != 1:  # families whose head has several parts
            return self.network(**inputs).logits[asked]
        return heads[0](self.network.base_model(**inputs).last_hidden_state[asked])

    def trained(self, transformer: Transformer) -> Transformer:
        """The transformer with what was learned; the head has done its work."""
        weights = {name: tensor.detach().cpu().clone() for name, tensor in self.network.base_model.state_dict().items()}
        return replace(transformer, weights={n: tensor for n, tensor in weights.items() if not n.startswith(POOLER)})


def ask(
    numbers: Int[Tensor, "window position"],
    words: Bool[Tensor, "window position"],
    tokenizer: SubwordTokenizer,
    *,
    share: float,
    n_subwords: int,
) -> Questions:
    """Hide a share of the sub-words, as torch's random state says; `words` are the places that may be hidden."""
    if tokenizer.mask is None:
        raise InputError("this tokenizer has no sub-word that hides others: set masked.epochs = 0")
    chance, kind = torch.rand(numbers.shape), torch.rand(numbers.shape)
    swaps = torch.randint(0, n_subwords, numbers.shape)
    asked = words & (chance < share)
    hidden = torch.where(kind < HIDDEN, tokenizer.mask, torch.where(kind < HIDDEN + SWAPPED, swaps, numbers))
    return Questions(torch.where(asked, hidden, numbers), asked)


def masked_loss(logits: Float[Tensor, "asked piece"], answers: Int[Tensor, "asked"]) -> Float[Tensor, ""]:
    """The mean cross-entropy of the hidden sub-words."""
    return F.cross_entropy(logits.float(), answers)
