"""What the planted decoder promises whatever its switches."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from plant.errors import RecipeError
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.parts.protocols import AttentionDecoder, FusedDecoder, SegmentDecoder
from plant.nn.planting.ranker import RANKERS, BilinearRanker
from plant.relevance.relevance import Relevance
from plant.tensors import Encoded

N_TOKENS, N_LABELS, SIZE = 20, 9, 5

SWITCHES: dict[str, dict[str, object]] = {
    "all": {},
    "zero": {"inattention": "zero"},
    "raw": {"static_values": "raw", "scales": "fixed"},
    "static only": {"planted": False},
    "planted only": {"static": False},
    "neither": {"static": False, "planted": False},
    "segments": {"segment": 3},
    "tanh keys": {"key_size": 4},
    "not learned": {"learned": False},
    "not learned, segments": {"learned": False, "segment": 3},
    "ranker alone": {"learned": False, "static": False},
}
switches = pytest.mark.parametrize("options", SWITCHES.values(), ids=SWITCHES.keys())


def relevance_lists() -> Relevance:
    generator = np.random.default_rng(0)
    tokens = np.stack([generator.permutation(np.arange(2, N_TOKENS))[:8] for _ in range(N_LABELS)]).astype(np.int32)
    return Relevance(
        codes=tuple("abcdefghi"),
        tokens=tokens,
        scores=-np.sort(-generator.random(tokens.shape).astype(np.float32)),
        label_counts=np.ones(N_LABELS, dtype=np.int64),
        token_counts=np.ones(N_TOKENS, dtype=np.int64),
        n_documents=10,
        form="mi",
    )


def ranker_of(form: str = "bilinear") -> BilinearRanker:
    torch.manual_seed(0)
    return RANKERS.build(form, {"size": 4}, n_tokens=N_TOKENS, n_labels=N_LABELS)


def decoder_of(*, form: str = "bilinear", **options: object) -> PlantedDecoder:
    ranker = ranker_of(form)
    return PlantedDecoder(SIZE, N_LABELS, relevance=relevance_lists(), ranker=ranker, k=4, **options)


def documents(lengths: tuple[int, ...], *, padding: int = 0) -> Encoded:
    """Documents that are the same whatever the padding, which is poisoned."""
    mask = torch.arange(max(lengths) + padding) < torch.tensor(lengths).unsqueeze(1)
    states, tokens = torch.full((*mask.shape, SIZE), torch.nan), torch.full(mask.shape, N_TOKENS + 99)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(row)
        states[row, :length] = torch.randn(length, SIZE, generator=generator)
        tokens[row, :length] = torch.randint(2, N_TOKENS, (length,), generator=generator)
    return Encoded(states, tokens, mask)


@switches
def test_padding_changes_nothing_even_where_it_is_poisoned(options: dict[str, object]) -> None:
    decoder = decoder_of(**options)
    tight, loose = (decoder(documents((7, 4, 1), padding=padding)).logits for padding in (0, 6))
    assert torch.equal(tight, loose)


@switches
def test_neighbours_change_nothing(options: dict[str, object]) -> None:
    decoder = decoder_of(**options)
    assert torch.equal(decoder(documents((7, 4))).logits[0], decoder(documents((7,))).logits[0])


@switches
def test_attention_is_a_distribution_over_real_tokens(options: dict[str, object]) -> None:
    encoded = documents((7, 4, 1), padding=2)
    weights = decoder_of(**options).attend(encoded, torch.tensor([3, 0, 8]))
    assert weights.shape == (3, 3, 9)
    assert_close(weights.sum(-1), torch.ones(3, 3))
    assert float(weights.masked_select(~encoded.mask.unsqueeze(1)).abs().max()) == 0


@switches
def test_what_the_sources_give_makes_up_the_logits(options: dict[str, object]) -> None:
    decoder, encoded = decoder_of(**options), documents((7, 4))
    weights = sum(decoder.attend_by_source(encoded, torch.arange(N_LABELS)).values())
    values = encoded.states.nan_to_num(0) @ decoder.learned.weights.T
    logits = torch.einsum("blt,btl->bl", weights, values) + decoder.learned.bias
    assert_close(decoder(encoded).logits, logits)


@switches
def test_every_parameter_is_reached(options: dict[str, object]) -> None:
    decoder = decoder_of(**options)
    decoder.loss(documents((7, 4)), torch.ones(2, N_LABELS)).backward()
    for name, parameter in decoder.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
@pytest.mark.parametrize("learned", [True, False])
def test_half_precision_around_the_decoder_leaves_it_exact(form: str, learned: bool) -> None:
    decoder, encoded = decoder_of(form=form, learned=learned), documents((3, 5))
    rough = Encoded(encoded.states.bfloat16(), encoded.tokens, encoded.mask)
    targets = torch.zeros(2, N_LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = decoder.loss(rough, targets)
    loss.backward()
    assert_close(loss, decoder.loss(rough, targets))


def test_without_planting_it_is_label_attention() -> None:
    planted, learned = decoder_of(static=False, planted=False), LabelAttention(SIZE, N_LABELS)
    learned.load_state_dict(planted.learned.state_dict())
    encoded = documents((7, 4))
    assert torch.equal(planted(encoded).logits, learned(encoded).logits)


def test_the_decoder_trains_a_copy_of_the_ranker() -> None:
    ranker = ranker_of()
    decoder = PlantedDecoder(SIZE, N_LABELS, ranker=ranker, static=False)
    before = ranker.token_vectors.clone()
    with torch.no_grad():
        decoder.ranker.token_vectors.add_(1.0)
    assert torch.equal(ranker.token_vectors, before)


def test_a_document_without_words_gets_the_prior() -> None:
    frequencies = torch.linspace(0.1, 0.9, N_LABELS)
    decoder = decoder_of(frequencies=frequencies)
    assert_close(decoder(documents((4, 0))).logits[1].sigmoid(), frequencies)


def test_a_batch_without_words_has_attention_zero() -> None:
    assert decoder_of().attend(documents((0, 0), padding=3), torch.tensor([1])).abs().sum() == 0


def test_masked_positions_get_no_planted_weight_and_zeroed_ones_do() -> None:
    encoded, labels = documents((9,)), torch.arange(N_LABELS)
    masked, zeroed = (decoder_of(inattention=kind).attend_by_source(encoded, labels) for kind in ("mask", "zero"))
    assert ((masked["planted"] > 0).sum(-1) == 4).all()
    assert ((zeroed["planted"] > 0).sum(-1) == 9).all()


@pytest.mark.parametrize("option", ["static", "planted"])
def test_a_missing_source_is_a_clear_error(option: str) -> None:
    with pytest.raises(RecipeError, match=f"set {option} = false"):
        PlantedDecoder(SIZE, N_LABELS, **{"static": False, "planted": False, option: True})


def test_it_is_every_kind_of_decoder() -> None:
    decoder = decoder_of()
    assert all(isinstance(decoder, kind) for kind in (AttentionDecoder, FusedDecoder, SegmentDecoder))


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_saved_weights_give_the_same_logits(form: str) -> None:
    decoder, other = decoder_of(form=form), decoder_of(form=form)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_()
    other.load_state_dict(decoder.state_dict())
    encoded = documents((7, 4))
    assert torch.equal(decoder(encoded).logits, other(encoded).logits)
