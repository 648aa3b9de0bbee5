"""MSMN's decoder: every label is known by several terms, each of which looks at the text with a head of its own.

Yuan et al. 2022, "Code synonyms do matter". With H the projected states and q_lj the largest features of term j:
alpha_lj = softmax(tanh(W H)_j W' q_lj), v_l = max_j alpha_lj H, z_l = v_l . (W'' max_j q_lj) + w''' . max_j q_lj + b.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.errors import RecipeError
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.language.descriptions import Descriptions
from plant.nn.language.terms import Terms, spread_terms
from plant.nn.layers import without_padding
from plant.tensors import Batch, Decoded, Encoded, Subwords
from plant.values import Count, Dropout, small

TERMS_AT_ONCE = 256  # of similar lengths, so that little padding is read


class MSMN(nn.Module):
    """Attention by `heads` terms per label, and a classifier that is made of the terms too: no weight is a label's own.

    Terms are read by the encoder of the notes, each distinct one once; a label with fewer than `heads` has them again.
    With `refresh` N they are read every N steps, without a gradient. `chunk` labels are held in memory at a time. A
    label that is added later needs its terms alone. With `from_prior` logits are counted from each label's log-odds in
    the fitted notes, which stay as they are: few notes do not teach from terms alone how frequent a label is.
    """

    takes_added = True
    tiny = small(size=8, heads=2, chunk=4)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        encoder: nn.Module,
        terms: Terms,
        frequencies: Float[Tensor, "label"] | None = None,
        size: Count = 512,
        heads: Count = 4,
        dropout: Dropout = 0.2,
        refresh: Count = 1,
        chunk: Count = 256,
        from_prior: bool = False,
    ) -> None:
        super().__init__()
        if size % heads:
            raise RecipeError(f"decoder 'msmn' shares size = {size} among heads, which {heads} does not divide")
        self.heads, self.chunk = heads, chunk
        batch, places = _needed(terms, heads)
        self.terms = Descriptions(encoder, batch, refresh=refresh)
        self.of_label: Tensor
        self.register_buffer("of_label", places, persistent=False)
        self.project = nn.Linear(input_size, size)
        self.key, self.query = nn.Linear(size, size, bias=False), nn.Linear(size, size // heads, bias=False)
        self.weight, self.bias = nn.Linear(size, size), nn.Linear(size, 1)
        prior = prior_logits(_none_never_seen(frequencies) if from_prior else frequencies, n_labels)
        nn.init.constant_(self.bias.bias, 0.0 if from_prior else float(prior.mean()))  # codes are rare
        self.prior: Tensor
        self.register_buffer("prior", prior if from_prior else torch.zeros(n_labels), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, encoded: Encoded) -> Decoded:
        states, keys = self._read(encoded)
        asked = self._asked()
        label = asked.amax(1)
        queries, weights = self.query(asked).split(self.chunk), self.weight(label).split(self.chunk)
        parts = [
            checkpoint(self._logits, query, weight, states, keys, encoded.mask, use_reentrant=False)
            for query, weight in zip(queries, weights, strict=True)
        ]
        return Decoded(torch.cat(parts, dim=1) + self.bias(label).squeeze(1) + self.prior)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where the terms of each label look, their mean."""
        _, keys = self._read(encoded)
        looks = _looks(self.query(self._asked()[labels]), keys, encoded.mask).mean(2)
        return torch.where(encoded.mask.unsqueeze(1), looks, 0.0)

    def _read(self, encoded: Encoded) -> tuple[Float[Tensor, "batch time size"], Float[Tensor, "batch time head key"]]:
        states = self.project(without_padding(encoded.states, encoded.mask).to(self.project.weight.dtype))
        return states, self.key(states).tanh().unflatten(2, (self.heads, -1))

    def _asked(self) -> Float[Tensor, "label head size"]:
        """The vector of each label's terms: the largest features over their words."""
        self.terms.prepare()
        blocks = [range(n, min(n + TERMS_AT_ONCE, len(self.terms))) for n in range(0, len(self.terms), TERMS_AT_ONCE)]
        return torch.cat([self._vectors(block) for block in blocks])[self.of_label]

    def _vectors(self, terms: range) -> Float[Tensor, "term size"]:
        read = self.terms.part(terms)
        states = self.project(read.states.to(self.project.weight.dtype))
        owners = read.owners.unsqueeze(1).expand(states.shape)
        largest = states.new_full((len(terms), states.shape[1]), -torch.inf)
        largest = largest.scatter_reduce(0, owners, states, "amax")
        return torch.where(largest > -torch.inf, largest, 0.0)  # a term that the encoder cannot read says nothing

    def _logits(
        self, queries: Tensor, weights: Tensor, states: Tensor, keys: Tensor, mask: Tensor
    ) -> Float[Tensor, "batch label"]:
        found = torch.einsum("blht,btd->blhd", _looks(queries, keys, mask), states).amax(2)
        found = torch.where(mask.any(1)[:, None, None], found, 0.0)  # a document without a token has nothing
        return (self.dropout(found) * weights).sum(2)


def _none_never_seen(frequencies: Float[Tensor, "label"] | None) -> Float[Tensor, "label"] | None:
    """A label that was added after training counts as one of the rarest of it."""
    if frequencies is None or not bool((frequencies > 0).any()):
        return frequencies
    return frequencies.clamp(min=float(frequencies[frequencies > 0].min()))


def _looks(
    queries: Float[Tensor, "label head key"],
    keys: Float[Tensor, "batch time head key"],
    mask: Bool[Tensor, "batch time"],
) -> Float[Tensor, "batch label head time"]:
    """A distribution over the real positions; any where there are none.

    Keys are finite at padding, so that a sum hides it: two thirds of the time of `masked_softmax`, there and back.
    """
    hidden = keys.new_zeros(mask.shape).masked_fill(~mask, torch.finfo(keys.dtype).min)
    return (torch.einsum("lhk,bthk->blht", queries, keys) + hidden[:, None, None]).softmax(-1)


def _needed(terms: Terms, heads: int) -> tuple[Batch, Int[Tensor, "label head"]]:
    """The terms that some head has, the shortest first, and which those of each label are."""
    lists = torch.tensor(spread_terms(terms.of_label, each=heads), dtype=torch.long).view(-1, heads)
    used = lists.unique()
    order = used[terms.batch.mask[used].sum(1).argsort(stable=True)]
    place = torch.zeros(len(terms.batch.mask), dtype=torch.long)
    place[order] = torch.arange(len(order))
    cut = terms.batch.subwords
    subwords = None if cut is None else Subwords(cut.numbers[order], cut.words[order])
    return Batch(terms.batch.tokens[order], terms.batch.mask[order], subwords=subwords), place[lists]
