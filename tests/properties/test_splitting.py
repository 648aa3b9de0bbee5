"""What holds for every set of notes."""

from hypothesis import given
from hypothesis import strategies as st

from plant.data.splits import check_groups, hold_out_share, random_split, split_manifest, stratified_split

SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
note = st.tuples(st.sampled_from(["", "A", "B", "C", "D"]), st.lists(st.integers(0, 5), max_size=4))
seeds = st.integers(0, 3)


@given(st.lists(note, min_size=1, max_size=40), seeds)
def test_every_note_gets_a_split_and_no_patient_two(notes: list[tuple[str, list[int]]], seed: int) -> None:
    ids, groups = [str(number) for number in range(len(notes))], [group for group, _ in notes]
    for split in (
        random_split(ids, groups, SHARES, seed=seed),
        stratified_split(ids, groups, [labels for _, labels in notes], SHARES, seed=seed),
    ):
        assert set(split.tolist()) <= {0, 1, 2}
        check_groups(groups, [str(part) for part in split])


@given(st.lists(st.text(max_size=5), unique=True, min_size=2), seeds, st.data())
def test_a_note_stays_held_out_when_others_come(ids: list[str], seed: int, data: st.DataObject) -> None:
    few = data.draw(st.integers(1, len(ids)))
    everyone = hold_out_share(ids, [""] * len(ids), 0.4, seed=seed)
    assert (hold_out_share(ids[:few], [""] * few, 0.4, seed=seed) == everyone[:few]).all()


@given(st.lists(st.text(max_size=5), unique=True, min_size=1), st.data())
def test_counts_of_a_manifest_add_up(ids: list[str], data: st.DataObject) -> None:
    splits = data.draw(st.lists(st.sampled_from(["train", "dev"]), min_size=len(ids), max_size=len(ids)))
    assert sum(split_manifest("any", ids, splits).notes.values()) == len(ids)
