"""The dictionary system: marked wordings and names, found word for word."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import Documents, TrainingView, take, training_view
from plant.data.encode import encode_texts
from plant.data.roles import Plan
from plant.errors import InputError
from plant.recipe.schema import Naming, Prepare
from plant.steps.fit import fit_coder
from plant.systems.dictionary import (
    RIGHT,
    WRONG,
    DictionarySystem,
    Match,
    Surface,
    Wording,
    entries_of,
    fit_dictionary,
    matches,
    surface_of,
)
from plant.systems.system import Known, flattened, unflattened
from plant.systems.table import unpack_system
from plant.types import Note, Span

BOOK = CodeBook(
    "other", ("A", "B", "C"), {"A": "Adenocarcinoma", "B": "Melanoma maligno", "C": "Sarcoma de Ewing (SE)"}
)
PREPARE = Prepare(min_count=1, keep_numbers=True)


def note(name: str, text: str, **marked: str) -> Note:
    """A note with the codes that its marked words have, each marked where it stands first."""
    spans = {code: (Span(text.index(words), text.index(words) + len(words)),) for code, words in marked.items()}
    return Note(name, text, tuple(marked), split="train", evidence=spans)


NOTES = (
    note("1", "Se trata con cirugía un carcinoma ductal.", A="carcinoma ductal"),
    note("2", "Carcinóma  DUCTAL de mama.", A="Carcinóma  DUCTAL"),
    note("3", "Un SE de pelvis; se opera.", C="SE"),
    note("4", "Otro SE y un carcinoma.", C="SE", B="carcinoma"),
    note("5", "Un carcinoma ductal antiguo; ahora un nevus.", B="nevus"),
)


def view_of(notes: Sequence[Note], book: CodeBook = BOOK, prepare: Prepare = PREPARE) -> TrainingView:
    return training_view(build_corpus(notes, book, prepare, plan=Plan(fit=("train",), choose=0.0)))


def fitted(notes: Sequence[Note] = NOTES, naming: Naming = Naming()) -> tuple[DictionarySystem, TrainingView]:  # noqa: B008
    view = view_of(notes)
    return fit_dictionary(view, naming), view


def texts(view: TrainingView, *written: str) -> Documents:
    return encode_texts(written, view.vocab, PREPARE)


def says(text: str, notes: Sequence[Note] = NOTES) -> set[str]:
    """The codes for which a wording that is believed stands in a text."""
    system, view = fitted(notes)
    weights = system.read(texts(view, text)).weigh(0, range(len(view.codes)), explainer="")
    return {code for code, row in zip(view.codes, weights, strict=True) if row.max() > 0.25}


def test_a_marked_wording_is_found_whatever_its_case_and_accents() -> None:
    assert says("CARCINOMA   Ductál") == {"A"}


def test_the_longest_wording_wins() -> None:
    assert says("carcinoma ductal") == {"A"}
    assert says("carcinoma lobulillar") == {"B"}


def test_an_abbreviation_in_capitals_is_no_pronoun() -> None:
    assert says("se opera") == set()
    assert says("un SE") == {"C"}


def test_a_name_of_the_book_is_found_without_what_no_note_says() -> None:
    assert says("un sarcoma de ewing") == {"C"}
    assert says("melanoma maligno") == {"B"}


def counts_of(system: DictionarySystem, view: TrainingView) -> dict[tuple[str, str, bool], tuple[int, int]]:
    """How often each wording was found and right for each code, by itself and within a longer one."""
    (entries,) = system.layers
    rows = zip(entries.wording, entries.labels, entries.found.tolist(), entries.right.tolist(), strict=True)
    return {
        (" ".join(entries.wordings[number].words), view.codes[label], within): (found[within], right[within])
        for number, label, found, right in rows
        for within in (False, True)
    }


def test_a_share_counts_marks_over_occurrences_without_what_a_note_alone_taught() -> None:
    counts = counts_of(*fitted())
    assert counts["carcinoma ductal", "A", False] == (3, 2)  # marked in two of three notes
    assert counts["nevus", "B", False] == (0, 0)  # its own note does not speak for it
    assert counts["se", "C", False] == (2, 2)  # pronouns are not counted
    assert counts["carcinoma", "B", True] == (3, 0)  # "carcinoma ductal" is no mention of it


def test_a_wording_that_coders_mark_within_a_longer_one_is_believed_there() -> None:
    both = [note(str(number), "asma grave", A="asma grave", B="asma") for number in range(6)]
    assert counts_of(*fitted(both))["asma", "B", True] == (6, 6)
    system, view = fitted(both)
    assert system.read(texts(view, "asma grave")).scores.min() > 0.8


def test_counts_of_a_note_are_those_of_a_dictionary_that_was_fitted_without_it() -> None:
    left_out: dict[tuple[str, str, bool], int] = {}
    for row in range(len(NOTES)):
        others, view = fitted([one for number, one in enumerate(NOTES) if number != row], Naming(book=False))
        (entries,) = others.layers
        for match in matches(surface_of(texts(view, NOTES[row].text), 0, view.vocab), entries):
            for entry in entries.of_wording[match.wording]:
                words, code = " ".join(entries.wordings[match.wording].words), view.codes[entries.labels[entry]]
                left_out[words, code, match.within] = left_out.get((words, code, match.within), 0) + 1
    counted = {key: found for key, (found, _) in counts_of(*fitted(naming=Naming(book=False))).items() if found}
    assert counted == left_out


def test_scores_are_the_best_share_and_then_the_frequency() -> None:
    system, view = fitted()
    scores = system.read(texts(view, "carcinoma ductal", "nada")).scores
    label = view.codes.index("A")
    share = (2 + RIGHT) / (3 + RIGHT + WRONG)
    np.testing.assert_allclose(scores[0, label], 0.99 * share + 0.01 * view.label_shares()[label], rtol=1e-5)
    np.testing.assert_allclose(scores[1], 0.01 * view.label_shares(), rtol=1e-5)


def test_evidence_is_the_words_of_the_match() -> None:
    system, view = fitted()
    weights = system.read(texts(view, "un carcinoma ductal de mama")).weigh(0, [view.codes.index("A")], explainer="")
    assert (weights[0] > 0).tolist() == [False, True, True, False, False]


def test_another_explainer_is_refused() -> None:
    system, view = fitted()
    with pytest.raises(InputError, match="explains itself by 'contribution' only, not by 'attention'"):
        system.read(texts(view, "x")).weigh(0, [0], explainer="attention")


def test_a_note_scores_the_same_in_any_batch() -> None:
    system, view = fitted()
    written = [one.text for one in NOTES]
    alone = np.concatenate([system.read(texts(view, text)).scores for text in written])
    np.testing.assert_array_equal(system.read(texts(view, *written)).scores, alone)


def test_the_order_of_the_notes_changes_nothing() -> None:
    system, view = fitted()
    turned, other = fitted(NOTES[::-1])
    assert view.codes == other.codes
    documents = texts(view, *[one.text for one in NOTES])
    np.testing.assert_array_equal(system.read(documents).scores, turned.read(documents).scores)


def test_what_is_packed_is_unpacked_to_the_bit() -> None:
    system, view = fitted()
    tree, arrays = flattened(system.pack())
    known = Known(view.vocab, view.codes, view.codebook)
    again = unpack_system(unflattened(json.loads(json.dumps(tree)), arrays), known)
    documents = texts(view, *[one.text for one in NOTES], "melanoma maligno; SE; ñandú")
    np.testing.assert_array_equal(again.read(documents).scores, system.read(documents).scores)
    assert isinstance(again, DictionarySystem)
    assert again.layers[0].wordings == system.layers[0].wordings


def test_without_marks_names_are_believed_as_far_as_notes_with_them_have_the_code() -> None:
    notes = [replace(one, evidence={}) for one in NOTES] + [Note("6", "melanoma maligno", ("B",), split="train")]
    counts = counts_of(*fitted(notes))
    assert counts["melanoma maligno", "B", False] == (1, 1)
    assert {words for words, _, _ in counts} >= {"adenocarcinoma", "sarcoma de ewing"}
    assert "nevus" not in {words for words, _, _ in counts}


def test_a_corpus_without_texts_is_read_by_its_vocabulary() -> None:
    view = view_of(NOTES, prepare=replace(PREPARE, keep_text=False))
    system = fit_dictionary(view, Naming())
    reading = system.read(take(view.documents, np.array([0])))
    assert reading.weigh(0, [view.codes.index("A")], explainer="").any()


def test_codes_are_added_by_name_and_those_before_keep_their_scores(tmp_path: Path) -> None:
    book = CodeBook("other", ("D",), {"D": "carcinoma ductal de mama"}, {"D": ("carcinoma", "linfoma")})
    corpus = build_corpus(
        [*NOTES, note("7", "un nevus", B="nevus")], BOOK, PREPARE, plan=Plan(fit=("train",), choose=0.2)
    )
    coder = Coder("dictionary", fitted=fit_coder(corpus, Coder("dictionary").recipe))
    written = ["carcinoma ductal de mama", "un linfoma", "carcinoma ductal", "un carcinoma"]
    before = coder.predict_proba(written)
    known = len(coder.classes_)
    coder.add_codes(book)
    coder.save(tmp_path / "coder")
    after = Coder.load(tmp_path / "coder").predict_proba(written)
    np.testing.assert_array_equal(after, coder.predict_proba(written))
    np.testing.assert_array_equal(after[:, :known], before)
    assert (after[:, known] > 0.5).tolist() == [
        True,
        True,
        False,
        True,
    ]  # "carcinoma" within a longer match says nothing


def test_marks_of_random_codes_score_nothing_on_other_notes() -> None:
    random = np.random.default_rng(0)
    notes = []
    for number in range(300):
        words = [f"wort{chr(97 + int(letter))}" for letter in random.integers(0, 20, 30)]
        codes = [f"C{label}" for label in range(10) if random.random() < 0.3]
        starts = {code: int(random.integers(0, 30)) for code in codes}
        spans = {code: (Span(6 * start, 6 * start + 5),) for code, start in starts.items()}
        notes.append(Note(str(number), " ".join(words), tuple(codes), split="train", evidence=spans))
    view = view_of(notes[:150], CodeBook("other", ()))
    system = fit_dictionary(view, Naming())
    scores = system.read(texts(view, *[one.text for one in notes[150:]])).scores
    gold = np.array([[code in one.codes for code in view.codes] for one in notes[150:]])
    pairs = [np.sign(s[g][:, None] - s[~g][None, :]) / 2 + 0.5 for s, g in zip(scores.T, gold.T, strict=True)]
    assert abs(np.mean([pair.mean() for pair in pairs]) - 0.5) < 0.04


WORDS = st.lists(st.sampled_from("abc"), max_size=12)
LISTED = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=6)


def plainly(words: list[str], wordings: list[list[str]]) -> list[tuple[int, int]]:
    """Every span tried from the longest down, word after word."""
    found, place = [], 0
    while place < len(words):
        spans = [stop for stop in range(len(words), place, -1) if words[place:stop] in wordings]
        found += [(place, spans[0])] if spans else []
        place = spans[0] if spans else place + 1
    return found


@given(words=WORDS, wordings=LISTED)
def test_matches_are_those_that_trying_every_span_gives(words: list[str], wordings: list[list[str]]) -> None:
    entries = entries_of({(Wording(tuple(wording)), 0): frozenset() for wording in wordings})
    found: list[Match] = list(matches(Surface(tuple(words), (False,) * len(words)), entries))
    longest = [(match.first, match.last) for match in found if not match.within]
    inside = sorted((match.first, match.last) for match in found if match.within)
    assert longest == plainly(words, wordings)
    spans = [(a, b) for a in range(len(words)) for b in range(a + 1, len(words) + 1) if words[a:b] in wordings]
    assert inside == [s for s in spans if s not in longest and any(a <= s[0] and s[1] <= b for a, b in longest)]
    assert all(entries.wordings[m.wording].words == tuple(words[m.first : m.last]) for m in found)
