"""Coding by candidates: what it finds, that it cannot have seen it, and that it survives folders, orders and kills."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from plant.candidates.listing import Lister, list_rows, right_rows
from plant.candidates.reader import marked_wordings
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import Corpus, training_view
from plant.data.roles import Plan
from plant.errors import ArtifactError, InputError, RecipeError
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.steps import candidates as steps
from plant.steps.candidates import PARTS, _check_unseen, book_of, of_deal, part_of_view, parts_of, taught_notes
from plant.steps.fit import fit_coder, plan_of
from plant.steps.step import Root, Walk, WalkSettings, walk
from plant.store.keeper import InFolder
from plant.systems.coder import FittedCoder, add_codes, load_coder, save_coder
from plant.systems.system import Known
from plant.systems.table import unpack_system
from plant.types import Note, Span

NAMES = {
    "A1": "acute bronchitis",
    "B2": "chronic gastric ulcer",
    "C3": "fracture of the left wrist",
    "D4": "type two diabetes",
    "E5": "severe migraine",
}
FILLER = (
    "the patient was seen in the clinic today and told to come back",
    "blood pressure and pulse were normal on admission",
    "she lives with her family and does not smoke",
    "a follow up visit was planned for the next month",
)
QUICK = ("vectors.train=false", "candidates.deals=1")


def made_up_notes(n: int, *, seed: int = 0, marked: bool = True, random_codes: bool = False) -> list[Note]:
    """Notes of filler and of names, each name marked for its code; or two names, each for a code that was drawn.

    Where codes are drawn, every note has as many as any other, or its length would tell something of them.
    """
    generator = np.random.default_rng(seed)
    notes = []
    for number in range(n):
        text, evidence = "", {}
        drawn = generator.permutation(list(NAMES))[:2].tolist()
        for code in generator.permutation(list(NAMES))[: 2 if random_codes else generator.integers(1, 4)].tolist():
            text += f"{FILLER[generator.integers(len(FILLER))]}. "
            start = len(text)
            text += f"{NAMES[code]}. "
            evidence[drawn.pop() if random_codes else code] = (Span(start, start + len(NAMES[code])),)
        text += FILLER[generator.integers(len(FILLER))]
        notes.append(Note(f"n{number}", text, tuple(sorted(evidence)), "train", evidence=evidence if marked else {}))
    return notes


def corpus_of(notes: list[Note], recipe: Recipe, *, names: bool = True) -> Corpus:
    book = CodeBook("other", tuple(NAMES), NAMES if names else {})
    return build_corpus(notes, book, recipe.prepare, plan=Plan(("train",), 0.0, ()))


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe("candidates", QUICK)


@pytest.fixture(scope="module")
def two_deals() -> Recipe:
    return load_recipe("candidates", ["vectors.train=false"])


@pytest.fixture(scope="module")
def corpus(recipe: Recipe) -> Corpus:
    return corpus_of(made_up_notes(60), recipe)


@pytest.fixture(scope="module")
def walked(corpus: Corpus, recipe: Recipe) -> Walk:
    """What steps make on the way to the coder, each when it is first asked for."""
    return walk(plan_of(recipe), {"corpus": Root(corpus)}, WalkSettings())


@pytest.fixture(scope="module")
def coder(walked: Walk) -> FittedCoder:
    found: FittedCoder = walked["coder"]
    return found


def test_codes_are_found_by_their_marked_words(coder: FittedCoder) -> None:
    new = made_up_notes(20, seed=1)
    for note, prediction in zip(new, coder.code(coder.encode([n.text for n in new])), strict=True):
        assert set(prediction.accepted) == set(note.codes)


def test_evidence_is_the_phrase_and_says_why(coder: FittedCoder) -> None:
    text = f"{FILLER[0]}. {NAMES['B2']}. {FILLER[1]}"
    best = coder.code(coder.encode([text]))[0].ranked[0]
    assert best.code == "B2"
    assert best.evidence[0].text == NAMES["B2"]
    assert best.evidence[0].why == "marked words"
    assert text[best.evidence[0].start : best.evidence[0].end] == NAMES["B2"]


def test_words_of_the_phrase_are_weighed_and_no_others(coder: FittedCoder) -> None:
    text = f"{FILLER[0]}. {NAMES['B2']}. {FILLER[1]}"
    documents = coder.encode([text])
    weights = coder.weigh(documents, coder.codes.index("B2"))
    lit = [text[a:b] for a, b, w in zip(documents.char_starts, documents.char_ends, weights, strict=True) if w > 0]
    assert lit == NAMES["B2"].split()


def test_another_explainer_is_refused(coder: FittedCoder) -> None:
    with pytest.raises(InputError, match="candidates explain themselves"):
        coder.code(coder.encode(["a note"]), explainer="attention")


def test_a_coder_is_opened_as_it_was_saved(coder: FittedCoder, tmp_path: Path) -> None:
    save_coder(coder, tmp_path / "coder")
    opened = load_coder(tmp_path / "coder")
    documents = coder.encode([note.text for note in made_up_notes(8, seed=2)])
    np.testing.assert_array_equal(opened.probabilities(documents), coder.probabilities(documents))
    assert opened.code(documents) == coder.code(documents)


def test_a_saved_coder_knows_no_note(coder: FittedCoder) -> None:
    assert not len(coder.system.reader.seen)  # type: ignore[attr-defined]


def test_the_order_of_notes_changes_nothing(corpus: Corpus, coder: FittedCoder, recipe: Recipe) -> None:
    other = fit_coder(corpus_of(made_up_notes(60)[::-1], recipe), recipe)
    documents = coder.encode([note.text for note in made_up_notes(8, seed=2)])
    np.testing.assert_array_equal(other.probabilities(documents), coder.probabilities(documents))
    assert other.thresholds[0] == coder.thresholds[0]


def test_a_note_is_the_same_whoever_is_read_beside_it(coder: FittedCoder) -> None:
    texts = [note.text for note in made_up_notes(5, seed=3)]
    together = coder.probabilities(coder.encode(texts))
    alone = np.concatenate([coder.probabilities(coder.encode([text])) for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_no_reader_lists_candidates_for_a_note_that_it_has_seen(corpus: Corpus, two_deals: Recipe) -> None:
    view = training_view(corpus)
    found = walk(plan_of(two_deals), {"corpus": Root(corpus)}, WalkSettings())
    notes = taught_notes(view, "english")
    assert (parts_of(view, two_deals.seed, 0) != parts_of(view, two_deals.seed, 1)).any()
    for deal, part in product(range(two_deals.candidates.deals), range(PARTS)):
        reader, parts = found[of_deal(f"reader{part}", deal)], parts_of(view, two_deals.seed, deal)
        own = [note for note, of in zip(notes, parts, strict=True) if of == part]
        _check_unseen(reader, own)
        assert len(reader.seen) + len(own) == len(notes)
        with pytest.raises(AssertionError, match="notes that it was fitted on"):
            _check_unseen(reader, [note for note, of in zip(notes, parts, strict=True) if of != part])


def test_a_part_of_the_notes_knows_only_its_own_codes(corpus: Corpus) -> None:
    view = training_view(corpus)
    rows = np.array([0, 3])
    part = part_of_view(view, rows)
    named = {view.codes[label] for row in rows.tolist() for label in view.documents.labels_of(row)}
    assert set(part.codes) == named
    assert part.documents.ids == tuple(view.documents.ids[row] for row in rows)


def test_names_of_codes_that_no_taught_note_has_are_not_read(corpus: Corpus, recipe: Recipe) -> None:
    view = training_view(corpus)
    book = book_of(view, [0, 2], recipe.naming)
    assert set(book.names) == {view.codes[0], view.codes[2]}


def test_marks_of_too_many_words_teach_no_wording(corpus: Corpus) -> None:
    view = training_view(corpus)
    notes = taught_notes(view, "english")
    every, short = (marked_wordings(notes, view.codes, longest=longest) for longest in (22, 2))
    assert 0 < len(short) < len(every)
    assert short == {wording: codes for wording, codes in every.items() if len(wording[0]) <= 2}


def test_a_row_is_right_where_its_words_were_marked_for_its_code(corpus: Corpus, recipe: Recipe, walked: Walk) -> None:
    view = training_view(corpus)
    reader = walked["reader0"]
    row = int(np.flatnonzero(parts_of(view, recipe.seed) == 0)[0])
    note = taught_notes(view, reader.language)[row]
    rows = list_rows(Lister(reader, view.codes), view.documents.text_of(row), note.words, ())
    right = right_rows(rows, note)
    for number in range(len(rows)):
        overlaps = any(
            mention.label == rows.code[number]
            and mention.first < rows.last[number]
            and rows.first[number] < mention.last
            for mention in note.mentions
        )
        assert right[number] == overlaps
    unmarked = replace(note, mentions=())
    assert (right_rows(rows, unmarked) == np.isin(rows.code, sorted(note.labels))).all()


def test_what_a_row_says_of_a_code_does_not_depend_on_the_code_s_column(
    corpus: Corpus, recipe: Recipe, walked: Walk
) -> None:
    """Or a code that only notes of another part have would be told by standing among the codes of fitted notes."""
    view = training_view(corpus)
    reader = walked["reader0"]
    row = int(np.flatnonzero(parts_of(view, recipe.seed) == 0)[0])
    words, text = taught_notes(view, reader.language)[row].words, view.documents.text_of(row)
    known = replace(reader, codes=("unmet", *reader.codes[1:]))  # a regression that has not met the first code
    orders = view.codes, ("Z9", *view.codes[::-1])
    found = [list_rows(Lister(known, codes), text, words, ()) for codes in orders]
    by_code = [
        {
            (orders[n][rows.code[i]], int(rows.first[i]), int(rows.last[i])): rows.features[i].tobytes()
            for i in range(len(rows))
        }
        for n, rows in enumerate(found)
    ]
    assert by_code[0] == by_code[1]


def test_where_parts_are_not_free_no_code_is_put_together(corpus: Corpus, walked: Walk) -> None:
    """Its column would be there only for the notes that have it."""
    view, reader = training_view(corpus), walked["reader0"]
    for system, columns in (("icd10cm", [-1, -1]), ("other", [-1, -1]), ("icdo3", [1, -1])):
        lister = Lister(replace(reader, namer=replace(reader.namer, system=system)), view.codes)
        assert lister.put_together((view.codes[1], "Z9")).tolist() == columns


def test_codes_are_put_together_from_parts_that_notes_never_joined(recipe: Recipe) -> None:
    wordings = {
        "8140/3": "adenocarcinoma", "8140/32": "adenocarcinoma grado 2", "8070/3": "carcinoma escamoso",
        "8500/3": "carcinoma ductal", "8500/32": "carcinoma ductal grado 2",
    }  # fmt: skip
    notes = []
    for number in range(60):
        code = list(wordings)[number % len(wordings)]
        text = f"paciente de {40 + number} anos con diagnostico de {wordings[code]}. sin fiebre ni dolor"
        start = text.index(wordings[code])
        marks = {code: (Span(start, start + len(wordings[code])),)}
        notes.append(Note(f"n{number}", text, (code,), "train", evidence=marks))
    book = CodeBook("icdo3", tuple(wordings), {"8070/3": "Carcinoma escamoso"})
    corpus = build_corpus(notes, book, recipe.prepare, plan=Plan(("train",), 0.0, ()))
    coder = fit_coder(corpus, recipe)
    assert set(coder.codes) == {*wordings, "8070/32"}
    assert coder.codebook.description("8070/32") == "Carcinoma escamoso; grade 2"
    found = coder.code(coder.encode(["mujer con diagnostico de carcinoma escamoso grado 2. sin fiebre"]))[0]
    (put_together,) = (scored for scored in found.ranked if scored.code == "8070/32")
    assert {phrase.why for phrase in put_together.evidence} == {"parts of names"}


def test_of_many_notes_some_teach_the_judge(corpus: Corpus, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_JUDGED", 45)
    view = training_view(corpus)
    walked = walk(plan_of(recipe), {"corpus": Root(corpus)}, WalkSettings())
    found, rows = walked["candidates"], steps.judged_rows(view, recipe.seed)
    assert len(found) == len(rows) == 45
    lessons = steps.lessons_of(view, found, language=walked["reader"].language, seed=recipe.seed)
    own = [set(view.documents.labels_of(row).tolist()) for row in rows.tolist()]
    assert [set(gold) for gold in lessons.gold] == own
    assert len(walked["reader"].seen) == len(view.documents)


@pytest.fixture(scope="module")
def unmarked(recipe: Recipe) -> FittedCoder:
    return fit_coder(corpus_of(made_up_notes(60, marked=False), recipe), recipe)


def test_without_marks_names_are_looked_for(unmarked: FittedCoder) -> None:
    new = made_up_notes(10, seed=5)
    for note, prediction in zip(new, unmarked.code(unmarked.encode([n.text for n in new])), strict=True):
        assert set(prediction.accepted) == set(note.codes)


def test_a_code_that_no_note_taught_is_found_where_its_name_stands(unmarked: FittedCoder) -> None:
    grown = add_codes(unmarked, CodeBook("other", ("F6",), {"F6": "ruptured spleen"}))
    text = f"{FILLER[0]}. Ruptured spleen. {FILLER[2]}"
    found = next(scored for scored in grown.code(grown.encode([text]))[0].ranked if scored.code == "F6")
    assert found.accepted
    assert (found.evidence[0].text, found.evidence[0].why) == ("Ruptured spleen", "a name")
    elsewhere = grown.code(grown.encode([f"{FILLER[0]}. {NAMES['A1']}"]))[0]
    assert "F6" not in elsewhere.accepted
    old = [note.text for note in made_up_notes(4, seed=7)]
    np.testing.assert_allclose(
        grown.probabilities(grown.encode(old))[:, :5], unmarked.probabilities(unmarked.encode(old)), atol=1e-6
    )


@pytest.mark.usefixtures("unchecked")
def test_random_codes_with_their_marks_teach_nothing(recipe: Recipe) -> None:
    coder = fit_coder(corpus_of(made_up_notes(150, random_codes=True), recipe, names=False), recipe)
    new = made_up_notes(150, seed=11, random_codes=True)
    scores = coder.probabilities(coder.encode([note.text for note in new]))
    gold = np.array([[code in note.codes for code in coder.codes] for note in new])
    areas = []
    for column, truth in zip(scores.T, gold.T, strict=True):
        areas.append(np.mean(np.sign(column[truth][:, None] - column[~truth][None, :]) / 2 + 0.5))
    assert abs(np.mean(areas) - 0.5) <= 0.05


def test_a_killed_run_and_one_of_several_processes_come_to_the_same_bits(two_deals: Recipe, tmp_path: Path) -> None:
    corpus = corpus_of(made_up_notes(24), two_deals)

    def walked(folder: str) -> FittedCoder:
        settings = WalkSettings(keeper=InFolder(tmp_path / folder))
        found: FittedCoder = walk(plan_of(two_deals), {"corpus": Root(corpus, "made-up")}, settings)["coder"]
        return found

    whole = walked("whole")
    settings = WalkSettings(keeper=InFolder(tmp_path / "killed"))
    steps = walk(plan_of(two_deals), {"corpus": Root(corpus, "made-up")}, settings)
    steps["judge"], steps["deal1-reader1"]  # and there it was killed
    again = walked("killed")
    settings = WalkSettings(keeper=InFolder(tmp_path / "apart"), processes=2)
    walk(plan_of(two_deals), {"corpus": Root(corpus, "made-up")}, settings).ahead(["reader", "judge"])
    documents = whole.encode([note.text for note in made_up_notes(5, seed=2)])
    np.testing.assert_array_equal(again.probabilities(documents), whole.probabilities(documents))
    for other, things in (("killed", ["coder"]), ("apart", ["reader", *(f"reader{part}" for part in range(PARTS))])):
        for thing in things:
            kept = [(tmp_path / run / thing / "tensors.safetensors").read_bytes() for run in ("whole", other)]
            assert kept[0] == kept[1]


def test_scorers_are_fitted_on_other_notes_and_told_to_the_judge(corpus: Corpus, tmp_path: Path) -> None:
    recipe = load_recipe("candidates", [*QUICK, 'candidates.scorers=["tfidf"]'])
    coder = fit_coder(corpus, recipe)
    save_coder(coder, tmp_path / "coder")
    documents = coder.encode([note.text for note in made_up_notes(5, seed=2)])
    np.testing.assert_array_equal(
        load_coder(tmp_path / "coder").probabilities(documents), coder.probabilities(documents)
    )
    packed = coder.system.pack()
    deaf = replace(packed, options={name: value for name, value in packed.options.items() if name != "looks"})
    with pytest.raises(ArtifactError, match="fit it again"):
        unpack_system(deaf, Known(coder.vocab, coder.codes, coder.codebook))
    steps = walk(plan_of(recipe), {"corpus": Root(corpus)}, WalkSettings())
    view = training_view(corpus)
    for part in range(PARTS):
        assert not set(steps[f"part{part}/view"].documents.ids) & {
            name for name, of in zip(view.documents.ids, parts_of(view, recipe.seed), strict=True) if of == part
        }


def test_a_scorer_made_of_others_is_refused(corpus: Corpus) -> None:
    recipe = load_recipe("candidates", ['candidates.scorers=["plant-interaction"]'])
    with pytest.raises(RecipeError, match="is made of other recipes"):
        fit_coder(corpus, recipe)


def test_texts_must_be_kept(recipe: Recipe) -> None:
    bare = replace(recipe, prepare=replace(recipe.prepare, keep_text=False))
    with pytest.raises(InputError, match="keep_text"):
        fit_coder(corpus_of(made_up_notes(12), bare), bare)


def test_plant_is_fitted_where_there_is_nothing_to_look_for(recipe: Recipe) -> None:
    said: list[str] = []
    notes = made_up_notes(40, marked=False)
    bare = build_corpus(notes, CodeBook("other", tuple(NAMES)), recipe.prepare, plan=Plan(("train",), 0.2, ()))
    settings = WalkSettings(progress=lambda what, done, total: said.append(what))
    coder = fit_coder(bare, recipe, settings)
    assert any("PLANT is fitted" in what for what in said)
    assert coder.system.pack().tag == "classifier"


def test_nothing_to_look_for_and_nothing_to_choose_by_is_said_in_one_line(recipe: Recipe) -> None:
    with pytest.raises(InputError, match="no note is left for choosing"):
        fit_coder(corpus_of(made_up_notes(12, marked=False), recipe, names=False), recipe)
