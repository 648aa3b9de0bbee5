"""The embedded demo corpus: what it promises to those who train and measure on it."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from statistics import mean

import numpy as np
import pytest
from numpy.typing import NDArray

from plant.data.sources.demo import demo_codebook, demo_codes, demo_notes
from plant.data.sources.demo.conditions import Condition, catalogue
from plant.types import Note
from tests.checks import without_checks

DENIALS = re.compile(
    r"(?:no evidence of|no sign of|negative for|r/o|denies any history of|rule out)\s+$", re.IGNORECASE
)


@pytest.fixture(scope="module")
def notes() -> list[Note]:
    with without_checks():
        return list(demo_notes())


@pytest.fixture(scope="module")
def frequencies(notes: list[Note]) -> Counter[str]:
    return Counter(code for note in notes for code in note.codes)


def evidence_words(note: Note, code: str) -> list[str]:
    return [note.text[span.start : span.end] for span in note.evidence[code]]


def test_ids_count_from_one(notes: list[Note]) -> None:
    assert [note.id for note in notes] == [f"demo-{number:05d}" for number in range(1, 3001)]


def test_notes_have_300_to_2500_words(notes: list[Note]) -> None:
    lengths = [len(note.text.split()) for note in notes]
    assert min(lengths) >= 300
    assert max(lengths) <= 2500
    assert max(lengths) > 3 * min(lengths)


def test_about_600_codes_half_of_them_in_fewer_than_ten_notes(frequencies: Counter[str]) -> None:
    assert 550 <= len(frequencies) <= 680
    assert 0.45 <= mean(count < 10 for count in frequencies.values()) <= 0.60


def test_frequencies_fall_like_a_zipf_law(frequencies: Counter[str]) -> None:
    counts = np.array(sorted(frequencies.values(), reverse=True))[:300]
    ranks = np.arange(1, len(counts) + 1)
    slope, _ = np.polyfit(np.log(ranks + 5), np.log(counts), 1)
    assert -1.6 < slope < -0.9


def test_notes_have_six_to_twelve_codes_on_average(notes: list[Note]) -> None:
    assert 6 <= mean(len(note.codes) for note in notes) <= 12
    assert min(len(note.codes) for note in notes) >= 1


def test_every_code_has_evidence_and_nothing_else_has(notes: list[Note]) -> None:
    assert all(set(note.evidence) == set(note.codes) and all(note.evidence.values()) for note in notes)
    assert all(len(set(note.codes)) == len(note.codes) for note in notes)


def test_evidence_spans_cut_no_word(notes: list[Note]) -> None:
    for note in notes[:500]:
        for span in {span for spans in note.evidence.values() for span in spans}:
            words = note.text[span.start : span.end]
            assert words == words.strip() != ""
            assert not re.match(r"\w\w", note.text[max(0, span.start - 1) : span.start + 1])
            assert not re.match(r"\w\w", note.text[span.end - 1 : span.end + 1])


def test_a_patient_lies_in_one_split_and_may_have_several_notes(notes: list[Note]) -> None:
    splits = {(note.group, note.split) for note in notes}
    assert len(splits) == len({group for group, _ in splits}) < 0.75 * len(notes)
    shares = Counter(note.split for note in notes)
    assert {name: round(count / 3000, 1) for name, count in shares.items()} == {"train": 0.7, "dev": 0.1, "test": 0.2}


def test_asking_for_more_notes_changes_none_before(notes: list[Note]) -> None:
    assert list(demo_notes(notes=40)) == notes[:40]


def test_another_seed_writes_other_notes(notes: list[Note]) -> None:
    assert next(demo_notes(notes=1, seed=2)).text != notes[0].text


def test_the_hash_seed_of_python_changes_nothing() -> None:
    program = "from plant.data.sources.demo import demo_notes; print(repr(list(demo_notes(notes=15))))"
    digests = set()
    for hash_seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        digests.add(hashlib.sha256(run.stdout).hexdigest())
    assert len(digests) == 1


def test_no_trace_of_the_templates_is_left(notes: list[Note]) -> None:
    assert not any(re.search(r"[\x02-\x04{}|]|<\w", note.text) for note in notes)


def test_family_history_is_never_evidence(notes: list[Note]) -> None:
    title = re.compile(r"^(?:Family History|FH|FAMILY):", re.MULTILINE)
    checked = 0
    for note in notes:
        if found := title.search(note.text):
            end = note.text.find("\n\n", found.end())
            spans = [span for spans in note.evidence.values() for span in spans]
            assert not any(found.end() <= span.start < end for span in spans)
            checked += 1
    assert checked > 2000


def test_denied_words_are_never_evidence(notes: list[Note]) -> None:
    for note in notes:
        for span in {span for spans in note.evidence.values() for span in spans}:
            assert not DENIALS.search(note.text[max(0, span.start - 25) : span.start])


def test_denied_conditions_are_common(notes: list[Note]) -> None:
    denied = [
        len(re.findall(r"no evidence of|no sign of|ruled? out|r/o|denies|unlikely", note.text, re.I)) for note in notes
    ]
    assert mean(denied) > 1.5


def test_some_codes_rest_on_laboratory_values_alone(notes: list[Note]) -> None:
    low_sodium = [evidence_words(note, "E87.1") for note in notes if "E87.1" in note.codes]
    assert any(all(words.startswith("Na-") for words in told) for told in low_sodium)


def test_diabetes_can_rest_on_drug_and_laboratory_value(notes: list[Note]) -> None:
    told = [" ".join(evidence_words(note, "E11.9")).lower() for note in notes if "E11.9" in note.codes]
    assert any("hba1c" in words and not re.search("diabet|dm|niddm", words) for words in told)


def test_hypertension_with_heart_failure_or_kidney_disease_has_its_own_code(notes: list[Note]) -> None:
    for note in notes:
        if "I10" in note.codes:
            assert not any(code.startswith(("I50", "N18")) for code in note.codes)
    assert any("I11.0" in note.codes for note in notes)


def test_long_term_insulin_is_coded_where_a_home_list_has_it(notes: list[Note]) -> None:
    told = [words for note in notes if "Z79.4" in note.codes for words in evidence_words(note, "Z79.4")]
    assert told
    spelt_right = [words for words in told if re.match("insulin|lantus|humalog", words, re.IGNORECASE)]
    assert len(spelt_right) > 0.9 * len(told)


def test_codes_keep_company(notes: list[Note], frequencies: Counter[str]) -> None:
    both = sum("E78.5" in note.codes and "I25.10" in note.codes for note in notes)
    assert both > 1.3 * frequencies["E78.5"] * frequencies["I25.10"] / len(notes)


def test_left_and_right_both_occur(frequencies: Counter[str]) -> None:
    assert all(frequencies[code] for code in ("L03.115", "L03.116", "S72.001A", "S72.002A", "M17.11", "M17.12"))


def test_no_note_has_a_code_outside_of_the_list(frequencies: Counter[str]) -> None:
    assert set(frequencies) <= set(demo_codes())


def test_the_code_book_names_every_code(frequencies: Counter[str]) -> None:
    book = demo_codebook(sorted(frequencies))
    assert book.codes == tuple(sorted(frequencies))
    assert all(book.description(code) and book.ancestors(code) for code in book.codes)
    assert book.description("E11.9") == "Type 2 diabetes mellitus without complications"


def test_every_code_is_complete_in_the_packaged_list(frequencies: Counter[str]) -> None:
    import simple_icd_10_cm

    assert all(simple_icd_10_cm.is_leaf(code) for code in frequencies)


def test_progress_is_told_for_every_note() -> None:
    told: list[tuple[int, int | None]] = []
    assert len(list(demo_notes(notes=3, progress=lambda what, done, total: told.append((done, total))))) == 3
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_no_two_codes_share_a_name() -> None:
    names = [{name.lower() for name in condition.names} for condition in catalogue().conditions]
    claimed = Counter(name for own in names for name in own)
    assert claimed.most_common(1)[0][1] == 1


@pytest.mark.parametrize("kind", ["vague", "findings", "care", "drugs"])
def test_wording_has_no_choice_left_open(kind: str) -> None:
    for condition in catalogue().conditions:
        for text in getattr(condition, kind):
            assert text.count("<") <= text.count(">")


def test_a_vague_name_has_a_finding_to_decide_it() -> None:
    assert all(condition.findings for condition in catalogue().conditions if condition.vague)


def test_every_analyte_has_a_reference_range() -> None:
    ranges = catalogue().labs["range"]
    assert {analyte for condition in catalogue().conditions for analyte in condition.labs} <= set(ranges)


def test_abnormal_values_lie_outside_the_reference_range() -> None:
    def outside(condition: Condition) -> bool:
        ranges = catalogue().labs["range"]
        return all(low > ranges[name][1] or high < ranges[name][0] for name, (low, high) in condition.labs.items())

    assert [condition.code for condition in catalogue().conditions if not outside(condition)] == []


def test_always_the_most_frequent_codes_is_a_poor_answer(notes: list[Note]) -> None:
    train = Counter(code for note in notes if note.split == "train" for code in note.codes)
    test = [set(note.codes) for note in notes if note.split == "test"]
    ranked = [code for code, _ in train.most_common()]
    assert max(micro_f1(test, [set(ranked[:size])] * len(test)) for size in range(1, 20)) < 0.30


def micro_f1(truth: list[set[str]], answers: list[set[str]]) -> float:
    right = sum(len(codes & answer) for codes, answer in zip(truth, answers, strict=True))
    return 2 * right / (sum(map(len, truth)) + sum(map(len, answers)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_linear_model_on_tfidf_learns_much_and_stays_below_080(notes: list[Note]) -> None:
    """Prints the figures of docs/results.md; several minutes."""
    parts = {split: [note for note in notes if note.split == split] for split in ("train", "dev", "test")}
    codes = sorted({code for note in parts["train"] for code in note.codes})
    shares = np.array([mean(code in note.codes for note in parts["train"]) for code in codes])
    figures = {
        "prior": figures_of({split: np.tile(shares, (len(parts[split]), 1)) for split in parts}, parts, codes),
        "text": figures_of(linear_scores(parts, codes, lambda note: note.text), parts, codes),
        "gold evidence": figures_of(linear_scores(parts, codes, evidence_text), parts, codes),
    }
    print({name: f"micro-F1 {f1:.3f}, MAP {precision:.3f}" for name, (f1, precision) in figures.items()})
    assert figures["prior"][0] + 0.3 < figures["text"][0] < 0.80
    assert figures["text"][0] + 0.05 < figures["gold evidence"][0]


def evidence_text(note: Note) -> str:
    return " . ".join(words for code in note.codes for words in evidence_words(note, code))


def linear_scores(
    parts: dict[str, list[Note]], codes: list[str], read: Callable[[Note], str]
) -> dict[str, NDArray[np.float64]]:
    """One logistic regression per code on TF-IDF of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit(map(read, parts["train"]))
    features = {split: vectorizer.transform(map(read, part)) for split, part in parts.items()}
    columns: dict[str, list[NDArray[np.float64]]] = {"dev": [], "test": []}
    for code in codes:
        model = LogisticRegression(C=100.0, solver="liblinear", dual=True, max_iter=200, tol=1e-2, random_state=0)
        model.fit(features["train"], [code in note.codes for note in parts["train"]])
        for split, scores in columns.items():
            scores.append(model.predict_proba(features[split])[:, 1])
    return {split: np.column_stack(scores) for split, scores in columns.items()}


def figures_of(
    scores: dict[str, NDArray[np.float64]], parts: dict[str, list[Note]], codes: list[str]
) -> tuple[float, float]:
    """Micro-F1 on test at the threshold chosen on dev, and MAP on test; codes that training never saw are missed."""

    def f1(split: str, threshold: float) -> float:
        answers = [{codes[label] for label in np.flatnonzero(row >= threshold)} for row in scores[split]]
        return micro_f1([set(note.codes) for note in parts[split]], answers)

    threshold = max(np.linspace(0.01, 0.6, 60), key=lambda value: f1("dev", value))
    ranked = [[codes[label] for label in np.argsort(-row, kind="stable")] for row in scores["test"]]
    precisions = [average_precision(order, set(note.codes)) for order, note in zip(ranked, parts["test"], strict=True)]
    return f1("test", float(threshold)), mean(precisions)


def average_precision(order: list[str], truth: set[str]) -> float:
    places = [place for place, code in enumerate(order, start=1) if code in truth]
    return sum(found / place for found, place in enumerate(places, start=1)) / len(truth)
