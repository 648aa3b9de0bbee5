"""Prediction files of any system, gold files, submissions, and predictions folders."""

import gzip
import json

import numpy as np
import pytest

from plant.errors import ArtifactError, InputError
from plant.evaluate.measures.table import measure
from plant.evaluate.report.render import json_of
from plant.evaluate.scores.files import read_gold, read_predictions, scored_from_files, write_submission
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import load_scored, save_scored, scored_by_lists
from plant.steps.evaluate import Settings, evaluate
from tests.scored_samples import matrix, scored

GOLD = """\
{"id": "n1", "text": "secret", "labels": ["a", "b"]}
{"id": "n2", "codes": [{"code": "c"}]}
{"id": "n3", "labels": []}
"""
JSONL = """\
{"id": "n1", "codes": [{"code": "a", "score": 0.9, "accepted": true}, {"code": "x", "score": 0.4, "accepted": false}]}
{"id": "n2", "codes": [{"code": "c", "probability": 0.8, "accepted": true}]}
{"id": "n3", "codes": []}
"""


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return written


def measured(write, predictions, *, name="predictions.tsv", **options):
    outcome = outcome_of(
        scored_from_files(read_gold(write("gold.jsonl", GOLD)), read_predictions(write(name, predictions)), **options)
    )
    return lambda asked: measure(asked)(outcome)


def test_gold_is_read_from_labels_or_codes(write):
    assert read_gold(write("gold.jsonl", GOLD)) == {"n1": ("a", "b"), "n2": ("c",), "n3": ()}


def test_gold_is_read_from_a_table_with_a_heading(write):
    assert read_gold(write("gold.tsv", "file\tcode\nn1\ta\nn2\tc\nn1\tb\n")) == {"n1": ("a", "b"), "n2": ("c",)}


def test_gold_is_read_from_a_gz_file(tmp_path):
    path = tmp_path / "gold.jsonl.gz"
    path.write_bytes(gzip.compress(GOLD.encode()))
    assert len(read_gold(path)) == 3


def test_map_is_the_mean_of_the_documents_with_gold_codes(write):
    value = measured(write, "n1\tx\nn1\ta\nn1\tb\nn2\tc\n")
    assert value("MAP") == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)


def test_a_table_without_scores_accepts_every_listed_code(write):
    assert measured(write, "n1\ta\nn1\tx\nn2\tc\n")("micro-F1") == pytest.approx(2 * 2 / (3 + 3))


def test_scores_rank_and_ties_keep_the_order_given(write):
    value = measured(write, "n1\tx\t0.2\nn1\tb\t0.5\nn1\ty\t0.5\nn1\ta\t0.9\nn2\tc\t1\n")
    assert value("MAP") == pytest.approx(((1 + 2 / 2) / 2 + 1) / 2)


def test_json_lines_are_accepted_as_they_say(write):
    assert measured(write, JSONL, name="p.jsonl")("micro-P") == 1.0


def test_a_threshold_overrules_what_the_file_accepts(write):
    assert measured(write, JSONL, name="p.jsonl", threshold=0.3)("micro-P") == pytest.approx(2 / 3)


def test_a_threshold_needs_scores(write):
    with pytest.raises(InputError, match="needs predictions with scores"):
        measured(write, "n1\ta\n", threshold=0.5)


def test_a_document_without_predictions_counts_as_missed_and_is_remarked(write):
    found = scored_from_files(
        read_gold(write("g.jsonl", GOLD)), read_predictions(write("p.tsv", "n1\ta\nn1\tb\nzz\ta\n"))
    )
    assert measure("MAP")(outcome_of(found)) == pytest.approx(1 / 2)
    assert found.frame.remarks == (
        "2 documents have no predictions and count as empty lists",
        "1 predicted documents are not in the gold file and were left out",
    )


def test_repeated_codes_count_once_at_their_best_place(write):
    found = read_predictions(write("p.tsv", "n1\ta\nn1\tx\nn1\ta\nn2\tc\n"))
    assert found.lists.lengths.tolist() == [2, 1]
    assert found.remarks == ("1 repeated codes were left out of the lists",)


def test_lines_of_a_document_need_not_stand_together(write):
    found = read_predictions(write("p.tsv", "n1\ta\nn2\tc\nn1\tb\n"))
    assert [[found.codes[label] for label in found.lists.of(row)] for row in range(2)] == [["a", "b"], ["c"]]


def test_training_notes_give_frequencies_and_unseen_codes(write):
    found = scored_from_files(
        read_gold(write("g.jsonl", GOLD)),
        read_predictions(write("p.tsv", "n1\ta\n")),
        train={"t1": ("a", "z"), "t2": ("a",)},
    )
    assert dict(zip(found.codes, found.train_counts.tolist(), strict=True)) == {"a": 2, "z": 1, "b": 0, "c": 0}
    assert found.train_documents == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.jsonl", '{"id": "n1"}\n', "line 1: there is no list 'codes'"),
        ("p.jsonl", "secret\n", "line 1: not a line of JSON"),
        ("p.jsonl", "[1]\n", "line 1: not a JSON object"),
        ("p.jsonl", '{"codes": []}\n', "line 1: there is no 'id'"),
        ("p.jsonl", '{"id": "1", "codes": [3]}\n', "line 1: each of"),
        ("p.jsonl", '{"id": "1", "codes": [{"code": "a", "probability": NaN}]}\n', "line 1: the score is NaN"),
        ("p.jsonl", '{"id": "1", "codes": ["a", {"code": "b", "score": 1}]}\n', "1 codes have no 'score'"),
        ("p.tsv", "n1\ta\nsecret\n", "line 2: expected document, code"),
        ("p.tsv", "n1\ta\tsecret\n", "line 1: the score is not a number"),
    ],
)
def test_a_bad_line_is_named_and_not_quoted(write, name, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_predictions(write(name, text))
    assert "secret" not in str(error.value)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path):
    (tmp_path / "p.tsv").write_bytes(b"n1\ta\nn1\t\xff\n")
    with pytest.raises(InputError, match="line 2: not UTF-8"):
        read_predictions(tmp_path / "p.tsv")


