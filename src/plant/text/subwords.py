"""Sub-words: how a transformer cuts a text, and where each piece stands in it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError, RecipeError

UNK = "[UNK]"
SPECIAL = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")
LONE_SURROGATES = re.compile("[\ud800-\udfff]")
MISSING = "transformers are an extra: pip install 'plant-xmtc[transformers]'"


@dataclass(frozen=True)
class CutText:
    """The sub-words of a text by number, and where in the text each begins and ends."""

    numbers: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


@dataclass(frozen=True)
class SubwordTokenizer:
    """A tokenizer as its JSON (the `tokenizer.json` of a checkpoint), and the numbers of its special sub-words."""

    text: str
    first: int  # opens every window
    last: int  # closes every window
    padding: int
    mask: int | None

    def cut(self, texts: Sequence[str]) -> list[CutText]:
        """Each text as sub-words, without special ones and however long it is."""
        readable = [LONE_SURROGATES.sub("\ufffd", text) for text in texts]
        return [_cut(encoding) for encoding in self._backend.encode_batch(readable, add_special_tokens=False)]

    def to_json(self) -> str:
        """Everything, for an artifact."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    @cached_property
    def _backend(self) -> Any:
        backend = tokenizers_library().Tokenizer.from_str(self.text)
        backend.no_truncation()
        backend.no_padding()
        return backend


def tokenizer_from_json(text: str) -> SubwordTokenizer:
    """What `to_json` wrote."""
    return SubwordTokenizer(**json.loads(text))


def train_wordpiece(texts: Iterable[str], *, size: int) -> SubwordTokenizer:
    """A WordPiece tokenizer of at most `size` sub-words, lower case, learned from these texts alone."""
    library = tokenizers_library()
    if size < 100:
        raise RecipeError(f"encoder.pieces is {size}: a vocabulary of sub-words needs at least 100")
    lowered = library.normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    spelled = [lowered.normalize_str(LONE_SURROGATES.sub("\ufffd", text)) for text in texts]
    # the library numbers letters inside words in the order of a hash table, another one each time: number them before
    letters = sorted({f"##{letter}" for text in spelled for letter in set(text) if not letter.isspace()})
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *letters], show_progress=False
    )
    learning = _wordpiece(library, {}, lowered)
    learning.train_from_iterator(spelled, trainer)
    backend = _wordpiece(library, learning.get_vocab(with_added_tokens=True), lowered)
    backend.add_special_tokens(list(SPECIAL))
    padding, _, first, last, mask = (backend.token_to_id(name) for name in SPECIAL)
    return SubwordTokenizer(_sorted(backend.to_str()), first=first, last=last, padding=padding, mask=mask)


def _wordpiece(library: ModuleType, vocab: Mapping[str, int], normalizer: Any) -> Any:
    backend = library.Tokenizer(library.models.WordPiece(dict(vocab), unk_token=UNK))
    backend.normalizer, backend.pre_tokenizer = normalizer, library.pre_tokenizers.BertPreTokenizer()
    return backend


def tokenizers_library() -> ModuleType:
    """The `tokenizers` library, with all of its parts."""
    try:
        import tokenizers
        from tokenizers import models, normalizers, pre_tokenizers, trainers  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING) from error
    return tokenizers


def _cut(encoding: Any) -> CutText:
    offsets = np.array(encoding.offsets, np.int32).reshape(-1, 2)
    return CutText(np.array(encoding.ids, np.int32), offsets[:, 0], offsets[:, 1])


def _sorted(text: str) -> str:
    """The same JSON whatever order its vocabulary was written in: equal tokenizers, equal digests."""
    return json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True)
