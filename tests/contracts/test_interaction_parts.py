"""What every decoder promises, for interaction matching alone and joined with a base."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from plant.codes.codebook import CodeBook
from plant.errors import RecipeError
from plant.nn.classifier import Classifier
from plant.nn.matching.names import Names
from plant.nn.matching.naming import matching_of
from plant.nn.matching.search import Matching
from plant.nn.parts.build import asked_for, build_classifier
from plant.nn.parts.given import Given
from plant.recipe.reading import recipe_from
from plant.store.ragged import offsets
from plant.store.safetensors import read_tensors, write_tensors
from plant.tensors import Batch
from plant.text.vocab import Vocab

WORDS = ("<pad>", "<unk>", "ductal", "carcinoma", "carcinomas", "of", "the", "breast", "flu", "fever", "pain")
NAMES = [((2, 3), 0, 4), ((3,), 1, 3), ((2, 3, 5, 6, 7), 2, 2), ((8,), 3, 1), ((9, 10), 3, 0)]
SYSTEMS = {
    "alone": {"name": "interaction"},
    "tuned": {"name": "interaction", "tune": True},
    "max": {"name": "label-attention", "interaction": {}},
    "sum": {"name": "label-attention", "interaction": {"join": "sum"}},
    "pooled": {"name": "max-pool", "interaction": {}},
}
systems = pytest.mark.parametrize("system", SYSTEMS)
DOCUMENTS = ([2, 3, 9, 10], [4], [5, 6, 7, 2, 3, 5, 6, 7, 3], [1, 1, 8])


def make_names() -> Names:
    lengths = [len(words) for words, _, _ in NAMES]
    return Names(
        words=np.array([word for words, _, _ in NAMES for word in words], np.int32),
        starts=offsets(lengths),
        labels=np.array([label for _, label, _ in NAMES], np.int32),
        support=np.array([support for _, _, support in NAMES], np.int32),
        log_odds=np.array([2.0, 1.0, 3.0, 0.5, 0.1], np.float32),
        n_trained=len(NAMES),
        n_labels=5,
        n_words=len(WORDS),
    )


def build(system: str, *, seed: int = 0) -> Classifier:
    return build_decoder(SYSTEMS[system], seed=seed)


def build_decoder(decoder: dict[str, object], *, seed: int = 0) -> Classifier:
    encoder = {"name": "cnn", "embedding": 5, "kernels": [3], "filters": 4}
    recipe = recipe_from({"encoder": encoder, "decoder": decoder}, where="test")
    frequencies = np.array([0.5, 0.4, 0.1, 0.2, 0.05], np.float32)
    given = Given(Vocab(WORDS), tuple("ABCDE"), CodeBook("other", ()), frequencies, names=make_names())
    torch.manual_seed(seed)
    return build_classifier(recipe, given).double().eval()


def make_batch(documents: tuple[list[int], ...] = DOCUMENTS, *, width: int = 0) -> Batch:
    tokens = torch.zeros(len(documents), max(width, *map(len, documents)), dtype=torch.long)
    for row, document in zip(tokens, documents, strict=True):
        row[: len(document)] = torch.tensor(document)
    return Batch(tokens, tokens > 0)


@systems
def test_padding_and_neighbours_change_nothing(system: str) -> None:
    model = build(system)
    logits = model(make_batch(width=13)).logits
    for row, document in enumerate(DOCUMENTS):
        assert_close(logits[row : row + 1], model(make_batch((document,))).logits, rtol=0, atol=1e-12)


@systems
def test_a_document_without_tokens_gets_finite_logits_and_gradients(system: str) -> None:
    model = build(system)
    logits = model(make_batch(([], [2, 3], []))).logits
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)


@systems
def test_saved_weights_give_the_same_logits(system: str, tmp_path: Path) -> None:
    model, other = build(system), build(system, seed=9)
    write_tensors(tmp_path / "weights.safetensors", {n: t.numpy() for n, t in model.state_dict().items()})
    loaded = read_tensors(tmp_path / "weights.safetensors")
    other(make_batch())  # what it works out from its own vectors must not outlive them
    other.load_state_dict({name: torch.tensor(array) for name, array in loaded.items()})
    assert_close(other(make_batch()).logits, model(make_batch()).logits, rtol=0, atol=0)


@systems
def test_attention_is_a_distribution_over_real_tokens_or_nothing(system: str) -> None:
    model, batch = build(system), make_batch(width=11)
    weights = model.decoder.attend(model.encode(batch), torch.tensor([3, 0, 4]))  # type: ignore[attr-defined]
    assert weights.shape == (4, 3, 11)
    assert (weights >= 0).all()
    sums = weights.sum(-1)
    assert_close(sums.round(), sums)
    assert not weights.masked_select(~batch.mask.unsqueeze(1)).any()


def test_attention_is_on_the_matched_words() -> None:
    model = build("alone")
    weights = model.decoder.attend(model.encode(make_batch()), torch.tensor([0, 3, 2]))  # type: ignore[attr-defined]
    assert_close(weights[0, 0], torch.tensor([0.5, 0.5] + [0.0] * 7).double())
    assert_close(weights[3, 1], torch.tensor([0, 0, 1.0] + [0.0] * 6).double())
    assert not weights[1, 2].any()


def test_a_name_inside_a_longer_match_does_not_count() -> None:
    logits = build("alone")(make_batch()).logits
    prior = torch.tensor([0.5, 0.4, 0.1, 0.2, 0.05]).logit() - 3
    assert_close(logits[0].float(), torch.stack([torch.tensor(2.0), prior[1], prior[2], torch.tensor(0.1), prior[4]]))
    assert_close(logits[2, 1].float(), torch.tensor(1.0))  # the last word of the document stands for itself
    assert_close(logits[2, 0].float(), prior[0])


def test_a_match_in_part_counts_less_and_covers_nothing() -> None:
    logits = build("alone")(make_batch(([2, 3, 5, 8, 7], [2, 3, 5, 6, 7]))).logits
    assert logits[0, 0] == 2.0  # four fifths of the longer name do not cover it
    assert logits[0, 2].item() == pytest.approx(3 - 16 / 5)
    assert logits[1, 2] == 3.0
    assert logits[1, 0] < 0


def test_words_of_similar_letters_match_nearly() -> None:
    logits = build("alone")(make_batch(([2, 3], [2, 4], [2, 8]))).logits[:, 0]
    assert logits[0] > logits[1] > logits[2]


def test_names_marked_in_one_note_are_silent_in_training() -> None:
    model, batch = build("alone"), make_batch(([8],))
    assert model(batch).logits[0, 3] > model.train()(batch).logits[0, 3]


def test_the_joined_logits_are_the_larger_ones_or_the_sum() -> None:
    batch = make_batch()
    for join, expected in (("max", torch.maximum), ("sum", torch.add)):
        model = build(join)
        encoded = model.encode(batch)
        base, matching = model.decoder.base, model.decoder.interaction  # type: ignore[attr-defined]
        other = matching(encoded).logits if join == "max" else matching.evidence(encoded)
        assert_close(model(batch).logits, expected(base(encoded).logits, other))


@systems
def test_training_reaches_the_weights_of_the_names_that_were_found(system: str) -> None:
    model = build(system).train()
    (-model(make_batch()).logits).exp().sum().backward()
    matching = model.decoder if system in ("alone", "tuned") else model.decoder.interaction  # type: ignore[attr-defined]
    assert matching.weights.grad.any()  # type: ignore[union-attr]
    assert matching.absent.grad.any() or system != "alone"  # type: ignore[union-attr]


def test_an_unknown_way_to_join_is_refused() -> None:
    table = {"decoder": {"name": "max-pool", "interaction": {"join": "mean"}}}
    given = Given(Vocab(WORDS), tuple("ABCDE"), CodeBook("other", ()), np.full(5, 0.1, np.float32), names=make_names())
    with pytest.raises(RecipeError, match="max, sum"):
        build_classifier(recipe_from(table, where="test"), given)


def test_a_joined_recipe_asks_for_names() -> None:
    assert "names" in asked_for(recipe_from({"decoder": SYSTEMS["max"]}, where="test"))
    assert "names" not in asked_for(recipe_from({"decoder": {"name": "max-pool"}}, where="test"))


LONG = {
    "max": {"name": "joined"},
    "sum": {"name": "joined", "join": "sum", "base": {"name": "label-attention"}},
    "pooled": {"name": "joined", "join": "max", "base": {"name": "max-pool"}, "interaction": {}},
}


@pytest.mark.parametrize("system", LONG)
def test_a_table_interaction_is_short_for_joined(system: str) -> None:
    short, long = build(system), build_decoder(LONG[system])
    assert_close(long.state_dict(), short.state_dict(), rtol=0, atol=0)
    assert_close(long(make_batch()).logits, short(make_batch()).logits, rtol=0, atol=0)


def test_options_of_both_decoders_reach_them() -> None:
    base, matching = {"name": "max-pool", "dropout": 0.5}, {"slack": 1}
    joined = build_decoder({"name": "joined", "base": base, "interaction": matching}).decoder
    assert (joined.base.dropout.p, joined.interaction.matching.slack) == (0.5, 1)  # type: ignore[attr-defined]


def test_matching_counts_names_as_the_decoder_searches_them() -> None:
    for decoder in ({"name": "interaction", "slack": 1}, {"name": "max-pool", "interaction": {"slack": 1}},
                    {"name": "joined", "interaction": {"slack": 1}}):  # fmt: skip
        assert matching_of(recipe_from({"decoder": decoder}, where="test")) == Matching(slack=1)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"base": {"name": "foo"}}, "unknown decoder 'foo'"),
        ({"base": {"name": "max-pool", "k": 3}}, "unknown option of decoder 'max-pool': 'k'"),
        ({"base": {"name": "planted", "k": 0}}, "decoder.base.k must be at least 1"),
        ({"base": {"name": 3}}, "decoder.base.name must be str"),
        ({"base": "planted"}, "decoder.base must be a table of options"),
        ({"interaction": {"slack": -1}}, "decoder.interaction.slack must be at least 0"),
        ({"join": "mean"}, "value of decoder.join: 'mean'; known: max, sum"),
        ({"bass": {}}, "unknown option of decoder 'joined': 'bass'; known: base, interaction, join"),
        ({"interaction": {"name": "max-pool"}}, "joins interaction matching only"),
    ],
)
def test_what_is_wrong_inside_a_joined_decoder_is_told_with_its_place(decoder: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build_decoder({"name": "joined", **decoder})


def test_a_system_of_names_alone_needs_no_encoder() -> None:
    recipe = recipe_from({"encoder": {"name": "none"}, "decoder": {"name": "interaction"}}, where="test")
    frequencies = np.array([0.5, 0.4, 0.1, 0.2, 0.05], np.float32)
    given = Given(Vocab(WORDS), tuple("ABCDE"), CodeBook("other", ()), frequencies, names=make_names())
    alone = build_classifier(recipe, given).double().eval()
    assert not list(alone.encoder.parameters())  # type: ignore[attr-defined]
    assert_close(alone(make_batch()).logits, build("alone")(make_batch()).logits, rtol=0, atol=0)
