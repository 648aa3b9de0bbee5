"""What scikit-learn asks of an estimator, asked by scikit-learn itself."""

from typing import Any

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer
from sklearn.utils.estimator_checks import check_estimator, check_parameters_default_constructible
from sklearn.utils.validation import check_is_fitted, validate_data

from plant.coder import Coder
from plant.errors import InputError
from plant.estimator import CodeClassifier
from plant.types import Span
from tests.made_up import corpus_of, notes_of

NOTES = [note for note in notes_of(60, seed=3) if note.codes]
TEXTS, CODES = [note.text for note in NOTES], [note.codes for note in NOTES]
CHANGES = ("prepare.min_count=1",)
INDICATOR = MultiLabelBinarizer().fit_transform(CODES)


def lowered(texts: Any) -> list[str]:
    return [text.lower() for text in texts]


class Worded(BaseEstimator):
    """A classifier of codes behind numbers put into words: scikit-learn tries estimators with nothing but numbers."""

    def __init__(self, recipe: str = "tfidf") -> None:
        self.recipe = recipe

    def fit(self, X: Any, y: Any) -> "Worded":
        X, y = validate_data(self, X, y, dtype=float)
        self.estimator_ = CodeClassifier(self.recipe, changes=CHANGES, choose=0.3)
        self.estimator_.fit(worded(X), [(str(each),) for each in y])
        return self

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return self.estimator_.predict_proba(worded(validate_data(self, X, reset=False, dtype=float)))

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def worded(X: Any) -> list[str]:
    """A word for each number: its column, its sign and its size in halves."""
    return [
        " ".join(f"{chr(97 + c % 26)}{'np'[int(v >= 0)]}{abs(round(v * 2))}" for c, v in enumerate(row)) for row in X
    ]


NOT_FOR_CODERS = {"check_fit2d_1sample": "one note cannot both be fitted on and choose a threshold; the error says so"}
NEED_NO_NUMBERS = {
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr",
    "check_no_attributes_set_in_init", "check_estimators_unfitted", "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order", "check_parameters_default_constructible",
    "check_get_params_invariance", "check_set_params", "check_fit1d",
}  # fmt: skip


@pytest.fixture
def estimator() -> CodeClassifier:
    return CodeClassifier("tfidf", changes=CHANGES, choose=0.2)


