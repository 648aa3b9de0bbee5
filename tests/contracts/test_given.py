"""What a part asks for, it gets again when the coder is loaded; what it only starts from makes no coder grow."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from plant.errors import ArtifactError
from plant.nn.attention import masked_mean
from plant.nn.parts.build import asked_for, kept_whole
from plant.nn.parts.given import FORMS, Given, Kept, pack_given, unpack_given
from plant.nn.parts.table import DECODERS, ENCODERS
from plant.recipe.reading import load_recipe, recipe_from
from plant.registry import DeclaresStart
from plant.store.artifact import open_artifact, save_artifact
from plant.tensors import Batch, Decoded, Encoded
from tests.given_samples import CODES, DESCRIPTIONS, TERMS, TREE, TREE_DESCRIPTIONS, VOCAB, sample_given, subwords_of
from tests.made_up import notes_of

QUICK = ("prepare.min_count=1", "fit.epochs=1", "fit.frozen_epochs=0", "rank.epochs=1", "rank.size=4",
         "pretrain.epochs=1", "pretrain.embedding=6", "pretrain.hidden=5", "pretrain.layers=2",
         "vectors.size=6", "vectors.epochs=1")  # fmt: skip
BERT = ("encoder.pieces=120", "encoder.hidden=8", "encoder.layers=1", "encoder.heads=2", "masked.epochs=0")
BOOK = CodeBook("other", (), {f"C{n}": f"the signc{n}x" for n in range(4)}, {"C1": ("worda",)}, {"C0": "P"})
FIELDS = [field.name for field in fields(Given)]
EVERYTHING = frozenset(FORMS)
STARTING = [
    (t, n) for t in (ENCODERS, DECODERS) for n, builder in t.builders.items() if isinstance(builder, DeclaresStart)
]
BATCH = Batch(DESCRIPTIONS, DESCRIPTIONS > 0, subwords=subwords_of(DESCRIPTIONS))


def content(value: Any) -> Iterator[bytes]:
    """All that a thing holds."""
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        yield repr((value.dtype, value.shape)).encode() + value.tobytes()
    elif is_dataclass(value):
        yield from content({field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield key.encode()
            yield from content(value[key])
    else:
        yield repr(value).encode()


def number_of(value: Any) -> float:
    """A number that every bit of a thing changes."""
    assert value is not None
    digest = hashlib.sha256(b"".join(content(value))).digest()
    return int.from_bytes(digest[:4], "little") / 2**32


def asking_for(name: str) -> type[nn.Module]:
    """A decoder that asks for one thing by name and adds what that holds to its logits."""

    class Asking(nn.Module):
        __signature__ = Signature([Parameter(n, Parameter.KEYWORD_ONLY) for n in ("input_size", "n_labels", name)])

        def __init__(self, **given: Any) -> None:
            super().__init__()
            self.output = nn.Linear(given["input_size"], given["n_labels"])
            self.shift = number_of(given[name])

        def forward(self, encoded: Encoded) -> Decoded:
            return Decoded(self.output(masked_mean(encoded.states, encoded.mask)) + self.shift)

    return Asking


def fitted(recipe: str, *changes: str) -> tuple[Coder, list[str]]:
    notes = notes_of(40, n_codes=4)
    texts = [note.text for note in notes]
    coder = Coder(recipe, *QUICK, *changes).fit(texts, [note.codes for note in notes], codebook=BOOK, choose=0.3)
    return coder, texts[:5]


@pytest.mark.parametrize("name", FIELDS)
def test_what_a_part_asks_for_survives_saving(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECODERS.builders, "asking", asking_for(name))  # type: ignore[arg-type]
    recipe = ("plm-ca-small", *BERT) if name == "transformer" else ("caml-small", "encoder.filters=4")
    coder, texts = fitted(*recipe, "decoder.name=asking")
    coder.save(tmp_path / "coder")
    loaded = Coder.load(tmp_path / "coder")
    np.testing.assert_array_equal(loaded.predict_proba(texts), coder.predict_proba(texts))
    loaded.save(tmp_path / "again")
    again = Coder.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(texts), coder.predict_proba(texts))
    assert torch.isfinite(torch.from_numpy(coder.predict_proba(texts))).all()


def kept(given: Given, *, whole: frozenset[str]) -> Given:
    """What is left of everything after it was packed, written as JSON, and unpacked."""
    packed = pack_given(given, asked=EVERYTHING, whole=whole)
    read = Kept(packed.arrays, json.loads(json.dumps(packed.facts)))
    return unpack_given(read, Given(given.vocab, given.codes, given.codebook, np.zeros(0, np.float32)))


def offered(given: Given) -> dict[str, Any]:
    vectors = torch.from_numpy(given.word_vectors)
    sizes = {"vocab_size": len(VOCAB), "n_labels": len(CODES), "input_size": 8, "descriptions": DESCRIPTIONS}
    return (
        {**{name: getattr(given, name) for name in FIELDS}, **sizes, "word_vectors": vectors, "frequencies": None}
        | {name: torch.from_numpy(getattr(given, name)) for name in ("hyperbolic", "label_pairs")}
        | {
            "encoder": ENCODERS.build("embedding", ENCODERS.tiny("embedding"), vocab_size=len(VOCAB)),
            "titles": BATCH,
            "terms": TERMS,
            "tree": TREE,
            "tree_descriptions": TREE_DESCRIPTIONS,
        }
    )


def test_everything_but_what_is_the_coders_own_can_be_packed() -> None:
    assert {*FIELDS} - {"vocab", "codes", "codebook"} == FORMS.keys()


@pytest.mark.parametrize("name", FORMS)
def test_what_is_kept_whole_is_the_same(name: str) -> None:
    given = sample_given()
    assert number_of(getattr(kept(given, whole=EVERYTHING), name)) == number_of(getattr(given, name))


@pytest.mark.parametrize("name", ["language_model", "ranker", "word_vectors", "transformer", "relevance"])
def test_what_is_kept_as_a_shape_takes_no_arrays(name: str) -> None:
    packed = pack_given(sample_given(), asked=EVERYTHING, whole=EVERYTHING - {name})
    assert name in packed.facts
    assert not [key for key in packed.arrays if key.startswith(name)]


def test_what_nobody_asks_for_is_not_kept() -> None:
    assert pack_given(sample_given(), asked=frozenset(), whole=frozenset()).facts.keys() == {"frequencies"}


@pytest.mark.parametrize(("table", "name"), STARTING, ids=[name for _, name in STARTING])
def test_a_part_that_says_so_needs_the_shape_of_what_it_starts_from_and_no_more(table: Any, name: str) -> None:
    given = sample_given()
    start, again = (
        table.build(name, table.tiny(name), **offered(things)).eval()
        for things in (given, kept(given, whole=EVERYTHING - table.builders[name].starts_from))
    )
    again.load_state_dict(start.state_dict())
    states = torch.randn(*DESCRIPTIONS.shape, 8)
    read = BATCH if table is ENCODERS else Encoded(states, BATCH.tokens, BATCH.mask)
    first, second = (part(read) for part in (start, again))
    assert torch.equal(first.states, second.states) if table is ENCODERS else torch.equal(first.logits, second.logits)


@pytest.mark.parametrize(
    ("decoder", "asked"),
    [
        ({"name": "planted"}, {"relevance", "ranker"}),
        ({"name": "planted", "planted": False}, {"relevance"}),
        ({"name": "planted", "static": False}, {"ranker"}),
        ({"name": "planted", "static": False, "planted": False}, set()),
        ({"name": "joined", "base": {"name": "planted", "static": False}}, {"ranker", "names"}),
        ({"name": "max-pool"}, set()),
    ],
)
def test_a_decoder_asks_for_what_its_options_need(decoder: dict[str, Any], asked: set[str]) -> None:
    recipe = recipe_from({"decoder": decoder}, where="test")
    assert asked_for(recipe) & {"relevance", "ranker", "names", "language_model"} == asked
    assert kept_whole(recipe) & {"relevance", "ranker", "names", "language_model"} == asked - {"ranker"}


def test_a_thing_is_kept_whole_where_one_part_of_several_needs_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "word_vectors" not in kept_whole(load_recipe("lsan"))
    monkeypatch.setitem(DECODERS.builders, "asking", asking_for("word_vectors"))  # type: ignore[arg-type]
    assert "word_vectors" in kept_whole(load_recipe("lsan", ["decoder.name=asking"]))


def test_a_coder_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    fitted("caml-small", "encoder.filters=4")[0].save(tmp_path / "coder")
    coder = open_artifact(tmp_path / "coder")
    names = set(coder.manifest.files) - {"tensors.safetensors", "system.json"}
    files = {name: coder.text(name) for name in names}
    tensors = {name: np.array(array) for name, array in coder.tensors.items()}
    facts = {"recipe": coder.manifest.recipe, "facts": coder.manifest.facts}
    save_artifact(tmp_path / "old", "coder", tensors=tensors, files=files, **facts)
    with pytest.raises(ArtifactError, match="fit it again with plant run, or open it with that version"):
        Coder.load(tmp_path / "old")
