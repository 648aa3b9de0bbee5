"""Each published system equals its equations, written out plainly for one document at a time."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from plant.nn.encoders.embedding import hash_ngrams
from plant.nn.parts.table import DECODERS, ENCODERS
from plant.tensors import Batch, Decoded, Encoded

N_LABELS, VOCAB_SIZE, LENGTHS = 7, 30, (11, 4, 9)
PARENTS = torch.tensor([0, 0, 1, 2, 2, 1, 3])
DESCRIPTIONS = torch.tensor([[2, 3, 4], [5, 0, 0], [6, 7, 0], [9, 0, 0], [8, 9, 10], [11, 2, 0], [0, 0, 0]])
GIVEN = {
    "vocab_size": VOCAB_SIZE,
    "n_labels": N_LABELS,
    "parents": PARENTS,
    "descriptions": DESCRIPTIONS,
    "frequencies": torch.linspace(0.05, 0.6, N_LABELS),
}


def built(
    encoder: str, decoder: str, of_encoder: dict[str, object], of_decoder: dict[str, object], **further: object
) -> nn.ModuleDict:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = ENCODERS.build(encoder, of_encoder, **GIVEN)
        given = {**GIVEN, "input_size": first.size, "encoder": first, **further}
        model = nn.ModuleDict({"encoder": first, "decoder": DECODERS.build(decoder, of_decoder, **given)})
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.4)
        for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm1d)):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return model.double().eval()


def documents() -> list[Tensor]:
    random = torch.Generator().manual_seed(5)
    return [torch.randint(1, VOCAB_SIZE, (length,), generator=random) for length in LENGTHS]


def decoded(model: nn.ModuleDict) -> Decoded:
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    encoded: Encoded = model["encoder"](Batch(tokens, tokens > 0))
    return model["decoder"](encoded)


def assert_equal_to(reference: Callable[[nn.ModuleDict, Tensor], Tensor], model: nn.ModuleDict) -> None:
    expected = torch.stack([reference(model, document) for document in documents()])
    assert_close(decoded(model).logits, expected, rtol=0, atol=1e-10)


def words(model: nn.ModuleDict, document: Tensor) -> Tensor:
    return model["encoder"].words.table.weight[document]  # [time, embedding]


def convolve(layer: nn.Conv1d, states: Tensor) -> Tensor:
    """The sum over the window from i - kernel // 2 on, for each position i of the document."""
    weight, kernel = layer.weight, layer.kernel_size[0]
    bias = torch.zeros(weight.shape[0], dtype=weight.dtype) if layer.bias is None else layer.bias
    rows = []
    for i in range(len(states)):
        window = range(i - kernel // 2, i - kernel // 2 + kernel)
        inside = [(step, place) for step, place in enumerate(window) if 0 <= place < len(states)]
        rows.append(bias + sum(weight[:, :, step] @ states[place] for step, place in inside))
    return torch.stack(rows)


def normalise(norm: nn.BatchNorm1d, states: Tensor) -> Tensor:
    return (states - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps) * norm.weight + norm.bias


def attend(queries: Tensor, keys: Tensor, states: Tensor) -> Tensor:
    """v_l = sum_i softmax_i(u_l . k_i) h_i."""
    return torch.stack([torch.softmax(keys @ query, 0) @ states for query in queries])


def caml_head(head: nn.Module, states: Tensor) -> Tensor:
    return (head.weights * attend(head.queries, states, states)).sum(1) + head.bias


def laat_vectors(head: nn.Module, states: Tensor) -> Tensor:
    return attend(head.queries, torch.tanh(states @ head.key.weight.T), states)


def lstm(model: nn.ModuleDict, document: Tensor) -> Tensor:
    weights, inputs = model["encoder"].recurrent, words(model, document)

    def run(inputs: Tensor, layer: nn.Module) -> Tensor:
        w, u, b, c = (getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden, cell, states = torch.zeros_like(u[0]), torch.zeros_like(u[0]), []
        for x in inputs:
            i, f, g, o = (w @ x + b + u @ hidden + c).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            states.append(hidden)
        return torch.stack(states)

    return torch.cat([run(inputs, weights.ahead[0]), run(inputs.flip(0), weights.back[0]).flip(0)], dim=1)


def gru_ends(model: nn.ModuleDict, document: Tensor) -> Tensor:
    weights, inputs = model["encoder"].recurrent, words(model, document)

    def run(inputs: Tensor, layer: nn.Module) -> Tensor:
        w, u, b, c = (getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = torch.zeros_like(u[0])
        for x in inputs:
            (r, z, n), (r2, z2, n2) = (w @ x + b).chunk(3), (u @ hidden + c).chunk(3)
            update = (z + z2).sigmoid()
            hidden = (1 - update) * (n + (r + r2).sigmoid() * n2).tanh() + update * hidden
        return hidden

    return torch.cat([run(inputs, weights.ahead[0]), run(inputs.flip(0), weights.back[0])])


def linear(layer: nn.Linear, vector: Tensor) -> Tensor:
    return vector @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def fasttext(model: nn.ModuleDict, document: Tensor) -> Tensor:
    table = model["encoder"].buckets.weight
    vectors = list(words(model, document))
    for length in (2, 3):
        for start in range(len(document) - length + 1):
            ngram = document[start : start + length].unsqueeze(0)
            vectors.append(table[int(hash_ngrams(ngram, length)[0, 0]) % len(table)])
    return linear(model["decoder"].output, torch.stack(vectors).mean(0))


def text_cnn(model: nn.ModuleDict, document: Tensor) -> Tensor:
    features = convolve(model["encoder"].convolutions[0].convolution, words(model, document)).tanh()
    return linear(model["decoder"].output, features.amax(0))


def xml_cnn(model: nn.ModuleDict, document: Tensor) -> Tensor:
    embedded, chunks = words(model, document), 3
    layers = [layer.convolution for layer in model["encoder"].convolutions]
    features = torch.cat([convolve(layer, embedded).relu() for layer in layers], dim=1)
    n = len(document)
    edges = [(j * n // chunks, -(-(j + 1) * n // chunks)) for j in range(chunks)]
    pooled = torch.stack([features[first:last].amax(0) for first, last in edges], dim=1).flatten()
    return linear(model["decoder"].output, linear(model["decoder"].bottleneck, pooled).relu())


def bigru(model: nn.ModuleDict, document: Tensor) -> Tensor:
    return linear(model["decoder"].output, gru_ends(model, document))


def caml(model: nn.ModuleDict, document: Tensor) -> Tensor:
    states = convolve(model["encoder"].convolutions[0].convolution, words(model, document)).tanh()
    return caml_head(model["decoder"], states)


def dr_caml(model: nn.ModuleDict, document: Tensor) -> Tensor:
    states = convolve(model["encoder"].convolutions[0].convolution, words(model, document)).tanh()
    return caml_head(model["decoder"].attention, states)


def multirescnn(model: nn.ModuleDict, document: Tensor) -> Tensor:
    outputs = []
    for branch in model["encoder"].branches:
        base = convolve(branch.base.convolution, words(model, document)).tanh()
        inner = normalise(branch.first_norm.norm, convolve(branch.first.convolution, base)).tanh()
        residual = normalise(branch.second_norm.norm, convolve(branch.second.convolution, inner))
        shortcut = normalise(branch.shortcut_norm.norm, base @ branch.shortcut.weight.T)
        outputs.append((residual + shortcut).tanh())
    return caml_head(model["decoder"], torch.cat(outputs, dim=1))


def laat(model: nn.ModuleDict, document: Tensor) -> Tensor:
    head = model["decoder"]
    return (head.weights * laat_vectors(head, lstm(model, document))).sum(1) + head.bias


def joint_laat(model: nn.ModuleDict, document: Tensor) -> Tensor:
    decoder, states = model["decoder"], lstm(model, document)
    parents = (decoder.parents.weights * laat_vectors(decoder.parents, states)).sum(1) + decoder.parents.bias
    squeezed = (decoder.squeeze.weight @ parents.sigmoid()).sigmoid()
    vectors = torch.cat([laat_vectors(decoder.labels, states), squeezed.expand(N_LABELS, -1)], dim=1)
    weights = torch.cat([decoder.labels.weights, decoder.join.weight], dim=1)
    return (weights * vectors).sum(1) + decoder.labels.bias


def effective_can(model: nn.ModuleDict, document: Tensor) -> Tensor:
    encoder, decoder = model["encoder"], model["decoder"]
    states = convolve(encoder.base.convolution, words(model, document)).relu()
    vectors = []
    for block, depth_map, head in zip(encoder.blocks, encoder.maps, decoder.heads, strict=True):
        inner = normalise(block.first_norm.norm, convolve(block.first.convolution, states)).relu()
        residual = normalise(block.second_norm.norm, convolve(block.second.convolution, inner))
        gate = linear(block.gate.excite, linear(block.gate.squeeze, residual.mean(0)).relu()).sigmoid()
        states = (states + residual * gate).relu()
        depth = linear(depth_map, states)
        vectors.append(attend(head.queries, depth, depth))
    weights = torch.cat([head.weights for head in decoder.heads], dim=1)
    return (weights * torch.cat(vectors, dim=1)).sum(1) + sum(head.bias for head in decoder.heads)


def lsan(model: nn.ModuleDict, document: Tensor) -> Tensor:
    decoder, states = model["decoder"], lstm(model, document)
    ahead, back = states.chunk(2, dim=1)
    by_query = attend(decoder.queries, torch.tanh(states @ decoder.project.weight.T), states)
    by_title = torch.cat([(decoder.titles @ half.T) @ half for half in (ahead, back)], dim=1)
    title, query = linear(decoder.trust_titles, by_title).sigmoid(), linear(decoder.trust_queries, by_query).sigmoid()
    mixed = title / (title + query) * by_title + query / (title + query) * by_query
    return linear(decoder.output[2], linear(decoder.output[0], mixed).relu()).squeeze(1)


BILSTM = {"embedding": 5, "hidden": 4}
SYSTEMS = {
    "fasttext": (fasttext, "embedding", "mean-pool", {"size": 6, "ngrams": 3, "buckets": 40}, {}),
    "text-cnn": (text_cnn, "cnn", "max-pool", {"embedding": 5, "kernels": [4], "filters": 6}, {}),
    "bigru": (bigru, "bigru", "last-state", {"embedding": 5, "hidden": 4}, {}),
    "xml-cnn": (
        xml_cnn,
        "cnn",
        "chunk-max-pool",
        {"embedding": 5, "kernels": [2, 4, 8], "filters": 3, "activation": "relu"},
        {"chunks": 3, "bottleneck": 6},
    ),
    "caml": (caml, "cnn", "label-attention", {"embedding": 5, "kernels": [10], "filters": 4}, {}),
    "dr-caml": (dr_caml, "cnn", "described-attention", {"embedding": 5, "filters": 4}, {"embedding": 5}),
    "multirescnn": (
        multirescnn,
        "multires",
        "label-attention",
        {"embedding": 5, "kernels": [3, 5, 9], "filters": 4},
        {},
    ),
    "laat": (laat, "bilstm", "label-attention", BILSTM, {"key_size": 3}),
    "joint-laat": (joint_laat, "bilstm", "joint-laat", BILSTM, {"key_size": 3, "squeezed": 2}),
    "effective-can": (
        effective_can,
        "effective-can",
        "block-attention",
        {"embedding": 5, "filters": 6, "width": 3, "reduction": 2},
        {},
    ),
    "lsan": (lsan, "bilstm", "lsan", BILSTM, {"attention": 3, "hidden": 5, "chunk": 3}),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_equals_its_equations(system: str) -> None:
    reference, encoder, decoder, of_encoder, of_decoder = SYSTEMS[system]
    assert_equal_to(reference, built(encoder, decoder, of_encoder, of_decoder))


def test_parent_logits_of_joint_laat_are_a_laat_of_their_own() -> None:
    model = built("bilstm", "joint-laat", BILSTM, {"key_size": 3})
    head = model["decoder"].parents
    expected = [(head.weights * laat_vectors(head, lstm(model, d))).sum(1) + head.bias for d in documents()]
    assert_close(decoded(model).extras["parent_logits"], torch.stack(expected), rtol=0, atol=1e-10)


def test_distances_of_dr_caml_lie_between_weights_and_descriptions() -> None:
    model = built("cnn", "described-attention", {"embedding": 5, "filters": 4}, {"embedding": 5, "dropout": 0.0})
    decoder = model["decoder"].train()
    for label, description in enumerate(DESCRIPTIONS[:-1]):
        vectors = decoder.words.table.weight[description[description > 0]]
        largest = convolve(decoder.convolution.convolution, vectors).tanh().amax(0)
        apart = decoder.attention.weights[label] - linear(decoder.describe, largest)
        assert_close(decoder.distance()[label], (apart**2).mean())
    assert decoder.distance()[-1] == 0  # no description, nothing to be drawn to


def test_dr_caml_reads_no_descriptions_to_predict() -> None:
    model = built("cnn", "described-attention", {"embedding": 5, "filters": 4}, {"embedding": 5})
    assert decoded(model).extras == {}


def test_lsan_starts_from_the_mean_words_of_titles() -> None:
    vectors = torch.randn(VOCAB_SIZE, 4)
    decoder = DECODERS.build("lsan", {}, **GIVEN, input_size=8, word_vectors=vectors)
    expected = torch.stack([vectors[[2, 3, 4]].mean(0), vectors[5]])
    assert_close(decoder.titles[:2].detach(), expected)  # type: ignore[attr-defined]
    assert not decoder.titles[-1].any()  # type: ignore[attr-defined]


def test_masked_batch_statistics_are_those_of_the_tokens_laid_end_to_end() -> None:
    model = built("multires", "max-pool", {"embedding": 5, "kernels": [3], "filters": 4}, {})
    norm = model["encoder"].branches[0].first_norm.train()
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    states = torch.randn(*tokens.shape, 4, dtype=torch.float64)
    plain = F.batch_norm(states[tokens > 0], None, None, norm.norm.weight, norm.norm.bias, training=True)
    assert_close(norm(states, tokens > 0)[tokens > 0], plain)


@pytest.mark.parametrize("name", ["max-pool", "mean-pool", "chunk-max-pool"])
def test_evidence_of_pooled_decoders_is_what_positions_give_to_the_logit(name: str) -> None:
    """The gradient of the logit times the states: exact, since the logit is linear where the maxima stay."""
    options = {"chunks": 2, "bottleneck": 9} if name == "chunk-max-pool" else {}
    decoder = built("cnn", name, {"embedding": 5, "kernels": [4], "filters": 6}, options)["decoder"]
    tokens = nn.utils.rnn.pad_sequence(documents(), batch_first=True)
    states = torch.randn(*tokens.shape, 6, dtype=torch.float64, requires_grad=True)
    encoded, label = Encoded(states, tokens, tokens > 0), 2
    (slope,) = torch.autograd.grad(decoder(encoded).logits[:, label].sum(), states)
    given = (slope * states).sum(-1).clamp(min=0)
    assert (given > 0).any(1).all()  # or there would be nothing to compare
    expected = given / given.sum(1, keepdim=True)
    assert_close(decoder.attend(encoded, torch.tensor([label]))[:, 0], expected)
