"""Interaction matching against plain loops."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

from plant.nn.decoders.interaction import Interaction
from plant.nn.matching.kept import KeptMatches, Matches
from plant.nn.matching.names import Names
from plant.nn.matching.search import Found, Matching, identical, phrases_of, positions, read, search, similar_words
from plant.store.ragged import offsets
from plant.tensors import Encoded

VOCAB, LABELS = 30, 7
EVERYTHING: dict[str, Any] = {"threshold": -1.0, "least": -1.0, "longest": False, "slack": 0}


def make_names(n: int = 25, *, seed: int = 0, vocab: int = VOCAB) -> Names:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 5, n)
    return Names(
        words=random.integers(2, vocab, lengths.sum()).astype(np.int32),
        starts=offsets(lengths),
        labels=random.integers(0, LABELS, n).astype(np.int32),
        support=np.zeros(n, np.int32),
        log_odds=random.normal(size=n).astype(np.float32),
        n_trained=n,
        n_labels=LABELS,
        n_words=vocab,
    )


def make_encoded(lengths: tuple[int, ...] = (9, 1, 4, 12), *, vocab: int = VOCAB, seed: int = 1) -> Encoded:
    random = torch.Generator().manual_seed(seed)
    tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = torch.randint(1, vocab, (length,), generator=random)
    return Encoded(torch.zeros(*tokens.shape, 1), tokens, tokens > 0)


def build(names: Names, **options: Any) -> Interaction:
    torch.manual_seed(3)
    return Interaction(VOCAB, LABELS, names=names, size=6, tune=True, **options).double()


def cosine(model: Interaction, word: int, token: int) -> Tensor:
    if 1 in (word, token):
        return torch.zeros(())
    if word == token:
        return torch.ones((), dtype=torch.double)
    one, other = model.words[word], model.words[token]
    return one @ other / (one.norm() * other.norm())


def plain_score(model: Interaction, words: list[int], tokens: list[int], slack: int, threshold: float) -> Tensor:
    """The best mean similarity over all starts, one pair of words after the other."""
    scores = []
    for start in range(1 - len(words), len(tokens)):
        total = torch.zeros((), dtype=torch.double)
        for j, word in enumerate(words):
            within = [start + j + step for step in range(1 + (slack if j else 0))]
            pairs = [cosine(model, word, tokens[k]) for k in within if start + j >= 0 and k < len(tokens)]
            kept = [pair if pair >= threshold else torch.zeros(()) for pair in pairs]
            total = total + (torch.stack([pair.double() for pair in kept]).max() if kept else 0)
        scores.append(total / len(words))
    return torch.stack(scores).max()


@pytest.mark.parametrize(("slack", "threshold"), [(0, -1.0), (0, 0.3), (2, 0.3), (2, -1.0)])
def test_the_printed_form_is_a_plain_double_loop(slack: int, threshold: float) -> None:
    names, encoded = make_names(), make_encoded()
    model = build(names, form="sigmoid", **{**EVERYTHING, "slack": slack, "threshold": threshold})
    logits = model(encoded).logits
    for row, (tokens, mask) in enumerate(zip(encoded.tokens, encoded.mask, strict=True)):
        document = tokens[mask].tolist()
        for label in range(LABELS):
            mine = [i for i in range(len(names)) if names.labels[i] == label]
            each = [names.words[names.starts[i] : names.starts[i + 1]].tolist() for i in mine]
            expected = torch.stack([plain_score(model, words, document, slack, threshold) for words in each]).max()
            assert_close(logits[row, label], expected)


def test_gradients_are_those_of_the_plain_loop() -> None:
    names, encoded = make_names(), make_encoded()
    model = build(names, form="sigmoid", **EVERYTHING)
    model(encoded).logits.sum().backward()
    assert model.words.grad is not None
    fast, model.words.grad = model.words.grad.clone(), None
    plain = torch.zeros((), dtype=torch.double)
    for tokens, mask in zip(encoded.tokens, encoded.mask, strict=True):
        for label in range(LABELS):
            mine = [i for i in range(len(names)) if names.labels[i] == label]
            each = [names.words[names.starts[i] : names.starts[i + 1]].tolist() for i in mine]
            plain = plain + torch.stack([plain_score(model, w, tokens[mask].tolist(), 0, -1.0) for w in each]).max()
    plain.backward()
    assert_close(fast, model.words.grad)


def test_weights_and_scale_choose_the_best_name() -> None:
    names, encoded = make_names(), make_encoded()
    model = build(names, scale=2.0, **EVERYTHING)
    logits = model(encoded).logits
    document = encoded.tokens[0][encoded.mask[0]].tolist()
    for label in range(LABELS):
        values = [
            model.weights[i] + 2 * (plain_score(model, names.words[a:b].tolist(), document, 0, -1.0) - 1)
            for i, (a, b) in enumerate(zip(names.starts, names.starts[1:], strict=False))
            if names.labels[i] == label
        ]
        assert_close(logits[0, label], torch.stack(values).max())


def brute_force(tokens: list[int], names: Names, matching: Matching) -> set[int]:
    """The names with an exact match, words up to `slack` apart, that is inside no longer match."""
    spans = []
    for name, (a, b) in enumerate(zip(names.starts, names.starts[1:], strict=False)):
        words = names.words[a:b].tolist()
        for start in range(len(tokens)):
            places = []
            for j, word in enumerate(words):
                near = range(start + j, min(start + j + 1 + (matching.slack if j else 0), len(tokens)))
                places.append(next((k for k in near if tokens[k] == word), None))
            if None not in places:
                spans.append((name, min(places), max(places)))  # type: ignore[type-var]
    inside = [
        any(c <= a and b <= d and (c, d) != (a, b) for other, c, d in spans) if matching.longest else False
        for _, a, b in spans
    ]
    return {name for (name, _, _), covered in zip(spans, inside, strict=True) if not covered}


def find(tokens: NDArray[np.int64], names: Names, matching: Matching) -> set[int]:
    phrases = phrases_of(names)
    document = read(identical(phrases, VOCAB), tokens, phrases, matching)
    return set(search(document, phrases, matching).names.tolist())


@pytest.mark.parametrize("longest", [True, False])
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_exact_names_are_those_of_a_plain_search(slack: int, longest: bool) -> None:
    matching = Matching(slack=slack, threshold=1.0, least=1.0, longest=longest)
    some = 0
    for seed in range(20):
        names = make_names(40, seed=seed, vocab=6)
        tokens = np.random.default_rng(seed).integers(1, 6, 30)
        expected = brute_force(tokens.tolist(), names, matching)
        assert find(tokens, names, matching) == expected
        some += len(expected)
    assert some > 50


def test_a_skipped_name_is_one_that_could_not_have_matched() -> None:
    names = make_names(200, seed=4)
    tokens = np.random.default_rng(5).integers(2, VOCAB, 60)
    low = Matching(slack=1, threshold=0.0, least=-1.0, longest=False)
    phrases = phrases_of(names)
    distinct, places = np.unique(tokens, return_inverse=True)
    similar = np.random.default_rng(6).random((len(phrases.distinct), len(distinct)))
    document = read(similar_words(similar, threshold=0.0), places, phrases, low)
    every = search(document, phrases, low)
    some = search(document, phrases, Matching(slack=1, threshold=0.0, least=0.9, longest=False))
    kept = every.scores >= 0.9 - 1e-6
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_array_equal(some.names, every.names[kept])
    np.testing.assert_allclose(some.scores, every.scores[kept])


def test_positions_carry_the_score() -> None:
    names = make_names(50, seed=2)
    tokens = np.random.default_rng(3).integers(2, VOCAB, 40)
    matching = Matching(slack=2, threshold=0.2, least=-1.0, longest=False)
    phrases = phrases_of(names)
    distinct, places = np.unique(tokens, return_inverse=True)
    similar = np.random.default_rng(4).random((len(phrases.distinct), len(distinct)))
    similar[similar < matching.threshold] = 0
    document = read(similar_words(similar, threshold=matching.threshold), places, phrases, matching)
    found = search(document, phrases, matching)
    words, at = positions(document, phrases, found, slack=2)
    values = np.where(at >= 0, similar[phrases.words[words], places[at]], 0)
    lengths = phrases.lengths(found.names)
    sums = np.add.reduceat(values, offsets(lengths)[:-1])
    np.testing.assert_allclose(sums / lengths, found.scores)


def fixed(names: Names, **options: Any) -> Interaction:
    """Matching with vectors that are not learned."""
    torch.manual_seed(3)
    return Interaction(VOCAB, LABELS, names=names, size=6, threshold=0.3, least=0.3, **options)


def forgetful(model: Interaction, work: Callable[[], Tensor]) -> Tensor:
    """What a model says that has never read anything before."""
    model._kept.forget()
    return work()


@pytest.mark.parametrize("training", [True, False])
def test_kept_matches_give_what_a_new_search_gives_after_weights_have_changed(training: bool) -> None:
    names = replace(make_names(60), support=np.arange(60, dtype=np.int32) % 3)
    model, encoded = fixed(names).train(training), make_encoded()
    model.train(not training)(encoded)  # kept for the other way of reading
    model.train(training)(encoded)
    with torch.no_grad():
        model.weights.normal_()
        model.scale.fill_(0.5)
    kept = model(encoded).logits
    assert len(model._kept) == 2 * len(encoded.tokens)
    assert torch.equal(kept, forgetful(model, lambda: model(encoded).logits))


def test_matches_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, encoded = fixed(make_names(60)), make_encoded()
    model(encoded)
    monkeypatch.setattr("plant.nn.matching.placed.search", lambda *_: pytest.fail("searched again"))
    model.attend(encoded, torch.arange(LABELS))


def test_vectors_that_are_learned_are_searched_again() -> None:
    model, encoded = build(make_names(60), threshold=0.3, least=0.3), make_encoded()
    before = model(encoded).logits
    with torch.no_grad():
        model.words.normal_()
    assert not torch.equal(before, model(encoded).logits)
    assert len(model._kept) == 0


def test_loaded_vectors_make_a_new_search() -> None:
    model, other, encoded = fixed(make_names(60)), fixed(make_names(60)), make_encoded()
    with torch.no_grad():
        other.words.normal_()
    model(encoded)
    model.load_state_dict(other.state_dict())
    assert torch.equal(model(encoded).logits, other(encoded).logits)


def test_attention_of_asked_labels_is_that_of_all() -> None:
    model, encoded = fixed(make_names(60)).eval(), make_encoded()
    every = model.attend(encoded, torch.arange(LABELS))
    asked = torch.tensor([5, 0, 5, 3])
    assert bool(every.any())
    assert_close(model.attend(encoded, asked), every[:, asked])


def test_older_notes_go_when_there_are_too_many() -> None:
    kept = KeptMatches(most=2_000)
    nothing = np.empty(0, np.int64)
    found = Matches(
        np.zeros(1, np.int64), Found(nothing, nothing, np.empty(0)), np.zeros(1, np.int64), nothing, nothing
    )
    for note in range(1_000):
        kept.of(np.array([note]), "", lambda: found)
    assert 0 < len(kept) <= 20
    kept.of(np.array([999]), "", lambda: pytest.fail("the last note is kept"))
