"""Label-description attention: one encoder reads the text and every label's description, and both are compared.

Similarities between all positions of a window and all of a description are weighed over the window, then over the
description: one logit per window and label. The published form weighs by position, over padding too; the default
takes a softmax over real positions in both steps.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.errors import RecipeError
from plant.nn.attention import masked_softmax
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.decoders.pooled import as_evidence
from plant.nn.language.descriptions import Described, Descriptions
from plant.nn.language.windows import Joining, at_words, decisive, joined, windows_of
from plant.nn.parts.protocols import SubwordEncoder
from plant.tensors import Batch, Decoded, Encoded, Windows
from plant.values import Count, Natural, small


class LabelDescriptions(nn.Module):
    """Compares windows with descriptions that the same encoder reads; labels are worked through `chunk` at a time.

    With `refresh` 1 descriptions are read at every step and learn too, as published; with N they are read every N steps
    without a gradient. In prediction they are read once. `size` compares projections of that width instead of the
    states; `squeezed` makes one vector of a description before it is compared, as many times faster as descriptions are
    long. `compat` is the published form, for encoder "transformer" with `full_windows`; descriptions are then cut to
    `positions` sub-words, two special ones included. With `label_bias` each label has a bias that starts at its
    log-odds; without, all share one. A label that is added later needs its description alone.
    """

    reads_windows = evident = reads_titles = True
    tiny = small(chunk=4, refresh=1, size=3)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        encoder: nn.Module,
        titles: Batch,
        frequencies: Float[Tensor, "label"] | None = None,
        compat: bool = False,
        positions: Count = 15,
        size: Natural = 0,
        squeezed: bool = False,
        windows: Joining = "max",
        refresh: Count = 10,
        chunk: Count = 256,
        label_bias: bool = True,
    ) -> None:
        super().__init__()
        self.descriptions = Descriptions(encoder, titles, width=positions if compat else 0, refresh=refresh)
        by_softmax = BySoftmax(input_size, size=size, squeezed=squeezed)
        self.compare = ByPosition(_full_width(encoder), positions) if compat else by_softmax
        self.windows, self.chunk = windows, chunk
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels) if label_bias else torch.zeros(1))

    def forward(self, encoded: Encoded) -> Decoded:
        windows = windows_of(encoded)
        logits = self._window_logits(windows)
        without = self.bias.expand(logits.shape[1])
        return Decoded(joined(logits, windows.counts, self.windows, without=without))

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where the description was found, in the windows that decide."""
        windows = windows_of(encoded)
        deciding = decisive(self._window_logits(windows)[:, labels], windows.counts, self.windows)
        text = self.compare.text(windows)
        looked = [self.compare.look(text, windows, self._of(range(label, label + 1))) for label in labels.tolist()]
        weights = torch.where(deciding.unsqueeze(2), torch.stack(looked, dim=1), 0.0)
        return as_evidence(at_words(weights, windows, n_words=encoded.mask.shape[1]), encoded.mask)

    def _window_logits(self, windows: Windows) -> Float[Tensor, "window label"]:
        self.descriptions.prepare()
        text, n_labels = self.compare.text(windows), len(self.descriptions)
        blocks = [range(first, min(first + self.chunk, n_labels)) for first in range(0, n_labels, self.chunk)]
        parts = [checkpoint(self._logits, text, windows, block, use_reentrant=False) for block in blocks]
        return torch.cat(parts, dim=1) + self.bias

    def _logits(self, text: Tensor, windows: Windows, labels: range) -> Float[Tensor, "window label"]:
        return self.compare(text, windows, self._of(labels))

    def _of(self, labels: range) -> Described:
        return self.descriptions.part(labels)


