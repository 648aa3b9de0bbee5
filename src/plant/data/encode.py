"""Raw texts as documents of a vocabulary that is already there."""

from collections.abc import Sequence

import numpy as np

from plant.data.corpus import Documents
from plant.recipe.schema import Prepare
from plant.store.ragged import Ragged, offsets
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab


def encode_texts(texts: Sequence[str], vocab: Vocab, recipe: Prepare, *, ids: Sequence[str] = ()) -> Documents:
    """Documents without labels; a text is cut only where the recipe says so."""
    words = [tokenize(text, keep_numbers=recipe.keep_numbers) for text in texts]
    limit = recipe.max_tokens or None
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    tokens = Ragged.of([vocab.encode(w.forms[:limit]) for w in words], np.int32)
    nothing = np.zeros(len(texts) + 1, np.int64)
    return Documents(
        ids=tuple(ids) or tuple(str(number) for number in range(len(texts))),
        tokens=tokens.values,
        token_starts=tokens.starts,
        labels=np.empty(0, np.int32),
        label_starts=nothing,
        char_starts=Ragged.of([w.starts[:limit] for w in words], np.int32).values,
        char_ends=Ragged.of([w.ends[:limit] for w in words], np.int32).values,
        evidence_labels=np.empty(0, np.int32),
        evidence_spans=np.empty((0, 2), np.int32),
        evidence_starts=nothing,
        text=np.frombuffer(b"".join(encoded), np.uint8),
        text_starts=offsets([len(text) for text in encoded]),
    )


def words_beyond(text: str, recipe: Prepare) -> int:
    """How many words of a text the recipe cuts off."""
    if not recipe.max_tokens:
        return 0
    return max(0, len(tokenize(text, keep_numbers=recipe.keep_numbers).forms) - recipe.max_tokens)
