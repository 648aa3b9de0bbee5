"""Every explainer by name; all take a classifier, documents that it has read, and labels, and weigh the tokens."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from plant.errors import InputError, unknown
from plant.registry import Importable

if TYPE_CHECKING:
    from plant.nn.classifier import Classifier
    from plant.nn.parts.protocols import Decoder

Explainer = Callable[..., Any]
"""Called as `explainer(classifier, encoded, labels)`: weights [batch, asked, time]."""

EXPLAINERS: Mapping[str, Explainer] = Importable(
    {
        "attention": "plant.explain.attention:attention",
        "learned": "plant.explain.attention:learned",
        "static": "plant.explain.attention:static",
        "planted": "plant.explain.attention:planted",
        "gradient": "plant.explain.gradients:gradient_x_input",
        "integrated": "plant.explain.gradients:integrated_gradients",
        "attention-integrated": "plant.explain.gradients:attention_x_integrated_gradients",
        "occlusion": "plant.explain.occlusion:occlusion",
    }
)


LOOKS = frozenset({"attention", "learned", "static", "planted"})
"""Explainers that ask a decoder where it looked, and nothing else."""


def explainer_named(name: str, classifier: "Classifier") -> Explainer:
    """An explainer by name, or the one that suits the decoder best."""
    if name and name not in EXPLAINERS:
        raise InputError(unknown("explainer", name, EXPLAINERS))
    return EXPLAINERS[name or usual_explainer(classifier.decoder)]


def usual_explainer(decoder: "Decoder") -> str:
    """The name of the explainer that suits a decoder: attention where it is the evidence itself.

    Attention that was only learned is weighed by integrated gradients; without attention there are gradients alone.
    """
    from plant.nn.parts.protocols import AttentionDecoder, EvidentDecoder

    if isinstance(decoder, EvidentDecoder) and decoder.evident:
        return "attention"
    return "attention-integrated" if isinstance(decoder, AttentionDecoder) else "gradient"
