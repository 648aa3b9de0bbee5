"""Sparse planting against the equations: dense arrays of position x label, unlisted scores masked."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from plant.coder import Coder
from plant.errors import RecipeError
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.planting import listed as listed_module
from plant.nn.planting.ranker import RANKERS
from plant.nn.planting.rooms import Room
from plant.relevance.relevance import Relevance
from plant.tensors import Encoded
from tests.made_up import notes_of

N_TOKENS, N_LABELS, SIZE, LISTED, K = 30, 23, 6, 7, 5

SWITCHES: dict[str, dict[str, object]] = {
    "both": {},
    "two-layer ranker": {"form": "mlp"},
    "raw": {"static_values": "raw"},
    "relevance alone": {"planted": False},
    "relevance alone, raw": {"planted": False, "static_values": "raw"},
    "ranker alone": {"static": False},
    "two-layer ranker alone": {"static": False, "form": "mlp"},
    "segments": {"segment": 4},
    "segments, two-layer ranker": {"segment": 7, "form": "mlp", "static_values": "raw"},
    "one position": {"k": 1},
    "all positions": {"k": 100},
    "scales fixed": {"scales": "fixed"},
}
switches = pytest.mark.parametrize("options", SWITCHES.values(), ids=SWITCHES.keys())
forms = pytest.mark.parametrize("form", ["compiled", "plain"])


@pytest.fixture
def plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch form for tests whose parameter `form` says so."""
    if request.node.callspec.params.get("form") == "plain":
        monkeypatch.setattr(listed_module, "compiled", lambda seen: False)


def relevance_lists(*, tied: bool = False) -> Relevance:
    generator = np.random.default_rng(0)
    tokens = np.stack([generator.permutation(np.arange(2, N_TOKENS))[:12] for _ in range(N_LABELS)]).astype(np.int32)
    scores = -np.sort(-generator.random((N_LABELS, 12)).astype(np.float32), axis=1)
    if tied:
        scores = np.ceil(scores * 3).astype(np.float32)
    scores[0] = 0.0  # a label that lists nothing
    return Relevance(
        codes=tuple(str(label) for label in range(N_LABELS)), tokens=tokens, scores=scores,
        label_counts=np.ones(N_LABELS, np.int64), token_counts=np.ones(N_TOKENS, np.int64), n_documents=10, form="mi",
    )  # fmt: skip


def decoder_of(
    *, form: str = "bilinear", tied: bool = False, listed: int = LISTED, **options: object
) -> PlantedDecoder:
    torch.manual_seed(1)
    options_of_ranker = {"size": 4} | ({"hidden": 5} if form == "mlp" else {})
    ranker = RANKERS.build(form, options_of_ranker, n_tokens=N_TOKENS, n_labels=N_LABELS)
    for parameter in ranker.parameters():
        torch.nn.init.constant_(parameter, 0.5) if tied else torch.nn.init.normal_(parameter)
    given = {"relevance": relevance_lists(tied=tied), "ranker": ranker, "learned": False, "k": K, "listed": listed}
    decoder = PlantedDecoder(SIZE, N_LABELS, **(given | options)).double()
    with torch.no_grad():
        decoder.scales.copy_(torch.rand(len(decoder.names)) + 0.5)
        decoder.learned.bias.normal_()
    return decoder


def documents(lengths: tuple[int, ...] = (13, 1, 0, 20), *, padding: int = 2) -> Encoded:
    """Documents that are the same whatever the padding, which is poisoned."""
    mask = torch.arange(max(lengths) + padding) < torch.tensor(lengths).unsqueeze(1)
    states, tokens = torch.full((*mask.shape, SIZE), torch.nan).double(), torch.full(mask.shape, N_TOKENS + 99)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(length)
        states[row, :length] = torch.randn(length, SIZE, generator=generator).double()
        tokens[row, :length] = torch.randint(1, N_TOKENS, (length,), generator=generator)
    return Encoded(states.requires_grad_(), tokens, mask)


