"""Systems that know more of labels than their numbers equal their equations, written out for one document at a time."""

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.nn.language.terms import Terms, spread_terms
from plant.tensors import Batch
from tests.numerics.test_baseline_references import (
    BILSTM,
    DESCRIPTIONS,
    N_LABELS,
    assert_equal_to,
    built,
    decoded,
    documents,
    linear,
    lstm,
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
