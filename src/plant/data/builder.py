"""From a stream of notes to a corpus, one pass, memory bounded by the number of notes and distinct words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.data.corpus import Corpus, Documents, Role
from plant.data.roles import Plan, assign_roles
from plant.data.sources.books import check_separator, named_book
from plant.data.splits import check_groups, random_split, stratified_split
from plant.data.spool import RaggedSpool, Spool
from plant.errors import InputError
from plant.recipe.schema import Prepare
from plant.store.ragged import owners
from plant.store.strings import Strings
from plant.text.surfaces import Surfaces, scan_words
from plant.text.tokenizer import code_points
from plant.text.vocab import UNKNOWN, Vocab, build_vocab
from plant.types import Note, Progress, silent

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
CHUNK = 1 << 22
MOST_SPLITS = 100  # more are texts or ids in the wrong column


@dataclass
class Builder:
    """The arrays of a corpus while notes stream in; words have the numbers of their surfaces until the end."""

    recipe: Prepare
    workspace: Path | None = None
    surfaces: Surfaces = field(default_factory=Surfaces)
    codes: dict[str, int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    tokens_lost: int = 0
    notes_cut: int = 0
    spools: list[Spool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = RaggedSpool(self._spool("tokens", np.int32))
        self.char_starts = self._spool("char_starts", np.int32)
        self.char_ends = self._spool("char_ends", np.int32)
        self.labels = RaggedSpool(self._spool("labels", np.int32))
        self.evidence_labels = RaggedSpool(self._spool("evidence_labels", np.int32))
        self.evidence_spans = self._spool("evidence_spans", np.int32)
        self.text = RaggedSpool(self._spool("text", np.uint8))

    def add(self, note: Note) -> None:
        """Turn one note into numbers."""
        self.ids.append(note.id)
        self.splits.append(note.split)
        self.groups.append(note.group)
        self._add_words(note.text)
        self.labels.append(sorted({self._label(code) for code in note.codes}))
        spans = [(self._label(code), span) for code, marked in note.evidence.items() for span in marked]
        self.evidence_labels.append([label for label, _ in spans])
        self.evidence_spans.append([end for _, span in spans for end in (span.start, span.end)])
        text = note.text.encode("utf-8", "surrogatepass") if self.recipe.keep_text else b""
        self.text.append(np.frombuffer(text, np.uint8))

    def _add_words(self, text: str) -> None:
        points = code_points(text)
        starts, ends = scan_words(points, keep_numbers=self.recipe.keep_numbers)
        limit = self.recipe.max_tokens or len(starts)
        self.tokens_lost += max(0, len(starts) - limit)
        self.notes_cut += len(starts) > limit
        starts, ends = starts[:limit], ends[:limit]
        self.tokens.append(self.surfaces.number(points, starts, ends))
        self.char_starts.append(starts)
        self.char_ends.append(ends)

    def _label(self, code: str) -> int:
        return self.codes.setdefault(code, len(self.codes))

    def _spool(self, name: str, dtype: type) -> Spool:
        self.spools.append(Spool(name, dtype, self.workspace))
        return self.spools[-1]

    def close(self) -> None:
        """Let go of all files: what was read is not used."""
        for spool in self.spools:
            spool.close()


def build_corpus(
    notes: Iterable[Note],
    codebook: CodeBook | None,
    recipe: Prepare,
    *,
    plan: Plan | None = None,
    make_splits: str = "random",
    workspace: Path | None = None,
    total: int | None = None,
    progress: Progress = silent,
) -> Corpus:
    """The corpus of a stream of notes; large arrays lie in files of `workspace` where one is given."""
    places, totals = None if workspace is None else [workspace], [total]
    (corpus,) = build_shards(
        [notes],
        codebook,
        recipe,
        plan=plan,
        make_splits=make_splits,
        workspaces=places,
        totals=totals,
        progress=progress,
    )
    return corpus


def build_shards(
    parts: Sequence[Iterable[Note]],
    codebook: CodeBook | None,
    recipe: Prepare,
    *,
    plan: Plan | None = None,
    make_splits: str = "random",
    workspaces: Sequence[Path] | None = None,
    totals: Sequence[int | None] = (),
    progress: Progress = silent,
) -> list[Corpus]:
    """A corpus for each stream of notes, with the words, codes, splits and roles of all streams read as one."""
    builders: list[Builder] = []
    try:
        for number, notes in enumerate(parts):
            builders.append(Builder(recipe, workspaces[number] if workspaces else None))
            for done, note in enumerate(notes, start=1):
                builders[-1].add(note)
                progress("reading notes", done, totals[number] if totals else None)
            if not builders[-1].ids:
                raise InputError("the source has no notes")
    except BaseException:
        for builder in builders:
            builder.close()
        raise
    codes = dict.fromkeys(code for builder in builders for code in builder.codes)
    if not codes:
        raise InputError("no note of the source has a code: name the column of the codes, or check the files")
    check_separator(codes)
    return _finished(builders, codebook, plan or Plan(), make_splits=make_splits, seed=recipe.seed)


def _finished(
    builders: Sequence[Builder], codebook: CodeBook | None, plan: Plan, *, make_splits: str, seed: int
) -> list[Corpus]:
    recipe, codes = builders[0].recipe, tuple(sorted({code for builder in builders for code in builder.codes}))
    documents = [_documents(builder, codes) for builder in builders]
    ids = [note for builder in builders for note in builder.ids]
    groups = [group for builder in builders for group in builder.groups]
    given = [split for builder in builders for split in builder.splits]
    labels = (part.labels_of(row).tolist() for part in documents for row in range(len(part)))
    splits = _named_splits(ids, groups, given, labels, make_splits=make_splits, seed=seed)
    labelled = np.concatenate([np.diff(part.label_starts) > 0 for part in documents])
    roles = assign_roles(splits, labelled, plan, ids=ids, groups=groups, seed=seed, most=recipe.fitted_notes)
    ends = np.cumsum([len(part) for part in documents])[:-1]
    parted = np.split(roles, ends)
    vocab = _vocab(documents, parted, builders)
    names = tuple(dict.fromkeys(splits))
    position = {name: number for number, name in enumerate(names)}
    numbers = np.split(np.array([position[split] for split in splits], np.int8), ends)
    patients, book = _anonymous(groups), named_book(codebook, codes)
    corpora = []
    for number, (builder, part) in enumerate(zip(builders, documents, strict=True)):
        _number_words(part, builder, vocab)
        first = int(ends[number - 1]) if number else 0
        corpora.append(
            Corpus(
                vocab=vocab,
                codebook=book,
                codes=codes,
                documents=part,
                splits=names,
                split=numbers[number],
                role=parted[number],
                groups=Strings.of(patients[first : first + len(part)]),
                tokens_lost=builder.tokens_lost,
                notes_cut=builder.notes_cut,
            )
        )
    return corpora


def _documents(builder: Builder, codes: tuple[str, ...]) -> Documents:
    """The arrays, labels numbered in the order of `codes`."""
    place = {code: label for label, code in enumerate(codes)}
    new = np.array([place[code] for code in builder.codes], np.int32)  # in the order in which they were first met
    tokens, text = builder.tokens.finish(), builder.text.finish()
    label_spool, evidence = builder.labels.finish(), builder.evidence_labels.finish()
    labels = new[label_spool.values]
    return Documents(
        ids=Strings.of(builder.ids),
        tokens=tokens.values,
        token_starts=tokens.starts,
        labels=labels[np.lexsort((labels, owners(label_spool.starts)))],
        label_starts=label_spool.starts,
        char_starts=builder.char_starts.finish(),
        char_ends=builder.char_ends.finish(),
        evidence_labels=new[evidence.values],
        evidence_spans=builder.evidence_spans.finish().reshape(-1, 2),
        evidence_starts=evidence.starts,
        text=text.values,
        text_starts=text.starts,
    )


def _named_splits(
    ids: Sequence[str],
    groups: Sequence[str],
    given: Sequence[str],
    labels: Iterable[list[int]],
    *,
    make_splits: str,
    seed: int,
) -> Sequence[str]:
    """The splits of the source, checked; made by patient where the source has none."""
    if any(given):
        if not all(given):
            raise InputError(f"{given.count('')} notes have no split while others have one: give all or none")
        if len(set(given)) > MOST_SPLITS:
            raise InputError(f"{len(set(given)):,} splits: is that the column of the splits?")
        check_groups(groups, given)
        return given
    names = list(SHARES)
    if make_splits == "stratified":
        numbers = stratified_split(ids, groups, list(labels), SHARES, seed=seed)
    else:
        numbers = random_split(ids, groups, SHARES, seed=seed)
    return [names[number] for number in numbers]


def _vocab(documents: Sequence[Documents], roles: Sequence[NDArray[np.int8]], builders: Sequence[Builder]) -> Vocab:
    """The vocabulary of the fitted notes."""
    recipe, by_form = builders[0].recipe, dict[str, int]()
    counting = {Role.FIT, Role.UNLABELLED} if recipe.unlabelled_words else {Role.FIT}
    for part, theirs, builder in zip(documents, roles, builders, strict=True):
        forms = builder.surfaces.forms()
        counts = np.zeros(len(forms), np.int64)
        for row in np.flatnonzero(np.isin(theirs, list(counting))).tolist():
            np.add.at(counts, part.tokens_of(row), 1)
        for word, count in zip(forms, counts.tolist(), strict=True):
            by_form[word] = by_form.get(word, 0) + count
    return build_vocab(by_form, min_count=recipe.min_count, max_size=recipe.max_vocab)


def _number_words(documents: Documents, builder: Builder, vocab: Vocab) -> None:
    """Give the tokens of documents, which have the numbers of their surfaces, those of the vocabulary, in place."""
    new = np.array([vocab.numbers.get(word, UNKNOWN) for word in builder.surfaces.forms()], np.int32)
    for first in range(0, len(documents.tokens), CHUNK):
        documents.tokens[first : first + CHUNK] = new[documents.tokens[first : first + CHUNK]]


def _anonymous(groups: Sequence[str]) -> list[str]:
    """A patient's identifier has no business in an artifact; a number tells patients apart as well."""
    numbers = {group: str(number) for number, group in enumerate(dict.fromkeys(filter(None, groups)), start=1)}
    return [numbers.get(group, "") for group in groups]
