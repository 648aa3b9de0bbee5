"""Which code a wording means: made-up names, compared with plainer ways of computing the same."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from plant.candidates.name_features import NAME_FEATURES
from plant.candidates.namer_store import pack_namer, unpack_namer
from plant.candidates.names import Namer, NamerOptions, fit_namer, with_names
from plant.candidates.nearest import NameIndex, best_of_each, cosines, nearest
from plant.candidates.ridge import fit_ridge, kernel, parts_probabilities
from plant.candidates.suggesting import Suggestions, code_of, read_names
from plant.candidates.wording import VectorOptions, Wording, fit_vectors, read_words, vectorise
from plant.candidates.words import stemmer, words_of

STEM = stemmer("english")
MARKED = {
    "duct carcinoma": {"8500/3": 4},
    "duct carcinoma of the breast": {"8500/3": 2},
    "duct carcinoma, grade 2": {"8500/32": 2},
    "metastatic adenocarcinoma": {"8140/6": 3},
    "adenocarcinoma": {"8140/3": 5, "8140/6": 1},
    "adenocarcinoma grade 2": {"8140/32": 1},
    "adenocarcinoma grade 3": {"8140/33": 1},
    "small cell carcinoma": {"8041/3": 2},
}
BOOK = {
    "8500/3": ["Infiltrating duct carcinoma"],
    "8140/3": ["Adenocarcinoma, NOS"],
    "9680/3": ["Diffuse large B-cell lymphoma", "Malignant lymphoma of large cells"],
    "9591/3": ["Lymphoma, NOS"],
}
NOTES = {"8500/3": 5, "8500/32": 2, "8140/6": 3, "8140/3": 4, "8140/32": 1, "8140/33": 1, "8041/3": 2}


def worded(text: str) -> Wording:
    words = words_of(text, STEM)
    return words.folded, words.stems


def namer_of(
    marked: dict[str, dict[str, int]] = MARKED,
    book: dict[str, list[str]] = BOOK,
    notes: dict[str, int] = NOTES,
    *,
    system: str = "icdo3",
    options: NamerOptions | None = None,
) -> Namer:
    names = {code: [worded(name) for name in named] for code, named in book.items()}
    return fit_namer(
        {worded(text): codes for text, codes in marked.items()}, names, notes, system=system, options=options
    )


def suggested(namer: Namer, text: str) -> dict[str, dict[str, float]]:
    """The features of every code that a text may mean."""
    found = read_names(namer, [worded(text)])
    return {code_of(namer, found, int(code)): _named(found, row) for row, code in enumerate(found.code)}


def _named(found: Suggestions, row: int) -> dict[str, float]:
    return dict(zip(NAME_FEATURES, found.features[row].tolist(), strict=True))


def best(namer: Namer, text: str) -> str:
    found = suggested(namer, text)
    return max(found, key=lambda code: found[code]["product"])


def made_up(seed: int, count: int) -> list[Wording]:
    """Wordings of one to six made-up words."""
    generator = np.random.default_rng(seed)
    words = ["".join(generator.choice(list("abcdefg"), 5)) for _ in range(40)]
    return sorted(
        {tuple([tuple(generator.choice(words, generator.integers(1, 7)).tolist())] * 2) for _ in range(count)}
    )


def test_ridge_equals_a_plain_solve() -> None:
    generator = np.random.default_rng(0)
    wordings = made_up(0, 60)
    vectors = fit_vectors(wordings)
    cosine = cosines(NameIndex(rows := vectorise(vectors, read_words(vectors, wordings))), rows)
    targets = generator.random((len(wordings), 7)).astype(np.float32)
    weights = generator.uniform(0.3, 4, len(wordings))
    found = fit_ridge(cosine, targets, weights, ridge=0.03)

    dense = rows.toarray().astype(np.float64) @ rows.toarray().T
    matrix = (dense + dense**2) / 2 + 0.03 * np.diag(1 / weights)
    mean = np.average(targets, axis=0, weights=weights)
    plain = np.linalg.solve(matrix, targets - mean)
    assert_allclose(found.coefficients, plain, atol=2e-3)
    assert_allclose(kernel(cosine) @ found.coefficients + found.means, (dense + dense**2) / 2 @ plain + mean, atol=1e-4)


def test_a_name_of_two_codes_teaches_as_two_weighted_rows_do() -> None:
    cosine = np.array([[1, 0.4], [0.4, 1]], np.float32)
    twice = cosine[np.ix_([0, 0, 1], [0, 0, 1])]
    merged = fit_ridge(cosine, np.array([[0.75, 0.25], [0, 1]], np.float32), np.array([2.0, 1.0]), ridge=0.1)
    apart = fit_ridge(twice, np.array([[1, 0], [0, 1], [0, 1]], np.float32), np.array([1.5, 0.5, 1.0]), ridge=0.1)
    assert_allclose(
        kernel(cosine) @ merged.coefficients + merged.means,
        kernel(twice[[0, 2]]) @ apart.coefficients + apart.means,
        atol=1e-5,
    )


def test_probabilities_of_each_part_add_to_one() -> None:
    namer = namer_of()
    cosine = np.random.default_rng(0).random((5, len(namer.taught))).astype(np.float32)
    chances = parts_probabilities(namer.ridge, cosine, namer.values.starts, sharpness=9.0)
    assert_allclose(np.add.reduceat(chances, namer.values.starts[:-1], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("least", [0.0, 0.2, 0.4, 0.8])
def test_nearest_names_equal_those_of_all_cosines(least: float) -> None:
    names, asked = made_up(1, 400), made_up(2, 80) + made_up(1, 20)
    vectors = fit_vectors(names)
    index = NameIndex(vectorise(vectors, read_words(vectors, names)))
    queries = vectorise(vectors, read_words(vectors, asked))
    table = cosines(index, queries)
    assert_allclose(table, (queries @ index.rows.T).toarray(), atol=1e-5)
    found, cosine = nearest(index, queries, count=4, least=least)
    plain, plain_cosine = best_of_each(table, count=4, least=least)
    assert_allclose(cosine, plain_cosine, atol=1e-5)
    clear = np.diff(-plain_cosine, axis=1, append=1.0) > 1e-4  # equal cosines may come in either order
    clear[:, 1:] &= clear[:, :-1]
    assert_array_equal(found[clear], plain[clear])


def test_an_unknown_stem_makes_a_wording_less_like_every_name() -> None:
    vectors = fit_vectors([worded("duct carcinoma"), worded("lymphoma")], VectorOptions(unknown=4.0))
    known, unknown = vectorise(vectors, read_words(vectors, [worded("lymphoma"), worded("lymphoma xyz")]))
    assert known.toarray() @ known.toarray() == pytest.approx(1, abs=1e-5)
    assert 0 < unknown.toarray() @ known.toarray() < 0.9


def test_what_a_coder_marked_is_read_as_it_was_marked() -> None:
    namer = namer_of()
    assert {text: best(namer, text) for text in MARKED} == {
        text: max(codes, key=codes.get) for text, codes in MARKED.items()
    }


def test_parts_are_put_together_into_a_code_that_no_name_has() -> None:
    found = suggested(namer_of(), "duct carcinoma grade 3")
    assert found["8500/33"]["by composed"] == 1
    assert found["8500/33"]["in the book"] == found["8500/33"]["notes"] == 0


def test_an_unseen_code_is_a_candidate_where_its_name_stands() -> None:
    found = suggested(namer_of(), "diffuse large B-cell lymphoma")["9680/3"]
    assert found["by book"] == found["in the book"] == found["span covered"] == found["name covered"] == 1
    assert found["notes"] == 0
    assert found["cosine"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("limit", [0, 4000])
def test_names_beyond_the_ridge_are_found_too(limit: int) -> None:
    namer = namer_of(options=NamerOptions(book_names=limit))
    assert len(namer.further) == (0 if limit else 5)
    assert suggested(namer, "diffuse large B-cell lymphoma")["9680/3"]["by book"] == 1
    assert suggested(namer, "large lymphoma of diffuse b cells")["9680/3"]["by book bag"] == 1
    assert suggested(namer, "diffuse lymphoma of large cells")["9680/3"]["by nearest"] == 1


def test_marked_wordings_beyond_the_ridge_are_read_as_they_were_marked() -> None:
    whole, cut = namer_of(), namer_of(options=NamerOptions(marked_names=3))
    assert sum(cut.taught.marked > 0) == 3 < sum(whole.taught.marked > 0)
    features = ("by folded", "folded share", "folded count", "stemmed share", "cosine", "name is a coder's")
    for text, codes in MARKED.items():
        known, found = suggested(whole, text), suggested(cut, text)
        for code in codes:
            assert [found[code][name] for name in features] == pytest.approx([known[code][name] for name in features])


def test_the_same_content_in_another_order_is_the_same_bag() -> None:
    found = suggested(namer_of(), "breast carcinoma of the duct")["8500/3"]
    assert (found["by bag"], found["by stemmed"], found["bag share"]) == (1, 0, 1)


def test_shares_are_those_of_the_counts() -> None:
    found = suggested(namer_of(), "Adenocarcinoma")
    assert found["8140/3"]["folded share"] == pytest.approx(5 / 6)
    assert found["8140/6"]["stemmed share"] == pytest.approx(1 / 6)
    assert found["8140/3"]["folded count"] == pytest.approx(np.log(7))


def test_numbers_are_compared_with_those_of_the_nearest_name_however_they_are_written() -> None:
    found = suggested(namer_of(), "adenocarcinoma grade III")
    assert found["8140/33"]["numbers shared"] == 1
    assert found["8140/32"]["numbers of the span alone"] == found["8140/32"]["numbers of the name alone"] == 1
    assert found["8140/3"]["numbers of the span alone"] == 1


def test_further_names_leave_everything_else_as_it_was() -> None:
    namer = namer_of()
    grown = with_names(namer, {"9999/1": [worded("brand new growth")], "9591/3": [worded("lymphatic tumour")]})
    assert suggested(grown, "a brand new growth")["9999/1"]["by book bag"] == 1
    assert suggested(grown, "lymphatic tumour")["9591/3"]["by book"] == 1
    assert suggested(grown, "duct carcinoma of breast") == suggested(namer, "duct carcinoma of breast")


def test_the_order_of_the_input_changes_nothing() -> None:
    turned = namer_of(dict(reversed(MARKED.items())), dict(reversed(BOOK.items())), dict(reversed(NOTES.items())))
    for name, array in pack_namer(namer_of())[1].items():
        assert_array_equal(pack_namer(turned)[1][name], array)


@pytest.mark.parametrize(("limit", "lettered"), [(1, 4000), (1, 1), (4000, 4000)])
def test_a_namer_is_unpacked_as_it_was_packed(limit: int, lettered: int) -> None:
    namer = namer_of(options=NamerOptions(book_names=limit, lettered=lettered, ridge=0.1))
    options, arrays = pack_namer(namer)
    options = json.loads(json.dumps(options))
    again = unpack_namer(options, arrays)
    texts = [*MARKED, "duct carcinoma grade 3", "lymphoma", "nothing of that"]
    before, after = (read_names(each, [worded(text) for text in texts]) for each in (namer, again))
    assert_array_equal(before.features, after.features)
    assert_array_equal(before.code, after.code)
    assert again.options == namer.options


def test_a_system_without_parts_is_read_as_one_part() -> None:
    marked = {"old cat": {"D001": 2}, "young cat": {"D002": 2}, "old dog": {"D003": 1}}
    namer = namer_of(marked, {"D004": ["horse"]}, {"D001": 1, "D002": 1, "D003": 1}, system="other")
    assert namer.n_parts == 1
    assert best(namer, "very old cat") == "D001"
    assert best(namer, "the horse") == "D004"


def test_a_wording_that_stands_twice_is_suggested_twice() -> None:
    namer = namer_of()
    one, twice = (read_names(namer, [worded("adenocarcinoma")] * times) for times in (1, 2))
    assert_array_equal(twice.span, np.repeat([0, 1], len(one)))
    assert_array_equal(twice.features, np.concatenate([one.features] * 2))


def test_wordings_do_not_depend_on_those_beside_them() -> None:
    namer = namer_of()
    together = read_names(namer, [worded(text) for text in (*MARKED, "duct lymphoma")])
    alone = read_names(namer, [worded("duct lymphoma")])
    assert_allclose(together.features[together.span == len(MARKED)], alone.features, atol=1e-5)


@pytest.mark.parametrize("spans", [[], [worded("")], [worded("...")], [worded("xyz")]])
def test_where_nothing_is_known_nothing_is_suggested(spans: list[Wording]) -> None:
    empty = namer_of({}, {}, {})
    assert len(read_names(empty, spans)) == 0
    assert read_names(empty, spans).features.shape == (0, len(NAME_FEATURES))


def test_empty_spans_of_a_full_namer_are_read() -> None:
    found = read_names(namer_of(), [worded(""), worded("lymphoma"), worded(",")])
    assert np.isfinite(found.features).all()
    assert 1 in found.span


@pytest.mark.parametrize("given", [{"marked": {}, "notes": {}}, {"book": {}}])
def test_names_of_the_book_alone_or_of_coders_alone_are_enough(given: dict[str, dict[str, int]]) -> None:
    namer = namer_of(**given)
    assert best(namer, "adenocarcinoma") == "8140/3"


def test_no_query_has_no_cosine() -> None:
    nothing = csr_array((0, 3), dtype=np.float32)
    names = NameIndex(csr_array(np.eye(3, dtype=np.float32)))
    assert cosines(names, nothing).shape == (0, 3)
    assert nearest(names, nothing, count=2, least=0.1)[0].shape == (0, 2)
