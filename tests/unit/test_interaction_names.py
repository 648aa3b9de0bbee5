"""Names of labels: from books, tables and marked mentions; how far they are believed; codes added by name."""

from pathlib import Path

import numpy as np
import pytest
import torch

from plant.cli.main import main
from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.codes.icd import family
from plant.codes.synonyms import read_synonyms, spoken
from plant.data.builder import build_corpus
from plant.data.collate import collate
from plant.data.corpus import Corpus, TrainingView, training_view
from plant.data.mentions import mined_mentions
from plant.data.roles import Plan
from plant.errors import InputError
from plant.nn.decoders.joined import Joined
from plant.nn.matching.naming import matching_of, name_labels
from plant.nn.matching.search import Matching
from plant.recipe.reading import load_recipe, recipe_from
from plant.recipe.schema import Prepare, Recipe
from plant.steps.fit import fit_coder
from plant.systems.classifier import ClassifierSystem
from plant.systems.coder import load_coder, save_coder
from plant.types import Note, Span

BOOK = CodeBook("other", ("G1", "T1"), {"G1": "Influenza, NOS (any)", "T1": "Ductal carcinoma"})


def note(number: int, text: str, split: str = "train", **marked: str) -> Note:
    evidence = {code: (Span(text.index(words), text.index(words) + len(words)),) for code, words in marked.items()}
    return Note(f"n{number}", text, tuple(marked), split, evidence=evidence)


NOTES = [
    note(0, "The flu hit him.", G1="flu"),
    note(1, "A flu again, no carcinoma.", G1="flu"),
    note(2, "Grippe and ductal carcinoma of the breast", G1="Grippe", T1="ductal carcinoma"),
    note(3, "A carcinoma stays a carcinoma.", T1="carcinoma"),
    note(4, "Had flu; has a carcinoma", "dev", T1="carcinoma", G1="flu"),
]


def make_view() -> TrainingView:
    plan = Plan(fit=("train",), choose=("dev",))
    return training_view(build_corpus(NOTES, BOOK, Prepare(min_count=1), plan=plan))


def spelled(view: TrainingView, words: tuple[int, ...]) -> str:
    return " ".join(view.vocab.tokens[word] for word in words)


def by_name(view: TrainingView, recipe: Recipe) -> dict[tuple[str, str], tuple[int, float]]:
    names = name_labels(view, recipe)
    rows = zip(names.labels, names.support, names.log_odds, names.starts, names.starts[1:], strict=False)
    return {
        (view.codes[label], spelled(view, tuple(names.words[a:b]))): (int(support), float(log_odds))
        for label, support, log_odds, a, b in rows
    }


def test_mentions_are_what_coders_marked_in_fitted_notes() -> None:
    view = make_view()
    mined = {(spelled(view, words), view.codes[label]): rows for (words, label), rows in mined_mentions(view).items()}
    assert mined == {
        ("flu", "G1"): {0, 1},
        ("grippe", "G1"): {2},
        ("ductal carcinoma", "T1"): {2},
        ("carcinoma", "T1"): {3},
    }


def test_a_mention_is_every_word_that_a_span_touches() -> None:
    text = "severe ductal-carcinoma here"
    marked = Note("a", text, ("T1",), "train", evidence={"T1": (Span(9, 20), Span(0, 0))})
    other = Note("b", "none", ("T1",), "dev")
    corpus = build_corpus([marked, other], BOOK, Prepare(min_count=1), plan=Plan(fit=("train",), choose=("dev",)))
    view = training_view(corpus)
    assert [spelled(view, words) for words, _ in mined_mentions(view)] == ["ductal carcinoma"]


def test_names_are_counted_as_if_each_note_were_new() -> None:
    names = by_name(make_view(), load_recipe("interaction"))
    right, wrong = np.log((2 + 0.7) / 0.3), np.log(0.7 / (1 + 0.3))
    assert names[("G1", "flu")] == (2, pytest.approx(right))
    assert names[("T1", "carcinoma")] == (1, pytest.approx(wrong))  # its own note 3 is left out; wrong in note 1
    assert names[("G1", "grippe")] == (1, pytest.approx(np.log(0.7 / 0.3)))  # found nowhere else


def test_a_title_that_coders_marked_too_is_one_name() -> None:
    names = by_name(make_view(), load_recipe("interaction"))
    assert names[("T1", "ductal carcinoma")][0] == 0
    assert len([name for name in names if name[1] == "ductal carcinoma"]) == 1


