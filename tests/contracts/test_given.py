"""What a part asks for, it gets again when the coder is loaded; what it only starts from makes no coder grow."""

import hashlib
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
from plant.nn.attention import masked_mean
from plant.nn.parts.build import Given
from plant.nn.parts.table import DECODERS
from plant.tensors import Decoded, Encoded
from tests.made_up import notes_of

QUICK = ("prepare.min_count=1", "fit.epochs=1", "fit.frozen_epochs=0", "rank.epochs=1", "rank.size=4",
         "pretrain.epochs=1", "pretrain.embedding=6", "pretrain.hidden=5", "pretrain.layers=2",
         "vectors.size=6", "vectors.epochs=1")  # fmt: skip
BERT = ("encoder.pieces=120", "encoder.hidden=8", "encoder.layers=1", "encoder.heads=2", "masked.epochs=0")
BOOK = CodeBook("other", (), {f"C{n}": f"the signc{n}x" for n in range(4)}, {"C1": ("worda",)}, {"C0": "P"})
FIELDS = [field.name for field in fields(Given)]


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