def literal_logits(decoder: PlantedDecoder, encoded: Encoded, relevance: Relevance) -> Tensor:
    """Document by document, segment by segment, label by label."""
    values = torch.from_numpy(relevance.first(LISTED).dense(np.arange(N_LABELS))).double()
    logits = []
    for states, tokens, mask in zip(encoded.states, encoded.tokens, encoded.mask, strict=True):
        n = int(mask.sum())
        segments = range(0, n, decoder.segment or n or 1)
        spans = [slice(start, min(n, start + (decoder.segment or n))) for start in segments]
        for label in range(N_LABELS):
            said = [literal_evidence(decoder, states[span], tokens[span], values[label], label) for span in spans]
            logits.append(decoder.learned.bias[label] + sum(said))
    return torch.stack(logits).reshape(-1, N_LABELS)


def literal_evidence(decoder: PlantedDecoder, states: Tensor, tokens: Tensor, values: Tensor, label: int) -> Tensor:
    """The sum of the sources, each over the k best positions that hold a listed word."""
    listed, pooled = values[tokens] > 0, torch.zeros(SIZE, dtype=torch.float64)
    if not bool(listed.any()):
        return pooled.sum()
    for name, scale in zip(decoder.names, decoder.scales, strict=True):
        scores = values[tokens] if name == "static" else decoder.ranker.pair_scores(tokens, label + 0 * tokens)
        kept = best_positions(scores.masked_fill(~listed, -torch.inf), decoder.k) & listed
        weights = scores.masked_fill(~kept, -torch.inf).softmax(0)
        if name == "static":
            weights = torch.where(kept, scores, 0.0)
            weights = weights / weights.sum() if decoder.static_values == "normalised" else weights
        pooled = pooled + scale * weights @ states
    return pooled @ decoder.learned.weights[label]


def best_positions(scores: Tensor, k: int) -> Tensor:
    order = sorted(range(len(scores)), key=lambda position: (-scores[position].item(), position))
    return torch.isin(torch.arange(len(scores)), torch.tensor(order[:k]))


