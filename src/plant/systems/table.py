"""Every system by the tag under which it is kept, and by the name under which a recipe asks for it."""

from collections.abc import Callable, Mapping

from plant.errors import ArtifactError, unknown
from plant.systems.blend import BLEND, MEAN, MembersSystem, unpack_blend
from plant.systems.candidates import TAG as CANDIDATES
from plant.systems.candidates import unpack_candidates
from plant.systems.classifier import TAG as CLASSIFIER
from plant.systems.classifier import unpack_classifier
from plant.systems.dictionary import TAG as DICTIONARY
from plant.systems.dictionary import unpack_dictionary
from plant.systems.prior import TAG as PRIOR
from plant.systems.prior import unpack_prior
from plant.systems.system import FittedSystem, Known, PackedSystem
from plant.systems.tfidf import TAG as TFIDF
from plant.systems.tfidf import unpack_tfidf
from plant.systems.widened import TAG as WIDENED
from plant.systems.widened import WidenedSystem, inner

Unpack = Callable[[PackedSystem, Known], FittedSystem]


def unpack_system(packed: PackedSystem, known: Known) -> FittedSystem:
    """The system that `pack` took apart, with those that it is made of."""
    if packed.tag not in UNPACK:
        raise ArtifactError(unknown("system", packed.tag, UNPACK))
    return UNPACK[packed.tag](packed, known)


def _parts(packed: PackedSystem, known: Known) -> tuple[FittedSystem, ...]:
    return tuple(unpack_system(part, known) for part in packed.parts)


def _unpack_widened(packed: PackedSystem, known: Known) -> WidenedSystem:
    (system,) = _parts(packed, inner(packed.options, known))
    return WidenedSystem(system, **packed.options)


UNPACK: Mapping[str, Unpack] = {
    BLEND: lambda packed, known: unpack_blend(packed, _parts(packed, known)),
    CANDIDATES: lambda packed, known: unpack_candidates(packed, known, _parts(packed, known)),
    CLASSIFIER: unpack_classifier,
    DICTIONARY: unpack_dictionary,
    MEAN: lambda packed, known: MembersSystem(_parts(packed, known)),
    PRIOR: unpack_prior,
    TFIDF: unpack_tfidf,
    WIDENED: _unpack_widened,
}