class ByPosition(nn.Module):
    """z = sum_j b_j (sum_t a_t D_t . E_j + c) + e with a weight for each position, as published; nothing is masked.

    The sums change places: z is the product of one vector per window and one per description, so that no similarity
    is ever written down.
    """

    def __init__(self, window: int, description: int) -> None:
        super().__init__()
        self.over_window, self.over_description = nn.Linear(window, 1), nn.Linear(description, 1)

    def text(self, windows: Windows) -> Float[Tensor, "window size"]:
        """The window's vector."""
        weights = self.over_window.weight[0]
        if windows.states.shape[1] != len(weights):
            raise RecipeError("the published form of label descriptions needs encoder.full_windows = true")
        return torch.einsum("wtd,t->wd", windows.states.to(weights.dtype), weights)

    def forward(self, text: Tensor, windows: Windows, described: Described) -> Float[Tensor, "window label"]:
        over_window, over_description = self.over_window.bias, self.over_description
        offset = over_window * over_description.weight.sum() + over_description.bias
        return text @ self._vectors(described).T + offset

    def look(self, text: Tensor, windows: Windows, described: Described) -> Float[Tensor, "window position"]:
        """What each position adds to the one label's logit."""
        states = windows.states.to(text.dtype)
        return (states @ self._vectors(described)[0] * self.over_window.weight[0]).clamp(min=0)

    def _vectors(self, described: Described) -> Float[Tensor, "label size"]:
        states = described.states.unflatten(0, (described.n_labels, -1)).to(self.over_window.weight.dtype)
        return torch.einsum("lmd,m->ld", states, self.over_description.weight[0])


class BySoftmax(nn.Module):
    """z = s sum_j b_j sum_t a_tj D_t . E_j / sqrt(size), a softmax of the similarities over t, b one over j.

    a_tj finds description position j in the window, b weighs the positions of a description by a learned vector.
    Squeezed, a description is the one position sum_j b_j E_j.
    """

    def __init__(self, input_size: int, *, size: Natural = 0, squeezed: bool = False) -> None:
        super().__init__()
        self.squeezed = squeezed
        self.project = nn.Linear(input_size, size, bias=False) if size else nn.Identity()
        self.salience = nn.Linear(size or input_size, 1, bias=False)
        self.scale = nn.Parameter(torch.ones(()))
        nn.init.zeros_(self.salience.weight)

    def text(self, windows: Windows) -> Float[Tensor, "window position size"]:
        """The states that are compared, zero where there is no text."""
        states = windows.states.to(self.scale.dtype)
        return self.project(torch.where((windows.words >= 0).unsqueeze(-1), states, 0.0))

    def forward(self, text: Tensor, windows: Windows, described: Described) -> Float[Tensor, "window label"]:
        asked, weights, owners = self._asked(described)
        found = F.scaled_dot_product_attention(
            asked.expand(len(text), -1, -1), text, text, attn_mask=_somewhere(windows.words >= 0).unsqueeze(1)
        )
        similar = (found * asked).sum(-1) * asked.shape[1] ** -0.5
        empty = similar.new_zeros(len(text), described.n_labels)
        return self.scale * empty.index_add(1, owners, similar * weights)

    def look(self, text: Tensor, windows: Windows, described: Described) -> Float[Tensor, "window position"]:
        """Where the one label's description was found."""
        asked, weights, _ = self._asked(described)
        scores = asked @ text.transpose(1, 2) * asked.shape[1] ** -0.5
        found = masked_softmax(scores, (windows.words >= 0).unsqueeze(1).expand(scores.shape))
        return (weights.unsqueeze(1) * found).sum(1)

    def _asked(self, described: Described) -> tuple[Tensor, Tensor, Tensor]:
        """What is looked for in the text, how much each counts, and for which label."""
        asked = self.project(described.states.to(self.scale.dtype))
        weights = self._weights(asked, described)
        if not self.squeezed:
            return asked, weights, described.owners
        empty = asked.new_zeros(described.n_labels, asked.shape[1])
        vectors = empty.index_add(0, described.owners, weights.unsqueeze(1) * asked)
        return vectors, weights.new_ones(len(vectors)), torch.arange(len(vectors), device=asked.device)

    def _weights(self, asked: Float[Tensor, "position size"], described: Described) -> Float[Tensor, "position"]:
        """A softmax over the positions of each label's description."""
        scores = self.salience(asked).squeeze(-1)
        highest = scores.detach().new_full((described.n_labels,), -torch.inf)
        highest = highest.scatter_reduce(0, described.owners, scores.detach(), "amax")
        powers = (scores - highest[described.owners]).exp()
        total = powers.new_zeros(described.n_labels).index_add(0, described.owners, powers)
        return powers / total[described.owners]


def _somewhere(mask: Bool[Tensor, "window position"]) -> Bool[Tensor, "window position"]:
    """A window without text looks at its zeros, which say nothing."""
    return mask | ~mask.any(1, keepdim=True)


def _full_width(encoder: nn.Module) -> int:
    if not isinstance(encoder, SubwordEncoder) or not encoder.full_windows:
        raise RecipeError(
            "the published form of label descriptions needs encoder 'transformer' with encoder.full_windows = true"
        )
    return encoder.plan.length + 2
