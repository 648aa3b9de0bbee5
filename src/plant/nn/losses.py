"""Losses over logits and targets; each is a mean over documents and labels.

A loss may ask the decoder for side results by name (`extras`); a decoder that does not give them is a recipe error.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.tensors import Batch, Decoded
from plant.values import Amount, Positive, Share


class BCE(nn.Module):
    """Binary cross-entropy; `smoothing` moves every target that share of the way to one half."""

    def __init__(self, *, smoothing: Share = 0.0) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        return F.binary_cross_entropy_with_logits(decoded.logits, smoothed(_targets(batch), self.smoothing))


class BalancedBCE(nn.Module):
    """Binary cross-entropy in which each document's positives weigh as much as its negatives.

    The weight is negatives / positives of the document. Logits beyond `limit` get no gradient, so that a few hard
    labels cannot run away under large weights.
    """

    def __init__(self, *, limit: Positive = 14.0) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets = _targets(batch)
        positives = targets.sum(1, keepdim=True)
        weight = torch.where(targets > 0, (targets.shape[1] - positives) / positives.clamp(min=1), 1.0)
        logits = decoded.logits.clamp(-self.limit, self.limit)
        return F.binary_cross_entropy_with_logits(logits, targets, weight=weight)


class Focal(nn.Module):
    """Cross-entropy times (1 - probability of the truth)^gamma; `share` of it, the rest plain cross-entropy.

    Lin et al. 2017; Effective-CAN mixes both.
    """

    def __init__(self, *, gamma: Amount = 2.0, share: Share = 1.0) -> None:
        super().__init__()
        self.gamma, self.share = gamma, share

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        truth = _signed(decoded.logits, _targets(batch))
        entropy = -F.logsigmoid(truth)
        return (entropy * (self.share * truth.neg().sigmoid() ** self.gamma + (1 - self.share))).mean()


class Asymmetric(nn.Module):
    """Focal loss that forgets easy negatives faster, and wholly below probability `margin`; Ridnik et al. 2021."""

    def __init__(self, *, positive_gamma: Amount = 1.0, negative_gamma: Amount = 4.0, margin: Share = 0.05) -> None:
        super().__init__()
        self.positive_gamma, self.negative_gamma, self.margin = positive_gamma, negative_gamma, margin

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets, logits = _targets(batch), decoded.logits
        positive = -F.logsigmoid(logits) * logits.neg().sigmoid() ** self.positive_gamma
        return (targets * positive + (1 - targets) * self._negative(logits)).mean()

    def _negative(self, logits: Float[Tensor, "batch label"]) -> Float[Tensor, "batch label"]:
        if self.margin == 0:
            return -F.logsigmoid(-logits) * logits.sigmoid() ** self.negative_gamma
        shifted = (logits.sigmoid() - self.margin).clamp(min=0)
        return -torch.log1p(-shifted) * shifted**self.negative_gamma


class Rebalanced(nn.Module):
    """Cross-entropy weighted as if labels were sampled evenly, smoothed to `floor` + sigmoid; Wu et al. 2020."""

    def __init__(
        self,
        frequencies: Float[Tensor, "label"],
        *,
        gamma: Amount = 2.0,
        floor: Amount = 0.1,
        slope: Amount = 10.0,
        centre: float = 0.2,
    ) -> None:
        super().__init__()
        self.rarity: Tensor
        self.register_buffer("rarity", rarity(frequencies), persistent=False)
        self.gamma, self.floor, self.slope, self.centre = gamma, floor, slope, centre

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets = _targets(batch)
        truth = _signed(decoded.logits, targets)
        weight = even_weights(targets, self.rarity, floor=self.floor, slope=self.slope, centre=self.centre)
        return (-F.logsigmoid(truth) * truth.neg().sigmoid() ** self.gamma * weight).mean()


class DistributionBalanced(nn.Module):
    """`Rebalanced`, and tolerant of negatives: logits start from the prior, negatives are sharper but lighter.

    Wu et al. 2020; Huang et al. 2021 for text. A negative's logit is multiplied, its loss divided by `tolerance`;
    `shift` is the part of the label's prior logit that is added to its logit.
    """

    def __init__(
        self,
        frequencies: Float[Tensor, "label"],
        *,
        gamma: Amount = 2.0,
        tolerance: Positive = 2.0,
        shift: Amount = 0.05,
        floor: Amount = 0.1,
        slope: Amount = 10.0,
        centre: float = 0.2,
    ) -> None:
        super().__init__()
        self.rarity: Tensor
        self.prior: Tensor
        self.register_buffer("rarity", rarity(frequencies), persistent=False)
        self.register_buffer("prior", frequencies.clamp(1e-6, 1 - 1e-6).logit(), persistent=False)
        self.gamma, self.tolerance, self.shift = gamma, tolerance, shift
        self.floor, self.slope, self.centre = floor, slope, centre

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets = _targets(batch)
        logits = decoded.logits + self.prior * self.shift / self.tolerance
        truth = _signed(torch.where(targets > 0, logits, self.tolerance * logits), targets)
        weight = even_weights(targets, self.rarity, floor=self.floor, slope=self.slope, centre=self.centre)
        flatten = torch.where(targets > 0, 1.0, 1 / self.tolerance)
        return (-F.logsigmoid(truth) * truth.neg().sigmoid() ** self.gamma * weight * flatten).mean()


class JointBCE(nn.Module):
    """Cross-entropy over labels and their parents together, every label and parent counting the same; JointLAAT."""

    asks = frozenset({"parent_logits"})

    def __init__(self, parents: Int[Tensor, "label"]) -> None:
        super().__init__()
        self.parents: Tensor
        self.register_buffer("parents", parents.long(), persistent=False)
        self.n_parents = int(parents.max()) + 1

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets = _targets(batch)
        empty = targets.new_zeros(len(targets), self.n_parents)
        parent_targets = empty.index_add(1, self.parents, targets).clamp(max=1)
        logits = torch.cat([decoded.logits, _extra(decoded, "parent_logits", "joint-laat")], dim=1)
        return F.binary_cross_entropy_with_logits(logits, torch.cat([targets, parent_targets], dim=1))


class DescribedBCE(nn.Module):
    """Cross-entropy, and `strength` times how far the gold labels' weights lie from their descriptions; DR-CAML.

    The authors take strength 0.01 for all labels of MIMIC-III and 10 for its 50 commonest.
    """

    asks = frozenset({"description_distance"})

    def __init__(self, *, strength: Amount = 0.01) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        targets = _targets(batch)
        distance = (targets @ _extra(decoded, "description_distance", "described-attention")).mean()
        return F.binary_cross_entropy_with_logits(decoded.logits, targets) + self.strength * distance


class RDrop(nn.Module):
    """Cross-entropy of two readings of each document, and `strength` times how far their codes lie apart; R-Drop.

    Apart is the mean of both Kullback-Leibler divergences between the softmaxes over labels (Wu et al. 2021), as MSMN
    has it; divided, like the cross-entropy, by the number of labels.
    """

    passes = 2

    def __init__(self, *, strength: Amount = 5.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        entropy = F.binary_cross_entropy_with_logits(decoded.logits, _targets(batch))
        if batch.passes == 1:
            return entropy
        first, second = (half.log_softmax(1) for half in decoded.logits.chunk(self.passes))
        return entropy + self.strength * ((first.exp() - second.exp()) * (first - second)).mean() / 2


class SelfDistilled(nn.Module):
    """Cross-entropy of both heads of student and teacher, a quarter each, and a little of what else ISD learns from.

    `slots` weighs how far the slots of student and teacher lie apart, `lists` the tasks on lists of labels.
    """

    asks = frozenset({"student", "teacher", "slot_distance", "list_loss"})

    def __init__(self, *, slots: Amount = 1e-3, lists: Amount = 1e-3) -> None:
        super().__init__()
        self.slots, self.lists = slots, lists

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        heads = torch.cat([_extra(decoded, name, "isd") for name in ("student", "teacher")], dim=1)
        targets = _targets(batch).unsqueeze(1).expand(heads.shape)
        entropy = F.binary_cross_entropy_with_logits(heads, targets)
        return entropy + self.slots * decoded.extras["slot_distance"] + self.lists * decoded.extras["list_loss"]


class ReconciledBCE(nn.Module):
    """Cross-entropy, less `strength` times how far rare labels trust their descriptions; DiscNet.

    A label's rarity is (1 - its share of the commonest one's documents)^`power`.
    """

    asks = frozenset({"description_trust"})

    def __init__(
        self, frequencies: Float[Tensor, "label"], *, strength: Amount = 1e-4, power: Positive = 1000.0
    ) -> None:
        super().__init__()
        self.rarity: Tensor
        share = frequencies / frequencies.max().clamp(min=torch.finfo(frequencies.dtype).tiny)
        self.register_buffer("rarity", (1 - share) ** power, persistent=False)
        self.strength = strength

    def forward(self, decoded: Decoded, batch: Batch) -> Float[Tensor, ""]:
        trust = (self.rarity * _extra(decoded, "description_trust", "discnet")).mean()
        return F.binary_cross_entropy_with_logits(decoded.logits, _targets(batch)) - self.strength * trust


def smoothed(targets: Float[Tensor, "batch label"], smoothing: float) -> Float[Tensor, "batch label"]:
    """Targets moved towards one half."""
    return targets * (1 - smoothing) + smoothing / 2


def rarity(frequencies: Float[Tensor, "label"]) -> Float[Tensor, "label"]:
    """One over the share of training documents that have a label; a label that none has counts as the rarest."""
    seen = frequencies > 0
    rarest = frequencies[seen].min() if bool(seen.any()) else 1.0
    return 1 / torch.where(seen, frequencies, rarest)


def even_weights(
    targets: Float[Tensor, "batch label"],
    rarities: Float[Tensor, "label"],
    *,
    floor: float,
    slope: float,
    centre: float,
) -> Float[Tensor, "batch label"]:
    """How much rather a document would be drawn for a label than for any of its own, squashed by a sigmoid."""
    rarities = rarities.to(targets.dtype)
    drawn = (targets @ rarities).unsqueeze(1)
    ratio = torch.where(drawn > 0, rarities / drawn.clamp(min=1e-12), 1.0)  # without labels, nothing to even out
    return floor + (slope * (ratio - centre)).sigmoid()


def _signed(logits: Tensor, targets: Tensor) -> Tensor:
    """The logit of the truth."""
    return torch.where(targets > 0, logits, -logits)


def _targets(batch: Batch) -> Float[Tensor, "batch label"]:
    if batch.targets is None:
        raise ValueError("a loss needs a batch with targets")
    return batch.targets


def _extra(decoded: Decoded, name: str, decoder: str) -> Tensor:
    if name not in decoded.extras:
        raise RecipeError(f"this loss needs {name!r} of the decoder: use it with decoder {decoder!r}")
    return decoded.extras[name]
