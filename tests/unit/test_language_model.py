"""Language models: losses against plain ones, text without loss, starting points, files, sampling."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents, TrainingView, training_view
from plant.errors import RecipeError
from plant.nn.classifier import Classifier
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.language.awd_lstm import AWDLSTM, Dropouts, LanguageModel, with_vocab
from plant.nn.language.next_word import IGNORED, next_word_loss, sample_words
from plant.nn.language.store import load_language_model, save_language_model
from plant.nn.losses import BCE
from plant.nn.parts.build import Given, build_classifier
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Pretrain
from plant.steps.pretrain import PRETRAIN, new_language_model, pretrain, started
from plant.steps.transform import TRANSFORM
from plant.tensors import Batch
from plant.text.vocab import PADDING, SPECIAL, Vocab
from plant.train.language_model import _LanguageModelTask, fluency
from plant.train.loop import Runtime
from plant.train.streams import Text, streams, text_of
from tests.made_up import corpus_of, documents_of, notes_of

VOCAB = Vocab((*SPECIAL, *(f"w{n}" for n in range(10))))
SMALL = Pretrain(embedding=6, hidden=8, layers=2, epochs=2, batch=3, bptt=5, learning_rate=0.01)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors are slower on many threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(*, direction: str = "forward", vocab: Vocab = VOCAB, seed: int = 0) -> LanguageModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LanguageModel(vocab, AWDLSTM(len(vocab), embedding=6, hidden=8, layers=2), direction=direction)
        torch.nn.init.normal_(model.bias)
    return model.eval()


def random_loss_inputs(positions: int = 1200, size: int = 5, words: int = 40) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((positions, size), (words, size), (words,))
    tensors = [torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]
    targets = torch.randint(0, words, (positions,), generator=random)
    return *tensors, torch.where(torch.rand(positions, generator=random) < 0.1, IGNORED, targets)  # type: ignore[return-value]


def test_the_next_word_loss_is_the_cross_entropy_and_so_are_its_gradients() -> None:
    states, words, bias, targets = random_loss_inputs()
    ours = next_word_loss(states, words, bias, targets)
    plain = F.cross_entropy(states @ words.T + bias, targets, ignore_index=IGNORED)
    assert_close(ours, plain)
    inputs = (states, words, bias)
    for one, other in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), strict=True):
        assert_close(one, other)


def sampled_loss(inputs: tuple[Tensor, Tensor, Tensor, Tensor], shares: Tensor, drawn: int) -> Tensor:
    states, words, bias, targets = inputs
    sample = sample_words(targets, shares, drawn=drawn)
    return next_word_loss(states, words[sample.words], bias[sample.words] - sample.log_chance, sample.targets)


def test_a_sample_of_all_words_gives_the_exact_loss() -> None:
    inputs = random_loss_inputs()
    assert_close(sampled_loss(inputs, torch.full((40,), 1 / 40).double(), 40), next_word_loss(*inputs))


def test_samples_of_words_give_the_exact_loss_on_average() -> None:
    states, words, bias, targets = random_loss_inputs(words=400)
    targets = targets % 7  # few words to foresee: most of the sample is drawn
    shares = torch.where(torch.arange(400) < 7, 1 / 7, 0.0).double()
    exact = next_word_loss(states, words, bias, targets)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        losses = [sampled_loss((states, words, bias, targets), shares, 100) for _ in range(40)]
    assert torch.stack(losses).mean().item() == pytest.approx(exact.item(), rel=0.02)


def some_text(lengths: tuple[int, ...]) -> Text:
    random = np.random.default_rng(0)
    return text_of([documents_of([random.integers(2, 12, n).tolist() for n in lengths], labels=[[]] * len(lengths))])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("batch", [1, 3, 50])
def test_streams_hold_every_document_once_between_boundaries(direction: str, batch: int) -> None:
    text = some_text((4, 0, 1, 9, 2))
    read, foreseen = streams(text, batch=batch, direction=direction, seed=1, epoch=0)
    kept = foreseen.ravel() != IGNORED
    joined = [PADDING, *foreseen.ravel()[kept].tolist()]
    assert read.ravel()[kept].tolist() == joined[:-1]
    assert kept.sum() == text.n_questions == 16 + 4
    step = 1 if direction == "forward" else -1
    documents = [text.tokens[text.starts[d] : text.starts[d + 1]][::step].tolist() for d in range(len(text))]
    found = " ".join(map(str, joined[1:-1])).split(f" {PADDING} ")
    assert sorted(found) == sorted(" ".join(map(str, document)) for document in documents)


def test_documents_come_in_another_order_each_epoch_and_in_the_same_for_the_same_seed() -> None:
    text = some_text((4, 5, 6, 7, 8, 9))
    first, again, later = (streams(text, batch=2, direction="forward", seed=1, epoch=e)[0] for e in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_perplexity_is_that_of_each_document_read_alone_from_its_boundary(direction: str) -> None:
    model, documents = model_of(direction=direction), documents_of([[2, 3, 4, 3], [5], [6, 1, 7] * 5], labels=[[]] * 3)
    losses: list[Tensor] = []
    for row in range(3):
        tokens = documents.tokens_of(row).tolist()
        ordered = [PADDING, *(tokens if direction == "forward" else tokens[::-1]), PADDING]
        logits, _ = model(torch.tensor([ordered[:-1]]))
        losses.append(F.cross_entropy(logits[0], torch.tensor(ordered[1:]), reduction="none"))
    expected = torch.cat(losses).mean().exp().item()
    assert fluency(model, documents, batch=2, segment=3).perplexity == pytest.approx(expected, rel=1e-5)


def view_of(documents: Documents) -> TrainingView:
    return TrainingView(VOCAB, CodeBook("other", ()), (), documents)


def test_training_learns_to_foresee_a_regular_text() -> None:
    rows = [[2 + (first + place) % 7 for place in range(25)] for first in range(12)]
    view = view_of(documents_of(rows, labels=[[]] * len(rows)))
    recipe = Pretrain(embedding=12, hidden=16, layers=2, epochs=40, batch=4, bptt=20, learning_rate=0.03, dropout=0)
    history = pretrain(view, recipe, dev=view.documents).history
    assert [epoch.number for epoch in history] == list(range(1, 41))
    assert (history[0].perplexity or 0) > 3
    assert (history[-1].perplexity or 9) < 1.5
    assert (history[-1].accuracy or 0) > 0.85


def test_more_text_is_read_too_and_dev_text_is_only_measured() -> None:
    view, more = (view_of(documents_of([[2, 3, 4, 5]] * n, labels=[[]] * n)) for n in (2, 3))
    assert pretrain(view, SMALL, more=[more.documents]).tokens == 20
    with_dev, without = (pretrain(view, SMALL, dev=dev) for dev in (more.documents, None))
    assert with_dev.tokens == without.tokens == 8
    for one, other in zip(with_dev.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_seeds_of_a_recipe_share_a_language_model_whose_seed_is_its_own() -> None:
    view = training_view(corpus_of(notes_of(12)))
    one, same, other = (pretrain(view, replace(SMALL, seed=seed)).model.bias for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not {"seed"} & {*PRETRAIN.sections, *TRANSFORM.sections}


@pytest.mark.parametrize(("sampled", "parts"), [(0, 2), (5, 1)])
def test_a_run_that_goes_on_from_any_checkpoint_ends_with_the_same_weights(
    tmp_path: Path, sampled: int, parts: int
) -> None:
    view = training_view(corpus_of(notes_of(12)))
    recipe = replace(SMALL, checkpoint_minutes=0.0, sampled_words=sampled, accumulate=parts)
    whole = pretrain(view, recipe).model.state_dict()
    for steps in (1, 4, 9):
        checkpoint = tmp_path / f"{steps}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            pretrain(view, recipe, runtime=Runtime(checkpoint, progress=_interrupt_after(steps)))
        resumed = pretrain(view, recipe, runtime=Runtime(checkpoint)).model.state_dict()
        assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def _interrupt_after(steps: int):  # type: ignore[no-untyped-def]
    calls = iter(range(steps))

    def progress(what: str, done: int, total: int | None) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_the_streams_have_the_gradients_of_all_in_every_segment(parts: int) -> None:
    """The last one included, where streams have ended: a mean of their means would be another number."""
    text = some_text((7, 9, 3, 5))
    whole, divided = (
        _LanguageModelTask(model_of().train(), text, replace(SMALL, accumulate=count), 0, None, "cpu")
        for count in (1, parts)
    )
    for task in (whole, divided):
        task.model.network.dropouts = Dropouts(0, 0, 0, 0, 0)
    micro_batches = iter(divided.batches(0))
    for segment in whole.batches(0):
        loss = whole.training_step(segment)
        assert sum(divided.training_step(next(micro_batches)) for _ in range(parts)) == pytest.approx(loss, rel=1e-5)
        for one, other in zip(whole.model.parameters(), divided.model.parameters(), strict=True):
            assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-6)
    assert next(micro_batches, None) is None


def test_streams_cannot_be_in_more_parts_than_there_are() -> None:
    with pytest.raises(RecipeError, match="divides the 3 streams of pretrain.batch"):
        pretrain(view_of(documents_of([[2, 3, 4]], labels=[[]])), replace(SMALL, accumulate=4))


def test_shared_words_keep_their_rows_and_new_words_start_at_the_mean() -> None:
    model, other = model_of(), Vocab((*SPECIAL, "w3", "new", "w0"))
    adapted = with_vocab(model, other)
    words = model.network.words
    assert_close(adapted.network.words[[0, 1, 2, 4]], words[[0, 1, 5, 2]])
    assert_close(adapted.network.words[3], words.mean(0))
    assert_close(adapted.bias[[2, 3]], torch.stack([model.bias[5], model.bias.mean()]))
    assert_close(adapted.network.layers.state_dict(), model.network.layers.state_dict())


def test_a_start_of_another_shape_is_refused_with_the_settings_that_fit() -> None:
    with pytest.raises(RecipeError, match=r"--set pretrain.hidden=8 --set pretrain.direction=backward"):
        started(model_of(direction="backward"), VOCAB, Pretrain(embedding=6, hidden=9, layers=2))


def test_a_saved_model_reads_as_before(tmp_path: Path) -> None:
    model = model_of(direction="backward")
    save_language_model(model, tmp_path / "lm")
    loaded = load_language_model(tmp_path / "lm")
    tokens = torch.tensor([[0, 3, 4]])
    assert_close(loaded(tokens)[0], model(tokens)[0], rtol=0, atol=0)
    assert (loaded.direction, loaded.vocab) == ("backward", VOCAB)


def test_an_encoder_starts_from_the_language_model_and_leaves_it_alone() -> None:
    model = model_of(direction="backward")
    encoder = AWDLSTMEncoder(len(VOCAB), language_model=model)
    assert encoder.direction == "backward"
    assert_close(encoder.network.state_dict(), model.network.state_dict())
    encoder.network.words.data.zero_()
    assert bool(model.network.words.any())


def test_an_encoder_has_its_words_and_each_layer_to_unfreeze() -> None:
    encoder = AWDLSTMEncoder(len(VOCAB), embedding=6, hidden=8, layers=3)
    parts = [list(module.parameters()) for module in encoder.layer_modules()]
    assert len(parts) == 4
    assert {id(p) for part in parts for p in part} == {id(p) for p in encoder.parameters()}


def test_sampled_words_are_those_of_the_seed_and_stop_at_the_end() -> None:
    model, prompt = model_of(), torch.tensor([3, 4])
    draws = [model.sample(prompt, count=8, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    model.bias.data[PADDING] = 100.0
    assert model.sample(prompt, count=8, generator=torch.Generator().manual_seed(1)) == []


def test_the_likeliest_words_are_drawn_when_it_is_cold() -> None:
    model, prompt = model_of(), torch.tensor([3, 4])
    model.bias.data[PADDING] = -100.0
    drawn = model.sample(prompt, count=1, generator=torch.Generator(), temperature=1e-4)
    assert drawn == [int(model(torch.tensor([[PADDING, 3, 4]]))[0][0, -1].argmax())]


def classifier_of(*, segment: int, **options: bool) -> Classifier:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = AWDLSTMEncoder(len(VOCAB), embedding=6, hidden=8, layers=2, dropout=0.0)
        return Classifier(encoder, LabelAttention(6, 4), BCE(), segment=segment, **options).double()


def gradients_of(classifier: Classifier) -> list[Tensor]:
    tokens = torch.randint(2, 12, (2, 13), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(13) < torch.tensor([[13], [8]])
    targets = torch.tensor([[0.0, 1, 1, 0], [1, 0, 0, 0]]).double()
    loss = classifier.train().loss(Batch(tokens, mask, targets))
    return list(torch.autograd.grad(loss, list(classifier.parameters())))


def test_reading_in_segments_gives_the_gradients_of_reading_at_once_unless_they_are_detached() -> None:
    whole, pieces, cut = (
        gradients_of(classifier_of(segment=segment, detach=detach))
        for segment, detach in ((0, True), (5, False), (5, True))
    )
    for one, other in zip(whole, pieces, strict=True):
        assert_close(one, other)
    assert not all(torch.allclose(one, other) for one, other in zip(whole, cut, strict=True))
    assert all(bool(gradient.any()) for gradient in cut)


def test_the_full_recipe_has_the_published_shape_and_its_classifier_reads_a_note() -> None:
    recipe = load_recipe("plant-full", ["decoder.static=false", "decoder.planted=false"])
    model = new_language_model(VOCAB, recipe.pretrain)
    assert (model.network.size, model.network.sizes) == (400, [1152, 1152, 400])
    given = Given(VOCAB, ("A", "B"), CodeBook("other", ()), np.full(2, 0.5, np.float32), language_model=model)
    classifier = build_classifier(recipe, given).eval()
    with torch.no_grad():
        logits = classifier(Batch(torch.tensor([[2, 3, 4] * 30]), torch.ones(1, 90, dtype=torch.bool))).logits
    assert logits.shape == (1, 2)
    assert bool(logits.isfinite().all())