def test_a_second_note_of_the_same_id_is_refused(write):
    with pytest.raises(InputError, match="line 2: a second note"):
        read_gold(write("g.jsonl", '{"id": "1", "labels": []}\n{"id": "1", "labels": []}\n'))


def test_files_without_a_common_document_are_refused(write):
    with pytest.raises(InputError, match="same ids"):
        measured(write, "other\ta\n")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read_gold(tmp_path / "nowhere.jsonl")


def test_a_cantemist_submission_reads_back_as_the_accepted_codes(tmp_path):
    sample = scored(*matrix())
    write_submission(sample, tmp_path / "run.tsv", task="cantemist")
    assert (tmp_path / "run.tsv").read_text().startswith("file\tcode\n")
    gold = {document: [sample.codes[label] for label in sample.gold.of(row)] for row, document in enumerate(sample.ids)}
    again = scored_from_files(gold, read_predictions(tmp_path / "run.tsv"))
    for name in ("micro-F1", "codes per document"):
        assert measure(name)(outcome_of(again)) == pytest.approx(measure(name)(outcome_of(sample)))


def test_a_codiesp_submission_has_no_heading_and_lower_case(tmp_path):
    sample = scored(*matrix())
    write_submission(sample, tmp_path / "run.tsv", task="codiesp", top=3)
    lines = (tmp_path / "run.tsv").read_text().splitlines()
    assert len(lines) == 3 * len(sample)
    best = sample.codes[int(sample.scores.values[0].argmax())]
    assert lines[0] == f"d0\t{best.lower()}"


@pytest.mark.parametrize("form", ["dense", "lists"])
def test_a_predictions_folder_reads_back_as_it_was(tmp_path, form):
    sample = scored(*matrix())
    if form == "lists":
        top = sample.scores.top(6)
        sample = scored_by_lists(
            top.lists.labels.reshape(-1, 6), top.values.reshape(-1, 6), ids=sample.ids, codes=sample.codes,
            gold=[[sample.codes[label] for label in sample.gold.of(d)] for d in range(len(sample))], thresholds=0.5,
            train_counts=sample.train_counts, train_documents=100, codebook=sample.codebook, frame=sample.frame,
        )  # fmt: skip
    save_scored(sample, tmp_path / "predictions", recipe={"seed": 1}, inputs={"coder": "0"})
    again = load_scored(tmp_path / "predictions")
    settings = Settings(rounds=20)
    assert json_of(evaluate(again, settings)) == json_of(evaluate(sample, settings))


def test_a_damaged_predictions_folder_is_refused(tmp_path):
    save_scored(scored(*matrix()), tmp_path / "predictions", recipe={}, inputs={})
    path = tmp_path / "predictions" / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ArtifactError, match="damaged"):
        load_scored(tmp_path / "predictions")


def test_the_prior_on_cantemist_equals_a_plain_loop(corpora):
    train = read_gold(corpora / "cantemist" / "train.jsonl") | read_gold(corpora / "cantemist" / "dev1.jsonl")
    gold = read_gold(corpora / "cantemist" / "dev2.jsonl")
    report = evaluate(
        scored_from_files(gold, everybody_has_8000_6(gold), train=train), Settings(rounds=0, without=["8000/6"])
    )
    assert report.counts.documents == 250
    assert report.counts.gold_labels == 334
    plain = plain_prior_map(train, gold, length=1)
    assert report.prior["MAP"].value == pytest.approx(plain, abs=1e-12)
    assert "micro-F1 (without 8000/6)" in report.measures


def everybody_has_8000_6(gold):
    from plant.evaluate.scores.files import PredictionFile
    from plant.evaluate.scores.lists import Lists

    ids = tuple(gold)
    lists = Lists(np.zeros(len(ids), np.int32), np.arange(len(ids) + 1))
    return PredictionFile(ids, ("8000/6",), lists, None, None)


def plain_prior_map(train, gold, *, length):
    counts = {}
    for codes in train.values():
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
    ranking = sorted(counts, key=lambda code: -counts[code])[:length]
    values = []
    for codes in (codes for codes in gold.values() if codes):
        places = sorted(ranking.index(code) + 1 for code in codes if code in ranking)
        values.append(sum((hit + 1) / place for hit, place in enumerate(places)) / len(codes))
    return np.mean(values)


def test_json_has_no_text_of_the_notes(write):
    found = scored_from_files(read_gold(write("g.jsonl", GOLD)), read_predictions(write("p.tsv", "n1\ta\n")))
    text = json_of(evaluate(found, Settings(rounds=0)))
    assert "secret" not in text
    assert json.loads(text)["measures"]["MAP"]["low"] is None
