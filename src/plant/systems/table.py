"""Every system by the tag under which it is kept; each is imported when a folder asks for it."""

from collections.abc import Callable, Mapping

from plant.errors import ArtifactError, unknown
from plant.store.checks import check_finite, check_length
from plant.systems.blend import BLEND, MEAN, MembersSystem, unpack_blend
from plant.systems.prior import TAG as PRIOR
from plant.systems.prior import unpack_prior
from plant.systems.system import FORMS, FittedSystem, Known, PackedSystem
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


def _unpack_bow(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.bow import unpack_bow  # numba, half a second that others need not wait for

    return unpack_bow(packed, known)


def _unpack_candidates(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.candidates import unpack_candidates  # numba and scipy

    return unpack_candidates(packed, known, _parts(packed, known))


def _unpack_classifier(packed: PackedSystem, known: Known) -> FittedSystem:
    def whole() -> FittedSystem:
        from plant.systems.classifier import unpack_classifier  # torch, two seconds

        return unpack_classifier(packed, known)

    check_finite(packed.arrays)
    check_length("frequencies", packed.arrays["given.frequencies.values"], len(known.codes))
    if FORMS not in packed.options:
        return whole()
    from plant.systems.array_classifier import array_system  # numba

    return array_system(packed, whole, words=len(known.vocab), labels=len(known.codes)) or whole()


def _unpack_dictionary(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.dictionary import unpack_dictionary  # numba

    return unpack_dictionary(packed, known)


def _unpack_kept(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.kept import unpack_kept  # torch

    return unpack_kept(packed, known, _parts(packed, known))


def _unpack_label_tree(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.label_tree import unpack_label_tree  # torch

    return unpack_label_tree(packed, known)


def _unpack_trees(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.trees import unpack_trees

    return unpack_trees(packed, known)


def _unpack_tfidf(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.tfidf import unpack_tfidf  # scipy

    return unpack_tfidf(packed, known)


def _unpack_xr_linear(packed: PackedSystem, known: Known) -> FittedSystem:
    from plant.systems.xr_linear import unpack_xr_linear  # numba and scipy

    return unpack_xr_linear(packed, known)


def _unpack_widened(packed: PackedSystem, known: Known) -> WidenedSystem:
    (system,) = _parts(packed, inner(packed.options, known))
    return WidenedSystem(system, **packed.options)


UNPACK: Mapping[str, Unpack] = {
    BLEND: lambda packed, known: unpack_blend(packed, _parts(packed, known), labels=len(known.codes)),
    "candidates": _unpack_candidates,
    "classifier": _unpack_classifier,
    "dictionary": _unpack_dictionary,
    "kept": _unpack_kept,
    "label-tree": _unpack_label_tree,
    MEAN: lambda packed, known: MembersSystem(_parts(packed, known)),
    "plant-bow": _unpack_bow,
    PRIOR: unpack_prior,
    "tfidf": _unpack_tfidf,
    "trees": _unpack_trees,
    WIDENED: _unpack_widened,
    "xr-linear": _unpack_xr_linear,
}