def test_sources_of_names_can_be_turned_off() -> None:
    book = by_name(make_view(), load_recipe("interaction", ["naming.mined=false"]))
    mined = by_name(make_view(), load_recipe("interaction", ["naming.book=false"]))
    assert set(book) == {("T1", "ductal carcinoma")}  # no fitted note has the word influenza
    assert ("G1", "flu") in mined


def test_titles_alone_are_taken_word_for_word() -> None:
    book = CodeBook("other", ("T1",), {"T1": "Carcinoma (ductal), NOS"}, synonyms={"T1": ("flu",)})
    notes = [note(0, "carcinoma ductal NOS, flu", T1="flu")]
    view = training_view(build_corpus(notes, book, Prepare(min_count=1), plan=Plan(fit=("train",), choose=0.0)))
    printed = recipe_from({"naming": {"mined": False, "kin": False, "titles_only": True}}, where="here")
    every = recipe_from({"naming": {"mined": False, "kin": False}}, where="here")
    assert set(by_name(view, printed)) == {("T1", "carcinoma ductal nos")}
    assert set(by_name(view, every)) == {("T1", "carcinoma ductal nos"), ("T1", "carcinoma"), ("T1", "flu")}


PRINTED = ("text-cnn", "bigru", "caml", "fasttext", "xml-cnn", "bert")


@pytest.mark.parametrize("name", PRINTED)
def test_a_printed_join_is_its_base_and_the_published_matching(name: str) -> None:
    recipe, base = load_recipe(f"{name}-interaction"), load_recipe(f"{name}-small")
    own = {option: value for option, value in recipe.decoder.options.items() if option != "interaction"}
    assert (recipe.decoder.name, own) == (base.decoder.name, base.decoder.options)
    assert (recipe.encoder, recipe.fit) == (base.encoder, base.fit)
    assert recipe.vectors == (base.vectors if name != "bert" else load_recipe("interaction-printed").vectors)
    assert recipe.vectors.train == (name != "fasttext")  # it starts at random, and would start from them too
    alone = load_recipe("interaction-printed")
    assert recipe.decoder.options["interaction"] == {"join": "max", **alone.decoder.options}
    assert (recipe.naming, recipe.choose) == (alone.naming, alone.choose)
    assert matching_of(recipe) == Matching(slack=0, threshold=-1.0, least=-1.0, longest=False)


@pytest.mark.parametrize("name", ["interaction-printed", "text-cnn-interaction"])
def test_the_joint_score_as_printed_is_that_of_plain_loops(name: str) -> None:
    coder = Coder(name, "fit.epochs=1", "vectors.epochs=1").fit(
        ["The flu hit him.", "ductal carcinoma of breast", "a flu"] * 4, [["G1"], ["T1"], ["G1"]] * 4, codebook=BOOK
    )
    system = coder.fitted.system
    assert isinstance(system, ClassifierSystem)
    decoder, documents = system.classifier.decoder, coder.fitted.encode(["no ductal carcinoma here"])
    matching = decoder.interaction if isinstance(decoder, Joined) else decoder
    batch = collate(documents, [0])
    base = decoder.base(system.classifier.encode(batch)).logits[0, 1] if isinstance(decoder, Joined) else -torch.inf
    words = torch.nn.functional.normalize(matching.words, dim=1)
    text = [words[token] if token > 1 else torch.zeros(len(words[0])) for token in batch.tokens[0].tolist()]
    title = [words[token] for token in coder.fitted.vocab.encode(["ductal", "carcinoma"]).tolist()]
    means = [(title[0] @ text[k] + title[1] @ text[k + 1]) / 2 for k in range(len(text) - 1)]
    means += [title[1] @ text[0] / 2, title[0] @ text[-1] / 2]  # half over an edge
    expected = torch.maximum(torch.stack(means).max(), torch.as_tensor(base)).sigmoid()
    assert coder.fitted.probabilities(documents)[0, 1] == pytest.approx(float(expected.detach()), abs=1e-5)


