"""Planted coders over a convolution read without torch: the same codes, probabilities and words as with it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.corpus import take
from plant.errors import ArtifactError
from plant.nn.reading import convolution
from plant.nn.reading.convolution import Layer
from plant.systems.array_classifier import ArraySystem
from plant.systems.classifier import ClassifierSystem
from plant.systems.coder import FittedCoder, load_coder
from plant.systems.system import Known
from plant.systems.table import unpack_system
from tests.made_up import notes_of

FEW = ("prepare.min_count=1", "fit.epochs=1")
CNN = ("plant-cnn", *FEW, "rank.epochs=1", "encoder.embedding=12", "encoder.filters=10")
CODERS = {
    "as in the recipe": CNN,
    "otherwise": (
        *CNN,
        "encoder.kernels=[4,3]", "encoder.activation=relu", "encoder.residual=false", "decoder.k=2",
        "decoder.static_values=raw", "decoder.listed=3", "rank.form=mlp", "rank.hidden=6", "choose.calibrate=true",
    ),
    "names": ("interaction", *FEW),
    "names, their cosines": ("interaction", *FEW, "decoder.form=plain", "decoder.slack=0", "decoder.threshold=0.5"),
}  # fmt: skip
ODD = [
    "",
    "   ",
    "unheard of wordb",
    "signc0x " * 30,
    "signc0x",
    "wordb signc1x unheard signc0x",
    "the sign of c2 signc2x",
]
BOOK = CodeBook(
    "other", tuple(f"C{label}" for label in range(4)), {f"C{n}": f"signc{n}x" + " wordbb" * (n % 2) for n in range(4)}
)


def fitted(recipe: str, *changes: str) -> FittedCoder:
    notes = notes_of(40, n_codes=4)
    texts, codes = [note.text for note in notes], [note.codes for note in notes]
    return Coder(recipe, *changes).fit(texts, codes, codebook=BOOK).fitted


@pytest.fixture(scope="module", params=CODERS)
def coder(request: pytest.FixtureRequest) -> FittedCoder:
    return fitted(*CODERS[request.param])


def read_by(coder: FittedCoder) -> ArraySystem:
    assert isinstance(coder.system, ArraySystem)
    return coder.system


def texts() -> list[str]:
    return [*ODD, *(note.text for note in notes_of(20, seed=5, n_codes=4))]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_no_number_is_refused(coder: FittedCoder, value: float) -> None:
    packed = coder.system.pack()
    known = Known(coder.vocab, coder.codes, coder.codebook)
    unpack_system(packed, known)
    for name in [name for name, array in packed.arrays.items() if array.dtype.kind == "f" and array.size]:
        wrong = np.array(packed.arrays[name])
        wrong.reshape(-1)[-1] = value
        with pytest.raises(ArtifactError, match="no numbers"):
            unpack_system(replace(packed, arrays={**packed.arrays, name: wrong}), known)


def test_arrays_that_only_the_classifier_needs_are_looked_at_too(coder: FittedCoder) -> None:
    packed = coder.system.pack()
    known = Known(coder.vocab, coder.codes, coder.codebook)
    names = {"given.frequencies.values", "given.relevance.label_counts", "weights.decoder.ranker.label_bias"}
    for name in names & set(packed.arrays):
        cut = {**packed.arrays, name: packed.arrays[name][:-1]}
        with pytest.raises(ArtifactError, match="make it again"):
            unpack_system(replace(packed, arrays=cut), known)


def test_both_ways_give_the_same_probabilities_and_words(coder: FittedCoder) -> None:
    documents, every = coder.encode(texts()), list(range(len(coder.codes)))
    ours = read_by(coder).read(documents, evidence=True)
    theirs = read_by(coder).whole.read(documents, evidence=True)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5, atol=1e-7)
    assert len(np.unique(ours.scores[:, 0])) > 1  # or nothing was looked at
    for row in range(len(documents)):
        weights = ours.weigh(row, every, explainer="")
        np.testing.assert_allclose(weights, theirs.weigh(row, every, explainer="attention"), atol=1e-6)


def test_both_ways_rank_and_explain_codes_in_the_same_way(coder: FittedCoder) -> None:
    from dataclasses import replace

    documents = coder.encode(texts())
    ours, theirs = coder.code(documents), replace(coder, system=read_by(coder).whole).code(documents)
    for one, other in zip(ours, theirs, strict=True):
        assert [(code.code, code.accepted) for code in one.ranked] == [
            (code.code, code.accepted) for code in other.ranked
        ]
        for mine, its in zip(one.ranked, other.ranked, strict=True):
            assert [(part.start, part.end) for part in mine.evidence] == [
                (part.start, part.end) for part in its.evidence
            ]
    assert any(code.evidence for one in ours for code in one.ranked)


def test_a_note_has_the_same_bits_beside_any_others(coder: FittedCoder) -> None:
    documents = coder.encode(texts())
    together = coder.system.read(documents).scores
    alone = [coder.system.read(take(documents, np.array([row]))).scores[0] for row in range(len(documents))]
    assert np.array_equal(together, np.stack(alone))


def test_an_opened_coder_gives_the_bits_of_the_one_that_was_fitted(coder: FittedCoder, tmp_path: Path) -> None:
    from plant.systems.coder import save_coder

    save_coder(coder, tmp_path / "coder")
    opened = load_coder(tmp_path / "coder")
    documents = coder.encode(texts())
    assert isinstance(opened.system, ArraySystem)
    assert np.array_equal(opened.probabilities(documents), coder.probabilities(documents))
    save_coder(opened, tmp_path / "again")
    assert (tmp_path / "again" / "system.json").read_text() == (tmp_path / "coder" / "system.json").read_text()


def test_other_explainers_are_left_to_the_classifier(coder: FittedCoder) -> None:
    documents = coder.encode(texts()[-1:])
    system = read_by(coder)
    explainers = ["occlusion"] if system.matches_names else ["gradient", "planted"]
    for explainer in explainers:
        ours = system.read(documents, evidence=True).weigh(0, [0, 1], explainer=explainer)
        theirs = system.whole.read(documents, evidence=True).weigh(0, [0, 1], explainer=explainer)
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("option", ["decoder.listed=0", "decoder.static=false", "decoder.segment=5"])
def test_what_has_no_such_form_is_read_with_torch(option: str) -> None:
    assert isinstance(fitted(*CNN, option).system, ClassifierSystem)


def test_codes_added_by_name_are_read_in_the_same_way_after_opening(tmp_path: Path) -> None:
    from plant.systems.coder import add_codes, save_coder

    further = CodeBook("other", ("D1",), {"D1": "unheard wordb"})
    grown = add_codes(fitted(*CODERS["names"]), further)
    save_coder(grown, tmp_path / "coder")
    documents = grown.encode(texts())
    ours = load_coder(tmp_path / "coder").probabilities(documents)
    assert np.array_equal(ours, grown.probabilities(documents))
    np.testing.assert_allclose(read_by(grown).whole.read(documents).scores, ours, rtol=1e-5, atol=1e-7)
    assert ours[:, -1].max() > ours[:, -1].min()  # the code is found somewhere


@pytest.mark.parametrize("kernel", [1, 4, 5])
def test_a_layer_is_a_convolution_of_torch_at_some_positions(kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "TOGETHER", 3)
    random = torch.Generator().manual_seed(0)
    words, weight, bias = (torch.randn(*shape, generator=random) for shape in ((11, 6), (7, 6, kernel), (7,)))
    before = kernel // 2
    padded = F.pad(words.T, (before, kernel - 1 - before))
    expected = F.conv1d(padded.unsqueeze(0), weight, bias)[0].T
    positions = np.array([0, 2, 3, 9, 10])
    layer = Layer(weight.permute(2, 1, 0).reshape(-1, 7).numpy(), bias.numpy(), kernel)
    np.testing.assert_allclose(layer.at(words.numpy(), positions), expected[positions].numpy(), atol=1e-5)


def modules_after(program: str, *arguments: str) -> str:
    """What a process of its own says of torch when it is done."""
    told = f"import sys\n{program}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_plant_predict_of_a_planted_coder_beside_names_loads_no_torch(tmp_path: Path) -> None:
    from plant.systems.coder import save_coder

    save_coder(fitted("plant-interaction", *CNN[1:]), tmp_path / "coder")
    (tmp_path / "note.txt").write_text(texts()[-1])
    predict = "from plant.cli.main import main\ntry:\n    main()\nexcept SystemExit as done:\n    assert not done.code"
    assert modules_after(predict, "predict", str(tmp_path / "coder"), str(tmp_path / "note.txt")) == "False"


@pytest.mark.parametrize("recipe", ["tfidf", "plant-bow"])
def test_fitting_without_a_network_loads_no_torch(recipe: str) -> None:
    fit = f"""
from plant import Coder
texts, codes = ["fever and cough", "broken wrist", "cough, no fever", "wrist pain"] * 9, [["A"], ["B"]] * 18
Coder("{recipe}", "prepare.min_count=1").fit(texts, codes).predict(texts[:1])
"""
    assert modules_after(fit) == "False"
