"""What systems that know more of codes are fitted on, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import training_view
from plant.errors import ArtifactError, RecipeError
from plant.nn.language.terms import spread_terms, term_texts
from plant.nn.matching.names import Names
from plant.recipe.schema import Prepare
from plant.steps.label_graph import label_pairs
from plant.systems.system import Known, PackedSystem
from plant.systems.trees import unpack_trees
from plant.text.vocab import Vocab
from tests.made_up import notes_of

TINY = ("prepare.min_count=1", "fit.epochs=1", "vectors.size=6", "vectors.epochs=1", "encoder.hidden=4",
        "decoder.size=8", "naming.mined=false")  # fmt: skip
BOOK = CodeBook("other", (), {f"C{n}": f"the signc{n}x" for n in range(4)})


@pytest.mark.parametrize("from_prior", [True, False])
def test_msmn_scores_added_codes_by_their_terms(tmp_path: Path, from_prior: bool) -> None:
    notes = notes_of(40, n_codes=4)
    texts = [note.text for note in notes]
    started = f"decoder.from_prior={str(from_prior).lower()}"
    coder = Coder("msmn-small", *TINY, started).fit(texts, [note.codes for note in notes], codebook=BOOK, choose=0.3)
    before = coder.predict_proba(texts[:5])
    names = {"X1": "the signc1x", "X2": "the signc1x", "X3": "worda the signc2x wordb"}
    coder.add_codes(CodeBook("other", tuple(names), names))
    after = coder.predict_proba(texts[:5])
    known, same, other = (coder.classes_.index(code) for code in ("C1", "X1", "X3"))
    np.testing.assert_allclose(after[:, : before.shape[1]], before, atol=1e-6)
    np.testing.assert_allclose(after[:, same], after[:, coder.classes_.index("X2")], atol=1e-6)
    if from_prior:  # the same terms, but among the rarest: never above the known one, and not out of reach
        assert (after[:, same] <= after[:, known] + 1e-6).all()
        assert (after[:, same] > 1e-3).all()
    else:
        np.testing.assert_allclose(after[:, same], after[:, known], atol=1e-6)  # the same terms, the same score
    assert not np.allclose(after[:, other], after[:, same])
    coder.save(tmp_path / "coder")
    np.testing.assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(texts[:5]), after)


def test_a_title_comes_before_the_names_of_most_notes() -> None:
    vocab = Vocab(("<pad>", "<unk>", "big", "small", "tumour"))
    names = Names(
        words=np.array([3, 4, 2, 4, 4], np.int32),
        starts=np.array([0, 2, 4, 5]),
        labels=np.array([0, 0, 0], np.int32),
        support=np.array([1, 5, 0], np.int32),
        log_odds=np.zeros(3, np.float32),
        n_trained=3,
        n_labels=2,
        n_words=5,
    )
    found = term_texts(["A", "B"], CodeBook("other", ("A", "B"), {"A": "Tumour"}), names, vocab)
    assert found == [("Tumour", "big tumour", "small tumour"), ("B",)]
    assert spread_terms([[4, 7, 9], [3]], each=2) == [[4, 7], [3, 3]]


def test_pairs_are_counted_on_fitted_notes() -> None:
    view = training_view(build_corpus(notes_of(30, n_codes=4), CodeBook("other", ()), Prepare(min_count=1)))
    rows = [set(view.documents.labels_of(row).tolist()) for row in range(len(view.documents))]
    found = {(one, other): count for one, other, count in label_pairs(view).tolist()}
    expected = {(a, b): sum({a, b} <= row for row in rows) for a in range(4) for b in range(a + 1, 4)}
    assert found == {pair: count for pair, count in expected.items() if count}


def test_trees_of_a_coder_write_no_file_elsewhere() -> None:
    packed = PackedSystem("trees", {"files": ["../x"], "beam": 1, "most": 1}, {"inverse": np.ones(2, np.float32)})
    with pytest.raises(ArtifactError, match="name a file that is none of theirs"):
        unpack_trees(packed, Known(Vocab(("<pad>", "<unk>")), (), CodeBook("other", ())))


@pytest.mark.parametrize("name", ["parabel", "bonsai", "xr-linear"])
def test_a_text_without_a_known_word_stops_no_tree(name: str) -> None:
    if name != "xr-linear":
        pytest.importorskip("omikuji")
    notes = notes_of(40, n_codes=4)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    texts[3:6] = ["unheard-of", "unseen", "unread"]
    found = Coder(name, "prepare.min_count=2").fit(texts, codes, choose=0.3).predict_proba(texts)
    assert np.isfinite(found).all()


def test_terms_share_the_width_of_msmn_evenly() -> None:
    notes = notes_of(20, n_codes=4)
    with pytest.raises(RecipeError, match="which 3 does not divide"):
        Coder("msmn-small", *TINY, "decoder.heads=3").fit(
            [note.text for note in notes], [note.codes for note in notes], choose=0.3
        )
