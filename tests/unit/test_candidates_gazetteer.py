"""Dictionaries of what was marked, beside plainer ways of counting."""

from collections import Counter

import numpy as np
import pytest

from plant.candidates.gazetteer import Found, fit_gazetteer, longest_matches, positions, unpack_gazetteer
from plant.candidates.phrases import Tokens, folded_tokens, gather_phrases, stemmed_tokens
from plant.candidates.rates import fit_rates
from plant.candidates.words import stemmer, words_of
from tests.marked_samples import marked_notes


def spans_of(mentions):
    return frozenset((mention.first, mention.last) for mention in mentions)


def tokens_and_spans(kind, n_notes=12):
    notes, mentions = marked_notes(n_notes)
    return [kind(words) for words in notes], [spans_of(own) for own in mentions]


def same(found: Found, other: Found) -> bool:
    return all(np.array_equal(getattr(found, name), getattr(other, name)) for name in vars(found))


def test_phrases_are_found_wherever_a_plain_search_finds_them() -> None:
    notes, _ = tokens_and_spans(folded_tokens)
    wanted = {("carcinoma", "ductal"), ("ductal",), ("se",), ("SE",), ("carcinoma", "ductal", "infiltrante"), ("nada",)}
    phrases = gather_phrases(wanted)
    order = sorted(wanted)
    for tokens in notes:
        spans = [(i, j) for i in range(len(tokens.within)) for j in range(i + 1, len(tokens.within) + 1)]
        plain = [(i, j, order.index(tokens.phrase(i, j))) for i, j in spans if tokens.phrase(i, j) in wanted]
        found = phrases.find(tokens)
        assert list(zip(found.first.tolist(), found.last.tolist(), found.phrase.tolist(), strict=True)) == plain


def test_no_phrases_are_found_nowhere() -> None:
    assert len(gather_phrases([]).find(Tokens(("a",), ("a",)))) == 0
    assert len(gather_phrases([("a",)]).find(Tokens((), ()))) == 0


def test_a_short_word_in_capitals_is_no_word_of_the_language() -> None:
    tumour, pronoun = (folded_tokens(words_of(text, stemmer("spanish"))) for text in ("SE", "se observa Se"))
    gazetteer = fit_gazetteer([tumour], [{(0, 1)}])
    assert len(gazetteer.find(tumour).first) == 1
    assert len(gazetteer.find(pronoun).first) == 0


@pytest.mark.parametrize("kind", [folded_tokens, stemmed_tokens])
def test_counts_are_those_of_a_plain_count(kind) -> None:
    notes, spans = tokens_and_spans(kind)
    gazetteer = fit_gazetteer(notes, spans)
    marked = Counter(tokens.phrase(*span) for tokens, own in zip(notes, spans, strict=True) for span in own)
    standing = Counter(
        tokens.phrase(i, j)
        for tokens in notes
        for i in range(len(tokens.within))
        for j in range(i + 1, len(tokens.within) + 1)
        if tokens.phrase(i, j) in marked
    )
    assert gazetteer.marked.tolist() == [marked[phrase] for phrase in sorted(marked)]
    assert gazetteer.standing.tolist() == [standing[phrase] for phrase in sorted(marked)]


@pytest.mark.parametrize("kind", [folded_tokens, stemmed_tokens])
def test_a_fitted_note_is_shown_what_a_fit_without_it_would_show(kind) -> None:
    notes, spans = tokens_and_spans(kind)
    whole = fit_gazetteer(notes, spans)
    differing = 0
    for left_out in range(len(notes)):
        rest = [number for number in range(len(notes)) if number != left_out]
        without = fit_gazetteer([notes[number] for number in rest], [spans[number] for number in rest])
        shown, refitted = whole.find(notes[left_out], spans[left_out]), without.find(notes[left_out])
        assert same(shown, refitted)
        for ours, theirs in zip(positions(shown, 99), positions(refitted, 99), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        differing += not same(shown, whole.find(notes[left_out]))
    assert differing > 0  # leaving out makes a difference here


def test_what_is_marked_in_a_note_does_not_change_what_it_is_shown() -> None:
    notes, spans = tokens_and_spans(folded_tokens)
    more = [*spans]
    more[3] = frozenset({(0, 1), (1, 3)})
    one, other = fit_gazetteer(notes, spans), fit_gazetteer(notes, more)
    assert same(one.find(notes[3], spans[3]), other.find(notes[3], more[3]))


def test_the_longest_wording_wins_from_left_to_right() -> None:
    first, last = np.array([0, 0, 1, 2, 4], np.int32), np.array([1, 2, 5, 3, 6], np.int32)
    found = Found(first, last, np.ones(5, np.int64), np.ones(5, np.int64))
    assert longest_matches(found) == [1, 3, 4]
    assert positions(found, 7)[0].tolist() == [1, 3, 4, 0, 1, 3, 0]


def test_rates_shown_to_a_fitted_note_are_those_of_a_fit_without_it() -> None:
    notes, mentions = marked_notes(12)
    stems, spans = [words.stems for words in notes], [spans_of(own) for own in mentions]
    whole, differing = fit_rates(stems, spans), 0
    for left_out in range(len(notes)):
        rest = [number for number in range(len(notes)) if number != left_out]
        without = fit_rates([stems[number] for number in rest], [spans[number] for number in rest])
        shown = whole.values(stems[left_out], spans[left_out])
        np.testing.assert_array_equal(shown, without.values(stems[left_out]))
        differing += not np.array_equal(shown, whole.values(stems[left_out]))
    assert differing > 0


def test_rates_are_those_of_a_plain_count() -> None:
    notes, mentions = marked_notes(12)
    rates = fit_rates([words.stems for words in notes], [spans_of(own) for own in mentions])
    for number, stem in enumerate(rates.stems):
        places = [(n, t) for n, words in enumerate(notes) for t, other in enumerate(words.stems) if other == stem]
        within = sum(any(each.first <= t < each.last for each in mentions[n]) for n, t in places)
        first = sum(any(each.first == t for each in mentions[n]) for n, t in places)
        last = sum(any(each.last - 1 == t for each in mentions[n]) for n, t in places)
        assert rates.counts[:, number].tolist() == [len(places), within, first, last]


def test_packing_keeps_everything() -> None:
    notes, spans = tokens_and_spans(stemmed_tokens)
    gazetteer = fit_gazetteer(notes, spans)
    again = unpack_gazetteer(gazetteer.pack())
    assert again.phrases.vocabulary == gazetteer.phrases.vocabulary
    assert all(same(gazetteer.find(tokens), again.find(tokens)) for tokens in notes)