def test_users_synonyms_are_names(tmp_path: Path) -> None:
    table = tmp_path / "names.tsv"
    table.write_text("code\tsynonyms\nG1\tgrippe|the hit\nX9\tnothing\n", encoding="utf-8")
    assert read_synonyms(table, BOOK).names("G1") == ("Influenza, NOS (any)", "grippe", "the hit")
    names = by_name(make_view(), load_recipe("interaction", [f"naming.synonyms='{table}'", "naming.mined=false"]))
    assert ("G1", "the hit") in names


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Carcinoma, NOS", "Carcinoma"),
        ("Carcinoma, SAI (con otro calificador relevante)", "Carcinoma"),
        ("Pneumonia, unspecified", "Pneumonia"),
        ("Gout", None),
        ("(only this)", None),
    ],
)
def test_spoken_names_lack_what_notes_lack(title: str, said: str | None) -> None:
    assert spoken(title) == ((title,) if said is None else (title, said))


def test_the_search_is_that_of_the_decoder() -> None:
    joined = recipe_from({"decoder": {"name": "max-pool", "interaction": {"slack": 1, "join": "sum"}}}, where="test")
    assert matching_of(joined).slack == 1
    assert matching_of(load_recipe("interaction", ["decoder.longest=false"])).longest is False


def fit(*changes: str) -> Coder:
    recipe = load_recipe("interaction", ["fit.epochs=1", *changes])
    corpus = build_corpus(NOTES, BOOK, Prepare(min_count=1), plan=Plan(fit=("train",), choose=("dev",)))
    return Coder(recipe, fitted=fit_coder(corpus, recipe))


JOINED = (
    'decoder={name="label-attention", interaction={join="sum"}}',
    'encoder={name="cnn", embedding=4, kernels=[3], filters=4}',
)
PLANTED = ('decoder={name="planted", k=2, interaction={}}', JOINED[1], "rank.epochs=1", "rank.size=4")
NEW = CodeBook("other", ("T1", "D1", "N1"), {"D1": "Diabetes mellitus", "N1": "Breast pain", "T1": "Ignored"})
TEXTS = ["Flu and DIABETES mellitus.", "ductal carcinoma of the breast, breast pain", "", "Nothing new"]


@pytest.mark.parametrize("changes", [(), JOINED, PLANTED], ids=["alone", "joined", "planted"])
def test_added_codes_are_found_with_evidence_and_change_no_old_score(changes: tuple[str, ...], tmp_path: Path) -> None:
    coder = fit(*changes)
    before = coder.predict_proba(TEXTS)
    old = coder.classes_
    coder.add_codes(NEW)
    assert coder.classes_ == (*old, "D1", "N1")
    after = coder.predict_proba(TEXTS)
    np.testing.assert_array_equal(after[:, : len(old)], before)
    assert after[0, 2] > 10 * after[1, 2]
    assert after[1, 3] > 10 * after[0, 3]
    diabetes = next(scored for scored in coder.predict(TEXTS[:1])[0].ranked if scored.code == "D1")
    assert [span.text for span in diabetes.evidence] == ["DIABETES mellitus"]
    assert diabetes.description == "Diabetes mellitus"
    coder.save(tmp_path / "coder")
    np.testing.assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(TEXTS), after)


def test_codes_can_be_added_twice() -> None:
    coder = fit().add_codes(NEW)
    before = coder.predict_proba(TEXTS)
    coder.add_codes(CodeBook("other", ("D2",), {"D2": "Diabetes mellitus of the breast"}))
    np.testing.assert_array_equal(coder.predict_proba(TEXTS)[:, :4], before)


def test_only_coders_that_match_names_take_codes() -> None:
    corpus = build_corpus(NOTES, BOOK, Prepare(min_count=1), plan=Plan(fit=("train",), choose=("dev",)))
    coder = Coder("prior", fitted=fit_coder(corpus, load_recipe("prior")))
    with pytest.raises(InputError, match="does not match names"):
        coder.add_codes(NEW)
    with pytest.raises(InputError, match="nothing to add"):
        fit().add_codes(BOOK)


def test_the_command_writes_a_coder_with_the_codes(tmp_path: Path) -> None:
    save_coder(fit().fitted, tmp_path / "coder")
    (tmp_path / "new.tsv").write_text("code\tdescription\nD1\tDiabetes mellitus\n", encoding="utf-8")
    arguments = ["codes", "add", str(tmp_path / "coder"), str(tmp_path / "new.tsv"), "--out", str(tmp_path / "wider")]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    assert load_coder(tmp_path / "wider").codes == ("G1", "T1", "D1")


