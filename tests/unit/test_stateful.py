"""Reading in segments: the encoder carries on, logits add up, memory stays."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from plant.errors import RecipeError
from plant.nn.classifier import Classifier
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.encoders.cnn import CNN
from plant.nn.losses import BCE
from plant.nn.planting.ranker import BilinearRanker
from plant.tensors import Batch, Encoded
from plant.text.vocab import UNKNOWN

N_TOKENS, N_LABELS, SEGMENT = 30, 6, 5
Carry = tuple[Tensor, Tensor]


class Reader(nn.Module):
    """A plain LSTM that can go on where it stopped."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.size = size
        self.words = nn.Embedding(N_TOKENS, size)
        self.recurrent = nn.LSTM(size, size, batch_first=True)
        self.calls: list[int] = []

    def forward(self, batch: Batch) -> Encoded:
        return Encoded(self.read(batch.tokens, None)[0], batch.tokens, batch.mask)

    def read(self, tokens: Tensor, carry: Carry | None) -> tuple[Tensor, Carry]:
        self.calls.append(tokens.shape[1])
        return self.recurrent(self.words(tokens), carry)


def batch_of(lengths: tuple[int, ...]) -> Batch:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    rows = [torch.randint(1, N_TOKENS, (max(lengths),), generator=torch.Generator().manual_seed(n)) for n in lengths]
    targets = (torch.rand(len(lengths), N_LABELS, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    return Batch(torch.stack(rows) * mask, mask, targets)


def classifier_of(*, segment: int = SEGMENT, attention: int = SEGMENT, **options: bool) -> Classifier:
    torch.manual_seed(0)
    return Classifier(Reader(), LabelAttention(8, N_LABELS, segment=attention), BCE(), segment=segment, **options)


def test_running_logits_are_those_of_the_whole_document() -> None:
    classifier, batch = classifier_of(), batch_of((23, 5, 1))
    with torch.no_grad():
        running = classifier(batch).logits
    assert_close(running, classifier(batch).logits.detach())


def test_reading_in_segments_gives_the_states_of_reading_at_once() -> None:
    batch = batch_of((23, 5))
    assert_close(classifier_of(segment=5).encode(batch).states, classifier_of(segment=0).encode(batch).states)


def test_whole_document_attention_goes_with_reading_in_segments() -> None:
    batch = batch_of((23, 5))
    whole, pieces = classifier_of(segment=0, attention=0), classifier_of(segment=5, attention=0)
    with torch.no_grad():
        assert_close(pieces(batch).logits, whole(batch).logits)


@pytest.mark.parametrize("lengths", [(23, 5, 1), (5, 40), (5, 5, 5, 5)])
def test_logits_do_not_depend_on_the_batch(lengths: tuple[int, ...]) -> None:
    classifier = classifier_of()
    with torch.no_grad():
        together = classifier(batch_of(lengths)).logits[lengths.index(5)]
        assert_close(together, classifier(batch_of((5,))).logits[0])


def test_full_gradients_are_those_of_reading_at_once() -> None:
    batch = batch_of((23, 5))
    pieces, whole = classifier_of(detach=False), classifier_of(segment=0)
    for ours, theirs in zip(gradients(pieces, batch), gradients(whole, batch), strict=True):
        assert_close(ours, theirs)


def test_detached_gradients_stop_at_segment_borders() -> None:
    batch = batch_of((23, 5))
    full, cut = gradients(classifier_of(detach=False), batch), gradients(classifier_of(detach=True), batch)
    assert not all(torch.allclose(a, b) for a, b in zip(full, cut, strict=True))


@pytest.mark.parametrize("detach", [False, True])
def test_recomputing_changes_no_gradient(detach: bool) -> None:
    batch = batch_of((23, 5))
    kept = gradients(classifier_of(detach=detach), batch)
    for ours, theirs in zip(gradients(classifier_of(detach=detach, recompute=True), batch), kept, strict=True):
        assert_close(ours, theirs)


def gradients(classifier: Classifier, batch: Batch) -> list[Tensor]:
    return list(torch.autograd.grad(classifier.loss(batch), list(classifier.parameters())))


def test_a_note_of_200000_tokens_is_read_with_the_features_of_one_segment_at_a_time() -> None:
    classifier = classifier_of(segment=2_000, attention=2_000).eval()
    batch = batch_of((200_000,))
    with torch.no_grad():
        logits = classifier(batch).logits
    assert set(classifier.encoder.calls) == {2_000}
    assert bool(logits.isfinite().all())


def awd_lstm_classifier(*, direction: str = "forward", planted: bool = False, **options: object) -> Classifier:
    torch.manual_seed(0)
    encoder = AWDLSTMEncoder(N_TOKENS, embedding=8, hidden=10, layers=2, direction=direction)
    ranker = BilinearRanker(N_TOKENS, N_LABELS, size=4)
    decoder = (
        PlantedDecoder(encoder.size, N_LABELS, ranker=ranker, static=False, k=2, segment=SEGMENT)
        if planted
        else LabelAttention(encoder.size, N_LABELS, segment=SEGMENT)
    )
    return Classifier(encoder, decoder, BCE(), **options)


def test_the_awd_lstm_reads_in_segments_what_it_reads_at_once() -> None:
    batch = batch_of((23, 5, 1))
    with torch.no_grad():
        running = awd_lstm_classifier(segment=SEGMENT).eval()(batch).logits
        assert_close(running, awd_lstm_classifier().eval()(batch).logits)


def test_a_backward_encoder_reads_in_segments_what_it_reads_at_once() -> None:
    batch = batch_of((23, 5, 1))
    pieces, whole = (awd_lstm_classifier(direction="backward", segment=segment).eval() for segment in (SEGMENT, 0))
    ours, theirs = pieces.encode(batch), whole.encode(batch)
    assert_close(ours.states[ours.mask], theirs.states[theirs.mask])
    assert ours.from_end
    assert theirs.from_end


@pytest.mark.parametrize("planted", [False, True], ids=["learned", "planted"])
def test_running_logits_of_a_backward_encoder_are_those_of_the_whole_document(planted: bool) -> None:
    batch = batch_of((23, 5, 12, 1))
    batch = Batch(batch.tokens % 4 + batch.mask, batch.mask)  # few words, so that equal ones compete for survival
    classifier = awd_lstm_classifier(direction="backward", planted=planted, segment=SEGMENT).eval()
    with torch.no_grad():
        running = classifier(batch).logits
    assert_close(running, classifier(batch).logits.detach())


def test_a_backward_document_is_the_document_turned_around_by_hand() -> None:
    batch = batch_of((23, 5, 12, 1))
    backward = awd_lstm_classifier(direction="backward", segment=SEGMENT).eval()
    forward = awd_lstm_classifier(segment=0).eval()  # the same weights
    with torch.no_grad():
        logits = backward(batch).logits
        for row, length in enumerate((23, 5, 12, 1)):
            alone = batch.tokens[row, :length].flip(0).unsqueeze(0)
            states = forward.encode(Batch(alone, torch.ones_like(alone, dtype=torch.bool))).states[0]
            assert_close(logits[row], plain_logits(states, backward.decoder))


def plain_logits(states: Tensor, decoder: LabelAttention) -> Tensor:
    """The bias once, and the evidence of each run of tokens under an attention of its own."""
    logits = decoder.bias.clone()
    for start in range(0, len(states), SEGMENT):
        run = states[start : start + SEGMENT]
        for label in range(N_LABELS):
            weights = torch.stack([state @ decoder.queries[label] for state in run]).softmax(0)
            logits[label] += sum(w * (state @ decoder.weights[label]) for w, state in zip(weights, run, strict=True))
    return logits


@pytest.mark.parametrize("lengths", [(23, 5, 1), (5, 40), (5, 5, 5, 5)])
def test_logits_of_a_backward_encoder_do_not_depend_on_the_batch(lengths: tuple[int, ...]) -> None:
    classifier = awd_lstm_classifier(direction="backward", planted=True, segment=SEGMENT).eval()
    with torch.no_grad():
        together = classifier(batch_of(lengths)).logits[lengths.index(5)]
        assert_close(together, classifier(batch_of((5,))).logits[0])


def test_what_is_carried_reaches_the_next_segment() -> None:
    batch = batch_of((23,))
    changed = Batch(batch.tokens.clone(), batch.mask)
    changed.tokens[0, 0] = batch.tokens[0, 0] % (N_TOKENS - 1) + 1
    classifier = awd_lstm_classifier(segment=SEGMENT).eval()
    ours, theirs = (classifier.encode(one).states[0, SEGMENT:] for one in (batch, changed))
    assert not torch.allclose(ours, theirs, atol=1e-7)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_words_of_added_codes_are_unknown_to_an_encoder_that_reads_in_segments(direction: str) -> None:
    batch = batch_of((23, 5))
    added = Batch(torch.where(batch.tokens == 7, N_TOKENS + 3, batch.tokens), batch.mask)
    unknown = Batch(torch.where(batch.tokens == 7, UNKNOWN, batch.tokens), batch.mask)
    classifier = awd_lstm_classifier(direction=direction, segment=SEGMENT, n_words=N_TOKENS).eval()
    with torch.no_grad():
        assert_close(classifier(added).logits, classifier(unknown).logits)


@pytest.mark.parametrize("detach", [False, True])
def test_recomputing_draws_the_same_dropout(detach: bool) -> None:
    batch, found = batch_of((23, 5)), []
    for recompute in (False, True):
        classifier = awd_lstm_classifier(segment=SEGMENT, detach=detach, recompute=recompute)
        torch.manual_seed(1)
        found.append(gradients(classifier, batch))
    for kept, again in zip(*found, strict=True):
        assert_close(again, kept)


def test_an_encoder_that_cannot_go_on_is_a_clear_error() -> None:
    with pytest.raises(RecipeError, match="cannot read in segments"):
        Classifier(CNN(N_TOKENS), LabelAttention(8, N_LABELS), BCE(), segment=72)
