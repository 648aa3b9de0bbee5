"""A corpus in shards is the corpus of all notes, note by note, and so is what is counted on it."""

import json
from pathlib import Path

import numpy as np
import pytest

from plant.cli.main import main
from plant.data.builder import build_corpus, build_shards
from plant.data.corpus import training_view
from plant.data.shards import ShardedCorpus, joined_corpus
from plant.recipe.schema import Prepare, Relate
from plant.relevance.store import load_relevance
from plant.steps.relate import relate, relate_views
from plant.store.artifact import open_artifact
from plant.types import Note, Span
from tests.made_up import notes_of

FLAT = ("tokens", "labels", "char_starts", "char_ends", "evidence_labels", "evidence_spans", "text")


def marked_notes(count: int, *, splits: bool) -> list[Note]:
    """Notes of patients with marks; the last has a code and a word that no other has."""
    notes = [
        Note(n.id, n.text, n.codes, n.split if splits else "", group=f"p{place // 5}" if not splits else "",
             evidence={code: (Span(0, 5),) for code in n.codes[:1]})
        for place, n in enumerate(notes_of(count))
    ]  # fmt: skip
    last = notes[-1]
    return [*notes[:-1], Note(last.id, f"{last.text} seldom seldom", ("C1", "C9"), "train" if splits else "", "p0")]


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("cuts", [[20], [1, 13, 29]])
def test_shards_are_the_corpus_of_all_notes_in_pieces(splits: bool, cuts: list[int], tmp_path: Path) -> None:
    notes, recipe = marked_notes(30, splits=splits), Prepare(min_count=2, keep_text=True)
    whole = build_corpus(notes, None, recipe)
    parts = [notes[a:b] for a, b in zip([0, *cuts], [*cuts, 30], strict=True)]
    shards = build_shards(parts, None, recipe)
    for shard in shards:
        assert (shard.vocab, shard.codes, shard.splits) == (whole.vocab, whole.codes, whole.splits)
        assert shard.codebook == whole.codebook
    for name in FLAT:
        joined = np.concatenate([getattr(shard.documents, name) for shard in shards])
        assert np.array_equal(joined, getattr(whole.documents, name)), name
    for name in ("role", "split"):
        assert np.array_equal(np.concatenate([getattr(shard, name) for shard in shards]), getattr(whole, name))
    assert [group for shard in shards for group in shard.groups] == list(whole.groups)
    again = joined_corpus(shards, tmp_path)
    for name in (*FLAT, "token_starts", "label_starts", "evidence_starts", "text_starts"):
        assert np.array_equal(getattr(again.documents, name), getattr(whole.documents, name)), name
    assert (again.documents.ids, again.groups) == (whole.documents.ids, whole.groups)
    recipe_of_lists = Relate(keep=8, named=0.5, marked=True)
    one, many = (
        relate(training_view(whole), recipe_of_lists),
        relate_views(ShardedCorpus(tuple(shards)).views(), recipe_of_lists),
    )
    assert one.codes == many.codes
    for name in ("tokens", "scores", "label_counts", "token_counts"):
        mine, theirs = getattr(one, name), getattr(many, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def write(path: Path, notes: list[Note]) -> None:
    rows = [{"id": n.id, "text": n.text, "codes": list(n.codes), "split": n.split} for n in notes]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_shards_on_disk_are_related_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = notes_of(40)
    write(tmp_path / "all.jsonl", notes)
    write(tmp_path / "a.jsonl", notes[:25])
    write(tmp_path / "b.jsonl", notes[25:])
    files = [str(tmp_path / name) for name in ("all.jsonl", "a.jsonl", "b.jsonl")]
    few = ("--set", "prepare.min_count=1", "--out")
    assert called("prepare", files[0], *few, str(tmp_path / "whole")) == 0
    assert called("prepare", *files[1:], *few, str(tmp_path / "parts")) == 0
    assert called("prepare", *files[1:], *few, str(tmp_path / "parts")) == 0
    assert "already there, unchanged" in capsys.readouterr().err
    shards = [str(tmp_path / "parts" / name) for name in ("a", "b")]
    assert called("relate", str(tmp_path / "whole"), "--out", str(tmp_path / "one")) == 0
    assert called("relate", *shards, "--out", str(tmp_path / "two")) == 0
    one, two = ((tmp_path / name / "tensors.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert load_relevance(tmp_path / "one").files == load_relevance(tmp_path / "two").files
    for name, corpora in (("counted", [str(tmp_path / "whole")]), ("added", shards)):  # a rare word is one of them all
        assert called("relate", *corpora, "--counts", "--least", "9", "--out", str(tmp_path / name)) == 0
    counted, added = (open_artifact(tmp_path / name, "counts").manifest for name in ("counted", "added"))
    assert (counted.files, counted.facts) == (added.files, added.facts)
    assert called("relate", shards[0], shards[0], "--out", str(tmp_path / "three")) == 2
    assert called("prepare", files[1], *few, str(tmp_path / "alone")) == 0
    assert called("relate", str(tmp_path / "alone"), shards[1], "--out", str(tmp_path / "four")) == 2
    assert "prepare both together" in capsys.readouterr().err
    assert called("prepare", files[1], files[1], *few, str(tmp_path / "twice")) == 2
    assert called("prepare", *files[:2], *few, str(tmp_path / "doubled")) == 2
    assert "two notes have the id" in capsys.readouterr().err
    assert not (tmp_path / "doubled").exists()


def test_a_run_over_shards_leaves_the_coder_of_a_run_over_all_notes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order in which shards were named, which is not that of their names; nothing is read or chosen again."""
    notes = notes_of(40)
    write(tmp_path / "all.jsonl", notes)
    write(tmp_path / "b.jsonl", notes[:25])
    write(tmp_path / "a.jsonl", notes[25:])
    few, shards = ("--set", "prepare.min_count=1"), str(tmp_path / "parts")
    sources = [str(tmp_path / name) for name in ("b.jsonl", "a.jsonl")]
    assert called("prepare", *sources, *few, "--recipe", "prior", "--out", shards) == 0
    for source, out in ((str(tmp_path / "all.jsonl"), "one"), (shards, "two")):
        assert called("run", source, "--recipe", "prior", *few, "--out", str(tmp_path / out)) == 0
    for made in ("corpus", "coder"):
        one, two = ((tmp_path / out / made / "tensors.safetensors").read_bytes() for out in ("one", "two"))
        assert one == two
    capsys.readouterr()
    run = ("run", shards, "--recipe", "prior", "--out", str(tmp_path / "three"))
    assert called(*run) == 2
    assert "prepared with another value of prepare.min_count: prepare it again" in capsys.readouterr().err
    assert called(*run, *few, "--fit", "dev") == 2
    assert "another value of --fit" in capsys.readouterr().err
    (tmp_path / "parts" / "a").rename(tmp_path / "elsewhere")
    assert called(*run, *few) == 2
    assert "holds 1 of the shards of a corpus and not the others" in capsys.readouterr().err
    assert not (tmp_path / "three").exists()
