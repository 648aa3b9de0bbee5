"""The AWD-LSTM against torch's own LSTM, numerical gradients, and plainer ways of dropping."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from plant.nn.dropout import drop_features, drop_weights, embed_with_dropout
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.language.awd_lstm import AWDLSTM, Dropouts
from plant.nn.language.quantized import Int8AWDLSTM
from plant.nn.language.recurrence import run_layer
from plant.tensors import Batch

VOCAB, EMBEDDING, HIDDEN, LAYERS = 30, 6, 10, 3
NONE = Dropouts(0, 0, 0, 0, 0)


def network_of(dropouts: Dropouts = NONE, *, seed: int = 0) -> AWDLSTM:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AWDLSTM(VOCAB, embedding=EMBEDDING, hidden=HIDDEN, layers=LAYERS, dropouts=dropouts).double()


def reference_of(network: AWDLSTM) -> nn.ModuleList:
    """The same weights in torch's modules; the second bias is zero."""
    layers = nn.ModuleList()
    for layer in network.layers:
        reference = nn.LSTM(layer.input_weight.shape[1], layer.size, batch_first=True).double()
        ours = (layer.input_weight, layer.recurrent_weight, layer.bias, torch.zeros_like(layer.bias))
        for theirs, weight in zip(reference.parameters(), ours, strict=True):
            theirs.data.copy_(weight.data)
        layers.append(reference)
    return layers


def reference_states(network: AWDLSTM, reference: nn.ModuleList, tokens: Tensor) -> Tensor:
    states = F.embedding(tokens, network.words)
    for layer in reference:
        states, _ = layer(states)
    return states


def some_tokens(batch: int, time: int) -> Tensor:
    return torch.randint(0, VOCAB, (batch, time), generator=torch.Generator().manual_seed(batch))


@pytest.mark.parametrize("batch", [1, 4])
def test_without_dropout_it_is_torch_s_lstm(batch: int) -> None:
    network, tokens = network_of().train(), some_tokens(batch, 9)
    expected = reference_states(network, reference_of(network), tokens)
    assert_close(network(tokens)[0], expected)


@pytest.mark.parametrize("batch", [1, 4])
def test_without_dropout_its_gradients_are_those_of_torch_s_lstm(batch: int) -> None:
    network, tokens = network_of().train(), some_tokens(batch, 9)
    reference = reference_of(network)
    network(tokens)[0].square().sum().backward()
    ours = [layer.recurrent_weight.grad for layer in network.layers] + [
        layer.input_weight.grad for layer in network.layers
    ]
    words = network.words.grad.clone()
    network.words.grad = None
    reference_states(network, reference, tokens).square().sum().backward()
    theirs = [layer.weight_hh_l0.grad for layer in reference] + [layer.weight_ih_l0.grad for layer in reference]
    for one, other in zip([*ours, words], [*theirs, network.words.grad], strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("batch", [1, 2])
def test_gradients_of_states_weights_and_carry_are_the_numerical_ones(batch: int) -> None:
    random = torch.Generator().manual_seed(0)
    shapes = [(batch, 4, 3), (batch, 2), (batch, 2), (8, 3), (8, 2), (8,)]
    values = [torch.randn(*shape, generator=random, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def layer(inputs: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        names = dict(zip(("input_weight", "recurrent_weight", "bias"), weights, strict=True))
        states, last = run_layer(inputs, (hidden, cell), **names)
        return states, *last

    assert torch.autograd.gradcheck(layer, values)


@pytest.mark.parametrize("batch", [1, 3])
def test_reading_in_pieces_gives_the_states_of_reading_at_once(batch: int) -> None:
    network, tokens = network_of(), some_tokens(batch, 12)
    whole, _ = network(tokens)
    first, carry = network(tokens[:, :5])
    second, _ = network(tokens[:, 5:], carry)
    assert_close(torch.cat([first, second], 1), whole)


def test_one_draw_of_weights_serves_all_pieces_of_a_document() -> None:
    network, tokens = network_of(Dropouts(0, 0, 0, 0.5, 0)).train(), some_tokens(1, 8)
    draw = network.draw()
    whole, _ = network(tokens, None, draw)
    first, carry = network(tokens[:, :3], None, draw)
    second, _ = network(tokens[:, 3:], carry, draw)
    assert_close(torch.cat([first, second], 1), whole)
    assert not torch.allclose(network(tokens)[0], whole)


def test_dropped_weights_are_zero_or_scaled_and_get_no_gradient() -> None:
    weight = torch.rand(64, 100, dtype=torch.float64).add(0.5).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        dropped = drop_weights(weight, 0.25)
    dropped.sum().backward()
    kept = dropped != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
    assert_close(dropped, torch.where(kept, weight / 0.75, 0.0))
    assert_close(weight.grad, torch.where(kept, 1 / 0.75, 0.0).double())


def test_a_dropped_feature_is_dropped_in_the_whole_document() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        dropped = drop_features(torch.ones(8, 20, 50), 0.4)
    assert_close(dropped, dropped[:, :1].expand_as(dropped))
    assert_close(dropped.unique(), torch.tensor([0, 1 / 0.6]))


def test_a_dropped_word_is_dropped_wherever_it_stands() -> None:
    tokens = some_tokens(6, 40)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        lengths = embed_with_dropout(torch.ones(VOCAB, 2), tokens, 0.5).sum(-1)
    by_word = [set(lengths[tokens == word].tolist()) for word in range(VOCAB)]
    assert all(len(values) == 1 for values in by_word)
    assert {value for values in by_word for value in values} == {0.0, 4.0}


def batch_of(lengths: tuple[int, ...], *, width: int, filler: int = 0) -> Batch:
    mask = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
    return Batch(torch.where(mask, some_tokens(len(lengths), 12)[:, :width], filler), mask)


def encoder_of(direction: str) -> AWDLSTMEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AWDLSTMEncoder(VOCAB, embedding=EMBEDDING, hidden=HIDDEN, layers=2, direction=direction).double().eval()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_padding_and_what_stands_in_it_change_nothing(direction: str) -> None:
    encoder, lengths = encoder_of(direction), (7, 1, 4)
    narrow, wide = encoder(batch_of(lengths, width=7)), encoder(batch_of(lengths, width=12, filler=9))
    assert_close(narrow.states[narrow.mask], wide.states[wide.mask])


def test_the_backward_encoder_is_the_forward_encoder_of_each_reversed_document() -> None:
    forward, backward, lengths = encoder_of("forward"), encoder_of("backward"), (7, 1, 4)
    batch = batch_of(lengths, width=9)
    states = backward(batch).states
    for row, length in enumerate(lengths):
        tokens = batch.tokens[row : row + 1, :length].flip(1)
        alone = forward(Batch(tokens, torch.ones_like(tokens, dtype=torch.bool))).states
        assert_close(states[row, :length], alone[0].flip(0))


def test_eight_bits_stay_near_to_thirty_two() -> None:
    network, tokens = network_of().float().eval(), some_tokens(20, 15)
    exact, carry = network(tokens)
    rounded, rounded_carry = Int8AWDLSTM(network)(tokens)
    assert_close(rounded, exact, atol=0.02, rtol=0)
    assert_close(rounded_carry, carry, atol=0.05, rtol=0)
    assert not torch.equal(rounded, exact)
