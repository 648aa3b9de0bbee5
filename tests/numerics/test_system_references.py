"""Systems that know more of labels than their numbers equal their equations, written out for one document at a time."""

from itertools import permutations

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.nn.language.terms import Terms, spread_terms
from plant.tensors import Batch, Encoded
from tests.numerics.test_baseline_references import (
    BILSTM,
    DESCRIPTIONS,
    N_LABELS,
    assert_equal_to,
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
        queries = [linear(head.project, lstm(model, title)).amax(0) if len(title) else torch.zeros(6) for title in titles]
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
        max(sum(torch.cosine_similarity(s[i], t[j], dim=0) for i, j in enumerate(order)) for order in permutations(range(3)))
        for s, t in zip(students, teachers, strict=True)
    ]
    assert_close(extras["slot_distance"], 1 - torch.stack(cosines).mean() / 3)


def encoded_of(model: nn.ModuleDict) -> Encoded:
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    return model["encoder"](Batch(tokens, tokens > 0))
