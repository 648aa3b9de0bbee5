"""Every system by the tag under which it is kept, and by the name under which a recipe asks for it."""

from collections.abc import Callable, Mapping

from plant.errors import ArtifactError, unknown
from plant.systems.blend import BLEND, MEAN, Members, unpack_blend
from plant.systems.classifier import TAG as CLASSIFIER
from plant.systems.classifier import unpack_classifier
from plant.systems.prior import TAG as PRIOR
from plant.systems.prior import unpack_prior
from plant.systems.system import Known, Packed, System
from plant.systems.tfidf import TAG as TFIDF
from plant.systems.tfidf import unpack_tfidf
from plant.systems.widened import TAG as WIDENED
from plant.systems.widened import Widened, inner

Unpack = Callable[[Packed, Known], System]


def unpack_system(packed: Packed, known: Known) -> System:
    """The system that `pack` took apart, with those that it is made of."""
    if packed.tag not in UNPACK:
        raise ArtifactError(unknown("system", packed.tag, UNPACK))
    return UNPACK[packed.tag](packed, known)


def _parts(packed: Packed, known: Known) -> tuple[System, ...]:
    return tuple(unpack_system(part, known) for part in packed.parts)


def _unpack_widened(packed: Packed, known: Known) -> Widened:
    (system,) = _parts(packed, inner(packed.options, known))
    return Widened(system, **packed.options)


UNPACK: Mapping[str, Unpack] = {
    BLEND: lambda packed, known: unpack_blend(packed, _parts(packed, known)),
    CLASSIFIER: unpack_classifier,
    MEAN: lambda packed, known: Members(_parts(packed, known)),
    PRIOR: unpack_prior,
    TFIDF: unpack_tfidf,
    WIDENED: _unpack_widened,
}
