"""Fine-tuning does what the recipe says: rates, decay, order of unfreezing, the best epoch; and nobody looks ahead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

from plant.data.corpus import Corpus, Documents
from plant.data.roles import Plan
from plant.nn.attention import pack
from plant.nn.classifier import Classifier
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.encoders.awd_lstm import AWDLSTMEncoder
from plant.nn.losses import BCE
from plant.nn.planting.ranker import BilinearRanker
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Fit
from plant.steps.fit import fit_coder
from plant.systems.blend import MembersSystem
from plant.systems.coder import FittedCoder
from plant.systems.prior import PriorReading
from plant.tensors import Batch
from plant.train.classifier import ClassifierEpoch, Notes, train_classifier
from plant.train.loop import Runtime
from plant.train.schedule import START, TRIANGLE_RATIO
from plant.types import Note, Span
from tests.made_up import ReadingAlone, corpus_of, documents_of

N_TOKENS, N_LABELS, N_NOTES = 12, 4, 4
RATE = 1e-3
ONE_STEP = Fit(
    epochs=1, batch=N_NOTES, learning_rate=RATE, encoder_rate=0.5, layer_rate=0.1, ranker_rate=0.25, weight_decay=0.0,
    schedule="constant", measure="MAP", clip=100.0,
)  # fmt: skip
GROUPS = {  # of the classifier's parameters, and the share of the learning rate that each has under ONE_STEP
    "encoder.network.words": 0.5 * 0.1**2,
    "encoder.network.layers.0": 0.5 * 0.1,
    "encoder.network.layers.1": 0.5,
    "decoder.ranker": 0.25,
    "decoder.learned": 1.0,
}
NO_SLOPE = "decoder.ranker.label_bias"  # a softmax does not see it: its slope is rounding, which Adam makes large


def notes_of_words(n: int = N_NOTES, *, seed: int = 0) -> Documents:
    draw = np.random.default_rng(seed)
    return documents_of(
        [draw.integers(2, N_TOKENS, 9).tolist() for _ in range(n)],
        labels=[draw.permutation(N_LABELS)[:2].tolist() for _ in range(n)],
    )


def classifier_of(*, direction: str = "forward", segment: int = 0) -> Classifier:
    torch.manual_seed(0)
    encoder = AWDLSTMEncoder(N_TOKENS, embedding=6, hidden=5, layers=2, dropout=0.0, direction=direction)
    ranker = BilinearRanker(N_TOKENS, N_LABELS, size=4)
    decoder = PlantedDecoder(encoder.size, N_LABELS, ranker=ranker, static=False, k=3, segment=segment)
    return Classifier(encoder, decoder, BCE(), segment=segment)


@dataclass
class Course:
    """A training, and the weights before it and after each of its epochs."""

    classifier: Classifier
    recipe: Fit
    scores: tuple[float, ...] = (0.5,) * 20
    seen: list[dict[str, Tensor]] = field(default_factory=list)
    judged: int = 0

    def judge(self, probabilities: NDArray[np.floating]) -> Mapping[str, float]:
        self.judged += 1
        return {"MAP": self.scores[self.judged - 1], "loss": 0.0}

    def look(self, epoch: ClassifierEpoch) -> None:
        self.seen.append({name: tensor.clone() for name, tensor in self.classifier.state_dict().items()})

    @cached_property
    def history(self) -> tuple[ClassifierEpoch, ...]:
        self.look(ClassifierEpoch(0, "", 0.0, {}, 0.0))
        notes = Notes(notes_of_words(), notes_of_words(2, seed=1), N_LABELS, self.judge)
        return train_classifier(self.classifier, notes, self.recipe, seed=1, runtime=Runtime(log=self.look))

    def moved(self, group: str, epoch: int = 1) -> float:
        """How far the farthest number of a group went in an epoch."""
        before, after = self.seen[epoch - 1 : epoch + 1]
        steps = [float((after[name] - before[name]).abs().max()) for name in after if name.startswith(group)]
        assert steps, group
        return max(steps)


def trained(recipe: Fit, *, scores: tuple[float, ...] = (0.5,) * 20, **options: object) -> Course:
    course = Course(classifier_of(**options), recipe, scores)  # type: ignore[arg-type]
    assert course.history
    return course


@pytest.mark.parametrize(("group", "share"), GROUPS.items(), ids=GROUPS)
def test_each_group_learns_at_its_own_rate(group: str, share: float) -> None:
    assert trained(ONE_STEP).moved(group) == pytest.approx(RATE * share, rel=0.02)  # Adam's first step is the rate


@pytest.mark.parametrize(("knob", "group"), [("ranker_rate", "decoder.ranker"), ("encoder_rate", "encoder")])
def test_a_rate_of_zero_leaves_its_group_alone(knob: str, group: str) -> None:
    course = trained(replace(ONE_STEP, **{knob: 0.0}))
    assert course.moved(group) == 0
    assert course.moved("decoder.learned") > 0


def test_every_group_decays_by_the_recipes_share_of_its_rate() -> None:
    fast = replace(ONE_STEP, learning_rate=0.1)
    plain, decayed = trained(fast), trained(replace(fast, weight_decay=0.5))
    for group, share in GROUPS.items():
        for name in plain.seen[1]:
            if name.startswith(group) and name != NO_SLOPE:
                expected = plain.seen[1][name] - 0.1 * share * 0.5 * plain.seen[0][name]
                assert_close(decayed.seen[1][name], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("schedule", "share"), [("one-cycle", START), ("slanted-triangular", 1 / TRIANGLE_RATIO)])
def test_the_rate_warms_up_where_the_schedule_says_so(schedule: str, share: float) -> None:
    course = trained(replace(ONE_STEP, schedule=schedule))
    assert course.moved("decoder.learned") == pytest.approx(RATE * share, rel=0.02)


def test_layers_unfreeze_from_the_last_to_the_words() -> None:
    course = trained(replace(ONE_STEP, frozen_epochs=1, unfreezing_epochs=1, patience=0))
    encoder = [group for group in GROUPS if group.startswith("encoder")]
    moving = [[course.moved(group, epoch) > 0 for group in encoder] for epoch in (1, 2, 3, 4)]
    assert moving == [[False, False, False], [False, False, True], [False, True, True], [True, True, True]]
    assert all(course.moved(group, epoch) > 0 for group in ("decoder.ranker", "decoder.learned") for epoch in (1, 4))


@pytest.mark.parametrize("best", [1, 2, 3, 4])
def test_the_weights_of_the_epoch_that_was_best_on_the_choosing_notes_are_kept(best: int) -> None:
    scores = tuple(0.9 if epoch == best else 0.1 * epoch for epoch in (1, 2, 3, 4))
    course = trained(replace(ONE_STEP, epochs=4, patience=0), scores=scores)
    kept = course.classifier.state_dict()
    same = [all(torch.equal(kept[name], seen[name]) for name in kept) for seen in course.seen[1:]]
    assert same == [epoch == best for epoch in (1, 2, 3, 4)]


@pytest.mark.parametrize(("measure", "best"), [("MAP", 2), ("loss", 3)])
def test_the_recipes_measure_decides_which_epoch_is_best(measure: str, best: int) -> None:
    course = Course(classifier_of(), replace(ONE_STEP, epochs=3, patience=0, measure=measure))
    judged = iter([(0.1, 0.9), (0.8, 0.7), (0.2, 0.3)])
    course.judge = lambda _: dict(zip(("MAP", "loss"), next(judged), strict=True))  # type: ignore[method-assign]
    assert course.history
    kept = course.classifier.state_dict()
    assert all(torch.equal(kept[name], course.seen[best][name]) for name in kept)


@pytest.mark.parametrize(("patience", "epochs"), [(1, 2), (3, 4), (0, 6)])
def test_training_stops_when_the_choosing_notes_ceased_to_improve(patience: int, epochs: int) -> None:
    course = trained(replace(ONE_STEP, epochs=6, patience=patience), scores=(0.9, 0.5, 0.5, 0.5, 0.5, 0.5))
    assert len(course.history) == epochs


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_states_that_are_kept_while_the_encoder_is_frozen_teach_what_states_made_anew_teach(direction: str) -> None:
    frozen = replace(ONE_STEP, frozen_epochs=2, epochs=0, patience=0, batch=2)
    kept, anew = (trained(replace(frozen, cache_gigabytes=room), direction=direction, segment=4) for room in (4.0, 0.0))
    for ours, theirs in zip(kept.seen[1:], anew.seen[1:], strict=True):
        for name in ours.keys() - {NO_SLOPE}:
            assert_close(ours[name], theirs[name])


@dataclass(frozen=True)
class Saying(ReadingAlone):
    """A system that says one number."""

    number: float

    def read(self, documents: Documents, *, evidence: bool = False) -> PriorReading:
        return PriorReading(np.full((len(documents), 2), self.number, np.float32), documents)


def test_averaged_members_say_the_mean_of_what_each_says() -> None:
    system = MembersSystem((Saying(0.2), Saying(0.6), Saying(1.0)))
    assert system.read(notes_of_words(3)).scores == pytest.approx(np.full((3, 2), 0.6))


def test_a_coder_of_members_is_the_mean_of_coders_fitted_alone(marked: Corpus) -> None:
    pair = load_recipe("plant-bidirectional", ['members=["tfidf", "prior"]', "prepare.min_count=1"])
    alone = [fitted_on(marked, name) for name in ("tfidf", "prior")]
    together, texts = fit_coder(marked, pair), ["worda wordb signc0x", "signc1x"]
    found = [one.probabilities(one.encode(texts)) for one in (*alone, together)]
    np.testing.assert_allclose(found[2], (found[0] + found[1]) / 2, rtol=1e-6)


def notes_with_marks() -> list[Note]:
    """Notes of three splits; the sign of each code is marked."""
    draw, notes = np.random.default_rng(0), []
    for number in range(60):
        codes = [label for label in range(4) if draw.random() < 0.5] or [0]
        words = [f"word{chr(97 + int(letter))}" for letter in draw.integers(0, 20, 8)]
        text = " ".join([*words, *(f"signc{label}x" for label in codes)])
        spans = {f"C{label}": (_span_of(text, f"signc{label}x"),) for label in codes}
        split = ("train", "train", "dev", "test")[number % 4]
        notes.append(Note(f"n{number}", text, tuple(spans), split=split, evidence=spans))
    return notes


def _span_of(text: str, word: str) -> Span:
    return Span(text.index(word), text.index(word) + len(word))


PLAN = Plan(("train",), ("dev",), ("test",))
SMALL = ("fit.epochs=2", "rank.epochs=2", "encoder.embedding=8", "encoder.filters=8", "prepare.min_count=1")


@pytest.fixture(scope="module")
def marked() -> Corpus:
    return corpus_of(notes_with_marks(), plan=PLAN)


def fitted_on(corpus: Corpus, name: str) -> FittedCoder:
    changes = SMALL if name.startswith("plant") else ("prepare.min_count=1", *SMALL[:1])
    return fit_coder(corpus, load_recipe(name, changes))


def reported_otherwise(note: Note) -> Note:
    """Reported notes with other words, codes and marks: new words, often, all said to mean C0."""
    if note.split != "test":
        return note
    text = "newword newword newword worda " + note.text.upper().replace("SIGN", "other")
    return replace(note, text=text, codes=("C0",), evidence={"C0": (Span(0, 7),)})


def marked_otherwise(note: Note) -> Note:
    """Choosing notes whose marks say that a frequent word means C3."""
    if note.split != "dev":
        return note
    return replace(note, codes=note.codes, evidence=dict.fromkeys(note.codes, (Span(0, note.text.index(" ")),)))


@pytest.mark.parametrize("change", [reported_otherwise, marked_otherwise])
@pytest.mark.parametrize("name", ["tfidf", "dictionary", "interaction", "plant-cnn"])
def test_no_coder_depends_on_reported_notes_nor_on_marks_of_choosing_ones(
    name: str, change: Callable[[Note], Note], marked: Corpus
) -> None:
    texts = [note.text for note in notes_with_marks()[:8]]
    coders = [fitted_on(one, name) for one in (marked, corpus_of(list(map(change, notes_with_marks())), plan=PLAN))]
    assert coders[0].vocab == coders[1].vocab
    np.testing.assert_array_equal(coders[0].thresholds, coders[1].thresholds)
    np.testing.assert_array_equal(*(one.probabilities(one.encode(texts)) for one in coders))


@pytest.mark.parametrize("name", ["dictionary", "interaction", "plant-cnn"])
def test_marks_of_fitted_notes_do_matter(name: str, marked: Corpus) -> None:
    bare = corpus_of([replace(note, evidence={}) for note in notes_with_marks()], plan=PLAN)
    texts = [note.text for note in notes_with_marks()[:8]]
    found = [one.probabilities(one.encode(texts)) for one in (fitted_on(marked, name), fitted_on(bare, name))]
    assert not np.array_equal(*found)


def test_codes_of_choosing_notes_decide_the_threshold(marked: Corpus) -> None:
    wrong = [replace(n, codes=("C0",), evidence={}) if n.split == "dev" else n for n in notes_with_marks()]
    coders = [fitted_on(one, "tfidf") for one in (marked, corpus_of(wrong, plan=PLAN))]
    assert coders[0].thresholds[0] != coders[1].thresholds[0]


@pytest.mark.parametrize(("learned", "inattention"), [(True, "mask"), (True, "zero"), (False, "mask")])
def test_inattention_holds_with_and_without_learned_attention(learned: bool, inattention: str) -> None:
    tokens = torch.arange(2, 9).unsqueeze(0)  # all different, so that no two positions tie
    encoded = classifier_of().encode(Batch(tokens, torch.ones_like(tokens, dtype=torch.bool)))
    ranker = BilinearRanker(N_TOKENS, N_LABELS, size=4)
    decoder = PlantedDecoder(
        encoded.states.shape[-1], N_LABELS, ranker=ranker, static=False, learned=learned, inattention=inattention, k=2
    )
    scores = ranker.scores(encoded.tokens[0], torch.arange(N_LABELS))  # label x position
    cut = scores >= scores.topk(2, dim=1).values[:, -1:]
    kept = scores.where(cut, torch.tensor(-torch.inf if inattention == "mask" else 0.0)).softmax(-1)
    found = decoder.attend_by_source(encoded, torch.arange(N_LABELS))["planted"][0]
    assert_close(found, kept)
    weights = kept + (decoder.learned.attention(pack(encoded, segment=0), torch.arange(N_LABELS)) if learned else 0.0)
    logits = (weights * (decoder.learned.weights @ encoded.states[0].T)).sum(-1) + decoder.prior
    assert_close(decoder(encoded).logits[0], logits)


def test_a_printed_recipe_learns_through_all_its_phases(marked: Corpus) -> None:
    small = ("pretrain.epochs=1", "pretrain.embedding=8", "pretrain.hidden=8", "pretrain.batch=4", "rank.epochs=2",
             "rank.hidden=4", "prepare.min_count=1", "fit.batch=30", "fit.epochs=2")  # fmt: skip
    fitted = fit_coder(marked, load_recipe("plant-printed-small-backward", small))
    phases = [epoch["phase"] for epoch in fitted.facts["history"]["model"]]
    assert phases == ["encoder frozen"] * 3 + ["layers from 2", "layers from 1"] + ["all"] * 2
