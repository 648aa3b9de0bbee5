"""The GRU of ours: torch's states and gradients, whatever stands behind a document's end."""

import pytest
import torch
from torch import Tensor, nn

from plant.nn.bidirectional import turned
from plant.nn.gated import CACHED, has_kernel, read_documents

LENGTHS = torch.tensor([7, 0, 3, 1])
REAL = torch.arange(7) < LENGTHS.unsqueeze(1)


def layer_and_texts(dtype: torch.dtype = torch.float32) -> tuple[nn.GRU, Tensor]:
    torch.manual_seed(0)
    layer = nn.GRU(5, 6, batch_first=True).to(dtype)
    return layer, torch.randn(4, 7, 5, dtype=dtype).requires_grad_()


def by_torch(layer: nn.GRU, states: Tensor, *, from_end: bool) -> Tensor:
    found = turned(layer(turned(states, LENGTHS))[0], LENGTHS) if from_end else layer(states)[0]
    return torch.where(REAL.unsqueeze(2), found, 0.0)


@pytest.mark.parametrize("from_end", [False, True])
def test_states_and_gradients_are_those_of_torch(from_end: bool) -> None:
    layer, states = layer_and_texts()
    weights, slopes = [states, *layer.parameters()], torch.randn(4, 7, 6)
    ours, theirs = read_documents(layer, states, LENGTHS, from_end=from_end), by_torch(layer, states, from_end=from_end)
    torch.testing.assert_close(ours, theirs)
    found, expected = (torch.autograd.grad((read * slopes).sum(), weights) for read in (ours, theirs))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("from_end", [False, True])
def test_gradients_are_slopes(from_end: bool) -> None:
    layer, states = layer_and_texts(torch.float64)

    def read(states: Tensor, *weights: Tensor) -> Tensor:
        return read_documents(layer, states, LENGTHS, from_end=from_end)

    assert torch.autograd.gradcheck(read, (states, *layer.parameters()))


def test_gates_that_are_wide_open_or_shut_stay_numbers() -> None:
    layer, states = layer_and_texts()
    found = read_documents(layer, states.detach() * 1e4, LENGTHS)
    torch.testing.assert_close(found, by_torch(layer, states.detach() * 1e4, from_end=False))


def test_what_stands_behind_the_end_is_never_read() -> None:
    layer, states = layer_and_texts()
    poisoned = torch.where(REAL.unsqueeze(2), states, torch.nan)
    for from_end in (False, True):
        assert torch.equal(
            read_documents(layer, poisoned, LENGTHS, from_end=from_end),
            read_documents(layer, states, LENGTHS, from_end=from_end),
        )


def test_layers_too_large_for_a_cache_and_other_kinds_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    small = nn.GRU(5, 6, batch_first=True)
    assert has_kernel(small)
    assert not has_kernel(nn.LSTM(5, 6))
    assert not has_kernel(nn.GRU(1, int((CACHED / 12) ** 0.5) + 1))
    monkeypatch.setenv("PLANT_FORMS", "torch")
    assert not has_kernel(small)
