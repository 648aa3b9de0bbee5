"""JointLAAT's decoder: parents are found first, and what was found helps to find their children."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.decoders.label_attention import LabelAttention
from plant.tensors import Decoded, Encoded
from plant.values import Count, Natural, small


class JointLAAT(nn.Module):
    """Label attention for parents and for labels; the parents' probabilities, squeezed, join every label's vector.

    Vu et al. 2020. `parents` numbers the parent of each label from zero. What joins is the same for all labels of a
    document, so it adds one matrix product to their logits. Loss `joint-bce` trains both levels.
    """

    gives = frozenset({"parent_logits"})
    tiny = small(key_size=3, squeezed=2)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        parents: Int[Tensor, "label"],
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        key_size: Natural = 512,
        squeezed: Count = 128,
    ) -> None:
        super().__init__()
        n_parents = int(parents.max()) + 1
        of_parents = None if frequencies is None else parent_frequencies(frequencies, parents, n_parents)
        self.parents = LabelAttention(input_size, n_parents, frequencies=of_parents, key_size=key_size)
        self.labels = LabelAttention(input_size, n_labels, frequencies=frequencies, key_size=key_size)
        self.squeeze = nn.Linear(n_parents, squeezed, bias=False)
        self.join = nn.Linear(squeezed, n_labels, bias=False)
        for layer in (self.squeeze, self.join):
            nn.init.normal_(layer.weight, std=0.03)

    def forward(self, encoded: Encoded) -> Decoded:
        parent_logits = self.parents(encoded).logits
        joined = self.join(self.squeeze(parent_logits.sigmoid()).sigmoid())
        return Decoded(self.labels(encoded).logits + joined, {"parent_logits": parent_logits})

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where the labels' own attention looks."""
        return self.labels.attend(encoded, labels)


def parent_frequencies(
    frequencies: Float[Tensor, "label"], parents: Int[Tensor, "label"], n_parents: int
) -> Float[Tensor, "parent"]:
    """The share of notes that have any child of each parent, as if children came independently: good to start from."""
    without = torch.zeros(n_parents, dtype=frequencies.dtype)
    return 1 - without.index_add(0, parents, torch.log1p(-frequencies.clamp(max=1 - 1e-6))).exp()
