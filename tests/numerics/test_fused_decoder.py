"""The fused decoder against the equations of the paper, written out with arrays of time x label."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.planting import inattention, pairs
from plant.nn.planting.ranker import RANKERS
from plant.relevance.relevance import Relevance
from plant.tensors import Encoded

N_TOKENS, N_LABELS, SIZE = 30, 23, 6


def relevance_lists(generator: np.random.Generator) -> Relevance:
    tokens = np.stack([generator.permutation(np.arange(2, N_TOKENS))[:9] for _ in range(N_LABELS)]).astype(np.int32)
    scores = -np.sort(-generator.random((N_LABELS, 9)).astype(np.float32), axis=1)
    scores[0] = 0.0  # a label that lists nothing
    return Relevance(
        codes=tuple(str(label) for label in range(N_LABELS)),
        tokens=tokens,
        scores=scores,
        label_counts=np.ones(N_LABELS, dtype=np.int64),
        token_counts=np.ones(N_TOKENS, dtype=np.int64),
        n_documents=10,
        form="mi",
    )


def documents(lengths: tuple[int, ...]) -> Encoded:
    time = max(lengths) + 2
    mask = torch.arange(time) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(1, N_TOKENS, mask.shape) * mask
    states = torch.randn(*mask.shape, SIZE, dtype=torch.float64)
    return Encoded(states.masked_fill(~mask.unsqueeze(-1), torch.nan).requires_grad_(), tokens, mask)


def literal_logits(decoder: PlantedDecoder, encoded: Encoded, relevance: Relevance) -> Tensor:
    """Equation 5 of the paper, document by document and segment by segment."""
    rows = []
    for states, tokens, mask in zip(encoded.states, encoded.tokens, encoded.mask, strict=True):
        n = int(mask.sum())
        logits = decoder.learned.bias
        for part in range(0, n, decoder.segment or n or 1):
            within = slice(part, min(n, part + decoder.segment) if decoder.segment else n)
            logits = logits + literal_evidence(decoder, states[within], tokens[within], relevance)
        rows.append(logits)
    return torch.stack(rows)


def literal_evidence(decoder: PlantedDecoder, states: Tensor, tokens: Tensor, relevance: Relevance) -> Tensor:
    keys = states if decoder.learned.key is None else (states @ decoder.learned.key.weight.T).tanh()
    sources = {"learned": (keys @ decoder.learned.queries.T).softmax(0)} if "learned" in decoder.names else {}
    if "static" in decoder.names:
        sources["static"] = literal_static(decoder, tokens, relevance)
    if "planted" in decoder.names:
        sources["planted"] = literal_planted(decoder, tokens)
    pooled = sum(scale * (sources[name].T @ states) for name, scale in zip(decoder.names, decoder.scales, strict=True))
    return (pooled * decoder.learned.weights).sum(-1)


def literal_static(decoder: PlantedDecoder, tokens: Tensor, relevance: Relevance) -> Tensor:
    dense = torch.from_numpy(relevance.dense(np.arange(N_LABELS))).double()
    weights = dense[:, tokens].T
    if "learned" not in decoder.names:
        weights = torch.where(best_positions(weights, decoder.k), weights, 0.0)
    return weights / weights.sum(0).clamp(min=1e-300) if decoder.static_values == "normalised" else weights


def best_positions(scores: Tensor, k: int) -> Tensor:
    kept = torch.zeros(scores.shape, dtype=torch.bool)
    for label, column in enumerate(scores.T.tolist()):
        best = sorted(range(len(column)), key=lambda position: (-column[position], position))
        kept[best[:k], label] = True
    return kept


def literal_planted(decoder: PlantedDecoder, tokens: Tensor) -> Tensor:
    labels = torch.arange(N_LABELS)
    scores = torch.stack([decoder.ranker.pair_scores(token.expand(N_LABELS), labels) for token in tokens])
    kept = best_positions(scores, decoder.k)
    return torch.where(kept, scores, 0.0 if decoder.inattention == "zero" else -torch.inf).softmax(0)


def planted_decoder(relevance: Relevance, *, form: str = "bilinear", **options: object) -> PlantedDecoder:
    ranker = RANKERS.build(form, {"size": 4}, n_tokens=N_TOKENS, n_labels=N_LABELS)
    for parameter in ranker.parameters():
        torch.nn.init.normal_(parameter)
    decoder = PlantedDecoder(SIZE, N_LABELS, relevance=relevance, ranker=ranker, k=5, **options).double()
    with torch.no_grad():
        decoder.scales.copy_(torch.rand(len(decoder.names)) + 0.5)
        decoder.learned.bias.normal_()
    return decoder


SWITCHES = {
    "all": {},
    "two-layer ranker": {"form": "mlp"},
    "zero": {"inattention": "zero"},
    "two-layer ranker, zero": {"form": "mlp", "inattention": "zero"},
    "raw": {"static_values": "raw"},
    "static only": {"planted": False},
    "planted only": {"static": False},
    "neither": {"static": False, "planted": False},
    "tanh keys": {"key_size": 3},
    "segments": {"segment": 4},
    "segments, zero": {"segment": 7, "inattention": "zero", "static_values": "raw"},
    "not learned": {"learned": False},
    "not learned, two-layer ranker, segments": {"learned": False, "form": "mlp", "segment": 4},
    "relevance alone, raw": {"learned": False, "planted": False, "static_values": "raw"},
    "ranker alone": {"learned": False, "static": False},
}


@pytest.mark.parametrize("path", ["logits", "loss"])
@pytest.mark.parametrize("options", SWITCHES.values(), ids=SWITCHES.keys())
def test_values_and_gradients_are_those_of_the_equations(options: dict[str, object], path: str) -> None:
    torch.manual_seed(3)
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance, **options), documents((13, 1, 0, 20))
    targets = (torch.rand(4, N_LABELS) < 0.3).double()
    expected = F.binary_cross_entropy_with_logits(literal_logits(decoder, encoded, relevance), targets)
    found = (
        decoder.loss(encoded, targets)
        if path == "loss"
        else F.binary_cross_entropy_with_logits(decoder(encoded).logits, targets)
    )
    assert_close(found, expected, rtol=1e-10, atol=1e-12)
    wanted = [encoded.states, *decoder.parameters()]
    for ours, theirs in zip(gradients(found, wanted), gradients(expected, wanted), strict=True):
        assert_close(ours, theirs, rtol=1e-8, atol=1e-12)


def gradients(loss: Tensor, of: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(3 * loss, of, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g.nan_to_num(0) for g, t in zip(found, of, strict=True)]


def test_chunks_of_labels_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance), documents((13, 20))
    whole = decoder(encoded).logits
    monkeypatch.setattr("plant.nn.planting.fused.ENTRIES_ON_CPU", 0)
    assert_close(decoder(encoded).logits, whole)


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_labels_in_small_chunks_give_what_all_at_once_give(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance, form=form, learned=False, segment=6), documents((13, 0, 20))
    targets = (torch.rand(3, N_LABELS) < 0.3).double()
    wanted = [encoded.states, *decoder.parameters()]
    whole = decoder.loss(encoded, targets)
    expected = gradients(whole, wanted)
    monkeypatch.setattr("plant.nn.planting.fused.ENTRIES_ON_CPU", 0)
    in_chunks = decoder.loss(encoded, targets)
    assert_close(in_chunks, whole, rtol=1e-14, atol=0)
    for ours, theirs in zip(gradients(in_chunks, wanted), expected, strict=True):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("path", "times"), [("quiet", 1), ("loss", 1), ("logits", 2)])
def test_only_logits_on_the_way_back_are_computed_twice(path: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance, learned=False), documents((13,))
    seen = []
    monkeypatch.setattr(
        "plant.nn.planting.focus.survivors", lambda *given: seen.append(1) or inattention.survivors(*given)
    )
    with torch.set_grad_enabled(path != "quiet"):
        targets = torch.zeros(1, N_LABELS, dtype=torch.float64)
        found = decoder(encoded).logits.sum() if path == "logits" else decoder.loss(encoded, targets)
    if found.requires_grad:
        found.backward()
    assert len(seen) == times * len(decoder.names)


def test_what_is_frozen_gets_no_gradient_and_changes_no_other() -> None:
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance, learned=False), documents((13, 20))
    targets = (torch.rand(2, N_LABELS) < 0.3).double()
    expected = torch.autograd.grad(decoder.loss(encoded, targets), [decoder.scales])[0]
    frozen = Encoded(encoded.states.detach(), encoded.tokens, encoded.mask)
    for parameter in (*decoder.ranker.parameters(), decoder.learned.weights):
        parameter.requires_grad_(False)
    decoder.loss(frozen, targets).backward()
    assert_close(decoder.scales.grad, expected)
    assert decoder.learned.weights.grad is None
    decoder.scales.requires_grad_(False)
    decoder.loss(frozen, targets).backward()  # the bias alone is left


def test_a_document_gives_the_same_bits_in_any_batch() -> None:
    torch.manual_seed(0)
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance), documents((13, 20, 7))
    alone = Encoded(encoded.states[2:, :7], encoded.tokens[2:, :7], encoded.mask[2:, :7])
    assert torch.equal(decoder(alone).logits[0], decoder(encoded).logits[2])


def test_float32_gradients_are_within_1e_5_of_float64() -> None:
    torch.manual_seed(0)
    states, targets = torch.randn(1, 300, 64, dtype=torch.float64), (torch.rand(1, 500) < 0.05).double()
    decoder = LabelAttention(64, 500).double()
    tokens, mask = torch.ones(1, 300, dtype=torch.long), torch.ones(1, 300, dtype=torch.bool)
    exact = torch.autograd.grad(decoder.loss(Encoded(states, tokens, mask), targets), list(decoder.parameters()))
    rough_loss = decoder.float().loss(Encoded(states.float(), tokens, mask), targets.float())
    for rough, true in zip(torch.autograd.grad(rough_loss, list(decoder.parameters())), exact, strict=True):
        assert float((rough - true).norm() / true.norm()) < 1e-5


def test_gradcheck_of_the_logits() -> None:
    torch.manual_seed(0)
    decoder, encoded = LabelAttention(SIZE, 5, key_size=3).double(), documents((4, 6))
    real = encoded.states.detach().nan_to_num(0).requires_grad_()

    def logits(states: Tensor, *_: Tensor) -> Tensor:
        return decoder(Encoded(states, encoded.tokens, encoded.mask)).logits

    assert torch.autograd.gradcheck(logits, (real, *decoder.parameters()))


def test_the_fused_loss_goes_backward_once() -> None:
    encoded = documents((4,))
    loss = LabelAttention(SIZE, 5).double().loss(encoded, torch.zeros(1, 5, dtype=torch.float64))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


def test_without_gradients_the_loss_is_the_same() -> None:
    decoder, encoded = LabelAttention(SIZE, 5).double(), documents((4, 9))
    targets = (torch.rand(2, 5) < 0.5).double()
    with torch.no_grad():
        quiet = decoder.loss(encoded, targets)
    assert_close(quiet, decoder.loss(encoded, targets).detach())


def test_half_precision_around_the_decoder_leaves_it_exact() -> None:
    decoder, encoded = LabelAttention(SIZE, 5, key_size=4), documents((4, 9))
    rough = Encoded(encoded.states.detach().bfloat16(), encoded.tokens, encoded.mask)
    targets = (torch.rand(2, 5) < 0.5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = decoder.loss(rough, targets)
    loss.backward()
    assert_close(loss, F.binary_cross_entropy_with_logits(decoder(rough).logits, targets), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_survivors_are_the_k_best_positions_ties_by_position(dtype: torch.dtype, tied: bool) -> None:
    torch.manual_seed(1)
    for n in range(1, 40):
        document = inattention.distinct(torch.randint(0, 12, (n,)))
        shape = (4, len(document.tokens))
        scores = torch.randint(0, 3, shape).to(dtype) if tied else torch.randn(shape, dtype=dtype)
        k = int(torch.randint(1, n + 1, ()))
        rows = scores[:, document.place].tolist()
        expected = [sorted(sorted(range(n), key=lambda j: (-row[j], j))[:k]) for row in rows]
        for form in (inattention.survivors_numba, inattention.survivors_torch):
            found = form(scores, document, k)
            assert found.positions.sort(1).values.tolist() == expected
            assert torch.equal(document.place[found.positions], found.places)


def test_scores_of_any_size_find_their_survivors() -> None:
    document = inattention.distinct(torch.arange(6))
    scores = torch.tensor([[3e38, -3e38, 0.0, 1e-45, -1e-45, 3.1e38]])
    found = inattention.survivors_numba(scores, document, 3)
    assert found.positions.sort(1).values.tolist() == [[0, 3, 5]]


def test_both_forms_of_relevance_rows_are_the_dense_lists() -> None:
    relevance = relevance_lists(np.random.default_rng(2))
    by_token = relevance.by_token()
    lists = inattention.LabelsByToken(
        *(torch.from_numpy(v) for v in (by_token.starts, by_token.labels, by_token.scores))
    )
    document = inattention.distinct(torch.randint(0, N_TOKENS, (40,)))
    expected = torch.from_numpy(relevance.dense(np.arange(N_LABELS)))[5:17, document.tokens]
    for form in (inattention.relevance_rows_numba, inattention.relevance_rows_torch):
        assert torch.equal(form(lists, document, range(5, 17)), expected)


@pytest.mark.parametrize("kind", ["numba", "torch"])
def test_two_layer_kernels_are_autograd(kind: str) -> None:
    torch.manual_seed(0)
    label_half, token_half, output = (torch.randn(shape, dtype=torch.float64) for shape in ((6, 9), (7, 9), (9,)))
    inputs = [tensor.requires_grad_() for tensor in (label_half, token_half, output)]
    expected = (label_half.unsqueeze(1) + token_half).relu() @ output
    places, slopes = torch.randint(0, 7, (6, 4)), torch.randn(6, 4, dtype=torch.float64)
    true = torch.autograd.grad(expected.gather(1, places), inputs, slopes)
    found = [torch.zeros_like(tensor) for tensor in inputs]
    with torch.no_grad():
        assert_close(getattr(pairs, f"two_layer_scores_{kind}")(*inputs), expected)
        getattr(pairs, f"two_layer_gradients_{kind}")(*inputs, places, slopes, *found)
    for ours, theirs in zip(found, true, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
def test_the_plain_torch_path_gives_the_same(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    relevance = relevance_lists(np.random.default_rng(0))
    decoder, encoded = planted_decoder(relevance, form=form), documents((13, 20))
    targets = (torch.rand(2, N_LABELS) < 0.3).double()
    parameters = list(decoder.parameters())
    expected = torch.autograd.grad(decoder.loss(encoded, targets), parameters)
    monkeypatch.setattr("plant.nn.planting.inattention.survivors_numba", inattention.survivors_torch)
    monkeypatch.setattr("plant.nn.planting.inattention.relevance_rows_numba", inattention.relevance_rows_torch)
    monkeypatch.setattr("plant.nn.planting.ranker.two_layer_scores_numba", pairs.two_layer_scores_torch)
    monkeypatch.setattr("plant.nn.planting.pieces.two_layer_gradients_numba", pairs.two_layer_gradients_torch)
    for ours, theirs in zip(torch.autograd.grad(decoder.loss(encoded, targets), parameters), expected, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("form", ["bilinear", "mlp"])
@pytest.mark.parametrize("options", [{"learned": False}, {}, {"learned": False, "segment": 6}, {"inattention": "zero"}])
def test_attention_of_several_labels_is_that_of_each(form: str, options: dict[str, object]) -> None:
    decoder, encoded = (
        planted_decoder(relevance_lists(np.random.default_rng(0)), form=form, **options),
        documents((13, 0, 20)),
    )
    asked = torch.tensor([4, 0, 4, 2])
    together = decoder.attend_by_source(encoded, asked)
    for name, weights in together.items():
        alone = [decoder.attend_by_source(encoded, label.unsqueeze(0))[name] for label in asked]
        assert_close(weights, torch.cat(alone, dim=1))
