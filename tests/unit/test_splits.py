"""Splits by patient, stratified splits, held-out shares and manifests."""

import json
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from plant.data.splits import (
    check_groups,
    hold_out_share,
    random_split,
    split_manifest,
    stratified_split,
)
from plant.errors import InputError

SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def notes(n: int, *, patients: int = 0, n_labels: int = 200) -> tuple[list[str], list[str], list[list[int]]]:
    """Ids, patients and labels whose frequencies fall as in real corpora."""
    random = np.random.default_rng(7)
    ids = [f"note-{number}" for number in range(n)]
    groups = [f"patient-{number}" for number in random.integers(0, patients, n)] if patients else [""] * n
    weights = 1 / np.arange(1, n_labels + 1)
    drawn = random.choice(n_labels, size=(n, 6), p=weights / weights.sum())
    return ids, groups, [sorted(set(row)) for row in drawn.tolist()]


def label_shares(split: NDArray[np.int8], labels: list[list[int]], n_labels: int) -> NDArray[np.float64]:
    """The share of each label's notes in each split, label by label and note by note."""
    counts = np.zeros((n_labels, len(SHARES)))
    for part, of_note in zip(split, labels, strict=True):
        for label in of_note:
            counts[label, part] += 1
    return counts / counts.sum(axis=1, keepdims=True)


def splits_of(ids: list[str], groups: list[str], labels: list[list[int]], *, seed: int) -> dict[str, NDArray[np.int8]]:
    return {
        "random": random_split(ids, groups, SHARES, seed=seed),
        "stratified": stratified_split(ids, groups, labels, SHARES, seed=seed),
    }


@pytest.mark.parametrize("kind", ["random", "stratified"])
def test_shares_of_notes_are_kept(kind: str) -> None:
    split = splits_of(*notes(2000), seed=1)[kind]
    assert np.bincount(split).tolist() == [1600, 200, 200]


@pytest.mark.parametrize("kind", ["random", "stratified"])
def test_shares_are_kept_up_to_one_patient(kind: str) -> None:
    ids, groups, labels = notes(2000, patients=300)
    largest = max(np.unique(groups, return_counts=True)[1])
    split = splits_of(ids, groups, labels, seed=1)[kind]
    assert np.abs(np.bincount(split) - [1600, 200, 200]).max() <= largest


@pytest.mark.parametrize("kind", ["random", "stratified"])
def test_no_patient_is_in_two_splits(kind: str) -> None:
    ids, groups, labels = notes(500, patients=120)
    split = splits_of(ids, groups, labels, seed=3)[kind]
    check_groups(groups, [str(part) for part in split])


@pytest.mark.parametrize("kind", ["random", "stratified"])
def test_the_order_of_the_notes_changes_nothing(kind: str) -> None:
    ids, groups, labels = notes(500, patients=300)
    order = np.random.default_rng(0).permutation(500)
    moved = splits_of([ids[i] for i in order], [groups[i] for i in order], [labels[i] for i in order], seed=1)[kind]
    assert (moved == splits_of(ids, groups, labels, seed=1)[kind][order]).all()


@pytest.mark.parametrize("kind", ["random", "stratified"])
def test_the_seed_decides(kind: str) -> None:
    first, again, other = (splits_of(*notes(500), seed=seed)[kind] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stratified_splits_keep_rare_labels_closer_to_the_shares_than_random_ones(seed: int) -> None:
    ids, groups, labels = notes(1500, patients=1200)
    counts = np.bincount(np.concatenate(labels), minlength=200)
    rare = counts < 40
    off = {
        kind: np.abs(label_shares(split, labels, 200) - list(SHARES.values()))
        for kind, split in splits_of(ids, groups, labels, seed=seed).items()
    }
    assert off["stratified"][rare].mean() < 0.6 * off["random"][rare].mean()
    assert off["stratified"][~rare].mean() < off["random"][~rare].mean()


def test_a_label_of_ten_lone_notes_is_parted_eight_one_one() -> None:
    labels = [[number // 10] for number in range(300)]
    split = stratified_split([str(number) for number in range(300)], [""] * 300, labels, SHARES, seed=1)
    assert (label_shares(split, labels, 30) == list(SHARES.values())).all()


def test_labels_may_be_strings_and_notes_may_have_none() -> None:
    labels = [["I10", "E11.9", "I10"], [], ["I10"], []] * 25
    split = stratified_split([str(number) for number in range(100)], [""] * 100, labels, SHARES, seed=1)
    assert np.bincount(split).tolist() == [80, 10, 10]


def test_without_any_label_the_shares_are_kept() -> None:
    split = stratified_split([str(number) for number in range(50)], [""] * 50, [[]] * 50, SHARES, seed=1)
    assert np.bincount(split).tolist() == [40, 5, 5]


def test_thousands_of_labels_are_stratified_in_seconds() -> None:
    ids, groups, labels = notes(10_000, patients=8_000, n_labels=4_000)
    started = time.process_time()
    stratified_split(ids, groups, labels, SHARES, seed=1)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "shares", [{}, {"train": 0.8, "dev": 0.1}, {"train": 1.0, "dev": 0.0}, {"train": 1.5, "dev": -0.5}]
)
def test_shares_that_do_not_add_up_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(InputError, match="positive and add up to 1"):
        random_split(["a"], [""], shares, seed=1)


def test_a_held_out_share_has_about_its_size() -> None:
    held = hold_out_share([str(number) for number in range(20_000)], [""] * 20_000, 0.1, seed=1)
    assert held.mean() == pytest.approx(0.1, abs=0.01)


def test_a_held_out_share_keeps_patients_together() -> None:
    ids, groups, _ = notes(2000, patients=300)
    check_groups(groups, [str(held) for held in hold_out_share(ids, groups, 0.3, seed=1)])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5])
def test_a_held_out_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        hold_out_share(["a"], [""], share, seed=1)


def test_a_patient_in_two_splits_is_refused_with_counts_but_without_its_name() -> None:
    groups = ["John Canary", "John Canary", "B", "C", "C", ""]
    with pytest.raises(InputError, match="1 of 3 patients") as caught:
        check_groups(groups, ["train", "test", "dev", "dev", "dev", "test"])
    assert "test, train" in str(caught.value)
    assert "Canary" not in str(caught.value)


def test_notes_of_unknown_patients_may_lie_anywhere() -> None:
    check_groups(["", "", "A"], ["train", "test", "dev"])


def test_a_manifest_counts_the_notes_of_each_part() -> None:
    table = split_manifest("by patient, seed 1", ["a", "b", "c"], ["train", "train", "dev"]).to_dict()
    assert {part: entry["notes"] for part, entry in table["parts"].items()} == {"train": 2, "dev": 1}


def test_a_manifest_names_the_notes_and_parts_but_not_their_order() -> None:
    digest = split_manifest("one", ["a", "b", "c"], ["train", "train", "dev"]).digest
    assert split_manifest("two", ["c", "b", "a"], ["dev", "train", "train"]).digest == digest
    assert split_manifest("one", ["a", "b", "c"], ["train", "dev", "train"]).digest != digest
    assert split_manifest("one", ["a", "b", "d"], ["train", "train", "dev"]).digest != digest


def test_a_manifest_holds_no_id() -> None:
    shown = json.dumps(split_manifest("name", ["canary-17", "canary-18"], ["train", "dev"]).to_dict())
    assert "canary" not in shown
