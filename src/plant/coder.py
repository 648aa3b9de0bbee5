"""The coder: raw text in, ranked codes with evidence out.

What fits is imported where it is asked for: a coder that only predicts starts faster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.files import read_codebook
from plant.errors import InputError, RecipeError, quoted
from plant.inputs import (
    at_least_none,
    code_rows,
    evidence_rows,
    id_list,
    name_list,
    one_note,
    one_text,
    share_of_notes,
    text_list,
)
from plant.recipe.reading import change_recipe, load_recipe
from plant.recipe.schema import Recipe
from plant.store.artifact import Manifest
from plant.systems.coder import FittedCoder, load_coder, save_coder
from plant.types import Note, Prediction, Progress, Span, silent

if TYPE_CHECKING:
    from plant.data.corpus import Corpus
    from plant.steps.step import WalkSettings

BATCH = 64  # notes that are read, scored and explained together: what a stream of notes holds in memory


class Coder:
    """Learns to code notes as scikit-learn's estimators learn: `fit`, `predict`, `predict_proba`, `score`.

    `recipe` is the name of a packaged recipe, the path of a TOML file, or a `Recipe`; `changes` are overrides such as
    `"fit.epochs=3"`. Surrounding blanks of codes never matter.

    >>> from plant import Coder
    >>> texts = ["fever and cough", "broken wrist", "cough, no fever", "wrist pain after a fall"] * 5
    >>> codes = [["R05"], ["S62"], ["R05"], ["S62"]] * 5
    >>> coder = Coder("tfidf", "prepare.min_count=1").fit(texts, codes)
    >>> coder.predict(["a dry cough"])[0].ranked[0].code
    'R05'
    """

    def __init__(self, recipe: str | Path | Recipe = "plant", *changes: str, fitted: FittedCoder | None = None) -> None:
        self.recipe = _recipe(recipe, changes)
        self._fitted = fitted

    @property
    def fitted(self) -> FittedCoder:
        """What was learned; an error before `fit`."""
        if self._fitted is None:
            raise InputError("this coder is not fitted yet: call fit(texts, codes), or Coder.load(folder)")
        return self._fitted

    @property
    def classes_(self) -> tuple[str, ...]:
        """The codes, in the order of the columns of `predict_proba`."""
        return self.fitted.codes

    def __repr__(self) -> str:
        what = self.recipe.system if not self.recipe.members else "+".join(self.recipe.members)
        if self._fitted is None:
            return f"<Coder {what}, not fitted>"
        return f"<Coder {what}: {len(self._fitted.codes):,} codes, fitted on {self._fitted.train_documents:,} notes>"

    def fit(
        self,
        texts: "Iterable[str] | Corpus",
        codes: Iterable[Iterable[str]] | None = None,
        *,
        groups: Iterable[str | SupportsIndex] | None = None,
        evidence: Iterable[Mapping[str, Iterable[Any]]] | None = None,
        codebook: CodeBook | None = None,
        choose: float = 0.1,
        progress: Progress = silent,
    ) -> "Coder":
        """Learn from texts and their codes; a fixed share, by group where given, is held out for choosing.

        `groups` are the patients: their notes stay together. `codebook` brings the names of codes, which recipes such
        as `interaction` look for in the text. `choose` is the share of notes that thresholds and early stopping see.
        `evidence` is what human coders marked: for each text a mapping from its codes to pairs (start, end) of
        characters; `dictionary` and `candidates` learn most from it. A prepared corpus (`plant prepare`, opened by
        `plant.data.store.load_corpus`) is fitted as its splits say, and needs nothing else.

        >>> coder = Coder("tfidf", "prepare.min_count=1").fit(texts, codes, choose=0.2)
        >>> coder.classes_
        ('R05', 'S62')
        """
        from plant.data.builder import build_corpus
        from plant.data.corpus import Corpus
        from plant.data.notes import checked
        from plant.data.roles import Plan
        from plant.steps.step import WalkSettings
        from plant.systems.members import member_recipes

        settings = WalkSettings(progress=progress)
        if isinstance(texts, Corpus):
            return self._learned(texts, settings)
        texts = text_list(texts)
        rows = code_rows(codes, texts=len(texts))
        marks = evidence_rows(evidence, rows)
        names = [""] * len(texts) if groups is None else name_list(groups, "groups", texts=len(texts))
        if not isinstance(codebook, CodeBook | None):
            raise InputError(
                f"codebook must be a CodeBook, such as read_codebook(path) makes, not {type(codebook).__name__}"
            )
        notes = _notes(texts, rows, names, marks)
        prepare = member_recipes(self.recipe)[0].prepare
        plan = Plan(fit=("train",), choose=share_of_notes(choose))
        corpus = build_corpus(checked(notes), codebook, prepare, plan=plan)
        return self._learned(corpus, settings)

    def _learned(self, corpus: "Corpus", settings: "WalkSettings") -> "Coder":
        """Fitted; where names of codes are in another language than the notes, the choosing notes decide on them."""
        from plant.steps.fit import fit_coder
        from plant.steps.names import decide, in_doubt

        if in_doubt(corpus, self.recipe):
            decided = decide(corpus, self.recipe, lambda recipe, way: fit_coder(corpus, recipe, settings))
            self.recipe, self._fitted = decided.recipe, decided.coder
        else:
            self._fitted = fit_coder(corpus, self.recipe, settings)
        return self

    def predict(
        self, texts: Iterable[str], *, ids: Iterable[str | SupportsIndex] = (), top: int = 15, explainer: str = ""
    ) -> list[Prediction]:
        """The ranked codes of each text, with descriptions, probabilities, acceptance and evidence.

        The `top` best codes, and every accepted one; `explainer` says how evidence is found (`plant parts` lists them).

        >>> best = coder.predict(["a dry cough"], ids=["visit 7"])[0].ranked[0]
        >>> best.code, best.accepted, [span.text for span in best.evidence]
        ('R05', True, ['cough'])
        """
        texts = text_list(texts)
        notes = map(Note, id_list(ids, texts=len(texts)), texts)
        return list(self.predict_stream(notes, top=top, explainer=explainer))

    def predict_stream(
        self, notes: Iterable[Note], *, top: int = 15, evidence: bool = True, explainer: str = ""
    ) -> Iterator[Prediction]:
        """Predictions as notes come in; holds a few dozen notes at a time.

        >>> notes = (Note(str(number), text) for number, text in enumerate(texts))
        >>> next(coder.predict_stream(notes)).id
        '0'
        """
        top = at_least_none(top)
        for block in _blocks(notes, BATCH):
            documents = self.fitted.encode([note.text for note in block], [note.id for note in block])
            yield from self.fitted.code(documents, top=top, evidence=evidence, explainer=explainer)

    def predict_proba(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """The probability of every code of `classes_` for each text.

        >>> coder.predict_proba(["cough", "wrist"]).argmax(axis=1).tolist()
        [0, 1]
        """
        return self.fitted.probabilities(self.fitted.encode(text_list(texts)))

    def explain(self, text: str, code: str, *, explainer: str = "") -> list[tuple[int, int, float]]:
        """How much each word of a text speaks for a code: (start, end, weight), in reading order.

        >>> [("a dry cough"[start:end], weight > 0) for start, end, weight in coder.explain("a dry cough", "R05")]
        [('a', False), ('dry', False), ('cough', True)]
        """
        documents = self.fitted.encode([one_text(text)])
        weights = self.fitted.weigh(documents, self._label(code), explainer=explainer)
        places = zip(documents.char_starts.tolist(), documents.char_ends.tolist(), weights.tolist(), strict=True)
        return list(places)

    def explained(self, note: Note, *, codes: Sequence[str] = (), explainer: str = "") -> Prediction:
        """The accepted codes of a note, or those that are named, with the words that speak for each.

        >>> coder.explained(Note("7", "a dry cough"), codes=["S62"]).ranked[0].accepted
        False
        """
        note = one_note(note)
        if isinstance(codes, str):
            raise InputError("codes must be a list of codes, not one string: wrap it in a list")
        for code in codes:
            self._label(code)
        documents = self.fitted.encode([note.text], [note.id])
        if codes:
            return self.fitted.explained(documents, codes, explainer=explainer)
        return self.fitted.code(documents, top=0, explainer=explainer)[0]

    def quantized(self) -> "Coder":
        """A coder for CPUs with the encoder's weights in eight bits: faster, nearly the same probabilities."""
        return Coder(self.recipe, fitted=self.fitted.quantized())

    def score(self, texts: Iterable[str], codes: Iterable[Iterable[str]]) -> float:
        """Micro-F1 of the accepted codes; a code that the coder does not know counts as missed.

        >>> coder.score(["cough", "wrist"], [["R05"], ["S62"]])
        1.0
        """
        texts = text_list(texts)
        rows = code_rows(codes, texts=len(texts))
        accepted = self.predict_proba(texts) >= self.fitted.thresholds
        hits = total = 0
        position = {code: label for label, code in enumerate(self.classes_)}
        for row, gold in zip(accepted, rows, strict=True):
            hits += sum(bool(row[position[code]]) for code in gold if code in position)
            total += int(row.sum()) + len(gold)
        return 2 * hits / total if total else 0.0

    def add_codes(self, codebook: CodeBook | Path | str) -> "Coder":
        """Add codes that no note taught, by their names in a book or a code file; only for recipes that match names.

        >>> named = Coder("interaction", "fit.epochs=1").fit(texts, codes)
        >>> book = CodeBook("icd10cm", ("R51",), {"R51": "headache"})
        >>> named.add_codes(book).predict(["sudden headache"])[0].ranked[0].code
        'R51'
        """
        from plant.systems.coder import add_codes

        if isinstance(codebook, Path | str):
            codebook = read_codebook(codebook, system=self.fitted.codebook.system)
        if not isinstance(codebook, CodeBook):
            raise InputError(f"add_codes takes a CodeBook or the path of a code file, not {type(codebook).__name__}")
        self._fitted = add_codes(self.fitted, codebook)
        return self

    def save(self, path: Path | str) -> Manifest:
        """Write a self-contained folder, which `load` opens: copy it and serve it.

        >>> _ = coder.save(folder)
        """
        return save_coder(self.fitted, path)

    @staticmethod
    def load(path: Path | str) -> "Coder":
        """Open a folder that `save` or `plant run` wrote.

        >>> _ = coder.save(folder)
        >>> Coder.load(folder).classes_
        ('R05', 'S62')
        """
        fitted = load_coder(path)
        return Coder(fitted.recipe, fitted=fitted)

    def _label(self, code: str) -> int:
        if code not in self.fitted.codes:
            raise InputError(
                f"code {quoted(code)} is not one of the {len(self.fitted.codes):,} codes that this coder knows"
            )
        return self.fitted.codes.index(code)


def _recipe(recipe: str | Path | Recipe, changes: tuple[str, ...]) -> Recipe:
    for change in changes:
        if not isinstance(change, str):
            raise RecipeError(f"changes are strings such as 'fit.epochs=3', not {type(change).__name__}")
    if isinstance(recipe, Recipe):
        return change_recipe(recipe, changes)
    if not isinstance(recipe, str | Path):
        raise RecipeError(
            f"a coder takes the name of a recipe, the path of a .toml file or a Recipe, not {type(recipe).__name__}"
        )
    return load_recipe(str(recipe), changes)


def _notes(
    texts: Sequence[str],
    codes: Sequence[Iterable[str]],
    groups: Sequence[str],
    marks: Sequence[Mapping[str, tuple[Span, ...]]],
) -> Iterator[Note]:
    rows = enumerate(zip(texts, codes, groups, marks, strict=True))
    return (Note(str(number), text, tuple(row), "train", group, own) for number, (text, row, group, own) in rows)


def _blocks(notes: Iterable[Note], size: int) -> Iterator[list[Note]]:
    block: list[Note] = []
    for note in notes:
        block.append(one_note(note))
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block