TUMOURS = CodeBook("icdo3", ("8500/3", "8500/33", "8140/3"), {"8500/3": "Ductal carcinoma"})
TUMOUR_NOTES = [
    note(0, "A ductal carcinoma.", **{"8500/3": "ductal carcinoma"}),
    note(1, "Ductal carcinoma, grade 3", **{"8500/33": "Ductal carcinoma, grade 3"}),
    note(2, "An adenocarcinoma", **{"8140/3": "adenocarcinoma"}),
    note(3, "A ductal carcinoma", "dev", **{"8500/3": "ductal carcinoma"}),
]


def tumour_corpus() -> Corpus:
    plan = Plan(fit=("train",), choose=("dev",))
    return build_corpus(TUMOUR_NOTES, TUMOURS, Prepare(min_count=1, keep_numbers=True), plan=plan)


def test_codes_of_one_family_lend_each_other_their_names_and_they_are_believed_less() -> None:
    view = training_view(tumour_corpus())
    alone = by_name(view, load_recipe("interaction", ["naming.kin=false"]))
    names = by_name(view, load_recipe("interaction"))
    assert ("8500/33", "ductal carcinoma") not in alone
    assert set(names) - set(alone) == {("8500/33", "ductal carcinoma"), ("8500/3", "ductal carcinoma grade 3")}
    assert names[("8500/33", "ductal carcinoma")][1] < names[("8500/3", "ductal carcinoma")][1] - 1
    assert {name: alone[name] for name in alone} == {name: names[name] for name in alone}


@pytest.mark.parametrize(
    ("code", "system", "shared"),
    [
        ("8500/33", "icdo3", "8500"),
        ("E11.65", "icd10cm", "E11"),
        ("250.02", "icd9", "250"),
        ("0DTJ4ZZ", "icd10pcs", "0DTJ"),
        ("x", "other", "x"),
    ],
)
def test_families_are_categories(code: str, system: str, shared: str) -> None:
    assert family(code, system) == shared


def test_a_table_of_further_codes_is_known_by_name_and_counted_in_the_fitted_notes(tmp_path: Path) -> None:
    table = tmp_path / "catalogue.tsv"
    table.write_text(
        "code\tdescription\n8500/2\tIn situ\n9999/9\tAdenocarcinoma\n8000/6\tMetastasis\n", encoding="utf-8"
    )
    corpus = tumour_corpus()
    plain = fit_coder(corpus, load_recipe("interaction", ["fit.epochs=1"]))
    fitted = fit_coder(corpus, load_recipe("interaction", ["fit.epochs=1", f"naming.codes='{table}'"]))
    assert fitted.codes == (*plain.codes, "8500/2", "9999/9", "8000/6")
    texts = ["an adenocarcinoma", "a metastasis", "a ductal carcinoma"]
    scores = fitted.probabilities(fitted.encode(texts))
    np.testing.assert_allclose(scores[:, :3], plain.probabilities(plain.encode(texts)), rtol=1e-6)
    seen_in_vain, new = scores[0, 4], scores[1, 5]
    assert new > seen_in_vain  # a fitted note has the word "adenocarcinoma" and not the code
    assert scores[2, 3] > scores[1, 3]  # lent by 8500/3


def test_a_member_that_knows_no_names_says_little_of_added_codes(tmp_path: Path) -> None:
    table = {
        "system": "members",
        "members": ["prior", "interaction"],
        "changes": ["fit.epochs=1"],
        "prepare": {"min_count": 1},
        "choose": {"blend": "weights"},
    }
    recipe = recipe_from(table, where="test")
    corpus = build_corpus(NOTES, BOOK, Prepare(min_count=1), plan=Plan(fit=("train",), choose=("dev",)))
    coder = Coder(recipe, fitted=fit_coder(corpus, recipe))
    before = coder.predict_proba(TEXTS)
    coder.add_codes(NEW)
    after = coder.predict_proba(TEXTS)
    np.testing.assert_array_equal(after[:, :2], before)
    assert after[0, 2] > after[1, 2]
    assert coder.predict(TEXTS[:1])[0].ranked[0].evidence
    coder.add_codes(CodeBook("other", ("D2",), {"D2": "Diabetes of the breast"}))
    np.testing.assert_array_equal(coder.predict_proba(TEXTS)[:, :4], after)
    after = coder.predict_proba(TEXTS)
    coder.save(tmp_path / "coder")
    np.testing.assert_array_equal(Coder.load(tmp_path / "coder").predict_proba(TEXTS), after)
