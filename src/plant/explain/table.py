"""Every explainer by name; all take a classifier, documents that it has read, and labels, and weigh the tokens."""

from collections.abc import Callable, Mapping
from functools import partial

from jaxtyping import Float, Int
from torch import Tensor

from plant.errors import InputError, unknown
from plant.explain.attention import attention, attention_of
from plant.explain.gradients import attention_x_integrated_gradients, gradient_x_input, integrated_gradients
from plant.explain.occlusion import occlusion
from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import AttentionDecoder, Decoder, EvidentDecoder
from plant.tensors import Encoded

Explainer = Callable[[Classifier, Encoded, Int[Tensor, "asked"]], Float[Tensor, "batch asked time"]]

EXPLAINERS: Mapping[str, Explainer] = {
    "attention": attention,
    "learned": partial(attention_of, "learned"),
    "static": partial(attention_of, "static"),
    "planted": partial(attention_of, "planted"),
    "gradient": gradient_x_input,
    "integrated": integrated_gradients,
    "attention-integrated": attention_x_integrated_gradients,
    "occlusion": occlusion,
}


def explainer_named(name: str, classifier: Classifier) -> Explainer:
    """An explainer by name, or the one that suits the decoder best."""
    if not name:
        return _usual(classifier.decoder)
    if name not in EXPLAINERS:
        raise InputError(unknown("explainer", name, EXPLAINERS))
    return EXPLAINERS[name]


def _usual(decoder: Decoder) -> Explainer:
    """Attention where it is the evidence itself.

    Attention that was only learned is weighed by integrated gradients; without attention there are gradients alone.
    """
    if isinstance(decoder, EvidentDecoder) and decoder.evident:
        return attention
    return attention_x_integrated_gradients if isinstance(decoder, AttentionDecoder) else gradient_x_input
