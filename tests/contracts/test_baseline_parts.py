"""What every encoder, decoder and loss of the table promises, in all combinations."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.errors import RecipeError
from plant.nn.dropout import ByteDropout
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.parts.protocols import AttentionDecoder, Decoder, Encoder, Loss, TaughtDecoder, asks, gives
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES, TABLES
from plant.nn.planting.ranker import BilinearRanker
from plant.recipe.schema import Part, Recipe
from plant.registry import DeclaresStart, Registry, named_by
from plant.store.safetensors import read_tensors, write_tensors
from plant.tensors import Batch, Decoded, Structure
from tests.given_samples import (
    CODES,
    DESCRIPTIONS,
    FREQUENCIES,
    RELEVANCE,
    TERMS,
    TREE,
    TREE_DESCRIPTIONS,
    VOCAB,
    sample_given,
    subwords_of,
)

N_LABELS, VOCAB_SIZE, LENGTHS = len(CODES), len(VOCAB), (5, 1, 3, 7)
GIVEN = {
    "vocab_size": VOCAB_SIZE,
    "n_labels": N_LABELS,
    "word_vectors": None,
    "descriptions": DESCRIPTIONS,
    "parents": torch.tensor([0, 0, 1, 2, 2, 1]),
    "frequencies": torch.from_numpy(FREQUENCIES),
    "relevance": RELEVANCE,
    "ranker": BilinearRanker(VOCAB_SIZE, N_LABELS, size=3),
    "titles": Batch(DESCRIPTIONS, DESCRIPTIONS > 0, subwords=subwords_of(DESCRIPTIONS)),
    "terms": TERMS,
    "tree": TREE,
    "tree_descriptions": TREE_DESCRIPTIONS,
    "hyperbolic": torch.linspace(-0.5, 0.5, 3 * N_LABELS).view(N_LABELS, 3),
    "label_pairs": torch.tensor([[0, 1, 3], [0, 4, 1], [2, 3, 2]]),
}
WIDTHS = {name: ENCODERS.build(name, ENCODERS.tiny(name), **GIVEN).size for name in ENCODERS.builders}
OFFERED = {**GIVEN, "input_size": 8, "encoder": ENCODERS.build("embedding", ENCODERS.tiny("embedding"), **GIVEN)}
GIVES = {name: gives(DECODERS.build(name, DECODERS.tiny(name), **OFFERED)) for name in DECODERS.builders}
ASKS = {name: asks(LOSSES.build(name, LOSSES.tiny(name), **OFFERED)) for name in LOSSES.builders}
LOOKING = [name for name in DECODERS.builders if "input_size" in DECODERS.needs(name, DECODERS.tiny(name))]
ATTENTIVE = [name for name, builder in DECODERS.builders.items() if hasattr(builder, "attend")]
PAIRS = [(encoder, decoder) for encoder, decoder in product(WIDTHS, GIVES) if WIDTHS[encoder] or decoder not in LOOKING]
WIDE = next(name for name, width in WIDTHS.items() if width)  # the encoder under which decoders meet all losses
TRIPLES = [
    (encoder, decoder, loss)
    for (encoder, decoder), loss in product(PAIRS, ASKS)
    if ASKS[loss] <= GIVES[decoder]
    and (encoder == WIDE or (ASKS[loss] == GIVES[decoder] and (ASKS[loss] or loss == "bce")))
]
SILENT = "ranker.label_bias"  # the softmax over tokens does not see what all tokens share
EVERY = [(table, name) for table in TABLES.values() for name in table.builders]
pairs = pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
encoders = pytest.mark.parametrize("encoder", [name for name, width in WIDTHS.items() if width])
every = pytest.mark.parametrize(("table", "name"), EVERY, ids=[f"{table.kind}-{name}" for table, name in EVERY])


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors are slower on many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Model(nn.Module):
    """An encoder and a decoder with weights of their own, in float64, without dropout."""

    def __init__(self, encoder: str, decoder: str, *, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.encoder: Encoder = ENCODERS.build(encoder, ENCODERS.tiny(encoder), **GIVEN)
            given = {**GIVEN, "input_size": self.encoder.size, "encoder": self.encoder}
            self.decoder: Decoder = DECODERS.build(decoder, DECODERS.tiny(decoder), **given)
            self.double().eval()
            for norm in (module for module in self.modules() if isinstance(module, nn.BatchNorm1d)):
                nn.init.normal_(norm.running_mean)
                nn.init.uniform_(norm.running_var, 0.5, 2.0)
        for dropout in (module for module in self.modules() if isinstance(module, nn.Dropout | ByteDropout)):
            dropout.p = 0.0

    def forward(self, batch: Batch) -> Decoded:
        encoded = replace(self.encoder(batch), structure=batch.structure)
        if self.training and isinstance(self.decoder, TaughtDecoder) and batch.targets is not None:
            with torch.random.fork_rng():  # what a decoder draws is the same whenever it is asked
                torch.manual_seed(4)
                return self.decoder.taught(encoded, batch.targets)
        return self.decoder(encoded)

    def learned(self) -> dict[str, nn.Parameter]:
        """The weights that training can reach, by name."""
        return {name: weight for name, weight in self.named_parameters() if not name.endswith(SILENT)}

    def poison(self) -> "Model":
        """Make the vector of padding deadly."""
        for table in (module for module in self.modules() if isinstance(module, nn.Embedding)):
            if table.padding_idx is not None:
                table.weight.data[table.padding_idx] = torch.nan
        return self


def make_batch(lengths: tuple[int, ...] = LENGTHS, *, width: int = 0, seed: int = 1) -> Batch:
    random = torch.Generator().manual_seed(seed)
    documents = [torch.randint(1, VOCAB_SIZE, (length,), generator=random) for length in lengths]
    targets = (torch.rand(len(lengths), N_LABELS, generator=random) < 0.4).double()
    tokens = torch.zeros(len(lengths), max(width, *lengths), dtype=torch.long)
    for row, document in zip(tokens, documents, strict=True):
        row[: len(document)] = document
    return Batch(tokens, tokens > 0, targets, subwords_of(tokens), structure=structure_of(tokens))


def structure_of(tokens: Tensor) -> Structure:
    """Sentences of three words, under headings that follow from the words."""
    places = torch.arange(tokens.shape[1]).expand(tokens.shape)
    return Structure(torch.where(tokens > 0, tokens % 5, 0), torch.where(tokens > 0, places // 3, 0))


def alone(batch: Batch, row: int) -> Batch:
    length = int(batch.mask[row].sum())
    tokens = batch.tokens[row : row + 1, :length]
    mask = batch.mask[row : row + 1, :length]
    return Batch(tokens, mask, subwords=subwords_of(tokens), structure=structure_of(tokens))


@pairs
def test_padding_and_neighbours_change_nothing(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder).poison(), make_batch(width=11)
    logits = model(batch).logits
    for row in range(len(LENGTHS)):
        assert_close(logits[row : row + 1], model(alone(batch, row)).logits, rtol=0, atol=1e-12)


@pairs
def test_padding_changes_nothing_in_training(encoder: str, decoder: str) -> None:
    narrow, wide = (Model(encoder, decoder).poison().train()(make_batch(width=width)).logits for width in (7, 12))
    assert_close(narrow, wide, rtol=0, atol=1e-12)


@encoders
def test_running_statistics_are_those_of_real_positions(encoder: str) -> None:
    narrow, wide = (Model(encoder, LOOKING[0]).encoder.train() for _ in range(2))  # type: ignore[attr-defined]
    narrow(make_batch()), wide(make_batch(width=15))
    for one, other in zip(narrow.buffers(), wide.buffers(), strict=True):
        assert_close(one, other)


@pairs
def test_what_stands_at_padding_means_nothing_to_a_decoder(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder), make_batch(width=9)
    encoded = model.encoder(batch)
    states = torch.where(batch.mask.unsqueeze(-1), encoded.states, torch.nan)
    assert_close(model.decoder(replace(encoded, states=states)).logits, model.decoder(encoded).logits)


@pairs
def test_a_document_without_tokens_gets_finite_logits_and_gradients(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder).poison(), make_batch((0, 4, 0))
    logits = model(batch).logits
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


@pytest.mark.parametrize(("encoder", "decoder"), [pair for pair in PAIRS if pair[1] in ATTENTIVE])
def test_attention_is_a_distribution_over_real_tokens(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder).poison(), make_batch((5, 1, 0, 7), width=9)
    assert isinstance(model.decoder, AttentionDecoder)
    asked = torch.tensor([4, 0, 3])
    weights = model.decoder.attend(model.encoder(batch), asked)
    assert weights.shape == (4, 3, 9)
    assert (weights >= 0).all()
    total = weights.sum(-1)
    somewhere = batch.mask.any(1).double().unsqueeze(1).expand(-1, 3)
    assert_close(total, somewhere if decoder in LOOKING else somewhere * total.round())  # words may say nothing at all
    assert not weights.masked_select(~batch.mask.unsqueeze(1)).any()


@encoders
def test_every_parameter_of_an_encoder_reaches_its_states(encoder: str) -> None:
    model, batch = Model(encoder, LOOKING[0]).train(), make_batch()
    encoded = model.encoder(batch)
    (encoded.states * torch.randn(encoded.states.shape))[encoded.mask].sum().backward()
    weights = model.encoder.named_parameters()  # type: ignore[attr-defined]
    assert not [name for name, weight in weights if weight.grad is None or not weight.grad.any()]


@pytest.mark.parametrize(("encoder", "decoder", "loss"), TRIPLES)
def test_the_gradient_is_the_slope_and_reaches_every_parameter(encoder: str, decoder: str, loss: str) -> None:
    model, batch = Model(encoder, decoder).train(), make_batch()
    measure = LOSSES.build(loss, LOSSES.tiny(loss), **GIVEN).double()  # type: ignore[attr-defined]

    def value() -> Tensor:
        return measure(model(batch), batch)

    value().backward()
    reached = {name for name, weight in model.learned().items() if weight.grad is not None and weight.grad.any()}
    if GIVES[decoder] == ASKS[loss]:  # what a decoder learns for the sake of its own loss, no other reaches
        assert not {name for name in model.learned() if name.startswith("decoder.")} - reached
    assert decoder not in LOOKING or any(name.startswith("encoder.") for name in reached)
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    assert_close(torch.stack([_slope(value, weights)]), torch.stack([_expected_slope(weights)]), rtol=1e-5, atol=1e-8)


def _directions(weights: list[nn.Parameter]) -> list[Tensor]:
    random = torch.Generator().manual_seed(7)
    return [torch.randn(weight.shape, generator=random, dtype=weight.dtype) for weight in weights]


def _expected_slope(weights: list[nn.Parameter]) -> Tensor:
    """The gradient along one random direction through all parameters at once."""
    return sum(((w.grad * d).sum() for w, d in zip(weights, _directions(weights), strict=True)), torch.tensor(0.0))


def _slope(value: Callable[[], Tensor], weights: list[nn.Parameter], *, step: float = 1e-6) -> Tensor:
    """The change of the value along the same direction, by central differences."""
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for weight, direction in zip(weights, _directions(weights), strict=True):
                weight += sign * step * direction
            values.append(value())
    return (values[0] - values[1]) / (2 * step)


@pairs
def test_saved_weights_give_the_same_logits(encoder: str, decoder: str, tmp_path: Path) -> None:
    model, other = Model(encoder, decoder), Model(encoder, decoder, seed=9)
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    write_tensors(tmp_path / "weights.safetensors", tensors)
    loaded = read_tensors(tmp_path / "weights.safetensors")
    other.load_state_dict({name: torch.tensor(array) for name, array in loaded.items()})
    assert_close(other(make_batch()).logits, model(make_batch()).logits, rtol=0, atol=0)


@pytest.mark.parametrize("encoder", [name for name in WIDTHS if "word_vectors" in ENCODERS.needs(name, {})])
def test_word_vectors_set_the_embedding(encoder: str) -> None:
    vectors = torch.randn(VOCAB_SIZE, 8)
    built = ENCODERS.build(encoder, ENCODERS.tiny(encoder), **{**GIVEN, "word_vectors": vectors})
    tables = [weight for weight in built.parameters() if weight.shape == vectors.shape]  # type: ignore[attr-defined]
    assert [torch.equal(table, vectors) and table.data_ptr() != vectors.data_ptr() for table in tables] == [True]


@every
def test_every_option_has_a_default(table: Registry[object], name: str) -> None:
    table.check(name, table.options(name))
    assert table.kinds(name).keys() == table.options(name).keys()


@every
def test_what_a_part_declares_is_there(table: Registry[object], name: str) -> None:
    builder, tiny = table.builders[name], table.tiny(name)
    table.check(name, tiny)
    assert {part.name for part in table.walk(name, tiny)} <= table.builders.keys()
    assert table.keeps(name, tiny) <= table.needs(name, tiny)
    assert not isinstance(builder, DeclaresStart) or builder.starts_from <= named_by(builder)
    assert table.needs(name, tiny) <= OFFERED.keys() | {field.name for field in fields(Given)}


@every
def test_a_part_is_of_its_kind(table: Registry[object], name: str) -> None:
    kinds = {"encoder": Encoder, "decoder": Decoder, "loss": Loss}
    assert isinstance(table.build(name, table.tiny(name), **OFFERED), kinds[table.kind])


def test_every_decoder_takes_every_tiny_encoder_that_has_states() -> None:
    assert not [name for name, width in WIDTHS.items() if width % 4]  # halves and quarters are taken


@pytest.mark.parametrize("encoder", [name for name, width in WIDTHS.items() if not width])
@pytest.mark.parametrize("decoder", LOOKING)
def test_a_decoder_of_states_refuses_an_encoder_without(encoder: str, decoder: str) -> None:
    recipe = Recipe(encoder=Part(encoder), decoder=Part(decoder, DECODERS.tiny(decoder)))
    with pytest.raises(RecipeError, match=f"decoder '{decoder}' looks at states, and encoder '{encoder}' has none"):
        build_classifier(recipe, sample_given())


@pytest.mark.parametrize(("decoder", "loss"), [p for p in product(GIVES, ASKS) if not ASKS[p[1]] <= GIVES[p[0]]])
def test_a_loss_is_refused_whose_side_results_the_decoder_does_not_give(decoder: str, loss: str) -> None:
    encoder = Part("embedding", ENCODERS.tiny("embedding"))
    recipe = Recipe(encoder=encoder, decoder=Part(decoder, DECODERS.tiny(decoder)), loss=Part(loss))
    with pytest.raises(RecipeError, match=f"loss '{loss}' needs .*, which '{decoder}' does not give"):
        build_classifier(recipe, sample_given())
