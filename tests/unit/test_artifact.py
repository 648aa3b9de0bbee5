"""Artifacts are written whole or not at all, and damaged ones are refused."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from plant.errors import ArtifactError, InputError
from plant.store.artifact import MANIFEST, TENSORS, file_digest, open_artifact, save_artifact
from plant.store.safetensors import read_tensors, write_tensors

ARRAYS = {
    "small": np.arange(3, dtype=np.int8),
    "matrix": np.arange(6, dtype=np.float64).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float32),
    "flags": np.array([True, False]),
    "scalar": np.array(7, np.int64),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "thing"
    save_artifact(path, "thing", tensors=ARRAYS, files={"words.txt": "uno\ndos\n"}, facts={"n": 2})
    return path


def test_what_was_saved_is_opened(saved: Path) -> None:
    artifact = open_artifact(saved, "thing")
    assert artifact.text("words.txt") == "uno\ndos\n"
    assert artifact.manifest.facts == {"n": 2}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(artifact.tensors[name], array)
        assert artifact.tensors[name].dtype == array.dtype


def test_the_tensor_file_is_safetensors(tmp_path: Path) -> None:
    arrays = {name: array for name, array in ARRAYS.items() if array.size}
    write_tensors(tmp_path / "ours", arrays)
    save_file(arrays, str(tmp_path / "theirs"))
    for name, array in load_file(str(tmp_path / "ours")).items():
        np.testing.assert_array_equal(array, arrays[name])
    for name, array in read_tensors(tmp_path / "theirs").items():
        np.testing.assert_array_equal(array, arrays[name])


def test_the_digest_is_of_the_content(saved: Path, tmp_path: Path) -> None:
    same = {"words.txt": "uno\ndos\n"}
    again = save_artifact(tmp_path / "again", "thing", tensors=ARRAYS, files=same, facts={"n": 2})
    other = save_artifact(tmp_path / "other", "thing", tensors=ARRAYS, files={"words.txt": "uno\n"}, facts={"n": 2})
    digest = open_artifact(saved).manifest.digest
    assert again.digest == digest
    assert other.digest != digest


@pytest.mark.parametrize("name", [TENSORS, "words.txt"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_file_is_refused(saved: Path, name: str, damage: str) -> None:
    content = bytearray((saved / name).read_bytes())
    content[-1] ^= 1
    if damage == "remove":
        (saved / name).unlink()
    else:
        (saved / name).write_bytes(content[:-1] if damage == "truncate" else content)
    with pytest.raises(ArtifactError, match=name):
        open_artifact(saved, "thing")


def test_a_newer_format_is_refused(saved: Path) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    (saved / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(ArtifactError, match="newer than 2: update plant"):
        open_artifact(saved, "thing")


ROWS = {"rows": np.arange(14, dtype=np.float32).reshape(7, 2), "counts": np.arange(7)}


def saved_in_parts(path: Path, cuts: list[int]) -> list[str]:
    """The names of the parts of an artifact."""
    parts = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        parts.append(path.with_name(f"{path.name}.{number}"))
        write_tensors(parts[-1], {name: array[first:end] for name, array in ROWS.items()})
    manifest = save_artifact(path, "thing", tensors=ARRAYS, parts=parts)
    assert not any(part.exists() for part in parts)
    return [name for name in manifest.files if name != TENSORS]


@pytest.mark.parametrize("cuts", [[0, 7], [0, 3, 7], [0, 0, 2, 7]])
def test_arrays_in_parts_are_opened_as_whole(tmp_path: Path, cuts: list[int]) -> None:
    assert len(saved_in_parts(tmp_path / "thing", cuts)) == len(cuts) - 1
    found = open_artifact(tmp_path / "thing").tensors
    assert found.keys() == {*ARRAYS, *ROWS}
    for name, array in (ARRAYS | ROWS).items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_the_parts_of_arrays_are_all_there_and_belong_together(tmp_path: Path) -> None:
    names, path = saved_in_parts(tmp_path / "thing", [0, 2, 4, 7]), tmp_path / "thing"
    whole = json.loads((path / MANIFEST).read_text())
    fewer = {**whole, "files": {name: digest for name, digest in whole["files"].items() if name != names[1]}}
    (path / MANIFEST).write_text(json.dumps({name: value for name, value in fewer.items() if name != "seal"}))
    with pytest.raises(ArtifactError, match="names some parts of its arrays and not others"):
        open_artifact(path)
    write_tensors(path / names[1], {"rows": ROWS["rows"].astype(np.float64), "counts": ROWS["counts"]})
    own = {**whole["files"], names[1]: file_digest(path / names[1])}
    (path / MANIFEST).write_text(json.dumps({name: v for name, v in {**whole, "files": own}.items() if name != "seal"}))
    with pytest.raises(ArtifactError, match="do not belong together"):
        open_artifact(path)
    (path / MANIFEST).write_text(json.dumps(whole))
    with pytest.raises(ArtifactError, match=f"{names[1]} is damaged"):
        open_artifact(path)
    (path / names[1]).unlink()
    with pytest.raises(ArtifactError, match=f"file '{names[1]}' of the manifest is missing"):
        open_artifact(path)


@pytest.mark.parametrize("content", ["", "[]", '{"kind": 1}', "\x00"])
def test_a_foreign_manifest_is_refused(saved: Path, content: str) -> None:
    (saved / MANIFEST).write_text(content)
    with pytest.raises(ArtifactError, match="manifest"):
        open_artifact(saved, "thing")


def test_another_kind_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="is a thing, not a corpus"):
        open_artifact(saved, "corpus")


def test_a_manifest_cannot_point_out_of_its_folder(saved: Path) -> None:
    (saved.parent / "secret").write_text("x")
    manifest = json.loads((saved / MANIFEST).read_text())
    manifest["files"]["../secret"] = "0"
    manifest.pop("seal")
    (saved / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="missing or not a plain file"):
        open_artifact(saved)


@pytest.mark.parametrize(
    "header", [b"\xff" * 8, (10**6).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[["]
)
def test_a_tensor_file_with_a_damaged_header_is_refused(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "x").write_bytes(header)
    with pytest.raises(ArtifactError):
        read_tensors(tmp_path / "x")


def test_offsets_outside_the_file_are_refused(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    with pytest.raises(ArtifactError, match="truncated"):
        read_tensors(tmp_path / "x")


def test_an_older_artifact_is_replaced_and_other_content_is_not(saved: Path, tmp_path: Path) -> None:
    save_artifact(saved, "thing", tensors={})
    assert not open_artifact(saved, "thing").tensors
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="other content"):
        save_artifact(tmp_path / "full", "thing", tensors={})
    assert (tmp_path / "full" / "mine.txt").read_text() == "keep me"


def test_a_failed_write_leaves_nothing_and_keeps_the_old(saved: Path) -> None:
    with pytest.raises(TypeError):
        save_artifact(saved, "thing", tensors={"bad": np.array(["text"])})
    assert open_artifact(saved, "thing").manifest.facts == {"n": 2}
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_all_arrays_of_an_artifact_hold_one_file_open(tmp_path: Path) -> None:
    save_artifact(tmp_path / "it", "thing", tensors={f"array{n}": np.arange(n + 1) for n in range(50)})
    before = len(os.listdir("/proc/self/fd"))
    opened = open_artifact(tmp_path / "it")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert [int(opened.tensors[f"array{n}"][-1]) for n in range(50)] == list(range(50))
    assert not opened.tensors["array3"].flags.writeable


@pytest.mark.parametrize(
    "header", ["[]", '{"a": {"dtype": "I64", "shape": ["1"], "data_offsets": [0, 8]}}', "[" * 5000]
)
def test_headers_of_arrays_that_are_none_are_refused(tmp_path: Path, header: str) -> None:
    file = tmp_path / "tensors.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(ArtifactError):
        read_tensors(file)
