"""A coder as scikit-learn knows estimators: to be cloned, searched over, cross-validated and put into pipelines.

The one module that imports scikit-learn; `from plant.estimator import CodeClassifier` needs it installed.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.errors import InputError
from plant.inputs import code_rows, text_list

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError as error:  # the only package that a caller of this module must bring
    raise ImportError("CodeClassifier is for scikit-learn, which is not installed: pip install scikit-learn") from error


class CodeClassifier(BaseEstimator):
    """Texts in, codes out, after scikit-learn's conventions: parameters are stored as given and read by `fit` alone.

    `X` are texts; `y` are collections of codes, one for each text, or an indicator matrix of texts x codes: dense,
    sparse or a DataFrame. `predict` answers with collections, or with a sparse matrix; `classes_` are its columns.
    `score` is micro-F1. `coder_` is the fitted `Coder`, which also explains, saves and adds codes.

    >>> from plant.estimator import CodeClassifier
    >>> estimator = CodeClassifier("tfidf", changes=("prepare.min_count=1",))
    >>> estimator.fit(texts, codes).predict(["a dry cough"])
    [('R05',)]
    """

    def __init__(
        self,
        recipe: str = "tfidf",
        *,
        changes: Sequence[str] = (),
        codebook: CodeBook | None = None,
        choose: float = 0.1,
    ) -> None:
        self.recipe = recipe
        self.changes = changes
        self.codebook = codebook
        self.choose = choose

    def fit(
        self,
        X: Iterable[str],
        y: Any,
        *,
        groups: Iterable[Any] | None = None,
        evidence: Iterable[Mapping[str, Iterable[Any]]] | None = None,
    ) -> "CodeClassifier":
        """Learn from texts and their codes; `groups` are the patients, `evidence` what coders marked."""
        if isinstance(self.changes, str):
            raise InputError("changes must be a list of changes, not one string: wrap it in a list")
        texts, y = text_list(X), _without_names(y)
        self.indicator_ = _is_matrix(y)
        rows = _rows_of(y, texts=len(texts))
        coder = Coder(self.recipe, *self.changes)
        self.coder_ = coder.fit(
            texts, rows, groups=groups, evidence=evidence, codebook=self.codebook, choose=self.choose
        )
        width = y.shape[1] if self.indicator_ else 0
        self.classes_ = np.arange(width) if self.indicator_ else np.array(self.coder_.classes_, dtype=object)
        return self

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float32]:
        """The probability of every column of `classes_`; 0 for a column that no fitted text had."""
        found = self._fitted().predict_proba(text_list(X))
        if not self.indicator_:
            return found
        whole = np.zeros((len(found), len(self.classes_)), np.float32)
        whole[:, [int(code) for code in self.coder_.classes_]] = found
        return whole

    def predict(self, X: Iterable[str]) -> Any:
        """The accepted codes of each text: tuples, best first, or a sparse indicator matrix where `fit` had one."""
        found = self._fitted().predict(text_list(X), top=0)
        accepted = [one.accepted for one in found]
        if not self.indicator_:
            return accepted
        columns = [int(code) for row in accepted for code in row]
        starts = np.cumsum([0, *map(len, accepted)])
        shape = (len(accepted), len(self.classes_))
        matrix = csr_matrix((np.ones(len(columns), np.int64), columns, starts), shape=shape)
        matrix.sort_indices()
        return matrix

    def score(self, X: Iterable[str], y: Any) -> float:
        """Micro-F1 of the accepted codes; a code that no fitted text had counts as missed."""
        texts = text_list(X)
        return self._fitted().score(texts, _rows_of(_without_names(y), texts=len(texts)))

    def _fitted(self) -> Coder:
        if not hasattr(self, "coder_"):
            raise NotFittedError("this CodeClassifier is not fitted yet: call fit(texts, codes)")
        return self.coder_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coder_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False, True
        tags.target_tags.required, tags.target_tags.multi_output, tags.non_deterministic = True, True, False
        return tags


def _without_names(y: Any) -> Any:
    """The matrix of a table of columns, such as pandas makes: iterating over it would give their names."""
    return y.to_numpy() if hasattr(y, "columns") and hasattr(y, "to_numpy") else y


def _is_matrix(y: Any) -> bool:
    """Whether codes are given as columns of a matrix, not as collections."""
    return issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind in "biuf")


def _rows_of(y: Any, *, texts: int) -> list[tuple[str, ...]]:
    """The codes of each text; those of an indicator matrix are the numbers of its columns."""
    if not _is_matrix(y):
        return code_rows(y, texts=texts)
    matrix = csr_matrix(y)
    matrix.eliminate_zeros()
    if matrix.shape[0] != texts:
        raise InputError(f"{texts:,} texts but an indicator matrix of {matrix.shape[0]:,} rows: give one for each text")
    if not np.isin(matrix.data, [0, 1]).all():
        raise InputError("an indicator matrix holds 0 and 1 only")
    return [tuple(map(str, sorted(matrix.indices[a:b].tolist()))) for a, b in pairwise(matrix.indptr)]
