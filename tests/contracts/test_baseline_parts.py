"""What every encoder, decoder and loss of the table promises, in all combinations."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.nn.parts.protocols import AttentionDecoder, Decoder, Encoder
from plant.nn.parts.table import DECODERS, ENCODERS, LOSSES
from plant.nn.planting.ranker import BilinearRanker
from plant.relevance.relevance import Relevance
from plant.store.safetensors import read_tensors, write_tensors
from plant.tensors import Batch, Decoded, Encoded, Subwords

N_LABELS, VOCAB_SIZE, LENGTHS = 6, 20, (5, 1, 3, 7)
DESCRIPTIONS = torch.tensor([[2, 3, 4], [5, 0, 0], [6, 7, 0], [0, 0, 0], [8, 9, 10], [11, 2, 0]])
RELEVANCE = Relevance(
    codes=tuple("ABCDEF"),
    tokens=np.array([[2, 3, 4], [5, 6, 0], [7, 2, 8], [9, 10, 11], [12, 3, 0], [13, 14, 15]], np.int32),
    scores=np.array(
        [[0.5, 0.3, 0.1], [0.4, 0.2, 0], [0.9, 0.5, 0.4], [0.3, 0.2, 0.1], [0.6, 0.1, 0], [0.7, 0.4, 0.2]], np.float32
    ),
    label_counts=np.full(N_LABELS, 5),
    token_counts=np.full(VOCAB_SIZE, 9),
    n_documents=50,
    form="mi",
)


def subwords_of(tokens: Tensor) -> Subwords:
    """Made-up sub-words: as many for each token as its number modulo 3 says, and at least one."""
    rows = [[(int(t) + 5 * n, place) for place, t in enumerate(row) if t for n in range(max(1, int(t) % 3))]
            for row in tokens]  # fmt: skip
    width = max(map(len, rows))
    filled = torch.tensor([row + [(0, -1)] * (width - len(row)) for row in rows]).view(len(rows), width, 2)
    return Subwords(filled[..., 0], filled[..., 1])


GIVEN = {
    "vocab_size": VOCAB_SIZE,
    "n_labels": N_LABELS,
    "word_vectors": None,
    "descriptions": DESCRIPTIONS,
    "parents": torch.tensor([0, 0, 1, 2, 2, 1]),
    "frequencies": torch.tensor([0.5, 0.2, 0.05, 0.01, 0.3, 0.1]),
    "relevance": RELEVANCE,
    "ranker": BilinearRanker(VOCAB_SIZE, N_LABELS, size=3),
    "titles": Batch(DESCRIPTIONS, DESCRIPTIONS > 0, subwords=subwords_of(DESCRIPTIONS)),
}
SMALL: dict[str, dict[str, object]] = {
    "awd-lstm": {"embedding": 8, "hidden": 4, "layers": 2, "dropout": 0.0},
    "bigru": {"embedding": 5, "hidden": 4},
    "bilstm": {"embedding": 5, "hidden": 4, "layers": 2},
    "cnn": {"embedding": 5, "kernels": [4, 3], "filters": 4},
    "effective-can": {"embedding": 5, "blocks": 4, "filters": 6, "width": 2, "kernel": 3, "reduction": 1},
    "embedding": {"size": 8, "ngrams": 3, "buckets": 50},
    "multires": {"embedding": 5, "kernels": [3, 6], "filters": 4},
    "transformer": {"pieces": 40, "hidden": 8, "layers": 2, "heads": 2, "window": 4, "overlap": 1},
    "cross-attention": {"chunk": 4},
    "label-descriptions": {"chunk": 4, "refresh": 1, "size": 3},
    "chunk-max-pool": {"chunks": 3, "bottleneck": 7},
    "described-attention": {"embedding": 5, "kernel": 4},
    "joint-laat": {"key_size": 3, "squeezed": 2},
    "lsan": {"attention": 3, "hidden": 5, "chunk": 4},
    "planted": {"k": 3},
}
NEEDS = {"joint-bce": "joint-laat", "described-bce": "described-attention"}
NEEDED = {decoder: loss for loss, decoder in NEEDS.items()}
READING = {name: builder for name, builder in DECODERS.builders.items() if name != "interaction"}  # reads words alone
ATTENTIVE = [name for name, builder in READING.items() if hasattr(builder, "attend")]
PAIRS = list(product(ENCODERS.builders, READING))
TRIPLES = [(*pair, loss) for pair in PAIRS for loss in LOSSES.builders if NEEDS.get(loss, pair[1]) == pair[1]]
pairs = pytest.mark.parametrize(("encoder", "decoder"), PAIRS)


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
            self.encoder: Encoder = ENCODERS.build(encoder, SMALL.get(encoder, {}), **GIVEN)
            given = {**GIVEN, "input_size": self.encoder.size, "encoder": self.encoder}
            self.decoder: Decoder = DECODERS.build(decoder, SMALL.get(decoder, {}), **given)
            self.double().eval()
            for norm in (module for module in self.modules() if isinstance(module, nn.BatchNorm1d)):
                nn.init.normal_(norm.running_mean)
                nn.init.uniform_(norm.running_var, 0.5, 2.0)
        for dropout in (module for module in self.modules() if isinstance(module, nn.Dropout)):
            dropout.p = 0.0

    def forward(self, batch: Batch) -> Decoded:
        return self.decoder(self.encoder(batch))

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
    return Batch(tokens, tokens > 0, targets, subwords_of(tokens))


def alone(batch: Batch, row: int) -> Batch:
    length = int(batch.mask[row].sum())
    tokens = batch.tokens[row : row + 1, :length]
    return Batch(tokens, batch.mask[row : row + 1, :length], subwords=subwords_of(tokens))


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


@pytest.mark.parametrize("encoder", list(ENCODERS.builders))
def test_running_statistics_are_those_of_real_positions(encoder: str) -> None:
    narrow, wide = (Model(encoder, "max-pool").train() for _ in range(2))
    narrow(make_batch()), wide(make_batch(width=15))
    for one, other in zip(narrow.buffers(), wide.buffers(), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("decoder", DECODERS.builders)
def test_what_stands_at_padding_means_nothing_to_a_decoder(decoder: str) -> None:
    model, batch = Model("cnn", decoder), make_batch(width=9)
    encoded = model.encoder(batch)
    states = torch.where(batch.mask.unsqueeze(-1), encoded.states, torch.nan)
    assert_close(model.decoder(Encoded(states, batch.tokens, batch.mask)).logits, model.decoder(encoded).logits)


@pairs
def test_a_document_without_tokens_gets_finite_logits_and_gradients(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder).poison(), make_batch((0, 4, 0))
    logits = model(batch).logits
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


@pytest.mark.parametrize(("encoder", "decoder"), product(ENCODERS.builders, ATTENTIVE))
def test_attention_is_a_distribution_over_real_tokens(encoder: str, decoder: str) -> None:
    model, batch = Model(encoder, decoder).poison(), make_batch((5, 1, 0, 7), width=9)
    assert isinstance(model.decoder, AttentionDecoder)
    asked = torch.tensor([4, 0, 3])
    weights = model.decoder.attend(model.encoder(batch), asked)
    assert weights.shape == (4, 3, 9)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), batch.mask.any(1).double().unsqueeze(1).expand(-1, 3))
    assert not weights.masked_select(~batch.mask.unsqueeze(1)).any()


@pytest.mark.parametrize(("encoder", "decoder", "loss"), TRIPLES)
def test_the_gradient_is_the_slope_and_reaches_every_parameter(encoder: str, decoder: str, loss: str) -> None:
    model, batch = Model(encoder, decoder).train(), make_batch()
    measure = LOSSES.build(loss, SMALL.get(loss, {}), **GIVEN).double()  # type: ignore[attr-defined]

    def value() -> Tensor:
        return measure(model(batch), batch)

    value().backward()
    learned = [weight for weight in model.parameters() if weight.grad is not None]
    if NEEDED.get(decoder, loss) == loss:  # what a decoder learns for the sake of its own loss, no other reaches
        named = dict(model.named_parameters())
        named.pop("decoder.ranker.label_bias", None)  # the softmax over tokens does not see what all tokens share
        if decoder == "window-pool":  # of an encoder that does not read in windows it sees the first word alone
            named = {name: weight for name, weight in named.items() if encoder == "transformer" or "decoder" in name}
        assert not [name for name, weight in named.items() if weight.grad is None or not weight.grad.any()]
    assert_close(torch.stack([_slope(value, learned)]), torch.stack([_expected_slope(learned)]), rtol=1e-5, atol=1e-8)


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
    tensors = {name: np.array(tensor) for name, tensor in model.state_dict().items()}
    write_tensors(tmp_path / "weights.safetensors", tensors)
    loaded = read_tensors(tmp_path / "weights.safetensors")
    other.load_state_dict({name: torch.tensor(array) for name, array in loaded.items()})
    assert_close(other(make_batch()).logits, model(make_batch()).logits, rtol=0, atol=0)


@pytest.mark.parametrize("encoder", [name for name in ENCODERS.builders if "word_vectors" in ENCODERS.options(name)])
def test_word_vectors_set_the_embedding(encoder: str) -> None:
    vectors = torch.randn(VOCAB_SIZE, 8)
    options = {key: value for key, value in SMALL.get(encoder, {}).items() if key not in ("embedding", "size")}
    built = ENCODERS.build(encoder, options, **{**GIVEN, "word_vectors": vectors})
    assert_close(built.words.table.weight.detach(), vectors)  # type: ignore[attr-defined]
    assert built.words.table.weight.data_ptr() != vectors.data_ptr()  # type: ignore[attr-defined]


@pytest.mark.parametrize("registry", [ENCODERS, DECODERS, LOSSES], ids=lambda registry: registry.kind)
def test_every_option_has_a_default(registry) -> None:
    needed = {"vocab_size", "n_labels", "input_size", "descriptions", "parents", "frequencies"}
    for name in registry.builders:
        encoder = ENCODERS.build("embedding", SMALL["embedding"], **GIVEN)
        registry.build(name, SMALL.get(name, {}), **GIVEN, input_size=8, encoder=encoder)
        assert not needed & registry.options(name, given=frozenset(needed)).keys()
