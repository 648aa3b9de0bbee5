"""A trained classifier of parts: an encoder, a decoder and a loss."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plant.data.batches import collate
from plant.data.corpus import Documents, TrainingView
from plant.errors import InputError
from plant.evaluate.choosing.judge import judge_on
from plant.explain.table import explainer_named
from plant.nn.classifier import Classifier
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.language.transformer import Transformer, unpack_transformer
from plant.nn.matching.names import Names, unpack_names
from plant.nn.parts.build import Given, asked_for, build_classifier
from plant.nn.parts.protocols import SubwordEncoder
from plant.nn.planting.ranker_store import ranker_from
from plant.recipe.reading import recipe_from, recipe_table
from plant.recipe.schema import Recipe
from plant.relevance.relevance import Relevance
from plant.systems.growing import grown_classifier
from plant.systems.system import Growth, Known, Packed, under
from plant.systems.widened import Widened, widened
from plant.tensors import Encoded
from plant.train.classifier import ClassifierEpoch, Notes, train_classifier
from plant.train.loop import Runtime
from plant.train.seed import seeded

TAG = "classifier"
RANKERS = ("decoder.ranker.", "decoder.base.ranker.")  # where a planted decoder, alone or joined, keeps its ranker
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ClassifierReading:
    """What a classifier made of a batch; `encoded` is kept for explanations only."""

    scores: NDArray[np.float32]
    classifier: Classifier
    encoded: Encoded | None

    @property
    def known(self) -> int:
        return self.scores.shape[1]

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        assert self.encoded is not None  # or it was read without evidence
        one = self.encoded.document(row)
        asked = torch.tensor(list(labels), device=one.tokens.device)
        weights = explainer_named(explainer, self.classifier)(self.classifier, one, asked)
        return weights.detach()[0].float().cpu().numpy()


@dataclass(frozen=True)
class ClassifierSystem:
    """A classifier, the recipe it was built by, and what its parts were given."""

    recipe: Recipe
    classifier: Classifier
    given: Given
    device: str = "cpu"

    @property
    def matches_names(self) -> bool:
        return self.given.names is not None

    @property
    def takes_codes(self) -> bool:
        return self.matches_names or getattr(self.classifier.decoder, "reads_titles", False)

    @torch.no_grad()
    def read(self, documents: Documents, *, evidence: bool = False) -> ClassifierReading:
        self.classifier.eval()
        batch = collate(self.classifier.readable(documents), range(len(documents))).to(self.device)
        encoded = self.classifier.encode(batch) if evidence else None
        decoded = self.classifier(batch) if encoded is None else self.classifier.decoder(encoded)
        return ClassifierReading(decoded.logits.sigmoid().cpu().numpy(), self.classifier, encoded)

    def unread(self, documents: Documents) -> int:
        encoder = self.classifier.encoder
        if not isinstance(encoder, SubwordEncoder) or not encoder.plan.most:
            return 0
        cut = self.classifier.readable(documents).subwords
        lengths = [] if cut is None else np.diff(cut.starts).tolist()
        return sum(length - encoder.plan.covered(length) for length in lengths)

    def quantized(self) -> "ClassifierSystem":
        encoder = self.classifier.encoder
        if not isinstance(encoder, AWDLSTMEncoder):
            raise InputError("only coders with an awd-lstm encoder run in 8 bits: leave --int8 away")
        classifier = copy(self.classifier)
        classifier._modules = {**self.classifier._modules, "encoder": encoder.quantized()}
        return replace(self, classifier=classifier)

    def with_codes(self, growth: Growth) -> "ClassifierSystem | Widened":
        if not self.takes_codes:
            return widened(self, growth)
        classifier, given = grown_classifier(self.recipe, self.classifier, self.given, growth)
        return replace(self, classifier=classifier, given=given)

    def pack(self) -> Packed:
        weights = {f"weights.{name}": t.cpu().numpy() for name, t in self.classifier.state_dict().items()}
        own = {"frequencies": self.given.frequencies, **_packed_names(self.given.names)}
        given = own | _packed_relevance(self.given.relevance) | _packed_transformer(self.given.transformer)
        return Packed(TAG, {"recipe": recipe_table(self.recipe)}, weights | given)


@dataclass(frozen=True)
class Fitted:
    """A trained classifier, and how its training went."""

    classifier: Classifier
    history: tuple[ClassifierEpoch, ...]


def fit_classifier(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> Fitted:
    """Train the classifier of a recipe; `gold` are all codes of the choosing notes, those without a label too."""
    with seeded(recipe.seed):
        classifier = build_classifier(recipe, given)
    fitted, chosen = classifier.readable(view.documents), classifier.readable(choosing)
    notes = Notes(fitted, chosen, len(view.codes), judge_on(choosing, view.codes, gold))
    return Fitted(classifier, train_classifier(classifier, notes, recipe.fit, seed=recipe.seed, runtime=runtime))


def frequencies(view: TrainingView) -> NDArray[np.float32]:
    """The share of fitted notes that have each label."""
    counts = np.bincount(view.documents.labels, minlength=len(view.codes))
    return (counts / max(1, len(view.documents))).astype(np.float32)


def unpack_classifier(packed: Packed, known: Known) -> ClassifierSystem:
    """The system that `pack` took apart."""
    recipe = recipe_from(packed.options["recipe"], where="the recipe of a coder")
    given = Given(known.vocab, known.codes, known.codebook, np.zeros(len(known.codes), np.float32))
    return _unpacked_classifier(recipe, packed.arrays, given)


def _unpacked_classifier(recipe: Recipe, arrays: Mapping[str, NDArray[Any]], given: Given) -> ClassifierSystem:
    relevance = _unpacked_relevance(arrays, recipe, given)
    names = unpack_names(parts) if (parts := under(arrays, "names.")) else None
    transformer = unpack_transformer(parts) if (parts := under(arrays, "transformer.")) else None
    given = replace(given, frequencies=np.array(arrays["frequencies"]), relevance=relevance, names=names)
    given = replace(given, transformer=transformer)
    weights = {name: torch.from_numpy(np.array(array)) for name, array in under(arrays, "weights.").items()}
    if recipe.vectors.train and "word_vectors" in asked_for(recipe):  # they set the size of words, then and now
        n_words = len(given.vocab) if names is None else names.n_words
        given = replace(given, word_vectors=np.zeros((n_words, recipe.vectors.size), np.float32))
    planted = {name: weight for place in RANKERS for name, weight in under(weights, place).items()}
    if planted:
        given = replace(given, ranker=ranker_from(planted, recipe.rank.form))
    classifier = build_classifier(recipe, given)
    classifier.load_state_dict(weights)
    return ClassifierSystem(recipe, classifier.eval(), given)


def _packed_names(names: Names | None) -> Arrays:
    return {} if names is None else {f"names.{name}": array for name, array in names.pack().items()}


def _packed_transformer(transformer: Transformer | None) -> Arrays:
    return {} if transformer is None else {f"transformer.{name}": array for name, array in transformer.pack().items()}


def _packed_relevance(relevance: Any) -> Arrays:
    if not isinstance(relevance, Relevance):
        return {}
    names = ("tokens", "scores", "label_counts", "token_counts")
    size = {"relevance.n_documents": np.array([relevance.n_documents], np.int64)}
    return {f"relevance.{name}": getattr(relevance, name) for name in names} | size


def _unpacked_relevance(arrays: Mapping[str, NDArray[Any]], recipe: Recipe, given: Given) -> Relevance | None:
    parts = dict(under(arrays, "relevance."))
    if not parts:
        return None
    n_documents = int(parts.pop("n_documents")[0])
    codes = given.codes[: len(parts["label_counts"])]  # not those that were added later
    return Relevance(codes=codes, form=recipe.relate.form, n_documents=n_documents, **parts)
