"""The annotations of the package are checked in this run; where nothing checks, these calls pass or fail otherwise."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import Float, TypeCheckError

from plant.nn.attention import masked_mean
from plant.nn.layers import WordEmbedding
from plant.nn.planting.pairs import _two_layer_scores
from plant.relevance.counts import Incidence, label_blocks
from plant.tensors import Batch
from tests.checks import _decorator

STATES = torch.zeros(2, 3, 4)
MASK = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("states", "mask"),
    [
        (STATES, MASK[:1]),  # torch would repeat it
        (STATES, MASK.long()),
        (STATES.long(), MASK),
    ],
    ids=["shape", "type of the mask", "type of the states"],
)
def test_a_function_refuses_a_tensor_that_is_not_as_annotated(states: torch.Tensor, mask: torch.Tensor) -> None:
    with pytest.raises(TypeCheckError, match=r"plant\.nn\.attention\.masked_mean\S*\(\) parameter"):
        masked_mean(states, mask)


def test_a_module_refuses_tensors_whose_axes_of_one_name_differ() -> None:
    with pytest.raises(TypeCheckError, match=r"plant\.nn\.layers\.WordEmbedding\.forward\S*\(\) parameter"):
        WordEmbedding(9)(torch.ones(2, 3, dtype=torch.int64), MASK[:, :1])


def test_a_dataclass_refuses_tensors_whose_axes_of_one_name_differ() -> None:
    with pytest.raises(TypeCheckError, match=r"plant\.tensors\.Batch\S*\(\) parameter"):
        Batch(torch.ones(2, 5, dtype=torch.int64), MASK)


def test_an_array_of_another_type_is_refused() -> None:
    numbers = np.zeros(3, np.int64)
    with pytest.raises(TypeCheckError, match=r"plant\.relevance\.counts\.Incidence\S*\(\) parameter"):
        Incidence(numbers, numbers, numbers, numbers.astype(np.int32), numbers)


def test_what_is_no_tensor_is_checked_too() -> None:
    with pytest.raises(TypeCheckError, match=r"plant\.relevance\.counts\.label_blocks\(\) parameter"):
        label_blocks("counts")  # type: ignore[arg-type]


def test_a_kernel_is_compiled_without_checks() -> None:
    assert not hasattr(_two_layer_scores.py_func, "__wrapped__")


@pytest.mark.usefixtures("unchecked")
def test_checks_can_be_left_out_of_a_test() -> None:
    assert masked_mean(STATES, MASK[:1]).shape == (2, 4)


def test_inner_functions_that_are_defined_again_are_checked_each_and_so_is_what_they_return() -> None:
    decorate = _decorator({})

    def adder(n: object) -> Callable[[int], int]:
        @decorate(typechecker=None)
        def add(m: int) -> int:
            return m + n  # type: ignore[operator,no-any-return]

        return add  # type: ignore[no-any-return]

    first, second, wrong = adder(1), adder(2), adder(0.5)
    assert (first(1), second(1)) == (2, 3)
    for refused, given in ((first, "1"), (second, "1"), (wrong, 1)):
        with pytest.raises(TypeCheckError, match="add"):
            refused(given)  # type: ignore[arg-type]


def test_axes_of_what_is_returned_are_those_of_the_arguments() -> None:
    def cut(states: Float[np.ndarray, "time size"], n: int) -> Float[np.ndarray, "time size"]:
        return states[:n]

    checked = _decorator({})(cut, typechecker=None)
    assert checked(np.zeros((2, 3)), 2).shape == (2, 3)
    assert checked(np.zeros((4, 3)), 4).shape == (4, 3)  # a call has axes of its own
    with pytest.raises(TypeCheckError, match="return"):
        checked(np.zeros((4, 3)), 2)
