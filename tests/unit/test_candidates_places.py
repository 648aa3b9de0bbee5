"""Finders of places: what they offer, and what must not change it."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from plant.candidates.clusters import cluster_words, k_means
from plant.candidates.gazetteer import fit_gazetteer
from plant.candidates.places import Finder, FinderOptions, Places, find_places, fit_finder, unpack_finder
from plant.candidates.tagging import (
    BEGIN,
    END,
    INSIDE,
    OUTSIDE,
    SINGLE,
    TEMPLATES,
    gather_features,
    spans_of_tags,
    tags_of,
)
from plant.candidates.words import words_of
from tests.marked_samples import STEM, marked_note, marked_notes
from tests.unit.test_candidates_words import ODD

NAMES = (("sarcom",), ("cirug", "previ"))


def some_clusters():
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    return cluster_words(["carcinoma", "Ductal", "ductal", "mama", "se", "cirugía"], vectors, sizes=(2, 3, 4))


def fitted(n_notes: int = 30, **options) -> Finder:
    notes, mentions = marked_notes(n_notes)
    return fit_finder(
        notes, mentions, names=NAMES, clusters=some_clusters(), options=FinderOptions(iterations=20, **options)
    )


@pytest.fixture(scope="module")
def finder() -> Finder:
    return fitted()


def equal(places: Places, others: Places) -> bool:
    return all(np.array_equal(getattr(places, each.name), getattr(others, each.name)) for each in fields(Places))


def spans(places: Places, which=slice(None)) -> set[tuple[int, int]]:
    return set(zip(places.first[which].tolist(), places.last[which].tolist(), strict=True))


def test_mentions_of_a_new_note_are_among_the_places(finder: Finder) -> None:
    found = wanted = right = chosen = 0
    for seed in range(100, 140):
        words, mentions = marked_note(seed)
        places, gold = find_places(finder, words), {(each.first, each.last) for each in mentions}
        found, wanted = found + len(gold & spans(places)), wanted + len(gold)
        right, chosen = right + len(gold & spans(places, places.on_path)), chosen + int(places.on_path.sum())
    assert found > 0.95 * wanted
    assert 2 * right / (chosen + wanted) > 0.7  # one in five is left unmarked at random


def test_the_order_of_the_notes_changes_nothing(finder: Finder) -> None:
    notes, mentions = marked_notes(30)
    order = np.random.default_rng(1).permutation(30).tolist()
    other = fit_finder(
        [notes[place] for place in order],
        [mentions[place] for place in order],
        names=NAMES[::-1],
        clusters=some_clusters(),
        options=finder.options,
    )
    ours, theirs = finder.pack(), other.pack()
    assert ours[0] == theirs[0]
    assert ours[1].keys() == theirs[1].keys()
    for name, array in ours[1].items():
        np.testing.assert_array_equal(array, theirs[1][name], err_msg=name)


def test_another_seed_learns_from_other_sentences(finder: Finder) -> None:
    notes, mentions = marked_notes(30)
    other = fit_finder(notes, mentions, names=NAMES, clusters=some_clusters(), options=finder.options, seed=2)
    words = marked_note(100)[0]
    assert not np.array_equal(find_places(finder, words).inside, find_places(other, words).inside)


@pytest.mark.parametrize("n_notes", [0, 30])
def test_what_is_packed_is_unpacked(n_notes: int) -> None:
    finder = fitted(n_notes)
    again = unpack_finder(*finder.pack())
    words = [marked_note(seed)[0] for seed in range(100, 110)]
    assert all(equal(find_places(finder, each), find_places(again, each)) for each in words)


@pytest.mark.parametrize("text", [*ODD, *(f"Un carcinoma ductal {text} SE" for text in ODD)])
def test_places_are_words_of_the_note_however_odd(finder: Finder, text: str) -> None:
    words = words_of(text, STEM)
    places = find_places(finder, words)
    assert (places.first >= 0).all()
    assert (places.first < places.last).all()
    assert (places.last <= len(words)).all()
    assert len(spans(places)) == len(places)
    assert np.isfinite(places.inside).all()


def test_without_marks_only_names_are_places() -> None:
    notes, mentions = marked_notes(5)
    finder = fit_finder(notes, [()] * len(mentions), names=NAMES)
    words = words_of("Tras la cirugía previa: sarcoma, carcinoma ductal.", STEM)
    places = find_places(finder, words)
    assert finder.tagger is None
    assert spans(places) == {(2, 4), (5, 6)}
    assert places.named.all()
    assert not places.probability.any()


def test_a_tagger_that_knows_only_whole_sentences_is_fitted_too() -> None:
    words = words_of("SE\nSE\nSE", STEM)
    finder = fit_finder([words], [[marked_note(0)[1][0].__class__(place, place + 1, 0) for place in range(3)]])
    assert spans(find_places(finder, words_of("SE", STEM))) == {(0, 1)}


def test_probabilities_of_places_are_the_least_of_their_tags(finder: Finder) -> None:
    from plant.candidates.places import _likely_spans, _span_probabilities

    draws = np.random.default_rng(0).dirichlet(np.ones(5) * 0.7, size=24).astype(np.float32)
    sentences = np.array([0, 9, 10, 24], np.int32)

    def plain(i: int, j: int) -> float:
        if j - i == 1:
            return draws[i, SINGLE]
        return min(draws[i, BEGIN], draws[j - 1, END], *draws[i + 1 : j - 1, INSIDE], 1)

    bounds = list(pairwise(sentences.tolist()))
    wanted = [(i, j) for a, b in bounds for i in range(a, b) for j in range(i + 1, b + 1) if j - i <= 4]
    wanted = [(i, j) for i, j in wanted if plain(i, j) > 0.1]
    found = _likely_spans(draws, sentences, 0.1, 4)
    assert sorted(map(tuple, found.tolist())) == wanted
    np.testing.assert_array_equal(
        _span_probabilities(draws, found[:, 0], found[:, 1]), [plain(i, j) for i, j in found.tolist()]
    )


def test_dictionaries_say_of_a_place_what_they_count(finder: Finder) -> None:
    notes, mentions = marked_notes(30)
    words = marked_note(101)[0]
    places = find_places(finder, words)
    for row, (first, last) in enumerate(zip(places.first.tolist(), places.last.tolist(), strict=True)):
        wording = words.folded[first:last]
        if len(wording) == 1:
            continue
        marked = sum(n.folded[m.first : m.last] == wording for n, own in zip(notes, mentions, strict=True) for m in own)
        standing = sum(
            n.folded[i : i + len(wording)] == wording for n in notes for i in range(len(n) - len(wording) + 1)
        )
        assert places.folded_marked[row] == marked
        assert places.folded_share[row] == pytest.approx(marked / standing if marked else 0)
    assert (places.folded_marked > 0).any()


def test_of_overlapping_mentions_the_longest_is_tagged_and_none_over_two_sentences() -> None:
    sentences = np.array([0, 6, 9])
    tags = tags_of({(0, 2), (1, 4), (4, 5), (5, 7), (7, 9)}, 9, sentences)
    assert tags.tolist() == [OUTSIDE, BEGIN, INSIDE, END, SINGLE, OUTSIDE, OUTSIDE, BEGIN, END]
    assert spans_of_tags(tags).tolist() == [[1, 4], [4, 5], [7, 9]]


def test_features_are_those_of_a_plain_listing() -> None:
    from plant.candidates.tagging import ABSENT, BEYOND, KINDS

    draw = np.random.default_rng(0)
    values = draw.integers(2, 6, size=(len(KINDS), 12)).astype(np.int32)
    values[draw.random(values.shape) < 0.3] = ABSENT
    starts = np.array([0, 5, 6, 12], np.int64)

    def plain(place: int, start: int, end: int) -> set[tuple]:
        features = set()
        for number, template in enumerate(TEMPLATES):
            seen = [(KINDS.index(kind), place + offset) for kind, offset in template]
            found = [int(values[kind, at]) if start <= at < end else BEYOND for kind, at in seen]
            if ABSENT not in found:
                features.add((number, *found))
        return features

    bounds = [(a, b) for a, b in pairwise(starts) for _ in range(a, b)]
    wanted = [plain(place, *bounds[place]) for place in range(12)]
    sequences = gather_features(values, starts, min_count=1).sequences(values, starts)
    rows = [sequences.columns[a:b] for a, b in pairwise(sequences.row_starts)]
    assert [len(row) for row in rows] == [len(each) for each in wanted]
    for one in range(12):
        for other in range(12):
            assert len(np.intersect1d(rows[one], rows[other])) == len(wanted[one] & wanted[other])


def test_features_seen_too_seldom_are_left_out() -> None:
    notes, mentions = marked_notes(10)
    often, all_of_them = (
        fit_finder(notes, mentions, options=FinderOptions(min_count=count, l1=0.0)) for count in (3, 1)
    )
    assert len(often.tagger.features.keys) < len(all_of_them.tagger.features.keys)
    assert np.isin(often.tagger.features.keys, all_of_them.tagger.features.keys).all()


def test_clusters_know_folded_words_and_no_others() -> None:
    clusters = some_clusters()
    found = clusters.of(("cirugia", "ductal", "nada"))
    assert (found[:, :2] > 0).all()
    assert (found[:, 2] == 0).all()
    assert (found.max(1) <= [2, 3, 4]).all()


def test_k_means_ends_where_every_point_has_its_nearest_mean() -> None:
    points = np.random.default_rng(3).normal(size=(200, 3)).astype(np.float32)
    clusters = k_means(points, 7, rounds=200, seed=1)
    means = np.stack([points[clusters == cluster].mean(0) for cluster in range(7)])
    distances = ((points[:, None] - means) ** 2).sum(2)
    np.testing.assert_array_equal(distances.argmin(1), clusters)


def test_fewer_words_than_clusters_are_no_trouble() -> None:
    assert len(cluster_words(["a", "b"], np.eye(2, dtype=np.float32)).words) == 2
    assert cluster_words([], np.zeros((0, 4), np.float32)).of(("a",)).tolist() == [[0], [0], [0]]


def test_a_note_is_shown_no_dictionary_with_its_own_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    import plant.candidates.places as module

    shown = []
    plain_positions = module.positions
    monkeypatch.setattr(module, "positions", lambda found, n: shown.append((found, n)) or plain_positions(found, n))
    notes, mentions = marked_notes(6)
    fit_finder(notes, mentions, options=FinderOptions(iterations=2))
    lengths = {len(words): number for number, words in enumerate(notes)}
    assert len(lengths) == len(notes)
    assert len(shown) == 2 * len(notes)
    for found, n_words in shown[::2]:
        number = lengths[n_words]
        rest = [other for other in range(len(notes)) if other != number]
        tokens = [module.folded_tokens(words) for words in notes]
        own = [{(each.first, each.last) for each in marked} for marked in mentions]
        without = fit_gazetteer([tokens[other] for other in rest], [own[other] for other in rest])
        assert np.array_equal(found.marked, without.find(tokens[number]).marked)
        assert np.array_equal(found.first, without.find(tokens[number]).first)


def test_options_change_what_is_offered(finder: Finder) -> None:
    words = marked_note(100)[0]
    few = replace(finder, options=replace(finder.options, threshold=0.9, share=0.9))
    assert spans(find_places(few, words)) <= spans(find_places(finder, words))
