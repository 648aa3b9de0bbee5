"""Trees of linear classifiers over TF-IDF (Parabel, Bonsai): a text goes down the branches that fit it, to its labels.

Prabhu et al. 2018; Khandagale et al. 2020; fitted and read by the library omikuji, an extra. Its clusters start at
random and take no seed: two fits differ a little, a fitted coder never does.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView, take
from plant.data.vectors import TextVectors, fitted_vectors, vectors_of
from plant.errors import ArtifactError, InputError, RecipeError
from plant.evaluate.scores.of_texts import Sparse, Usual, sparse_of
from plant.recipe import schema
from plant.store.checks import check_length
from plant.systems.system import CONTRIBUTION, Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened
from plant.types import Progress, silent

TAG = "trees"
FILE = re.compile(r"\w[\w.-]*")  # names of files that a folder may hold
LOSSES = ("hinge", "log")  # as the library numbers them


@dataclass(frozen=True)
class TreesSystem:
    """The words' weights, and the library's files of the fitted trees."""

    inverse: NDArray[np.float32]  # document frequencies, per token
    files: Mapping[str, NDArray[np.uint8]]
    n_labels: int
    beam: int
    most: int  # labels that get a score in each text

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> "TreesReading":
        return TreesReading(self, documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "TreesSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        names = sorted(self.files)
        arrays = {"inverse": self.inverse} | {f"file.{n}": self.files[name] for n, name in enumerate(names)}
        return PackedSystem(TAG, {"files": names, "beam": self.beam, "most": self.most}, arrays)

    @cached_property
    def usual(self) -> Usual:
        """Labels to which a text does not come down have no score."""
        return Usual(np.zeros(self.n_labels, np.float32), known=self.n_labels)

    @cached_property
    def model(self) -> Any:
        """The trees as the library holds them."""
        with TemporaryDirectory(prefix="plant-") as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content.tobytes())
            try:
                with _quiet():
                    return library().Model.load(folder)
            except RuntimeError as error:
                raise ArtifactError("the files of fitted trees cannot be read: fit the coder again") from error

    def best(self, tokens: Sequence[int], values: Sequence[float]) -> list[tuple[int, float]]:
        """The best labels of a text and their probabilities."""
        pairs = [*zip(tokens, values, strict=True)]
        return self.model.predict(pairs, beam_size=self.beam, top_k=min(self.most, self.n_labels))


@dataclass(frozen=True)
class TreesReading:
    """Scores of the labels to which a text came down; all others have none."""

    trees: TreesSystem
    documents: Documents

    @property
    def known(self) -> int:
        return self.trees.n_labels

    @cached_property
    def texts(self) -> TextVectors:
        """The texts as the trees see them."""
        return vectors_of(self.documents, self.trees.inverse)

    @cached_property
    def text_scores(self) -> Sparse:
        texts = ([part.tolist() for part in self.texts.row(row)] for row in range(len(self.documents)))
        found = [np.array(sorted(self.trees.best(*text)), np.float64).reshape(-1, 2).T for text in texts]
        return sparse_of([(labels.astype(np.int32), scores) for labels, scores in found], self.trees.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """What each word adds: the probability that is lost without it, shared by its places."""
        if explainer not in ("", CONTRIBUTION):
            raise InputError(f"trees explain themselves by {CONTRIBUTION!r} only, not by {explainer!r}")
        words, values = self.texts.row(row)
        tokens = take(self.documents, np.array([row])).tokens
        weights = np.zeros((len(labels), len(tokens)), np.float32)
        whole = self.text_scores.of(row, np.asarray(labels))
        for word in range(len(words)):
            left = np.arange(len(words)) != word
            without = dict(self.trees.best(words[left].tolist(), values[left].tolist()))
            places = tokens == words[word]
            lost = whole - np.array([without.get(label, 0.0) for label in labels], np.float32)
            weights[:, places] = (lost / max(1, int(places.sum())))[:, None]
        return weights


def fit_trees(view: TrainingView, recipe: schema.Trees, *, progress: Progress = silent) -> TreesSystem:
    """Count words, and let the library fit its trees."""
    omikuji = library()
    inverse, texts = fitted_vectors(view)
    with TemporaryDirectory(prefix="plant-") as folder:
        data = Path(folder) / "texts"
        _write(data, texts, view.documents, shape=(len(view.vocab), len(view.codes)))
        progress("trees: texts written", len(view.documents), len(view.documents))
        with _quiet():
            omikuji.Model.train_on_data(str(data), _settings(omikuji, recipe)).save(f"{folder}/trees")
        saved = sorted(Path(folder, "trees").iterdir())
        files = {path.name: np.frombuffer(path.read_bytes(), np.uint8) for path in saved}
    return TreesSystem(inverse, files, len(view.codes), recipe.beam, recipe.most)


def unpack_trees(packed: PackedSystem, known: Known) -> TreesSystem:
    """The system that `pack` took apart."""
    names, arrays = packed.options["files"], packed.arrays
    if not all(isinstance(name, str) and FILE.fullmatch(name) for name in names):
        raise ArtifactError("the fitted trees name a file that is none of theirs")
    check_length("inverse", arrays["inverse"], len(arrays["inverse"]), finite=True)
    files = {name: np.array(arrays[f"file.{number}"]) for number, name in enumerate(names)}
    inverse = np.array(arrays["inverse"])
    return TreesSystem(inverse, files, len(known.codes), packed.options["beam"], packed.options["most"])


def library() -> Any:
    """The library, or a line that says how to get it."""
    try:
        import omikuji
    except ImportError as error:
        raise RecipeError("trees need the library omikuji: pip install 'plant-xmtc[trees]'") from error
    return omikuji


def _settings(omikuji: Any, recipe: schema.Trees) -> Any:
    settings = omikuji.Model.default_hyper_param()
    settings.n_trees, settings.cluster_k = recipe.trees, recipe.branches
    settings.cluster_balanced, settings.max_depth = recipe.balanced, recipe.depth
    settings.min_branch_size, settings.linear_c = recipe.smallest, recipe.cost
    settings.linear_weight_threshold = recipe.prune
    settings.linear_loss_type = LOSSES.index(recipe.loss)
    return settings


def _write(path: Path, texts: TextVectors, documents: Documents, *, shape: tuple[int, int]) -> None:
    """The texts as numbers, a line each: `label,label token:value ...`.

    Texts without a known word teach nothing and are left out: the library refuses the whole file for one of them.
    """
    (rows,) = np.nonzero(np.diff(texts.starts))
    with path.open("w", encoding="ascii") as file:
        file.write(f"{len(rows)} {shape[0]} {shape[1]}\n")
        for row in rows.tolist():
            labels = ",".join(map(str, documents.labels_of(row).tolist()))
            words = (f"{token}:{value:.6g}" for token, value in zip(*texts.row(row), strict=True))
            file.write(f"{labels} {' '.join(words)}\n")


@contextmanager
def _quiet() -> Iterator[None]:
    """What the library says of its work goes nowhere: standard output is for data alone."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
