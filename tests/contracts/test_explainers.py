"""Every explainer: finite weights on real tokens, none on padding, the same alone and in a batch."""

import pytest
import torch

from plant.data.corpus import training_view
from plant.errors import InputError
from plant.explain.gradients import integrated_gradients
from plant.explain.occlusion import WINDOW, occlusion
from plant.explain.table import EXPLAINERS, explainer_named
from plant.nn.classifier import Classifier
from plant.nn.decoders.interaction import Interaction
from plant.nn.decoders.label_attention import LabelAttention
from plant.nn.decoders.planted import PlantedDecoder
from plant.nn.decoders.pooled import LastState, MaxPool
from plant.nn.encoders.cnn import CNN
from plant.nn.encoders.nothing import Nothing
from plant.nn.losses import BCE
from plant.nn.parts.protocols import Encoder
from plant.nn.planting.ranker import BilinearRanker
from plant.recipe.schema import Relate
from plant.steps.relate import relate
from plant.tensors import Batch
from plant.text.vocab import UNKNOWN
from tests.made_up import corpus_of, notes_of

LABELS = torch.tensor([2, 0])


def planted() -> Classifier:
    torch.manual_seed(0)
    view = training_view(corpus_of(notes_of(20)))
    ranker = BilinearRanker(len(view.vocab), len(view.codes), size=4)
    encoder = CNN(len(view.vocab), embedding=6, filters=6, kernels=(3,))
    decoder = PlantedDecoder(encoder.size, len(view.codes), relevance=relate(view, Relate()), ranker=ranker, k=4)
    return Classifier(encoder, decoder, BCE()).eval()


def batch(*lengths: int, padding: int = 0) -> Batch:
    width = max(lengths) + padding
    tokens = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.arange(2, 2 + length) + row
    return Batch(tokens, torch.arange(width) < torch.tensor(lengths).unsqueeze(1))


@pytest.mark.parametrize("name", EXPLAINERS)
def test_padding_and_neighbours_change_nothing(name: str) -> None:
    classifier = planted()
    alone = EXPLAINERS[name](classifier, classifier.encode(batch(7)), LABELS)
    together = EXPLAINERS[name](classifier, classifier.encode(batch(7, 12, padding=3)), LABELS)
    torch.testing.assert_close(together[:1, :, :7], alone)
    assert together.shape == (2, 2, 15)
    assert torch.isfinite(together).all()
    assert (together[0, :, 7:] == 0).all()
    assert alone.any()


@pytest.mark.parametrize("name", ["attention", "learned", "planted"])
def test_attention_weighs_real_tokens_and_is_positive(name: str) -> None:
    classifier = planted()
    weights = EXPLAINERS[name](classifier, classifier.encode(batch(9)), LABELS)
    assert (weights >= 0).all()


def test_integrated_gradients_add_up_to_the_evidence() -> None:
    classifier, asked = planted(), batch(9)
    encoded = classifier.encode(asked)
    weights = integrated_gradients(classifier, encoded, LABELS)
    whole = classifier.decoder(encoded).logits[:, LABELS]
    empty = classifier.decoder(type(encoded)(encoded.states * 0, encoded.tokens, encoded.mask)).logits[:, LABELS]
    torch.testing.assert_close(weights.sum(-1), whole - empty, atol=1e-3, rtol=1e-2)


def test_occlusion_is_the_fall_when_words_are_hidden() -> None:
    classifier, asked = planted(), batch(6)
    weights = occlusion(classifier, classifier.encode(asked), LABELS)[0]
    whole = classifier(asked).logits[0, LABELS]
    expected, times = torch.zeros(2, 6), torch.zeros(6)
    for start in range(1 - WINDOW, 6):
        hidden = [place for place in range(start, start + WINDOW) if 0 <= place < 6]
        tokens = asked.tokens.clone()
        tokens[0, hidden] = UNKNOWN
        fall = whole - classifier(Batch(tokens, asked.mask)).logits[0, LABELS]
        for place in hidden:
            expected[:, place] += fall
            times[place] += 1
    torch.testing.assert_close(weights, expected.detach() / times)


def test_a_decoder_without_attention_says_so() -> None:
    encoder = CNN(30, embedding=6, filters=6, kernels=(3,))
    classifier = Classifier(encoder, LastState(encoder.size, 3), BCE()).eval()
    with pytest.raises(InputError, match="no attention"):
        EXPLAINERS["attention"](classifier, classifier.encode(batch(5)), LABELS)
    with pytest.raises(InputError, match="planted attention"):
        EXPLAINERS["planted"](classifier, classifier.encode(batch(5)), LABELS)
    assert explainer_named("", classifier)(classifier, classifier.encode(batch(5)), LABELS).any()


def test_a_missing_source_and_an_unknown_explainer_are_refused() -> None:
    encoder = CNN(30, embedding=6, filters=6, kernels=(3,))
    classifier = Classifier(encoder, PlantedDecoder(encoder.size, 3, static=False, planted=False), BCE()).eval()
    with pytest.raises(InputError, match="fitted without static"):
        EXPLAINERS["static"](classifier, classifier.encode(batch(5)), LABELS)
    with pytest.raises(InputError, match="unknown explainer 'atention'.*Did you mean 'attention'"):
        explainer_named("atention", classifier)


@pytest.mark.parametrize("encoder", [CNN(30, embedding=6, filters=6, kernels=(3,)), Nothing()], ids=["cnn", "none"])
@pytest.mark.parametrize("name", ["gradient", "integrated", "attention-integrated"])
def test_a_decoder_that_looks_at_no_state_has_no_gradients(encoder: Encoder, name: str) -> None:
    decoder = Interaction(30, 3, descriptions=torch.tensor([[2], [3], [4]]), size=4)
    classifier = Classifier(encoder, decoder, BCE()).eval()
    with pytest.raises(InputError, match="by attention or occlusion"):
        EXPLAINERS[name](classifier, classifier.encode(batch(5)), LABELS)
    assert explainer_named("", classifier)(classifier, classifier.encode(batch(5)), LABELS).any()
    assert occlusion(classifier, classifier.encode(batch(5)), LABELS).any()


def test_pooled_and_attending_decoders_explain_themselves_by_default() -> None:
    encoder = CNN(30, embedding=6, filters=6, kernels=(3,))
    for decoder in (MaxPool(encoder.size, 3), LabelAttention(encoder.size, 3)):
        classifier = Classifier(encoder, decoder, BCE()).eval()
        assert explainer_named("", classifier)(classifier, classifier.encode(batch(5)), LABELS).any()


def test_planted_attention_explains_itself_and_its_learned_twin_does_not() -> None:
    encoder = CNN(30, embedding=6, filters=6, kernels=(3,))
    twin = Classifier(encoder, PlantedDecoder(encoder.size, 3, static=False, planted=False), BCE()).eval()
    assert explainer_named("", planted()) is EXPLAINERS["attention"]
    assert explainer_named("", twin) is EXPLAINERS["attention-integrated"]
