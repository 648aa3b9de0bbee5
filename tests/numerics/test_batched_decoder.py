"""What other devices run, on the CPU: equal to the compiled decoder, and without a wait for the device."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from plant.errors import InputError
from plant.nn.classifier import Classifier
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.encoders.cnn import CNN
from plant.nn.forms import compiled_for
from plant.nn.host import VARIABLE
from plant.nn.losses import BCE
from plant.nn.planting import batched, listed_torch, pairs
from plant.nn.planting.ranker import RANKERS
from plant.relevance.relevance import Relevance
from plant.tensors import Batch, Encoded, OnHost

N_TOKENS, N_LABELS, SIZE = 30, 37, 6
LENGTHS = (13, 1, 0, 40)  # of thirty words, so some come again

SWITCHES: dict[str, dict[str, object]] = {
    "all": {},
    "two-layer ranker": {"form": "mlp"},
    "zero": {"inattention": "zero"},
    "zero, all positions": {"inattention": "zero", "k": 100},
    "raw": {"static_values": "raw"},
    "static only": {"planted": False},
    "planted only": {"static": False},
    "learned alone": {"static": False, "planted": False},
    "tanh keys": {"key_size": 3},
    "segments": {"segment": 4},
    "segments, zero, two-layer ranker": {"segment": 7, "inattention": "zero", "form": "mlp"},
    "not learned": {"learned": False},
    "not learned, two-layer ranker": {"learned": False, "form": "mlp"},
    "not learned, segments": {"learned": False, "segment": 6},
    "not learned, raw": {"learned": False, "static_values": "raw"},
    "not learned, one position": {"learned": False, "k": 1},
    "not learned, all positions": {"learned": False, "k": 100},
    "relevance alone": {"learned": False, "planted": False},
    "ranker alone": {"learned": False, "static": False},
    "listed": {"learned": False, "listed": 7},
    "listed, two-layer ranker": {"learned": False, "listed": 7, "form": "mlp"},
    "listed, relevance alone": {"learned": False, "listed": 7, "planted": False},
    "listed, segments": {"learned": False, "listed": 7, "segment": 6},
    "listed, all positions": {"learned": False, "listed": 7, "k": 100},
}
switches = pytest.mark.parametrize("options", SWITCHES.values(), ids=SWITCHES.keys())


def relevance_lists(*, tied: bool) -> Relevance:
    generator = np.random.default_rng(0)
    tokens = np.stack([generator.permutation(np.arange(2, N_TOKENS))[:12] for _ in range(N_LABELS)]).astype(np.int32)
    scores = -np.sort(-generator.random((N_LABELS, 12)).astype(np.float32), axis=1)
    if tied:
        scores = np.ceil(scores * 2).astype(np.float32)
    scores[0] = 0.0  # a label that lists nothing
    return Relevance(
        codes=tuple(str(label) for label in range(N_LABELS)), tokens=tokens, scores=scores,
        label_counts=np.ones(N_LABELS, np.int64), token_counts=np.ones(N_TOKENS, np.int64), n_documents=10, form="mi",
    )  # fmt: skip


def decoder_of(*, form: str = "bilinear", tied: bool = False, **options: object) -> PlantedDecoder:
    torch.manual_seed(1)
    ranker = RANKERS.build(form, {"size": 4}, n_tokens=N_TOKENS, n_labels=N_LABELS)
    for parameter in ranker.parameters():
        # small whole numbers make equal scores, of words that come again and of words that do not
        parameter.data = torch.randint(-1, 2, parameter.shape).float() if tied else torch.randn(parameter.shape)
    given = {"relevance": relevance_lists(tied=tied), "ranker": ranker, "k": 5}
    decoder = PlantedDecoder(SIZE, N_LABELS, **(given | options)).double()
    with torch.no_grad():
        decoder.scales.copy_(torch.rand(len(decoder.names)) + 0.5)
        decoder.learned.bias.normal_()
    return decoder


def documents(lengths: tuple[int, ...] = LENGTHS) -> Encoded:
    """Documents with poisoned padding."""
    mask = torch.arange(max(lengths) + 2) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.where(mask, torch.randint(1, N_TOKENS, mask.shape), N_TOKENS + 99)
    states = torch.randn(*mask.shape, SIZE, dtype=torch.float64).masked_fill(~mask.unsqueeze(-1), torch.nan)
    return Encoded(states.requires_grad_(), tokens, mask)


def targets_for(encoded: Encoded) -> Tensor:
    return (torch.rand(len(encoded.tokens), N_LABELS, generator=torch.Generator().manual_seed(3)) < 0.3).double()


def everything(decoder: PlantedDecoder, encoded: Encoded) -> list[Tensor]:
    """Logits, loss, and the gradients of both."""
    wanted = [encoded.states, *decoder.parameters()]
    logits, loss = decoder(encoded).logits, decoder.loss(encoded, targets_for(encoded))
    slopes = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view(logits.shape)
    found = [
        *torch.autograd.grad(logits, wanted, slopes, allow_unused=True),
        *torch.autograd.grad(3 * loss, wanted, allow_unused=True),
    ]
    filled = [torch.zeros(()) if gradient is None else gradient.nan_to_num(0) for gradient in found]
    return [logits.detach(), loss.detach(), *filled]


def as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "torch")


@pytest.mark.parametrize("tied", [False, True])
@switches
def test_the_batched_form_is_the_compiled_one(
    options: dict[str, object], tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, encoded = decoder_of(tied=tied, **options), documents()
    expected = everything(decoder, encoded)
    as_elsewhere(monkeypatch)
    for ours, theirs in zip(everything(decoder, encoded), expected, strict=True):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["all", "not learned", "not learned, two-layer ranker", "segments", "listed"])
def test_chunks_of_labels_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, encoded = decoder_of(**SWITCHES[name]), documents()
    as_elsewhere(monkeypatch)
    expected = everything(decoder, encoded)
    monkeypatch.setattr(batched, "ENTRIES_ON_CPU", 0)
    monkeypatch.setattr(listed_torch, "ENTRIES", 0)
    monkeypatch.setattr(pairs, "ENTRIES_AT_ONCE", 0)
    for ours, theirs in zip(everything(decoder, encoded), expected, strict=True):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("key_size", [0, 3])
def test_label_attention_of_a_batch_is_that_of_its_documents(key_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, encoded = LabelAttention(SIZE, N_LABELS, key_size=key_size, segment=9).double(), documents()
    expected = everything(decoder, encoded)  # type: ignore[arg-type]
    as_elsewhere(monkeypatch)
    for ours, theirs in zip(everything(decoder, encoded), expected, strict=True):  # type: ignore[arg-type]
        assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_batch_without_a_word_gets_the_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = decoder_of(learned=False)
    empty = Encoded(torch.full((2, 3, SIZE), torch.nan).double(), torch.zeros(2, 3).long(), torch.zeros(2, 3).bool())
    as_elsewhere(monkeypatch)
    assert_close(decoder(empty).logits, decoder.prior.expand(2, -1))


@switches
def test_forward_and_backward_wait_for_no_device(options: dict[str, object]) -> None:
    """The meta device holds no values: whoever asks for one, for a size that depends on one, or for a copy, fails."""
    decoder, here = decoder_of(**options).to("meta"), documents()
    there = Encoded(
        here.states.detach().to("meta").requires_grad_(), here.tokens.to("meta"), here.mask.to("meta"),
        on_host=OnHost(here.tokens, here.mask),
    )  # fmt: skip
    decoder.loss(there, targets_for(here).to("meta")).backward()
    decoder(there).logits.sum().backward()
    assert there.states.grad is not None
    assert decoder.learned.weights.grad is not None


def test_the_meta_device_tells_of_a_wait() -> None:
    """The test above can fail: without the host's copy of the tokens the decoder has to fetch them."""
    decoder, here = decoder_of().to("meta"), documents()
    there = Encoded(here.states.detach().to("meta"), here.tokens.to("meta"), here.mask.to("meta"))
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        decoder(there)


