"""A hint to the processor: a row of an array is wanted soon. It changes no number, only how long one waits for it."""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes of a cache line
get_item_pointer: Any = cgutils.get_item_pointer  # numba has no types for it
_READ, _KEEP, _DATA = 0, 3, 1  # how `llvm.prefetch` is asked: to read, in all caches, no instructions


@intrinsic
def _fetch(context: Any, array: Any, row: Any, column: Any) -> Any:
    """The line in which a number of a two-dimensional array stands."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, *_ = signature.args
        given = zip(arguments[1:], signature.args[1:], strict=True)
        at = [target.cast(builder, value, own, types.intp) for value, own in given]
        made = target.make_array(kind)(target, builder, arguments[0])
        place = get_item_pointer(target, builder, kind, made, at, wraparound=False, boundscheck=False)
        place, flag = builder.bitcast(place, ir.IntType(8).as_pointer()), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), wanted)
        builder.call(prefetch, [place, flag(_READ), flag(_KEEP), flag(_DATA)])
        return target.get_dummy_value()

    return types.void(array, row, column), generate


@njit(cache=True, nogil=True)
def fetch_row(array, row):  # type: ignore[no-untyped-def]
    """Ask for a row that is there: nobody looks whether it is."""
    for column in range(0, array.shape[1], LINE // array.itemsize):
        _fetch(array, row, column)  # type: ignore[call-arg]  # the context is numba's to give
