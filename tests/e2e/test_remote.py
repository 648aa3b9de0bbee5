"""Artifacts and shards in an object store: against a server on this machine that answers as S3 does."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from plant.cli.main import main
from plant.coder import Coder
from plant.errors import ArtifactError, InputError
from plant.store.artifact import UNFINISHED, check_replaceable, open_artifact, save_artifact
from plant.store.remote import Remote, is_remote, opened
from plant.types import Note
from tests.made_up import notes_of

fs = pytest.importorskip("pyarrow.fs", reason="needs pyarrow: pip install 'plant-xmtc[remote]'")
server = pytest.importorskip("moto.server", reason="needs moto")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty bucket of a server on loopback; what the environment says of others does not count."""
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    endpoint = "http://{}:{}".format(*running.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        told = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
        cache = str(tmp_path_factory.mktemp("cache"))
        for name, value in {**told, "AWS_ENDPOINT_URL": endpoint, "PLANT_CACHE": cache}.items():
            patch.setenv(name, value)
        patch.setenv("no_proxy", "127.0.0.1")
        fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir("notes")
        yield "s3://notes"
    running.stop()


def put(address: str, content: str, folder: Path) -> None:
    (folder / "content").write_text(content)
    opened(address).put(folder / "content")


def lines(notes: list[Note]) -> str:
    return "".join(json.dumps({"id": note.id, "text": note.text}) + "\n" for note in notes)


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_addresses_are_known_also_as_paths() -> None:
    assert is_remote("s3://bucket/x")
    assert is_remote(Path("gs://bucket/x"))
    assert not any(map(is_remote, ("s3", "s3:", "https://x/y", "/s3://x", "folder/s3:/x")))


def test_an_artifact_is_there_when_its_manifest_is(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address, tensors = f"{bucket}/thing", {"numbers": np.arange(5)}
    manifest = save_artifact(address, "thing", tensors=tensors, files={"words.txt": "one"}, facts={"n": 1})
    found = open_artifact(address, "thing")
    assert (found.manifest.digest, found.text("words.txt"), found.tensors["numbers"].tolist()) == (
        manifest.digest, "one", [0, 1, 2, 3, 4],
    )  # fmt: skip
    put_all = Remote.put

    def killed_before_the_manifest(self: Remote, source: Path) -> None:
        if self.address.endswith("manifest.json"):
            raise KeyboardInterrupt
        put_all(self, source)

    monkeypatch.setattr(Remote, "put", killed_before_the_manifest)
    with pytest.raises(KeyboardInterrupt):
        save_artifact(address, "thing", tensors={"numbers": np.arange(6)})
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="s3://notes/thing is not an artifact"):
        open_artifact(address, "thing")
    assert UNFINISHED in opened(address).names()
    save_artifact(address, "thing", tensors={"numbers": np.arange(7)})
    assert opened(address).names() == ["manifest.json", "tensors.safetensors"]
    assert len(open_artifact(address).tensors["numbers"]) == 7


def test_what_others_keep_is_not_replaced(bucket: str, tmp_path: Path) -> None:
    put(f"{bucket}/others/letter.txt", "mine", tmp_path)
    with pytest.raises(InputError, match="s3://notes/others exists with other content"):
        check_replaceable(Path(f"{bucket}/others"), "thing")


def test_shards_of_a_store_are_coded_into_it_once_with_the_bytes_of_files(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = notes_of(40)
    coder = Coder("tfidf", "prepare.min_count=1").fit([n.text for n in notes], [n.codes for n in notes])
    for place in (f"{bucket}/coder", str(tmp_path / "coder")):
        coder.save(place)
    (tmp_path / "in").mkdir()
    for number in range(3):
        content = lines(notes[number * 5 : number * 5 + 5])
        (tmp_path / "in" / f"part{number}.jsonl").write_text(content)
        put(f"{bucket}/in/part{number}.jsonl", content, tmp_path)
    assert called("predict", str(tmp_path / "coder"), str(tmp_path / "in"), "--out", str(tmp_path / "out")) == 0
    remote = ("predict", f"{bucket}/coder", f"{bucket}/in", "--out", f"{bucket}/out")
    assert called(*remote) == 0
    files = {file.name: file.read_bytes() for file in sorted((tmp_path / "out").iterdir())}
    assert {name: opened(f"{bucket}/out/{name}").read() for name in opened(f"{bucket}/out").names()} == files
    opened(f"{bucket}/out/part1.jsonl").delete()
    assert called(*remote[:2], f"{bucket}/in/part?.jsonl", *remote[3:]) == 0
    assert "(2 were there already)" in capsys.readouterr().err
    assert opened(f"{bucket}/out/part1.jsonl").read() == files["part1.jsonl"]
    assert called("predict", f"{bucket}/coder", f"{bucket}/in", "--out", f"{bucket}/in") == 2
    assert "lies in s3://notes/in, which is read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [(("predict", "s3://notes/none", "s3://notes/nowhere", "--out", "s3://notes/out"), "holds no tables"),
     (("predict", "s3://notes/none", "s3://notes/x.jsonl", "--out", "s3://notes/out"), "there is no object"),
     (("show", "s3://notes/none"), "s3://notes/none is not an artifact of plant"),
     (("show", "s3://elsewhere/none"), "elsewhere"),
     (("prepare", "demo", "--out", "s3://notes/corpus"), "works in folders of this machine")],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    bucket: str, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert called(*words) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_refuses_is_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("plant.store.remote.TRIES", 1)
    with pytest.raises(InputError, match="cannot be read or written \\(NETWORK_CONNECTION\\)") as error:
        opened(f"{bucket}/x").is_file()
    assert "\n" not in str(error.value)


def test_without_pyarrow_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert called("predict", "s3://notes/coder", "s3://notes/in", "--out", "out") == 2
    assert "pip install 'plant-xmtc[remote]'" in capsys.readouterr().err
