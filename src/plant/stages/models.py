"""What a coder holds: something that gives each code of a note a probability, and can be packed into arrays."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from plant.data.batches import collate, sorted_batches
from plant.data.corpus import Documents, take
from plant.errors import ArtifactError, InputError
from plant.evaluate.choosing.blend import Blend, blended
from plant.explain.table import explainer_named
from plant.nn.classifier import Classifier
from plant.nn.parts.build import asked_for, build_classifier, kept_whole
from plant.nn.parts.given import Given, Kept, pack_given, unpack_given
from plant.nn.parts.protocols import QuantizableEncoder, SubwordEncoder
from plant.recipe.schema import Recipe
from plant.stages.linear import (
    FrequencyPrior,
    TfidfModel,
    explain_tfidf,
    pack_tfidf,
    score_prior,
    score_tfidf,
    unpack_tfidf,
)
from plant.store.safetensors import room_for
from plant.tensors import Encoded
from plant.text.vocab import UNKNOWN, Vocab
from plant.types import Progress, silent

Arrays = dict[str, NDArray[Any]]
Item = TypeVar("Item")
TOGETHER = 16  # documents in a batch: with more, the weights in eight bits no longer gain


class Reading(Protocol):
    """Documents that a model read together: the scores of their codes, and what it takes to explain them."""

    @property
    def scores(self) -> NDArray[np.float32]:
        """The probability of each label for each document."""
        ...

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """How much each token of a document speaks for each of some labels, [asked, token]; '' is the usual way."""
        ...


class Model(Protocol):
    """Anything that scores the codes of notes."""

    def read(self, documents: Documents, *, evidence: bool = False) -> Reading:
        """Read documents as one batch; `evidence` keeps what `weigh` needs."""
        ...

    def quantized(self) -> "Model":
        """The same model for CPUs with weights in eight bits; an error where its encoder has no such form."""
        ...

    def pack(self) -> Arrays:
        """Everything that was learned, as arrays."""
        ...


def readings(
    model: Model, documents: Documents, *, evidence: bool = False, progress: Progress = silent
) -> Iterator[tuple[NDArray[np.intp], Reading]]:
    """All documents, some of similar length at a time, with their row numbers; longest first."""
    done = 0
    for rows in sorted_batches(np.diff(documents.token_starts), size=TOGETHER):
        yield rows, model.read(take(documents, rows), evidence=evidence)
        done += len(rows)
        progress("reading notes", done, len(documents))


def probabilities(
    model: Model, documents: Documents, *, n_labels: int, progress: Progress = silent
) -> NDArray[np.float32]:
    """The probability of each label for each document."""
    found = room_for(len(documents), n_labels)
    for rows, reading in readings(model, documents, progress=progress):
        found[rows] = reading.scores
    return found


@dataclass(frozen=True)
class ClassifierReading:
    """What a classifier made of a batch; `encoded` is kept for explanations only."""

    scores: NDArray[np.float32]
    classifier: Classifier
    encoded: Encoded | None

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        assert self.encoded is not None  # or it was read without evidence
        one = self.encoded.document(row)
        asked = torch.tensor(list(labels), device=one.tokens.device)
        weights = explainer_named(explainer, self.classifier)(self.classifier, one, asked)
        return weights.detach()[0].float().cpu().numpy()


@dataclass(frozen=True)
class ClassifierModel:
    """A trained classifier, and what it was built from."""

    recipe: Recipe
    classifier: Classifier
    given: Given
    device: str = "cpu"

    @torch.no_grad()
    def read(self, documents: Documents, *, evidence: bool = False) -> ClassifierReading:
        self.classifier.eval()
        batch = collate(self.classifier.readable(documents), range(len(documents))).to(self.device)
        encoded = self.classifier.encode(batch) if evidence else None
        decoded = self.classifier(batch) if encoded is None else self.classifier.decoder(encoded)
        return ClassifierReading(decoded.logits.sigmoid().cpu().numpy(), self.classifier, encoded)

    def quantized(self) -> "ClassifierModel":
        encoder = self.classifier.encoder
        if not isinstance(encoder, QuantizableEncoder):
            raise InputError("only coders with an awd-lstm encoder run in 8 bits: leave --int8 away")
        return replace(self, classifier=self.classifier.with_encoder(encoder.quantized()).eval())

    def pack(self) -> Arrays:
        weights = {f"weights.{name}": t.cpu().numpy() for name, t in self.classifier.state_dict().items()}
        kept = pack_given(self.given, asked=asked_for(self.recipe), whole=kept_whole(self.recipe))
        facts = np.frombuffer(json.dumps(kept.facts).encode(), np.uint8)
        return weights | {f"given.{name}": array for name, array in kept.arrays.items()} | {"given": facts}


@dataclass(frozen=True)
class PriorReading:
    """Scores in which no word has a say."""

    scores: NDArray[np.float32]
    documents: Documents

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        return np.zeros((len(labels), len(self.documents.tokens_of(row))), np.float32)


@dataclass(frozen=True)
class PriorModel:
    """The same codes for everybody."""

    prior: FrequencyPrior

    def read(self, documents: Documents, *, evidence: bool = False) -> PriorReading:
        return PriorReading(score_prior(self.prior, documents), documents)

    def quantized(self) -> "PriorModel":
        return self

    def pack(self) -> Arrays:
        return {"shares": self.prior.shares}


@dataclass(frozen=True)
class LinearReading:
    """Scores to which each word adds its own."""

    scores: NDArray[np.float32]
    tfidf: TfidfModel
    documents: Documents

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        if explainer not in ("", "contribution"):
            raise InputError(f"a linear model explains itself by 'contribution' only, not by {explainer!r}")
        return explain_tfidf(self.tfidf, self.documents, row, np.asarray(labels, np.int64)).astype(np.float32)


@dataclass(frozen=True)
class LinearModel:
    """TF-IDF and logistic regression."""

    tfidf: TfidfModel

    def read(self, documents: Documents, *, evidence: bool = False) -> LinearReading:
        return LinearReading(score_tfidf(self.tfidf, documents), self.tfidf, documents)

    def quantized(self) -> "LinearModel":
        return self

    def pack(self) -> Arrays:
        return pack_tfidf(self.tfidf)


@dataclass(frozen=True)
class WidenedReading:
    """What a model says, and the same small share for each of the labels that it does not know."""

    reading: Reading
    n_labels: int
    share: float
    further: int

    @property
    def scores(self) -> NDArray[np.float32]:
        known = self.reading.scores
        return np.concatenate([known, np.full((len(known), self.further), self.share, np.float32)], axis=1)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        asked = np.asarray(labels)
        weights = self.reading.weigh(row, np.where(asked < self.n_labels, asked, 0).tolist(), explainer=explainer)
        return np.where((asked < self.n_labels)[:, None], weights, 0).astype(np.float32)


@dataclass(frozen=True)
class WidenedModel:
    """A member of a coder to which words and labels were added that this member does not know."""

    model: Model
    n_words: int
    n_labels: int
    share: float
    further: int

    def read(self, documents: Documents, *, evidence: bool = False) -> WidenedReading:
        tokens = np.where(documents.tokens < self.n_words, documents.tokens, UNKNOWN).astype(documents.tokens.dtype)
        reading = self.model.read(replace(documents, tokens=tokens), evidence=evidence)
        return WidenedReading(reading, self.n_labels, self.share, self.further)

    def quantized(self) -> "WidenedModel":
        return replace(self, model=self.model.quantized())

    def pack(self) -> Arrays:
        sizes = np.array([self.n_words, self.n_labels, self.share, self.further])
        return {"widened": sizes, **self.model.pack()}


@dataclass(frozen=True)
class BlendedReading:
    """What several models say, weighed on the scale of log-odds; explanations by their weights."""

    members: tuple[Reading, ...]
    log_odds: NDArray[np.float32]
    blend: Blend

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        known = np.stack([_known(member, len(self.log_odds)) for member in self.members])
        return blended([member.scores for member in self.members], self.log_odds, self.blend, known)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        shares: list[float] = self.blend.weights.tolist()
        return _weighed(self.members, shares, lambda member: member.weigh(row, labels, explainer=explainer))


def _weighed(
    members: Sequence[Reading], shares: Sequence[float], weigh: Callable[[Reading], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """The mean by shares of what members say of words, of those that can be explained in this way."""
    found: list[NDArray[np.float32]] = []
    counted: list[float] = []
    refusals: list[InputError] = []
    for member, share in zip(members, shares, strict=True):
        try:
            found.append(weigh(member))
            counted.append(share)
        except InputError as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return np.average(found, axis=0, weights=counted if any(counted) else None).astype(np.float32)


def _known(reading: Reading, n_labels: int) -> NDArray[np.bool_]:
    return np.arange(n_labels) < (reading.n_labels if isinstance(reading, WidenedReading) else n_labels)


@dataclass(frozen=True)
class BlendedModel:
    """Several models, weighed by how far they raise a label above its log-odds among the fitted notes."""

    members: tuple[Model, ...]
    log_odds: NDArray[np.float32]  # per label
    blend: Blend

    def read(self, documents: Documents, *, evidence: bool = False) -> BlendedReading:
        readings = tuple(member.read(documents, evidence=evidence) for member in self.members)
        return BlendedReading(readings, self.log_odds, self.blend)

    def quantized(self) -> "BlendedModel":
        return replace(self, members=tuple(member.quantized() for member in self.members))

    def pack(self) -> Arrays:
        numbers = np.array([*self.blend.weights, self.blend.trust, self.blend.shift], np.float32)
        return {"blend": numbers, "log_odds": self.log_odds, **_packed_members(self.members)}


@dataclass(frozen=True)
class AveragedReading:
    """The mean of what several models say."""

    members: tuple[Reading, ...]

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        return np.mean([member.scores for member in self.members], axis=0, dtype=np.float32)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        same = [1.0] * len(self.members)
        return _weighed(self.members, same, lambda member: member.weigh(row, labels, explainer=explainer))


@dataclass(frozen=True)
class AveragedModel:
    """Several models: the mean of their probabilities and of their explanations."""

    members: tuple[Model, ...]

    def read(self, documents: Documents, *, evidence: bool = False) -> AveragedReading:
        return AveragedReading(tuple(member.read(documents, evidence=evidence) for member in self.members))

    def quantized(self) -> "AveragedModel":
        return AveragedModel(tuple(member.quantized() for member in self.members))

    def pack(self) -> Arrays:
        return _packed_members(self.members)


def _packed_members(members: Sequence[Model]) -> Arrays:
    parts = [member.pack() for member in members]
    return {f"{number}.{name}": array for number, part in enumerate(parts) for name, array in part.items()}


def unpack_model(recipes: Sequence[Recipe], arrays: Mapping[str, NDArray[Any]], given: Given) -> Model:
    """The model that `pack` took apart; several recipes stand for members, averaged or blended."""
    if len(recipes) > 1:
        parts = [_under(arrays, f"{number}.") for number in range(len(recipes))]
        members = tuple(unpack_model([r], p, given) for r, p in zip(recipes, parts, strict=True))
        if "blend" not in arrays:
            return AveragedModel(members)
        *weights, trust, shift = np.asarray(arrays["blend"]).tolist()
        blend = Blend(np.array(weights, np.float32), trust, shift)
        return BlendedModel(members, np.array(arrays["log_odds"]), blend)
    recipe = recipes[0]
    if "widened" in arrays:
        n_words, n_labels, share, further = np.asarray(arrays["widened"]).tolist()
        known = replace(given, vocab=Vocab(given.vocab.tokens[: int(n_words)]), codes=given.codes[: int(n_labels)])
        inner = {name: array for name, array in arrays.items() if name != "widened"}
        return WidenedModel(unpack_model(recipes, inner, known), int(n_words), int(n_labels), share, int(further))
    if recipe.system == "prior":
        return PriorModel(FrequencyPrior(given.codes, np.asarray(arrays["shares"])))
    if recipe.system == "tfidf":
        return LinearModel(unpack_tfidf(arrays, given.codes))
    return _unpacked_classifier(recipe, arrays, given)


def _unpacked_classifier(recipe: Recipe, arrays: Mapping[str, NDArray[Any]], given: Given) -> ClassifierModel:
    if "given" not in arrays:
        raise ArtifactError(
            "this coder was written by an earlier version, which kept too little to build it again: "
            "fit it again, or use the version that wrote it"
        )
    given = unpack_given(Kept(_under(arrays, "given."), json.loads(arrays["given"].tobytes())), given)
    classifier = build_classifier(recipe, given)
    weights = _under(arrays, "weights.")
    classifier.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
    return ClassifierModel(recipe, classifier.eval(), given)


def subwords_unread(model: Model, documents: Documents) -> int:
    """How many sub-words of documents lie beyond a limit on windows."""
    if not isinstance(model, ClassifierModel) or not isinstance(model.classifier.encoder, SubwordEncoder):
        return 0
    plan = model.classifier.encoder.plan
    cut = model.classifier.readable(documents).subwords if plan.most else None
    lengths = [] if cut is None else np.diff(cut.starts).tolist()
    return sum(length - plan.covered(length) for length in lengths)


def _under(arrays: Mapping[str, Item], prefix: str) -> dict[str, Item]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
