"""Facts about relevance that hold for any documents."""

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from plant.data.corpus import TrainingView, take
from plant.recipe.schema import Relate
from plant.relevance.counts import count, incidence, joined
from plant.relevance.grades import gains
from plant.steps.relate import relate
from tests.relevance_samples import defined_information, entropy, listed, view_of

N_TOKENS, N_LABELS = 7, 3


@st.composite
def views(draw: st.DrawFn) -> TrainingView:
    """Few documents of few words and labels: every corner of the counts comes up."""
    n = draw(st.integers(1, 8))
    tokens = draw(st.lists(st.lists(st.integers(0, N_TOKENS - 1), max_size=6), min_size=n, max_size=n))
    labels = draw(st.lists(st.sets(st.integers(0, N_LABELS - 1)), min_size=n, max_size=n))
    return view_of(tokens, [sorted(row) for row in labels], n_tokens=N_TOKENS, n_labels=N_LABELS)


@given(views(), st.sampled_from(["mi", "normalised", "positive"]))
def test_relevance_equals_the_definition(view: TrainingView, form: str) -> None:
    relevance = relate(view, Relate(form=form, keep=N_TOKENS), threads=1)
    np.testing.assert_allclose(listed(relevance), defined_information(view, form), atol=1e-6)


@given(views())
def test_information_lies_between_zero_and_either_entropy(view: TrainingView) -> None:
    relevance = relate(view, Relate(form="mi", keep=N_TOKENS), threads=1)
    of_labels = np.array([entropy(column) for column in view.documents.targets(N_LABELS).T])
    shares = relevance.token_counts / relevance.n_documents
    of_tokens = np.array([entropy(np.arange(len(view.documents)) < share * len(view.documents)) for share in shares])
    assert (relevance.scores >= 0).all()
    assert (listed(relevance) <= np.minimum(of_labels[:, None], of_tokens) + 1e-6).all()


@settings(max_examples=40)
@given(views(), st.lists(st.integers(0, 8), max_size=7), st.sampled_from([N_TOKENS, 70_000]))
def test_counts_add_up_wherever_the_documents_are_parted(view: TrainingView, cuts: list[int], n_tokens: int) -> None:
    """Into up to eight parts, empty ones among them; above 65,536 words tokens are of a wider type."""
    sizes = {"n_tokens": n_tokens, "n_labels": N_LABELS}
    parts = np.split(np.arange(len(view.documents)), sorted(cuts))
    shards = [incidence(take(view.documents, part), **sizes) for part in parts]
    first, *others = map(count, shards)
    whole = incidence(view.documents, **sizes)
    for ours, theirs in ((sum(others, start=first), count(whole)), (joined(shards), whole)):
        for name in (field.name for field in fields(theirs)):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
            assert np.asarray(getattr(ours, name)).dtype == np.asarray(getattr(theirs, name)).dtype


SCORES = st.just(0.0) | st.floats(2**-20, 0.6875, width=32)


@given(st.lists(SCORES, min_size=1, max_size=40), st.sampled_from(["log-rank", "scaled"]))
def test_gains_follow_scores(scores: list[float], grade: str) -> None:
    row = -np.sort(-np.array([scores], dtype=np.float32))
    worth = gains(row, grade)[0]
    assert (np.diff(worth) <= 0).all()
    assert ((worth > 0) == (row[0] > 0)).all()
    assert all(worth[i] == worth[i + 1] for i in range(len(worth) - 1) if row[0, i] == row[0, i + 1])
