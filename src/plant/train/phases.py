"""What is trained when: parameter groups from the words up to the decoder, and the phases that unfreeze them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.nn import Parameter

from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import LayeredEncoder, planted_ranker
from plant.recipe.schema import Fit


@dataclass(frozen=True)
class Group:
    """Parameters that share a learning rate; `layer` counts the encoder's layers from the words, None above them."""

    name: str
    parameters: tuple[Parameter, ...]
    rate: float
    layer: int | None = None


@dataclass(frozen=True)
class Phase:
    """Epochs with the same trainable parameters; encoder layers below `first_layer` are frozen."""

    name: str
    epochs: int
    first_layer: int


def parameter_groups(classifier: Classifier, recipe: Fit) -> list[Group]:
    """Encoder layers from the words up, the planted ranker, and the rest, with their discriminative rates."""
    layers = encoder_layers(classifier)
    groups = [
        Group(
            f"encoder {number}",
            parameters,
            recipe.encoder_rate * recipe.layer_rate ** (len(layers) - 1 - number),
            number,
        )
        for number, parameters in enumerate(layers)
    ]
    ranker = planted_ranker(classifier.decoder)
    planted = () if ranker is None else tuple(ranker.parameters())
    taken = {id(parameter) for parameters in (*layers, planted) for parameter in parameters}
    rest = tuple(p for p in classifier.parameters() if p.requires_grad and id(p) not in taken)
    above = [Group("ranker", planted, recipe.ranker_rate), Group("decoder", rest, 1.0)]
    return [group for group in (*groups, *above) if group.parameters]


def encoder_layers(classifier: Classifier) -> list[tuple[Parameter, ...]]:
    """The trainable parameters of each layer of the encoder; one layer where the encoder does not part them."""
    encoder = classifier.encoder
    modules: Sequence[Any] = encoder.layer_modules() if isinstance(encoder, LayeredEncoder) else [encoder]
    layers = [tuple(p for p in module.parameters() if p.requires_grad) for module in modules]
    return [layer for layer in layers if layer]


def phases(recipe: Fit, *, n_layers: int) -> list[Phase]:
    """The encoder frozen, then unfrozen layer by layer from the last, then all of it."""
    planned = [
        Phase("encoder frozen", recipe.frozen_epochs, n_layers),
        *(Phase(f"layers from {layer}", recipe.unfreezing_epochs, layer) for layer in range(n_layers - 1, 0, -1)),
        Phase("all", recipe.epochs, 0),
    ]
    return [phase for phase in planned if phase.epochs > 0]


def freeze(groups: Sequence[Group], phase: Phase) -> None:
    """Make just the parameters of the phase trainable."""
    for group in groups:
        for parameter in group.parameters:
            parameter.requires_grad_(group.layer is None or group.layer >= phase.first_layer)