def test_it_is_made_and_its_parameters_are_as_scikit_learn_wants_them(estimator: CodeClassifier) -> None:
    check_parameters_default_constructible("CodeClassifier", CodeClassifier())
    assert estimator.get_params() == {"recipe": "tfidf", "changes": CHANGES, "codebook": None, "choose": 0.2}
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(recipe="prior").recipe == "prior"
    assert repr(estimator) == "CodeClassifier(changes=('prepare.min_count=1',), choose=0.2, recipe='prior')"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_scikit_learn_holds_on_numbers_that_were_put_into_words() -> None:
    found = check_estimator(Worded(), expected_failed_checks=NOT_FOR_CODERS, on_skip=None)
    by_status: dict[str, set[str]] = {}
    for each in found:
        by_status.setdefault(each["status"], set()).add(each["check_name"])
    assert by_status.keys() <= {"passed", "skipped", "xfail"}
    assert by_status["xfail"] == set(NOT_FOR_CODERS)
    assert by_status.get("skipped", set()) <= {"check_array_api_input"}
    assert len(by_status["passed"]) >= 35


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")
def test_checks_that_bring_no_numbers_hold_as_it_is_and_numbers_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to itself, scikit-learn tries nothing on an estimator of texts."""
    own = CodeClassifier.__sklearn_tags__

    def as_if_of_numbers(estimator: CodeClassifier) -> Any:
        tags = own(estimator)
        tags.input_tags.two_d_array = True
        return tags

    monkeypatch.setattr(CodeClassifier, "__sklearn_tags__", as_if_of_numbers)
    found = check_estimator(CodeClassifier("prior"), on_skip=None, on_fail=None)
    assert {each["check_name"] for each in found if each["status"] == "passed"} >= NEED_NO_NUMBERS
    refused = [each for each in found if each["status"] == "failed"]
    assert all(isinstance(each["exception"], ValueError | IndexError | AssertionError) for each in refused)


def test_before_fit_it_says_so(estimator: CodeClassifier) -> None:
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    with pytest.raises(NotFittedError):
        estimator.predict(TEXTS)
    check_is_fitted(estimator.fit(TEXTS, CODES))


def test_codes_in_codes_out_as_the_coder_itself_says(estimator: CodeClassifier) -> None:
    estimator.fit(TEXTS, CODES)
    coder = Coder("tfidf", *CHANGES).fit(TEXTS, CODES, choose=0.2)
    assert estimator.predict(TEXTS) == [found.accepted for found in coder.predict(TEXTS, top=0)]
    assert estimator.score(TEXTS, CODES) == coder.score(TEXTS, CODES)
    assert tuple(estimator.classes_) == coder.classes_
    np.testing.assert_array_equal(estimator.predict_proba(TEXTS), coder.predict_proba(TEXTS))


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, pandas.DataFrame])
def test_indicators_in_indicators_out_and_the_same_codes(estimator: CodeClassifier, form: Any) -> None:
    given = np.hstack([INDICATOR, np.zeros((len(INDICATOR), 1), int)])  # a column that no text has
    estimator.fit(TEXTS, form(given))
    found = estimator.predict(TEXTS)
    plain = clone(estimator).fit(TEXTS, CODES)
    np.testing.assert_array_equal(
        found.toarray()[:, :-1], MultiLabelBinarizer().fit(CODES).transform(plain.predict(TEXTS))
    )
    assert found.shape == given.shape
    assert not estimator.predict_proba(TEXTS)[:, -1].any()
    assert estimator.score(TEXTS, form(given)) == pytest.approx(f1_score(given, found.toarray(), average="micro"))


def test_it_is_cross_validated_searched_over_and_put_into_pipelines(estimator: CodeClassifier) -> None:
    assert len(cross_val_score(estimator, TEXTS, CODES, cv=3)) == 3
    by_scorer = cross_val_score(estimator, TEXTS, INDICATOR, cv=3, scoring="f1_micro")
    np.testing.assert_allclose(by_scorer, cross_val_score(estimator, TEXTS, INDICATOR, cv=3))
    grouped = cross_val_score(estimator, TEXTS, CODES, cv=GroupKFold(2), groups=np.arange(len(TEXTS)) // 4)
    assert len(grouped) == 2
    steps = Pipeline([("lower", FunctionTransformer(lowered)), ("codes", estimator)])
    search = GridSearchCV(steps, {"codes__recipe": ["prior", "tfidf"]}, cv=2).fit(TEXTS, CODES)
    assert search.best_params_ == {"codes__recipe": "tfidf"}


@pytest.mark.parametrize(
    ("texts", "codes", "message"),
    [
        (TEXTS, INDICATOR[:3], "indicator matrix of 3 rows"),
        (TEXTS, INDICATOR * 2, "0 and 1 only"),
        ("text", CODES, "wrap it in a list"),
        (TEXTS, CODES[:3], "collections of codes"),
        (np.array("text"), CODES, "not ndarray"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_a_value_error(estimator: CodeClassifier, texts: Any, codes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(texts, codes)


def test_one_string_is_no_list_of_changes() -> None:
    with pytest.raises(ValueError, match="wrap it in a list"):
        CodeClassifier("tfidf", changes="seed=2").fit(TEXTS, CODES)


def test_evidence_teaches_what_was_marked() -> None:
    texts = ["pt w CAP today", "all well today", "pt w CAP again", "all well again"] * 5
    codes: list[list[str]] = [["J18.9"], [], ["J18.9"], []] * 5
    marks = [{"J18.9": [(5, 8)]}, {}, {"J18.9": [Span(5, 8)]}, {}] * 5
    taught = Coder("dictionary", "prepare.min_count=1").fit(texts, codes, evidence=marks, choose=0.2)
    found = taught.predict(["now with CAP"])[0].ranked[0]
    assert (found.code, found.accepted, [span.text for span in found.evidence]) == ("J18.9", True, ["CAP"])


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([{}], "1 mappings of evidence"),
        ([{}, []], r"evidence\[1\] is not a mapping"),
        ([{}, {"I10": [(0, 1)]}], r"evidence\[1\] marks 'I10', which is not among"),
        ([{"R05": [(0,)]}, {}], r"evidence\[0\] has a mark that is no pair"),
        ([{"R05": [(0, 99)]}, {}], "lies outside of the text"),
        ([{"R05": 3}, {}], r"evidence\[0\] must be a list of pairs"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_evidence_is_told_by_place(evidence: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Coder("prior", "prepare.min_count=1").fit(["a cough", "fever"], [["R05"], ["R50"]], evidence=evidence)


def test_a_prepared_corpus_is_fitted_as_its_splits_say() -> None:
    corpus = corpus_of(notes_of(40))
    coder = Coder("tfidf").fit(corpus)
    assert coder.fitted.train_documents == 24
    assert repr(coder) == "<Coder tfidf: 5 codes, fitted on 24 notes>"
    assert repr(Coder("plant-interaction")).endswith("not fitted>")