def classifier_of(**options: object) -> Classifier:
    encoder = CNN(N_TOKENS, embedding=8, filters=SIZE - 2, kernels=(3,), dropout=0.0)
    return Classifier(encoder, PlantedDecoder(SIZE - 2, N_LABELS, **options), BCE())


def planted_classifier(**options: object) -> Classifier:
    ranker = RANKERS.build("bilinear", {"size": 4}, n_tokens=N_TOKENS, n_labels=N_LABELS)
    return classifier_of(relevance=relevance_lists(tied=False), ranker=ranker, k=5, **options)


def a_batch() -> Batch:
    encoded = documents()
    tokens = torch.where(encoded.mask, encoded.tokens, 0)
    return Batch(tokens, encoded.mask, targets_for(encoded).float())


@pytest.mark.parametrize("name", ["all", "not learned", "listed"])
def test_a_training_step_waits_for_no_device(name: str) -> None:
    classifier = planted_classifier(**SWITCHES[name]).to("meta")
    classifier.loss(a_batch().to("meta")).backward()
    assert all(parameter.grad is not None for parameter in classifier.encoder.parameters())


@pytest.mark.parametrize("name", ["all", "not learned", "listed"])
def test_mixed_precision_keeps_the_loss(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier, batch = planted_classifier(**SWITCHES[name]), a_batch()
    as_elsewhere(monkeypatch)
    exact = classifier.loss(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = classifier.loss(batch)
    rough.backward()
    assert_close(rough, exact, rtol=2e-3, atol=2e-3)
    assert not torch.equal(rough, exact)  # or nothing was rounded
    assert all(bool(p.grad.isfinite().all()) for p in classifier.parameters() if p.grad is not None)


def test_a_cpu_takes_kernels_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert compiled_for(torch.device("cpu"))
    assert not compiled_for(torch.device("cuda"))
    as_elsewhere(monkeypatch)
    assert not compiled_for(torch.device("cpu"))


def test_a_form_that_is_none_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "numba")
    with pytest.raises(InputError, match="PLANT_FORMS is 'numba'"):
        compiled_for(torch.device("cpu"))


class Launches(TorchDispatchMode):
    """Counts the operations on the device, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        found = function(*arguments, **(options or {}))
        self.count += isinstance(found, Tensor) and found.device.type == "meta"
        return found


def launches(decoder: PlantedDecoder, lengths: tuple[int, ...]) -> int:
    here = documents(lengths)
    there = Encoded(
        here.states.detach().to("meta").requires_grad_(), here.tokens.to("meta"), here.mask.to("meta"),
        on_host=OnHost(here.tokens, here.mask),
    )  # fmt: skip
    targets = targets_for(here).to("meta")
    with Launches() as counted:
        decoder.loss(there, targets).backward()
    return counted.count


@pytest.mark.parametrize("name", ["all", "not learned", "not learned, two-layer ranker", "listed"])
def test_a_batch_takes_as_many_launches_as_a_document(name: str) -> None:
    decoder = decoder_of(**SWITCHES[name]).to("meta")
    launches(decoder, (13,))  # makes the gradients that later ones are added to
    assert launches(decoder, (13, 20, 7, 40, 8)) == launches(decoder, (13, 20))
