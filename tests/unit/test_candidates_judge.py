"""The judge: what it is told of a note, and that no note teaches what it is asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from plant.candidates.boosting import probabilities
from plant.candidates.crossfit import dealt, drawn, keys_of
from plant.candidates.judge import (
    Columns,
    Judge,
    Judged,
    Lessons,
    best_threshold,
    chosen_threshold,
    judge_note,
    teach,
    unpack_judge,
    unpack_taught,
)
from plant.candidates.note_features import OWN, feature_names, note_codes
from plant.candidates.note_regression import fit_regression, unpack_regression
from plant.candidates.rows import Rows, listed
from plant.text.language import language_of

N_FEATURES = 3


def made_up_rows(generator: np.random.Generator, n: int, n_codes: int = 5, *, even: bool = False) -> Rows:
    """Rows of random codes, some without a place; or, where it is `even`, as many of each code, all with one."""
    first = generator.integers(0, 40, n).astype(np.int32)
    last = first + generator.integers(1, 4, n).astype(np.int32)
    features = generator.random((n, N_FEATURES)).astype(np.float32)
    code = generator.integers(0, n_codes, n).astype(np.int32)
    if even:
        code = (np.arange(n) % n_codes).astype(np.int32)
    else:
        first[: n // 10], last[: n // 10] = -1, -1
    return Rows(first, last, first * 7, last * 7 - 1, code, features)


def column(found: NDArray[np.float32], name: str, n_parts: int = 2) -> NDArray[np.float32]:
    return found[:, feature_names(["a", "b", "c"], n_parts, ["a"]).index(name)]


PARTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]], np.int32)


@pytest.fixture(params=[0, 1, 2])
def note(request: pytest.FixtureRequest) -> tuple[Rows, NDArray[np.float32]]:
    generator = np.random.default_rng(request.param)
    rows = made_up_rows(generator, 40)
    scores = np.where(rows.first < 0, 0, generator.random(len(rows))).astype(np.float32)
    return rows, scores


def test_the_best_scores_of_a_code_are_those_of_its_rows(note: tuple[Rows, NDArray[np.float32]]) -> None:
    rows, scores = note
    found = note_codes(rows, scores, PARTS, [0])
    for place, code in enumerate(found.codes.tolist()):
        own = np.sort(scores[rows.code == code])[::-1]
        assert column(found.features, "score 1")[place] == own[0]
        assert column(found.features, "score 3")[place] == (own[2] if len(own) > 2 else 0)
        assert column(found.features, "sum")[place] == pytest.approx(own.sum(), rel=1e-5)
        assert column(found.features, "any")[place] == pytest.approx(1 - np.prod(1 - own[:6]), abs=1e-5)
        assert column(found.features, "best a")[place] == rows.features[rows.code == code, 0].max()


def test_rivals_are_other_codes_on_the_same_words_or_of_the_same_parts(
    note: tuple[Rows, NDArray[np.float32]],
) -> None:
    rows, scores = note
    found = note_codes(rows, scores, PARTS, [0])
    top = {code: scores[rows.code == code].max() for code in found.codes.tolist()}
    for place, code in enumerate(found.codes.tolist()):
        best = found.best[place]
        here = [
            scores[row] for row in range(len(rows))
            if rows.code[row] != code and rows.first[row] >= 0
            and rows.first[row] < rows.last[best] and rows.last[row] > rows.first[best]
        ]  # fmt: skip
        same = [score for other, score in top.items() if other != code and PARTS[other][0] == PARTS[code][0]]
        later = [score for other, score in top.items() if other != code and PARTS[other][1] == PARTS[code][1]]
        assert column(found.features, "rival here")[place] == max(here, default=0)
        assert column(found.features, "rival with 1 equal parts")[place] == max(same, default=0)
        assert column(found.features, "rival with equal part 2")[place] == max(later, default=0)


def test_places_that_do_not_overlap_are_counted_from_left_to_right(note: tuple[Rows, NDArray[np.float32]]) -> None:
    rows, scores = note
    found = note_codes(rows, scores, PARTS, [0])
    for place, code in enumerate(found.codes.tolist()):
        spans = sorted((a, b) for a, b, c in zip(rows.first, rows.last, rows.code, strict=True) if c == code and a >= 0)
        count, reached = 0, -1
        for first, last in spans:
            count += first >= reached
            reached = max(reached, last)
        assert column(found.features, "places")[place] == count


def test_a_note_without_candidates_has_no_codes() -> None:
    found = note_codes(made_up_rows(np.random.default_rng(0), 0), np.empty(0, np.float32), PARTS, [0])
    assert len(found.codes) == 0
    assert found.features.shape == (0, len(feature_names(["a", "b", "c"], 2, ["a"])))
    assert len(OWN) > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30), st.integers(0, 5))
def test_the_threshold_has_the_best_micro_f1(rows: list[tuple[int, bool]], beyond: int) -> None:
    scores = np.array([score / 8 for score, _ in rows], np.float32)
    right = np.array([truth for _, truth in rows])
    total = int(right.sum()) + beyond

    def f1(threshold: float) -> float:
        taken = scores >= threshold
        return 2 * (right & taken).sum() / max(1, taken.sum() + total)

    assert f1(best_threshold(scores, right, total)) == pytest.approx(max(f1(t) for t in [*scores, 2.0]))


def test_parts_do_not_depend_on_the_order_of_notes() -> None:
    ids = [f"note {number}" for number in range(50)]
    one, other = dealt(ids, parts=3, seed=4, what="reader"), dealt(ids[::-1], parts=3, seed=4, what="reader")
    assert (one == other[::-1]).all()
    assert np.bincount(one).tolist() == [17, 17, 16]
    assert (dealt(ids, parts=3, seed=5, what="reader") != one).any()


def lessons(seed: int, n_notes: int = 60, *, learnable: bool) -> Lessons:
    """Notes in which a code is right where the first feature of one of its rows is large; or by chance."""
    generator = np.random.default_rng(seed)
    notes = [made_up_rows(generator, 30, even=not learnable) for _ in range(n_notes)]
    rows = listed(notes, n_features=N_FEATURES)
    truth = rows.rows.features[:, 0] if learnable else generator.random(len(rows.rows))
    right = (truth > 0.8) & (rows.rows.first >= 0)
    gold = [
        frozenset(rows.rows.code[a:b][right[a:b]].tolist()) for a, b in zip(rows.starts, rows.starts[1:], strict=False)
    ]
    ids = [str(number) for number in range(n_notes)]
    return Lessons(rows, right, gold, dealt(ids, parts=5, seed=seed, what="judge"), keys_of(ids))


def test_the_judge_learns_what_rows_tell() -> None:
    given_notes = lessons(0, learnable=True)
    taught = teach(given_notes, Columns(PARTS, (0,)), seed=1)
    gold = np.array([
        code in given_notes.gold[note]
        for note in range(len(given_notes.listed))
        for code in taught.held_out.codes[taught.held_out.starts[note] : taught.held_out.starts[note + 1]].tolist()
    ])  # fmt: skip
    accepted = taught.held_out.scores >= chosen_threshold([taught.held_out], given_notes.gold)
    assert 2 * (accepted & gold).sum() / (accepted.sum() + gold.sum()) > 0.9


def test_held_out_scores_of_chance_are_chance() -> None:
    given_notes = lessons(3, 600, learnable=False)
    taught = teach(given_notes, Columns(PARTS, (0,)), seed=1)
    gold = np.concatenate([
        [code in given_notes.gold[note] for code in taught.held_out.codes[a:b].tolist()]
        for note, (a, b) in enumerate(zip(taught.held_out.starts, taught.held_out.starts[1:], strict=False))
    ])  # fmt: skip
    rank = np.argsort(np.argsort(taught.held_out.scores))
    n_right, n_wrong = gold.sum(), (~gold).sum()
    auc = (rank[gold].sum() - n_right * (n_right - 1) / 2) / (n_right * n_wrong)
    assert abs(auc - 0.5) <= 0.05


def test_a_judge_is_unpacked_to_the_bit() -> None:
    given_notes = lessons(0, 20, learnable=True)
    judge = teach(given_notes, Columns(PARTS, (0,)), seed=1).judge
    options, arrays = judge.pack()
    again = unpack_judge(options, arrays)
    rows = given_notes.listed.of(3)
    one, other = judge_note([judge], rows, Columns(PARTS, (0,))), judge_note([again], rows, Columns(PARTS, (0,)))
    assert isinstance(again, Judge)
    assert (one[1] == other[1]).all()
    assert (one[2] == other[2]).all()


def test_a_taught_judge_is_unpacked_with_what_it_said() -> None:
    taught = teach(lessons(0, 20, learnable=True), Columns(PARTS, (0,)), seed=1)
    options, arrays = taught.pack()
    again = unpack_taught(options, arrays)
    for name, array in vars(taught.held_out).items():
        np.testing.assert_array_equal(getattr(again.held_out, name), array)
    np.testing.assert_array_equal(again.judge.spans.value, taught.judge.spans.value)


def test_several_judges_say_their_mean() -> None:
    given_notes, columns = lessons(0, 20, learnable=True), Columns(PARTS, (0,))
    judges = [teach(given_notes, columns, seed=seed).judge for seed in (1, 2)]
    rows = given_notes.listed.of(3)
    codes, scores, of_rows = judge_note(judges, rows, columns)
    alone = [judge_note([judge], rows, columns) for judge in judges]
    assert codes.tolist() == sorted(set(rows.code.tolist()))
    np.testing.assert_allclose(scores, (alone[0][1] + alone[1][1]) / 2, rtol=1e-6)
    np.testing.assert_allclose(of_rows, (alone[0][2] + alone[1][2]) / 2, rtol=1e-6)
    assert (alone[0][1] != alone[1][1]).any()


def test_the_threshold_is_chosen_on_the_mean_of_those_judges_that_had_the_code_before_them() -> None:
    def judged(*notes: dict[int, float]) -> Judged:
        codes, scores = [c for note in notes for c in note], [s for note in notes for s in note.values()]
        starts = np.cumsum([0, *map(len, notes)])
        return Judged(np.array(codes, np.int32), np.array(scores, np.float32), starts.astype(np.int64))

    one = judged({0: 0.9, 1: 0.2}, {2: 0.8})
    other = judged({1: 0.6, 0: 0.5}, {0: 0.3})
    # note 0: code 0 has 0.7, code 1 0.4; note 1: code 2 has 0.8, code 0 0.3
    assert chosen_threshold([one, other], [{0}, {2}]) == pytest.approx((0.7 + 0.4) / 2)
    assert chosen_threshold([one, other], [{0, 1}, {2}]) == pytest.approx((0.4 + 0.3) / 2)


def test_rows_without_a_place_are_not_judged_by_level_1() -> None:
    given_notes = lessons(0, 20, learnable=True)
    judge = teach(given_notes, Columns(PARTS, (0,)), seed=1).judge
    rows = given_notes.listed.of(0)
    _, _, of_rows = judge_note([judge], rows, Columns(PARTS, (0,)))
    assert (of_rows[rows.first < 0] == 0).all()
    placed = rows.first >= 0
    assert np.allclose(of_rows[placed], probabilities(judge.spans, rows.features[placed]))


def test_the_regression_equals_a_plain_solution() -> None:
    notes = [["dolor", "torax", "dolor"], ["fiebre", "tos"], ["tos", "dolor"], ["fiebre", "torax"]]
    labels = [[0], [1], [0, 1], []]
    fitted = fit_regression(notes, labels, n_codes=2, penalty=0.3)
    assert fitted is not None
    stems = sorted({"dolor", "torax", "fiebre", "tos"})
    table = np.array(
        [[(1 + np.log(note.count(s))) * np.log(4 / 2) if s in note else 0 for s in stems] for note in notes]
    )
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    gold = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], float)
    answers = np.linalg.solve(table @ table.T + 0.3 * np.eye(4), gold - gold.mean(0))
    # "dolor" stands in two notes of four as every stem here does
    for note, row in zip(notes, table, strict=True):
        assert np.allclose(fitted.scores(note), (row @ table.T) @ answers + gold.mean(0), atol=1e-5)
    again = unpack_regression(*fitted.pack(), n_codes=len(fitted.shares))
    assert (again.scores(["tos"]) == fitted.scores(["tos"])).all()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("el paciente fue ingresado con dolor en la pierna y fiebre", "spanish"),
        ("the patient was admitted with pain in the leg and fever", "english"),
        ("der Patient wurde mit Fieber und Schmerzen in die Klinik gebracht", "german"),
        ("xk qz vv 12", ""),
    ],
)
def test_a_language_is_known_by_its_function_words(text: str, language: str) -> None:
    assert language_of(text.lower().split()) == language


def test_notes_are_drawn_by_their_ids_and_all_where_they_are_few() -> None:
    ids = [f"n{number}" for number in range(40)]
    rows = drawn(ids, most=12, seed=1, what="judge's notes")
    assert len(rows) == len(set(rows.tolist())) == 12
    backwards = drawn(ids[::-1], most=12, seed=1, what="judge's notes")
    assert {ids[row] for row in rows} == {ids[::-1][row] for row in backwards}
    assert drawn(ids, most=50, seed=1, what="judge's notes").tolist() == list(range(40))
