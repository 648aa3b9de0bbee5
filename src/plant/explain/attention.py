"""Explanations that a decoder gives itself: where it looked."""

from functools import partial

from jaxtyping import Float, Int
from torch import Tensor

from plant.errors import InputError
from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import AttentionDecoder, SourcedDecoder
from plant.tensors import Encoded


def attention(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """The attention of each label, a distribution over the document."""
    if not isinstance(classifier.decoder, AttentionDecoder):
        raise InputError("this decoder has no attention to show; explain it by gradient or occlusion")
    return classifier.decoder.attend(encoded, labels)


def attention_of(
    source: str, classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "asked"]
) -> Float[Tensor, "batch asked time"]:
    """The attention of one source of a planted decoder: learned, static or planted."""
    if not isinstance(classifier.decoder, SourcedDecoder):
        raise InputError(f"this decoder has no {source} attention of its own; explain it by attention")
    weights = classifier.decoder.attend_by_source(encoded, labels)
    if source not in weights:
        raise InputError(f"this coder was fitted without {source} attention; it has {', '.join(weights)}")
    return weights[source]


learned, static, planted = (partial(attention_of, source) for source in ("learned", "static", "planted"))
