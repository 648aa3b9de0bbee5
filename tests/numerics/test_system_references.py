"""Systems that know more of labels than their numbers equal their equations, written out for one document at a time."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.codes.tree import CodeTree
from plant.nn.language.terms import Terms, spread_terms
from plant.nn.losses import ReconciledBCE
from plant.nn.poincare import EDGE, poincare_distance
from plant.tensors import Batch, Decoded, Encoded, Structure
from plant.train.poincare import train_poincare
from tests.numerics.test_baseline_references import (
    BILSTM,
    DESCRIPTIONS,
    N_LABELS,
    assert_equal_to,
    attend,
    built,
    convolve,
    decoded,
    documents,
    linear,
    lstm,
    words,
)

TERMS = ((0, 1), (1,), (2,), (3, 0, 5), (4, 5), (5, 2), (6,))  # the last has no word


def msmn(model: nn.ModuleDict, document: Tensor) -> Tensor:
    head, states = model["decoder"], linear(model["decoder"].project, lstm(model, document))
    keys = linear(head.key, states).tanh()
    logits = []
    for own in spread_terms(TERMS, each=2):
        titles = [DESCRIPTIONS[term][DESCRIPTIONS[term] > 0] for term in own]
        queries = [
            linear(head.project, lstm(model, title)).amax(0) if len(title) else torch.zeros(6) for title in titles
        ]
        looks = [
            torch.softmax(part @ linear(head.query, query.double()), 0)
            for part, query in zip(keys.chunk(2, dim=1), queries, strict=True)
        ]
        found = torch.stack([look @ states for look in looks]).amax(0)
        label = torch.stack([query.double() for query in queries]).amax(0)
        logits.append(found @ linear(head.weight, label) + linear(head.bias, label)[0])
    return torch.stack(logits)


def test_msmn_equals_its_equations() -> None:
    terms = Terms(Batch(DESCRIPTIONS, DESCRIPTIONS > 0), TERMS)
    model = built("bilstm", "msmn", BILSTM, {"size": 6, "heads": 2, "chunk": 3}, terms=terms)
    assert_equal_to(msmn, model)
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    looks = model["decoder"].attend(model["encoder"](Batch(tokens, tokens > 0)), torch.tensor([N_LABELS - 1]))
    assert_close(looks.sum(-1), torch.ones(len(tokens), 1, dtype=torch.float64))


def test_logits_of_msmn_are_counted_from_the_log_odds_where_asked() -> None:
    terms = Terms(Batch(DESCRIPTIONS, DESCRIPTIONS > 0), TERMS)
    usual, counted = (
        built("bilstm", "msmn", BILSTM, {"size": 6, "heads": 2, "from_prior": asked}, terms=terms)
        for asked in (False, True)
    )
    log_odds = torch.linspace(0.05, 0.6, N_LABELS).logit().double()
    assert_close(decoded(counted).logits - decoded(usual).logits, log_odds.expand(len(documents()), N_LABELS))


def test_terms_are_read_once_for_prediction() -> None:
    terms = Terms(Batch(DESCRIPTIONS, DESCRIPTIONS > 0), TERMS)
    model = built("bilstm", "msmn", BILSTM, {"size": 6, "heads": 2}, terms=terms)
    first = decoded(model).logits
    nn.init.zeros_(model["encoder"].words.table.weight)
    assert model["decoder"].terms.fresh is not None
    assert not torch.equal(decoded(model).logits, first)


def look(attention: nn.MultiheadAttention, asking: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """Attention of one head: what is found, and where."""
    (q, k, v), (a, b, c) = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    weights = torch.softmax((asking @ q.T + a) @ (text @ k.T + b).T / asking.shape[1] ** 0.5, 1)
    return linear(attention.out_proj, weights @ (text @ v.T + c)), weights


def slots_of(head: nn.Module, text: Tensor) -> Tensor:
    slots = look(head.share, head.slots, text)[0]
    for layer in head.layers:
        slots = layer.norm1(slots + look(layer.self_attn, slots, slots)[0])
        slots = layer.norm2(slots + look(layer.multihead_attn, slots, text)[0])
        slots = layer.norm3(slots + linear(layer.linear2, linear(layer.linear1, slots).relu()))
    return slots


def both_heads(head: nn.Module, text: Tensor) -> Tensor:
    slots, labels = slots_of(head, text), head.labels.vectors
    first = torch.stack([(slots @ label).max() for label in labels])
    second = torch.stack([label @ (torch.softmax(slots @ label / len(label) ** 0.5, 0) @ slots) for label in labels])
    return torch.stack([first, second]) + head.bias


def isd(model: nn.ModuleDict, document: Tensor) -> Tensor:
    return both_heads(model["decoder"], several_kernels(model, document)).sigmoid().mean(0).logit()


def several_kernels(model: nn.ModuleDict, document: Tensor) -> Tensor:
    layers = [layer.convolution for layer in model["encoder"].convolutions]
    return torch.cat([convolve(layer, words(model, document)).tanh() for layer in layers], dim=1)


ISD = {"slots": 3, "layers": 2, "feedforward": 7, "dropout": 0.0}
KERNELS = {"embedding": 5, "kernels": [3, 5], "filters": 4}


def test_isd_equals_its_equations() -> None:
    titles = Batch(DESCRIPTIONS, DESCRIPTIONS > 0)
    assert_equal_to(isd, built("cnn", "isd", KERNELS, ISD, titles=titles))


def test_the_teacher_of_isd_reads_the_titles_of_the_truth_one_after_the_other() -> None:
    model = built("cnn", "isd", KERNELS, ISD, titles=Batch(DESCRIPTIONS, DESCRIPTIONS > 0))
    targets = torch.zeros(len(documents()), N_LABELS, dtype=torch.float64)
    targets[0, [0, 2]], targets[1, 4], targets[2, [1, 5]] = 1, 1, 1
    titles = [torch.tensor(words) for words in ([2, 3, 4, 6, 7], [8, 9, 10], [5, 11, 2])]
    extras = model["decoder"].taught(encoded_of(model), targets).extras
    expected = [both_heads(model["decoder"], several_kernels(model, title)) for title in titles]
    assert_close(extras["teacher"], torch.stack(expected))
    students = [slots_of(model["decoder"], several_kernels(model, document)) for document in documents()]
    teachers = [slots_of(model["decoder"], several_kernels(model, title)) for title in titles]
    cosines = [
        max(
            sum(torch.cosine_similarity(s[i], t[j], dim=0) for i, j in enumerate(order))
            for order in permutations(range(3))
        )
        for s, t in zip(students, teachers, strict=True)
    ]
    assert_close(extras["slot_distance"], 1 - torch.stack(cosines).mean() / 3)


def encoded_of(model: nn.ModuleDict) -> Encoded:
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    return model["encoder"](Batch(tokens, tokens > 0))


TREE = CodeTree(tuple("abcdefgXY"), np.array([7, 7, 8, -1, 3, 3, -1, 8, -1]))


def dense_states(model: nn.ModuleDict, document: Tensor) -> Tensor:
    encoder, seen, scales = model["encoder"], words(model, document), []
    for block in encoder.blocks:
        scales.append(convolve(block.convolution, seen).relu())
        seen = torch.cat([seen, scales[-1]], dim=1)
    sums = torch.stack([scale.sum(1) for scale in scales], dim=1)
    weights = torch.softmax(linear(encoder.mix[2], linear(encoder.mix[0], sums).tanh()), 1)
    return sum(weights[:, k : k + 1] * scale for k, scale in enumerate(scales))


def msatt_kg(model: nn.ModuleDict, document: Tensor) -> Tensor:
    head, states = model["decoder"], dense_states(model, document)
    refined = nodes = head.nodes.vectors
    for layer in head.layers:
        rows = []
        for node, parent in enumerate(TREE.parents.tolist()):
            children = [child for child, above in enumerate(TREE.parents.tolist()) if above == node]
            row = linear(layer.itself, refined[node])
            row = row + (linear(layer.up, refined[parent]) if parent >= 0 else 0)
            rows.append(row + (linear(layer.down, refined[children].mean(0)) if children else 0))
        refined = torch.stack(rows).relu()
    found = attend(linear(head.query, nodes[:N_LABELS]), states, states)
    return (found * linear(head.weigh, refined[:N_LABELS])).sum(1) + head.bias


def test_msatt_kg_equals_its_equations() -> None:
    given = {"tree": TREE, "tree_descriptions": torch.cat([DESCRIPTIONS, DESCRIPTIONS[:2]])}
    options = {"embedding": 5, "filters": 4, "blocks": 3}
    assert_equal_to(msatt_kg, built("dense-cnn", "graph-attention", options, {}, **given))


PAIRS = torch.tensor([[0, 1, 3], [0, 4, 1], [2, 3, 2]])
POINTS = torch.linspace(-0.4, 0.4, 3 * N_LABELS).view(N_LABELS, 3)


def hypercore(model: nn.ModuleDict, document: Tensor) -> Tensor:
    head = model["decoder"]
    states = convolve(model["encoder"].convolutions[0].convolution, words(model, document)).tanh()
    found = attend(head.labels.vectors, states, states)
    together = torch.eye(N_LABELS, dtype=torch.float64)
    for one, other, count in PAIRS.tolist():
        together[one, other] = together[other, one] = count
    root = together.sum(1) ** -0.5
    refined = head.labels.vectors
    for layer in head.layers:
        refined = (root[:, None] * together * root @ linear(layer, refined)).relu()
    near = []
    for vector, point in zip(found, head.points, strict=True):
        placed = linear(head.direction, vector)
        placed = placed / placed.norm() * linear(head.magnitude, vector).sigmoid() * (1 - EDGE)
        room = (1 - placed @ placed) * (1 - point @ point)
        near.append(-torch.arccosh(1 + 2 * (placed - point) @ (placed - point) / room))
    related = (found * linear(head.weigh, refined)).sum(1)
    scores, weights = torch.stack(near), (head.of_distance, head.of_graph)
    mapped = [w * s if w.dim() == 1 else w @ s for w, s in zip(weights, (scores, related), strict=True)]
    return mapped[0] + mapped[1] + head.bias


@pytest.mark.parametrize("mixing", ["all", "each"])
def test_hypercore_equals_its_equations(mixing: str) -> None:
    given = {"label_pairs": PAIRS, "hyperbolic": POINTS}
    options = {"embedding": 5, "kernels": [10], "filters": 4}
    model = built("cnn", "hypercore", options, {"mixing": mixing, "chunk": 3}, **given)
    expected = torch.stack([hypercore(model, document) for document in documents()])
    assert_close(decoded(model).logits, expected, rtol=0, atol=1e-5)  # the graph's shares are kept in 32 bits


def test_distances_from_the_centre_and_along_a_diameter_are_the_closed_forms() -> None:
    lengths = torch.tensor([0.1, 0.5, 0.9, 0.999], dtype=torch.float64)
    along = lengths.unsqueeze(1) * torch.tensor([0.6, 0.8], dtype=torch.float64)
    assert_close(poincare_distance(torch.zeros_like(along), along), 2 * lengths.atanh(), rtol=1e-6, atol=2e-6)
    assert_close(poincare_distance(-along, along), 4 * lengths.atanh(), rtol=1e-6, atol=2e-6)
    assert_close(poincare_distance(along[:1], along[1:]), 2 * (lengths[1:].atanh() - lengths[0].atanh()))


def test_codes_lie_nearer_to_their_parent_than_to_the_parents_of_others() -> None:
    parents = np.repeat(np.arange(40, 44), 10)
    tree = CodeTree(tuple(f"{n}" for n in range(44)), np.concatenate([parents, np.full(4, -1)]))
    points = torch.from_numpy(train_poincare(tree, size=5, epochs=60, seed=3))
    assert points.norm(dim=1).max() < 1
    apart = poincare_distance(points[:40].unsqueeze(1), points[40:44])
    assert (apart.argmin(1) == torch.from_numpy(parents - 40)).float().mean() >= 0.9
    assert torch.equal(points, torch.from_numpy(train_poincare(tree, size=5, epochs=60, seed=3)))


def gru(weights: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The states of both directions, by the equations of a GRU."""

    def run(inputs: Tensor, layer: nn.Module) -> Tensor:
        w, u, b, c = (getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden, states = torch.zeros_like(u[0]), []
        for x in inputs:
            (r, z, n), (r2, z2, n2) = (w @ x + b).chunk(3), (u @ hidden + c).chunk(3)
            update = (z + z2).sigmoid()
            hidden = (1 - update) * (n + (r + r2).sigmoid() * n2).tanh() + update * hidden
            states.append(hidden)
        return torch.stack(states)

    return run(inputs, weights.ahead[0]), run(inputs.flip(0), weights.back[0]).flip(0)


def reconciled(head: nn.Module) -> Tensor:
    part, rows = head.reconcile, []
    for free, title in zip(head.free, DESCRIPTIONS, strict=True):
        vectors = part.words.table.weight[title[title > 0]]
        described = torch.zeros_like(free)
        if len(vectors):
            described = linear(part.describe, torch.cat(gru(part.recurrent, vectors), dim=1).amax(0))
        gate = linear(part.gate, torch.cat([described, free])).sigmoid()
        rows.append(linear(part.join, part.norm(gate * described + free / free.norm())).tanh())
    return torch.stack(rows)


def discnet(model: nn.ModuleDict, document: Tensor) -> Tensor:
    encoder, head = model["encoder"], model["decoder"]
    headings = encoder.headings.weight[document % 5]
    inputs = words(model, document) + headings / headings.norm(dim=1, keepdim=True)
    ahead, back = gru(encoder.recurrent, inputs)
    labels = reconciled(head) if head.reconcile is not None else head.free
    by_sentence = []
    for first in range(0, len(document), 3):
        last = min(first + 2, len(document) - 1)
        span = linear(head.span, torch.cat([ahead[last], back[first]]))
        largest = linear(head.lead, inputs[first : last + 1].amax(0))
        by_sentence.append((largest + torch.softmax(labels @ span, 0) @ labels).relu())
    sentences = linear(head.sentence, torch.cat(gru(head.sentences, torch.stack(by_sentence)), dim=1))
    states = linear(head.word, torch.cat([ahead, back], dim=1))
    clue = torch.maximum(attend(labels, states, states), attend(labels, sentences, sentences))
    return (linear(head.weigh, labels).tanh() * linear(head.clue, clue).relu()).sum(1) + head.bias


@pytest.mark.parametrize("reconciles", [True, False])
def test_discnet_equals_its_equations(reconciles: bool) -> None:
    of_encoder = {"embedding": 5, "hidden": 4, "headings": 5}
    model = built("headed-gru", "discnet", of_encoder, {"inputs": 5, "size": 6, "chunk": 3, "reconciled": reconciles})
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    sentences = torch.arange(tokens.shape[1]).expand(tokens.shape) // 3
    structure = Structure(torch.where(tokens > 0, tokens % 5, 0), torch.where(tokens > 0, sentences, 0))
    encoded = model["encoder"](Batch(tokens, tokens > 0, structure=structure))
    expected = torch.stack([discnet(model, document) for document in documents()])
    assert_close(model["decoder"](encoded).logits, expected, rtol=0, atol=1e-10)


def test_rare_codes_are_told_to_trust_their_descriptions() -> None:
    shares, trust = torch.tensor([0.5, 0.25, 0.0]), torch.tensor([0.2, 0.4, 0.8])
    tokens = torch.ones(1, 1, dtype=torch.long)
    batch = Batch(tokens, tokens > 0, torch.zeros(1, 3))
    decoded = Decoded(torch.zeros(1, 3), {"description_trust": trust})
    expected = np.log(2) - 0.1 * (0.5**3 * 0.4 + 0.8) / 3
    assert_close(float(ReconciledBCE(shares, strength=0.1, power=3.0)(decoded, batch)), expected)


def attention_xml(model: nn.ModuleDict, document: Tensor) -> Tensor:
    head, states = model["decoder"], lstm(model, document)
    return linear(head.output[2], linear(head.output[0], attend(head.queries, states, states)).relu()).squeeze(1)


def test_attention_xml_equals_its_equations() -> None:
    assert_equal_to(attention_xml, built("bilstm", "attention-xml", BILSTM, {"hidden": 5, "chunk": 3}))
