"""What is trained when: parameter groups from the words up to the decoder, and the phases that unfreeze them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.nn import Parameter

from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import LayeredEncoder, planted_ranker
from plant.recipe.schema import Fit
from plant.train.loop import Phase


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate; `layer` counts the encoder's layers from the words, None above them."""

    name: str
    parameters: tuple[Parameter, ...]
    rate: float
    layer: int | None = None


def parameter_groups(classifier: Classifier, recipe: Fit) -> list[ParameterGroup]:
    """Encoder layers from the words up, the planted ranker, and the rest, with their discriminative rates."""
    layers = encoder_layers(classifier)
    groups = [
        ParameterGroup(
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
    above = [ParameterGroup("ranker", planted, recipe.ranker_rate), ParameterGroup("decoder", rest, 1.0)]
    return [group for group in (*groups, *above) if group.parameters]


def encoder_layers(classifier: Classifier) -> list[tuple[Parameter, ...]]:
    """The trainable parameters of each layer of the encoder; one layer where the encoder does not part them."""
    encoder = classifier.encoder
    modules: Sequence[Any] = encoder.layer_modules() if isinstance(encoder, LayeredEncoder) else [encoder]
    layers = [tuple(p for p in module.parameters() if p.requires_grad) for module in modules]
    return [layer for layer in layers if layer]


def phases(recipe: Fit, *, n_layers: int, on_start: Callable[[int], None]) -> list[Phase]:
    """The encoder frozen, then unfrozen layer by layer from the last, then all of it.

    Each begins with a call of `on_start` with the first layer that is not frozen.
    """
    planned = [
        ("encoder frozen", recipe.frozen_epochs, n_layers),
        *((f"layers from {layer}", recipe.unfreezing_epochs, layer) for layer in range(n_layers - 1, 0, -1)),
        ("all", recipe.epochs, 0),
    ]
    return [Phase(name, epochs, partial(on_start, layer)) for name, epochs, layer in planned if epochs > 0]


def freeze(groups: Sequence[ParameterGroup], *, below: int) -> None:
    """Make all parameters trainable but those of the encoder's layers below this one."""
    for group in groups:
        for parameter in group.parameters:
            parameter.requires_grad_(group.layer is None or group.layer >= below)