def gradients(loss: Tensor, of: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(3 * loss, of, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g.nan_to_num(0) for g, t in zip(found, of, strict=True)]


def through_loss(decoder: PlantedDecoder, encoded: Encoded, targets: Tensor) -> Tensor:
    return decoder.loss(encoded, targets)


def through_logits(decoder: PlantedDecoder, encoded: Encoded, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(decoder(encoded).logits, targets)


paths = pytest.mark.parametrize("path", [through_loss, through_logits])


@forms
@paths
@switches
@pytest.mark.usefixtures("plain")
def test_values_and_gradients_are_those_of_the_equations(
    options: dict[str, object], path: Callable[..., Tensor], form: str
) -> None:
    decoder, encoded = decoder_of(**options), documents()
    targets = (torch.rand(4, N_LABELS) < 0.3).double()
    expected = F.binary_cross_entropy_with_logits(literal_logits(decoder, encoded, relevance_lists()), targets)
    found = path(decoder, encoded, targets)
    assert_close(found, expected, rtol=1e-12, atol=1e-14)
    wanted = [t for t in (encoded.states, *decoder.parameters()) if t.requires_grad]
    for ours, theirs in zip(gradients(found, wanted), gradients(expected, wanted), strict=True):
        assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


@forms
@pytest.mark.usefixtures("plain")
def test_of_equal_scores_the_positions_that_stand_first_survive(form: str) -> None:
    decoder, encoded = decoder_of(tied=True, k=3), documents()
    expected = literal_logits(decoder, encoded, relevance_lists(tied=True))
    assert_close(decoder(encoded).logits, expected, rtol=1e-12, atol=1e-14)


@forms
@pytest.mark.parametrize("options", [{}, {"form": "mlp", "segment": 3}])
@pytest.mark.usefixtures("plain")
def test_gradcheck_of_the_logits(options: dict[str, object], form: str) -> None:
    decoder, encoded = decoder_of(**options), documents((4, 7), padding=0)

    def logits(states: Tensor, *_: Tensor) -> Tensor:
        return decoder(Encoded(states, encoded.tokens, encoded.mask)).logits

    real = encoded.states.detach().nan_to_num(0).requires_grad_()
    assert torch.autograd.gradcheck(logits, (real, *decoder.parameters()), fast_mode=form == "plain")


@forms
@pytest.mark.parametrize("ranker", ["bilinear", "mlp"])
@pytest.mark.usefixtures("plain")
def test_float32_is_within_1e_5_of_float64(ranker: str, form: str) -> None:
    decoder, encoded = decoder_of(form=ranker), documents()
    targets = (torch.rand(4, N_LABELS) < 0.3).double()
    wanted = list(decoder.parameters())
    exact = torch.autograd.grad(decoder.loss(encoded, targets), wanted)
    rough = decoder.float().loss(Encoded(encoded.states.float(), encoded.tokens, encoded.mask), targets.float())
    assert rough.dtype == torch.float32
    for ours, true in zip(torch.autograd.grad(rough, wanted), exact, strict=True):
        assert float((ours - true).norm()) <= 1e-5 * float(true.norm())


@pytest.mark.parametrize("options", [{}, {"form": "mlp", "segment": 4}], ids=["whole", "segments"])
def test_bits_do_not_depend_on_the_number_of_threads(options: dict[str, object]) -> None:
    decoder, encoded = decoder_of(**options).float(), documents((13, 1, 0, 20, 17, 9))
    rough = Encoded(encoded.states.float(), encoded.tokens, encoded.mask)
    targets = (torch.rand(6, N_LABELS) < 0.3).float()
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        loss = decoder.loss(rough, targets)
        found.append([loss, *torch.autograd.grad(loss, [encoded.states, *decoder.parameters()])])
    torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.nan_to_num(0), other.nan_to_num(0))


@switches
def test_padding_changes_nothing_even_where_it_is_poisoned(options: dict[str, object]) -> None:
    decoder = decoder_of(**options)
    tight, loose = (decoder(documents((7, 4, 1), padding=padding)).logits for padding in (0, 6))
    assert torch.equal(tight, loose)


@switches
def test_neighbours_and_their_order_change_nothing(options: dict[str, object]) -> None:
    decoder = decoder_of(**options).float()
    alone, batch = (decoder(documents(lengths)).logits for lengths in ((13,), (20, 13, 4)))
    assert torch.equal(alone[0], batch[1])


def test_a_label_without_a_listed_word_in_the_note_has_its_bias() -> None:
    decoder, encoded = decoder_of(), documents((13, 0))
    listed = relevance_lists().first(LISTED).dense(np.arange(N_LABELS))[:, encoded.tokens[0, :13].numpy()].any(axis=1)
    assert 0 < listed.sum() < N_LABELS
    logits, bias = decoder(encoded).logits, decoder.learned.bias
    assert torch.equal(logits[0] == bias, torch.from_numpy(~listed))
    assert torch.equal(logits[1], bias)


@forms
@switches
@pytest.mark.usefixtures("plain")
def test_what_the_sources_give_makes_up_the_logits(options: dict[str, object], form: str) -> None:
    decoder, encoded = decoder_of(**options), documents()
    labels = torch.tensor([*range(N_LABELS - 1, -1, -1), 3])  # in any order, some twice
    weights = sum(decoder.attend_by_source(encoded, labels).values())
    values = encoded.states.nan_to_num(0) @ decoder.learned.weights[labels].T
    logits = torch.einsum("blt,btl->bl", weights, values) + decoder.learned.bias[labels]
    assert_close(decoder(encoded).logits[:, labels], logits)
    assert float(weights.masked_select(~encoded.mask.unsqueeze(1)).abs().max()) == 0


def test_attention_is_a_distribution_where_a_label_has_a_listed_word() -> None:
    decoder, encoded = decoder_of(), documents((20, 9))
    total = decoder.attend(encoded, torch.arange(N_LABELS)).sum(-1)
    found = decoder(encoded).logits != decoder.learned.bias
    assert_close(total, found.double())


@forms
@pytest.mark.usefixtures("plain")
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(form: str) -> None:
    decoder, encoded = decoder_of(), documents()
    targets = (torch.rand(4, N_LABELS) < 0.3).double()
    expected = torch.autograd.grad(decoder.loss(encoded, targets), [decoder.scales])[0]
    frozen = Encoded(encoded.states.detach(), encoded.tokens, encoded.mask)
    for parameter in (*decoder.ranker.parameters(), decoder.learned.weights):
        parameter.requires_grad_(False)
    decoder.loss(frozen, targets).backward()
    assert_close(decoder.scales.grad, expected)
    assert decoder.learned.weights.grad is None
    assert decoder.ranker.token_vectors.grad is None
    decoder.scales.requires_grad_(False)
    decoder.loss(frozen, targets).backward()  # the bias alone is left


def test_gradients_of_several_steps_add_up_though_arrays_are_kept() -> None:
    decoder, encoded = decoder_of(), documents()
    first, second = ((torch.rand(4, N_LABELS) < 0.3).double() for _ in range(2))
    wanted = list(decoder.parameters())
    expected = [
        a + b for a, b in zip(*(gradients(decoder.loss(encoded, t) / 3, wanted) for t in (first, second)), strict=True)
    ]
    decoder.loss(encoded, first).backward()
    decoder.loss(encoded, second).backward()
    for parameter, true in zip(wanted, expected, strict=True):
        assert_close(parameter.grad, true, rtol=1e-10, atol=1e-13)


def test_large_gradients_stand_in_memory_that_is_kept_between_steps() -> None:
    decoder, encoded = decoder_of(), documents()
    for _ in range(2):
        decoder.zero_grad(set_to_none=True)
        decoder.loss(encoded, torch.zeros(4, N_LABELS).double()).backward()
        for name, parameter in (("weights", decoder.learned.weights), ("tokens", decoder.ranker.token_vectors)):
            assert np.shares_memory(getattr(decoder.listing._rooms, name)._memory, parameter.grad.numpy())


def test_memory_is_lent_again_when_no_tensor_stands_on_it() -> None:
    room = Room()
    first = torch.from_numpy(room.lend((3, 4), np.float32))
    second = room.lend((2, 4), np.float32)
    assert not np.shares_memory(first.numpy(), second)
    held = first.view(-1)[5:]
    del first
    assert not np.shares_memory(held.numpy(), room.lend((2, 4), np.float32))
    place = held.data_ptr() - 5 * 4
    del held
    assert room.lend((1, 6), np.float64).ctypes.data == place


def test_the_fused_loss_goes_backward_once() -> None:
    loss = decoder_of().loss(documents((4,)), torch.zeros(1, N_LABELS).double())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


def test_logits_may_go_backward_again() -> None:
    decoder, encoded = decoder_of(), documents()
    logits = decoder(encoded).logits
    rows = [torch.autograd.grad(logits[0, 5], encoded.states, retain_graph=True)[0] for _ in range(2)]
    torch.autograd.grad(logits[0, 7], encoded.states, retain_graph=True)
    rows.append(torch.autograd.grad(logits[0, 5], encoded.states)[0])
    assert all(torch.equal(row.nan_to_num(0), rows[0].nan_to_num(0)) for row in rows)
    assert float(rows[0].nan_to_num(0).abs().sum()) > 0


@forms
@pytest.mark.usefixtures("plain")
def test_without_gradients_the_loss_is_the_same(form: str) -> None:
    decoder, encoded = decoder_of(), documents()
    targets = (torch.rand(4, N_LABELS) < 0.5).double()
    with torch.no_grad():
        quiet = decoder.loss(encoded, targets)
    assert_close(quiet, decoder.loss(encoded, targets).detach())


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_half_precision_around_the_decoder_leaves_it_exact(form: str) -> None:
    decoder, encoded = decoder_of(form=form).float(), documents()
    rough = Encoded(encoded.states.detach().nan_to_num(0).bfloat16(), encoded.tokens, encoded.mask)
    targets = torch.zeros(4, N_LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = decoder.loss(rough, targets)
        decoder.attend(rough, torch.tensor([3]))
    loss.backward()
    assert_close(loss, decoder.loss(rough, targets))


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_saved_weights_give_the_same_logits(form: str) -> None:
    decoder, other = decoder_of(form=form), decoder_of(form=form)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_()
    other.eval()(documents())  # which keeps what the ranker said
    other.load_state_dict(decoder.state_dict())
    assert torch.equal(decoder(documents()).logits, other(documents()).logits)
    assert not any("listing" in name for name in decoder.state_dict())


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_what_is_kept_for_prediction_changes_no_bit(form: str) -> None:
    decoder, encoded = decoder_of(form=form).float(), documents()
    expected = decoder(encoded).logits
    decoder.eval()
    with torch.no_grad():
        first, kept = decoder(encoded).logits, decoder.listing._constants
        second = decoder.eval()(encoded).logits
    assert decoder.listing._constants is kept
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)


@pytest.mark.parametrize("change", ["in place", "by training", "by loading"])
def test_what_is_kept_for_prediction_is_forgotten_when_the_ranker_changes(change: str) -> None:
    decoder, encoded = decoder_of().eval(), documents()
    with torch.no_grad():
        before = decoder(encoded).logits
        if change == "by loading":
            decoder.load_state_dict({name: -tensor for name, tensor in decoder.state_dict().items()})
        else:
            decoder.train(change == "by training").ranker.token_vectors.neg_()
        after = decoder.eval()(encoded).logits
        expected = literal_logits(decoder, encoded, relevance_lists())
    assert not torch.equal(before, after)
    assert_close(after, expected, rtol=1e-12, atol=1e-14)


def test_words_that_no_label_lists_change_nothing() -> None:
    decoder, encoded = decoder_of(listed=1), documents()
    before = decoder(encoded).logits
    elsewhere = torch.from_numpy(~np.isin(encoded.tokens.numpy(), relevance_lists().tokens[1:, 0]))
    changed = torch.where(elsewhere.unsqueeze(-1), torch.nan, encoded.states.detach())
    assert bool(elsewhere[encoded.mask].any())
    assert not torch.equal(before[0], decoder.learned.bias)
    assert torch.equal(decoder(Encoded(changed, encoded.tokens, encoded.mask)).logits, before)


def test_a_copy_of_a_decoder_that_has_learned_is_one_of_its_own() -> None:
    decoder, encoded = decoder_of(), documents()
    decoder.loss(encoded, torch.zeros(4, N_LABELS).double()).backward()
    other = deepcopy(decoder)
    other.zero_grad(set_to_none=True)
    other.loss(encoded, torch.ones(4, N_LABELS).double()).backward()
    assert_close(decoder(encoded).logits, other(encoded).logits)
    assert not np.shares_memory(decoder.learned.weights.grad.numpy(), other.learned.weights.grad.numpy())


def test_dropout_is_off_in_prediction() -> None:
    decoder, encoded = decoder_of(dropout=0.5), documents()
    expected = literal_logits(decoder, encoded, relevance_lists())
    assert_close(decoder.eval()(encoded).logits, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"learned": True}, "learned = false"), ({"relevance": None, "static": False}, "set listed = 0")],
)
def test_what_it_cannot_do_is_a_clear_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        decoder_of(**options)


def test_a_coder_fits_predicts_and_survives_a_folder(tmp_path: Path) -> None:
    notes = notes_of(40, n_codes=4)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    small = ("prepare.min_count=1", "fit.epochs=2", "rank.epochs=3", "encoder.filters=16", "decoder.listed=5")
    coder = Coder("plant-demo", *small).fit(texts, codes, choose=0.3)
    coder.save(tmp_path / "coder")
    loaded = Coder.load(tmp_path / "coder")
    assert loaded.predict(texts[:5]) == coder.predict(texts[:5])
