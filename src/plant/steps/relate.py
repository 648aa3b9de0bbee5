"""relate: from fitted notes, and the names of labels, to the tokens that say most about each label."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.data.corpus import TrainingView
from plant.data.mentions import mined_mentions
from plant.data.shards import ShardedCorpus
from plant.recipe.schema import Relate
from plant.relevance.counts import Incidence, PairCounts, count, incidence, joined, label_blocks, token_type
from plant.relevance.mutual_information import Form, best_tokens
from plant.relevance.pooled import of_labels
from plant.relevance.relevance import Relevance
from plant.relevance.store import RELEVANCE, Named, name_files
from plant.steps.step import Step, Work, always
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab
from plant.types import Progress, silent

LABELS_AT_ONCE = 512  # of counts that are all in memory
Best = tuple[range, NDArray[np.integer], NDArray[np.float32]]
Find = Callable[[Incidence, Sequence[range], Form, int], Iterator[Best]]
"""Called as `find(found, blocks, form, keep)`: the best tokens and scores of each block of labels, in any order."""


def in_threads(threads: int | None = None) -> Find:
    """Blocks of labels in threads of this process, as many as there are cores unless said otherwise."""

    def find(found: Incidence, blocks: Sequence[range], form: Form, keep: int) -> Iterator[Best]:
        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            yield from pool.map(
                lambda labels: (labels, *best_tokens(count(found, labels), form=form, keep=keep)), blocks
            )

    return find


def relate(
    view: TrainingView,
    recipe: Relate,
    progress: Progress = silent,
    *,
    threads: int | None = None,
    find: Find | None = None,
) -> Relevance:
    """The best tokens of every label; the result does not depend on the number of threads, nor on who finds them."""
    return relate_views([view], recipe, progress, find=find or in_threads(threads))


def relate_views(
    views: Iterable[TrainingView], recipe: Relate, progress: Progress = silent, *, find: Find | None = None
) -> Relevance:
    """The same of notes that come in shards, one after the other, as if they had come as one."""
    parts: list[Incidence] = []
    named: dict[int, set[int]] = {}
    for view in views:
        parts.append(incidence(view.documents, n_tokens=len(view.vocab), n_labels=len(view.codes)))
        if recipe.named:
            named = named or _tokens_of_names(view.vocab, view.codebook, view.codes)
            for words, label in mined_mentions(view) if recipe.marked else ():
                named[label].update(words)
    found = joined(parts)
    naming = {label: sorted(words) for label, words in named.items()}
    return _related(found, view.codes, naming, recipe, find or in_threads(), progress)


def _related(
    found: Incidence,
    codes: tuple[str, ...],
    named: Mapping[int, list[int]],
    recipe: Relate,
    find: Find,
    progress: Progress,
) -> Relevance:
    keep = min(recipe.keep, found.n_tokens)
    tokens = np.zeros((found.n_labels, keep), dtype=token_type(found.n_tokens))
    scores = np.zeros((found.n_labels, keep), dtype=np.float32)
    done = 0
    for labels, best, worth in find(found, label_blocks(found), recipe.form, keep):
        tokens[labels.start : labels.stop], scores[labels.start : labels.stop] = best, worth
        for label in labels:
            if label in named:
                _raise(tokens[label], scores[label], named[label], 1 + recipe.named)
        done += len(labels)
        progress("relate", done, found.n_labels)
    return Relevance(
        codes=codes,
        tokens=tokens,
        scores=scores,
        label_counts=np.diff(found.document_starts),
        token_counts=found.token_counts,
        n_documents=found.n_documents,
        form=recipe.form,
    )


def relate_counts(named: Named[PairCounts], recipe: Relate, progress: Progress = silent) -> Named[Relevance]:
    """The best tokens of every label from counts alone; names of codes count more, words that coders marked cannot."""
    counts, vocab, book = named.thing, named.vocab, named.codebook
    n_labels, keep = len(book.codes), min(recipe.keep, len(vocab))
    tokens = np.zeros((n_labels, keep), dtype=token_type(len(vocab)))
    scores = np.zeros((n_labels, keep), dtype=np.float32)
    naming = _tokens_of_names(vocab, book, book.codes) if recipe.named else {}
    for first in range(0, n_labels, LABELS_AT_ONCE):
        labels = range(first, min(first + LABELS_AT_ONCE, n_labels))
        found = best_tokens(of_labels(counts, labels), form=recipe.form, keep=keep)
        tokens[labels.start : labels.stop], scores[labels.start : labels.stop] = found
        for label in labels:
            if label in naming:
                _raise(tokens[label], scores[label], sorted(naming[label]), 1 + recipe.named)
        progress("relate", labels.stop, n_labels)
    about = (counts.label_counts, counts.token_counts, counts.n_documents, recipe.form)
    return Named(Relevance(book.codes, tokens, scores, *about), named.files)


def count_all(views: Iterable[TrainingView]) -> Named[PairCounts]:
    """All counts of the fitted notes: larger than relevance, but they can be added to those of other notes."""
    parts: list[Incidence] = []
    for view in views:  # of shards, which come one after the other: words and codes are those of all
        parts.append(incidence(view.documents, n_tokens=len(view.vocab), n_labels=len(view.codes)))
    return Named(count(joined(parts)), name_files(view.vocab, view.codebook, view.codes))


def relate_step(find: Find | None = None) -> Step:
    """The step; who finds the tokens changes nothing of it."""

    def make(work: Work) -> Named[Relevance]:
        view: TrainingView = work["view"]
        relevance = relate(view, work.section(Relate), work.progress, find=find)
        return Named(relevance, name_files(view.vocab, view.codebook, view.codes))

    return Step("relevance", make, always("view"), sections=("relate",), kind=RELEVANCE)


RELATE = relate_step()


def relate_shards_step(find: Find | None = None) -> Step:
    """The same step from a corpus in shards, of which one at a time is looked at."""

    def make(work: Work) -> Named[Relevance]:
        corpus: ShardedCorpus = work["shards"]
        relevance = relate_views(corpus.views(), work.section(Relate), work.progress, find=find)
        first = corpus.shards[0]
        return Named(relevance, name_files(first.vocab, first.codebook, corpus.codes))

    return Step("relevance", make, always("shards"), sections=("relate",), kind=RELEVANCE)


def _tokens_of_names(vocab: Vocab, codebook: CodeBook, codes: Sequence[str]) -> dict[int, set[int]]:
    named: dict[int, set[int]] = {}
    for label, code in enumerate(codes):
        forms = [form for name in codebook.names(code) for form in tokenize(name).forms]
        named[label] = set(vocab.encode(forms).tolist())
    return named


def _raise(tokens: NDArray[np.integer], scores: NDArray[np.float32], named: list[int], factor: float) -> None:
    """Multiply the scores of a label's naming tokens and put its list in order again; ties stay as they were."""
    scores[np.isin(tokens, named)] *= factor
    order = np.argsort(-scores, kind="stable")
    tokens[:], scores[:] = tokens[order], scores[order]
