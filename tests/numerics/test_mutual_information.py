"""Mutual information equals its definition, whatever the counts are."""

from dataclasses import fields

import numpy as np
import pytest

from plant.data.corpus import take
from plant.recipe.schema import Relate
from plant.relevance.counts import count, incidence, label_blocks
from plant.relevance.mutual_information import best_tokens
from plant.steps.relate import relate
from tests.relevance_samples import defined_information, listed, random_view, view_of

FORMS = ("mi", "normalised", "positive")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_lists_of_all_tokens_equal_the_definition(form: str, seed: int) -> None:
    view = random_view(seed)
    relevance = relate(view, Relate(form=form, keep=len(view.vocab)))
    np.testing.assert_allclose(listed(relevance), defined_information(view, form), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keep", [1, 3, 7])
def test_short_lists_hold_the_largest_values_in_order(form: str, keep: int) -> None:
    view = random_view(11, n_documents=50)
    relevance = relate(view, Relate(form=form, keep=keep))
    largest = -np.sort(-defined_information(view, form), axis=1)[:, :keep]
    np.testing.assert_allclose(relevance.scores, largest, atol=1e-6)


def test_tokens_that_never_meet_the_label_are_ranked_too() -> None:
    tokens = [[2, 3]] * 5 + [[4]] * 4 + [[5]]
    view = view_of(tokens, [[0]] * 5 + [[]] * 5, n_tokens=6, n_labels=1)
    relevance = relate(view, Relate(form="mi", keep=4))
    assert relevance.tokens[0].tolist() == [2, 3, 4, 5]
    assert relevance.scores[0, 2] == pytest.approx(defined_information(view)[0, 4], abs=1e-6)


def test_positive_form_lists_no_token_that_speaks_against_the_label() -> None:
    view = view_of([[2, 3]] * 5 + [[4]] * 5, [[0]] * 5 + [[]] * 5, n_tokens=6, n_labels=1)
    relevance = relate(view, Relate(form="positive", keep=4))
    assert relevance.tokens[0].tolist() == [2, 3, 0, 0]


def test_equal_tokens_are_listed_by_number() -> None:
    view = view_of([[5, 3, 4, 2]] + [[6]] * 3, [[0]] + [[]] * 3, n_tokens=8, n_labels=1)
    assert relate(view, Relate(keep=3)).tokens[0].tolist() == [2, 3, 4]


@pytest.mark.parametrize("form", FORMS)
def test_labels_and_tokens_of_every_note_say_nothing(form: str) -> None:
    view = view_of([[2, 3], [2], [2, 4], [2, 3]], [[0, 1], [0], [0, 1], [0]], n_tokens=5, n_labels=2)
    relevance = relate(view, Relate(form=form, keep=5))
    assert not relevance.scores[0].any()
    assert listed(relevance)[1, 2] == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_label_of_one_note_and_empty_notes_are_handled(form: str) -> None:
    view = view_of([[], [2, 3, 2], [], [3]], [[], [0], [], []], n_tokens=4, n_labels=1)
    relevance = relate(view, Relate(form=form, keep=100))
    np.testing.assert_allclose(listed(relevance), defined_information(view, form), atol=1e-6)
    assert relevance.tokens.shape == (1, 4)


def test_notes_without_any_word_give_empty_lists() -> None:
    view = view_of([[], []], [[0], []], n_tokens=3, n_labels=1)
    assert not relate(view, Relate()).scores.any()


def test_a_corpus_without_labels_gives_no_lists() -> None:
    view = view_of([[2], [3]], [[], []], n_tokens=4, n_labels=0)
    assert relate(view, Relate()).tokens.shape == (0, 4)


def test_unknown_words_and_padding_are_never_listed() -> None:
    view = view_of([[0, 1, 2], [1, 3], [2]], [[0], [], []], n_tokens=4, n_labels=1)
    relevance = relate(view, Relate(form="mi", keep=4))
    assert relevance.token_counts[:2].tolist() == [0, 0]
    assert not listed(relevance)[:, :2].any()


def test_counts_of_two_shards_add_up_to_the_counts_of_the_whole() -> None:
    view = random_view(3, n_documents=40)
    sizes = {"n_tokens": len(view.vocab), "n_labels": len(view.codes)}
    shards = [take(view.documents, rows) for rows in (np.arange(17), np.arange(17, 40))]
    first, second = (count(incidence(shard, **sizes)) for shard in shards)
    whole, added = count(incidence(view.documents, **sizes)), first + second
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(added, field.name), getattr(whole, field.name))
    assert added.tokens.dtype == whole.tokens.dtype


def test_threads_and_blocks_change_nothing() -> None:
    view = random_view(4, n_documents=200, n_labels=40)
    found = incidence(view.documents, n_tokens=len(view.vocab), n_labels=len(view.codes))
    blocks = label_blocks(found, most_pairs=50)
    assert len(blocks) > 3
    parts = [best_tokens(count(found, block), form="mi", keep=5) for block in blocks]
    whole = relate(view, Relate(form="mi", keep=5), threads=2)
    np.testing.assert_array_equal(np.concatenate([tokens for tokens, _ in parts]), whole.tokens)
    np.testing.assert_array_equal(np.concatenate([scores for _, scores in parts]), whole.scores)


def test_large_vocabularies_use_wide_token_numbers() -> None:
    view = view_of([[69_999, 2], [3]], [[0], []], n_tokens=70_000, n_labels=1)
    assert relate(view, Relate(keep=2)).tokens[0].tolist() == [2, 69_999]
