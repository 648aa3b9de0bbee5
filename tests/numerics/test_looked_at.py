"""States of the positions that a decoder looks at, against readings of whole documents."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents
from plant.explain.table import explainer_named
from plant.nn.classifier import Classifier
from plant.nn.dropout import BYTE, ByteDropout, kept_of, random_bytes
from plant.nn.encoders.cnn import CNN
from plant.nn.layers import Convolution
from plant.nn.losses import BCE
from plant.nn.parts.given import Given
from plant.recipe.schema import Recipe
from plant.store.ragged import offsets
from plant.systems.classifier import ClassifierSystem
from plant.tensors import Batch, chosen_by
from plant.text.vocab import Vocab
from tests.numerics.test_listed import N_LABELS, N_TOKENS, decoder_of

LENGTHS = (13, 1, 0, 20)


def batch_of(lengths: tuple[int, ...] = LENGTHS, *, padding: int = 2) -> Batch:
    mask = torch.arange(max(lengths) + padding) < torch.tensor(lengths).unsqueeze(1)
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, N_TOKENS, mask.shape, generator=generator)
    targets = (torch.rand(len(lengths), N_LABELS, generator=generator) < 0.2).double()
    return Batch(tokens, mask, targets)


def classifier_of(*, kernels: tuple[int, ...] = (5, 4), residual: bool = True, **options: object) -> Classifier:
    torch.manual_seed(2)
    encoder = CNN(N_TOKENS, embedding=2, filters=2, kernels=kernels, residual=residual, dropout=0.0).double()
    return Classifier(encoder, decoder_of(**options), BCE())


def gradients(classifier: Classifier, loss: Tensor) -> dict[str, Tensor]:
    classifier.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in classifier.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kernel", [1, 2, 5, 40])
def test_a_convolution_at_some_positions_is_that_at_all(kernel: int) -> None:
    torch.manual_seed(0)
    layer, mask = Convolution(3, 4, kernel=kernel).double(), batch_of().mask
    states = torch.randn(*mask.shape, 3, dtype=torch.float64)
    states[~mask] = torch.nan
    found, whole = (states.clone().requires_grad_() for _ in range(2))
    chosen = chosen_by(mask & (torch.rand(mask.shape) < 0.5))
    slopes = torch.randn(*chosen.mask.shape, 4, dtype=torch.float64) * chosen.mask.unsqueeze(-1)
    ours, theirs = layer.at(found, mask, chosen), chosen.of(layer(whole, mask))
    assert_close(ours[chosen.mask], theirs[chosen.mask])
    given = [
        torch.autograd.grad((y * slopes).sum(), [x, *layer.parameters()]) for y, x in ((ours, found), (theirs, whole))
    ]
    for one, other in zip(*given, strict=True):
        assert_close(one.nan_to_num(0), other.nan_to_num(0))


FORMS: tuple[dict[str, object], ...] = (
    {}, {"listed": 2}, {"segment": 4}, {"form": "mlp"}, {"k": 1}, {"residual": False, "kernels": (5, 4, 3)},
)  # fmt: skip


@pytest.mark.parametrize("options", FORMS)
def test_losses_logits_and_gradients_are_those_of_whole_documents(options: dict[str, object]) -> None:
    classifier, batch = classifier_of(**options), batch_of()
    assert_close(classifier(batch).logits, classifier.decoder(classifier.encode(batch)).logits)
    ours = gradients(classifier, classifier.loss(batch))
    whole = gradients(classifier, classifier.loss_of(classifier.encode(batch), batch))
    assert ours.keys() == whole.keys()
    for name in ours:
        assert_close(ours[name], whole[name])


def test_only_listed_words_are_encoded() -> None:
    classifier, batch = classifier_of(listed=1), batch_of()
    known = np.diff(classifier.decoder.listing.starts) > 0
    listed = [[t for t in row[:n] if known[t]] for row, n in zip(batch.tokens.tolist(), LENGTHS, strict=True)]
    encoded = classifier.encode_looked_at(batch)
    assert [row[mask].tolist() for row, mask in zip(encoded.tokens, encoded.mask, strict=True)] == listed
    assert 0 < sum(map(len, listed)) < int(batch.mask.sum())


def test_a_batch_without_a_listed_word_has_its_biases() -> None:
    classifier = classifier_of()
    batch = Batch(torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool))
    assert_close(classifier(batch).logits, classifier.decoder.prior.expand(2, -1))


def test_words_beyond_the_vocabulary_are_on_no_list() -> None:
    decoder = decoder_of()
    wanted = decoder.looks_at(torch.tensor([[2, N_TOKENS + 99]]), torch.ones(1, 2, dtype=torch.bool))
    assert wanted is not None
    assert not wanted[0, 1]


def test_a_decoder_of_all_words_looks_everywhere() -> None:
    assert decoder_of(listed=0).looks_at(batch_of().tokens, batch_of().mask) is None
    assert decoder_of(segment=4).looks_at(batch_of().tokens, batch_of().mask) is None


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_byte_dropout_keeps_by_its_bytes_and_scales_by_what_stays(kind: torch.dtype) -> None:
    states = torch.randn(7, 11).to(kind)
    drawn = random_bytes(states)
    expected = torch.where(drawn >= 77, states * (BYTE / (BYTE - 77)), 0)
    assert_close(kept_of(states, drawn, 77), expected.to(kind))


def test_byte_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropped = ByteDropout(0.3)(torch.ones(1_000, 1_000))
    assert abs(float((dropped == 0).float().mean()) - 77 / 256) < 0.002
    assert abs(float(dropped.mean()) - 1) < 0.002
    assert dropped.max() == torch.tensor(256 / 179)


def test_the_gradient_of_byte_dropout_goes_through_what_stayed() -> None:
    states = torch.randn(50, 3, requires_grad=True)
    dropped = ByteDropout(0.5)(states)
    dropped.backward(torch.ones_like(dropped))
    assert_close(states.grad, torch.where(dropped == 0, 0.0, 2.0))


def test_byte_dropout_is_the_same_for_the_same_seed_and_nothing_in_prediction() -> None:
    layer, states = ByteDropout(0.5), torch.randn(40, 3)
    first, second = (layer(states) for _ in range(2) if torch.manual_seed(1))
    assert torch.equal(first, second)
    assert not torch.equal(first, layer(states))
    assert layer.eval()(states) is states


@pytest.mark.parametrize("share", [0.0, 1 / 600, 1.0])
def test_shares_at_the_edge_leave_numbers(share: float) -> None:
    assert bool(ByteDropout(share)(torch.ones(1_000)).isfinite().all())


@pytest.mark.parametrize("options", FORMS)
def test_what_was_kept_while_decoding_is_what_attention_says_afterwards(options: dict[str, object]) -> None:
    classifier, batch = classifier_of(**options).eval(), batch_of()
    asked = torch.tensor([4, 0, 4, 22, 2])
    with torch.no_grad():
        encoded = classifier.encode(batch)
        decoded, looked = classifier.decoder.look(encoded)
        assert_close(decoded.logits, classifier.decoder(encoded).logits)
        every = classifier.decoder.attend(encoded, asked)
        for row, length in enumerate(LENGTHS):
            assert_close(looked(row, asked), every[row, :, :length])


@pytest.mark.parametrize("explainer", ["", "static", "planted", "gradient", "occlusion"])
def test_evidence_of_listed_words_stands_where_the_whole_document_has_it(explainer: str) -> None:
    classifier, batch = classifier_of(listed=2).float().eval(), batch_of()
    rows = [row[:length] for row, length in zip(batch.tokens.numpy(), LENGTHS, strict=True)]
    reading = system_of(classifier).read(documents_of(rows), evidence=True)
    labels = [4, 0, 21]
    for row, length in ((0, 13), (3, 20)):
        whole = classifier.encode(batch).document(row)
        expected = explainer_named(explainer, classifier)(classifier, whole, torch.tensor(labels))[0]
        found = reading.weigh(row, labels, explainer=explainer)
        assert found.shape == (3, length)
        assert_close(torch.from_numpy(found), expected.detach().float())


def documents_of(rows: list[NDArray[np.int64]]) -> Documents:
    nothing, empty = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int32)
    tokens = np.concatenate(rows).astype(np.int32)
    return Documents(
        ids=tuple(map(str, range(len(rows)))), tokens=tokens, token_starts=offsets([len(row) for row in rows]),
        labels=empty, label_starts=nothing, char_starts=tokens, char_ends=tokens, evidence_labels=empty,
        evidence_spans=np.empty((0, 2), np.int32), evidence_starts=nothing, text=np.empty(0, np.uint8),
        text_starts=nothing,
    )  # fmt: skip


def system_of(classifier: Classifier) -> ClassifierSystem:
    words, codes = (tuple(f"{kind}{n}" for n in range(total)) for kind, total in (("w", N_TOKENS), ("c", N_LABELS)))
    given = Given(Vocab(words), codes, CodeBook("other", (), {}), np.zeros(N_LABELS, np.float32))
    return ClassifierSystem(Recipe(), classifier, given)
