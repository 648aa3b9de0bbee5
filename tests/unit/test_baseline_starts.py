"""Where baselines start: at the labels' log-odds, from word vectors of the fitted and unlabelled text."""

from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from plant.nn.bidirectional import Bidirectional
from plant.nn.decoders.attention_xml import AttentionXML
from plant.nn.decoders.hypercore import HyperCore
from plant.nn.decoders.joint_laat import parent_frequencies
from plant.nn.decoders.pooled import ChunkMaxPool
from plant.nn.encoders.recurrent import BiGRU
from plant.nn.parts.table import DECODERS
from plant.recipe.reading import load_recipe, named_recipes
from plant.steps.vectors import epochs_for
from plant.studies.study import PUBLISHED
from plant.tensors import Batch, Encoded

FREQUENCIES = torch.tensor([0.5, 0.1, 0.01])


@pytest.mark.parametrize("name", ["max-pool", "mean-pool", "last-state", "chunk-max-pool", "label-attention"])
def test_biases_start_at_the_log_odds_where_asked(name: str) -> None:
    given = {"input_size": 4, "n_labels": 3, "frequencies": FREQUENCIES}
    at_prior, at_zero = (DECODERS.build(name, {"start_at_prior": start}, **given) for start in (True, False))
    bias = {True: (at_prior.output if hasattr(at_prior, "output") else at_prior).bias,
            False: (at_zero.output if hasattr(at_zero, "output") else at_zero).bias}  # fmt: skip
    torch.testing.assert_close(bias[True].detach(), (FREQUENCIES / (1 - FREQUENCIES)).log())
    assert not bias[False].any()


def test_logits_of_attention_xml_are_counted_from_the_log_odds_where_asked() -> None:
    from_prior, from_mean = (AttentionXML(4, 3, frequencies=FREQUENCIES, from_prior=asked) for asked in (True, False))
    from_mean.load_state_dict(from_prior.state_dict())  # the log-odds are no weights: both have the same
    mask = torch.ones(2, 5, dtype=torch.bool)
    encoded = Encoded(torch.randn(2, 5, 4), mask.long(), mask)
    log_odds = (FREQUENCIES / (1 - FREQUENCIES)).log()
    torch.testing.assert_close(from_prior.eval()(encoded).logits - from_mean.eval()(encoded).logits,
                               log_odds.expand(2, 3))  # fmt: skip


def test_asked_labels_of_attention_xml_have_the_logits_that_they_have_among_all() -> None:
    decoder = AttentionXML(4, 3, frequencies=FREQUENCIES, from_prior=True).eval()
    mask = torch.ones(2, 5, dtype=torch.bool)
    encoded = Encoded(torch.randn(2, 5, 4), mask.long(), mask)
    labels = torch.tensor([[2, 0], [1, 1]])
    torch.testing.assert_close(decoder.score(encoded, labels), decoder(encoded).logits.gather(1, labels))


def test_units_of_a_gru_remember_as_long_as_asked() -> None:
    torch.manual_seed(0)
    forgetful, lasting = BiGRU(10, hidden=8), BiGRU(10, hidden=8, memory=100)
    layer = lasting.recurrent.back[0]
    kept = (layer.bias_ih_l0 + layer.bias_hh_l0)[8:16].sigmoid()
    torch.testing.assert_close(kept, torch.linspace(1, 100, 8) / (torch.linspace(1, 100, 8) + 1))
    tokens = torch.randint(2, 10, (1, 60))
    other = tokens.clone()
    other[0, 0] = 1
    mask = torch.ones_like(tokens, dtype=torch.bool)
    moved = [
        (encoder(Batch(tokens, mask)).states - encoder(Batch(other, mask)).states)[0, -1, :8].norm()
        for encoder in (forgetful, lasting)
    ]
    assert moved[1] > 1000 * moved[0]  # what the first word of sixty leaves in the last state


def test_a_bottleneck_may_start_open() -> None:
    decoder = ChunkMaxPool(4, 3, open_at=1.5)
    assert bool((decoder.bottleneck.bias == 1.5).all())


@pytest.mark.parametrize("mixing", ["each", "all"])
def test_scores_of_hypercore_may_start_near_zero(mixing: Literal["each", "all"]) -> None:
    decoder = HyperCore(4, 3, frequencies=FREQUENCIES, mixing=mixing, mixed_from=0.0)
    mask = torch.ones(2, 5, dtype=torch.bool)
    logits = decoder(Encoded(torch.randn(2, 5, 4), mask.long(), mask)).logits
    torch.testing.assert_close(logits.detach(), (FREQUENCIES / (1 - FREQUENCIES)).log().expand(2, 3))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("layers", [1, 2])
def test_both_directions_read_as_packed_documents_do(kind: type[nn.LSTM] | type[nn.GRU], layers: int) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([7, 3, 1])
    mask = torch.arange(7) < lengths.unsqueeze(1)
    inputs = torch.randn(3, 7, 5)
    ours, packed = Bidirectional(kind, 5, 4, layers), kind(5, 4, layers, batch_first=True, bidirectional=True)
    for layer in range(layers):
        for directions, ending in ((ours.ahead, ""), (ours.back, "_reverse")):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(packed, f"{name}_l{layer}{ending}").data = getattr(directions[layer], f"{name}_l0").data
    states = packed(pack_padded_sequence(inputs, lengths, batch_first=True))[0]
    expected = pad_packed_sequence(states, batch_first=True)[0]
    torch.testing.assert_close(ours(inputs, mask), expected)


@pytest.mark.parametrize(("words", "epochs"), [(0, 50), (156_000, 50), (1_000_000, 10), (50_000_000, 5)])
def test_small_texts_are_read_more_often(words: int, epochs: int) -> None:
    assert epochs_for(words) == epochs


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "fasttext"])
def test_published_systems_start_from_word_vectors_in_both_sizes(name: str) -> None:
    assert {name, f"{name}-small"} <= set(named_recipes())
    assert load_recipe(name).vectors.train
    assert load_recipe(f"{name}-small").vectors.train


def test_no_small_recipe_cuts_notes() -> None:
    small = [load_recipe(name) for name in named_recipes() if name.endswith("-small")]
    assert not np.any([recipe.prepare.max_tokens for recipe in small])


def test_a_parent_is_as_frequent_as_any_of_its_children() -> None:
    found = parent_frequencies(torch.tensor([0.5, 0.5, 0.1]), torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(found, torch.tensor([0.75, 0.1]))
