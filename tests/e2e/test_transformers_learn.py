"""Small transformers learn the words that stand for codes, and show them as evidence."""

import numpy as np
import pytest

from plant.coder import Coder
from plant.codes.codebook import CodeBook
from tests.made_up import notes_of

TINY = ("encoder.hidden=32", "encoder.layers=1", "encoder.pieces=200", "prepare.min_count=1", "masked.epochs=1",
        "masked.window=40", "fit.epochs=3", "fit.learning_rate=5e-3", "fit.batch=8")  # fmt: skip


@pytest.mark.parametrize("recipe", ["plm-icd-small", "label-descriptions-small", "plant-transformer"])
def test_a_small_transformer_finds_the_words_of_codes(recipe: str) -> None:
    made = notes_of(200, n_codes=5)
    texts, codes = [note.text for note in made], [note.codes for note in made]
    book = CodeBook("other", (), {f"C{n}": f"signc{n}x" for n in range(5)})
    coder = Coder(recipe, *TINY).fit(texts[:150], codes[:150], choose=0.2, codebook=book)
    scores = coder.predict_proba(texts[150:])
    gold = np.array([[code in row for code in coder.classes_] for row in codes[150:]])
    best = np.argmax(scores, 1)[gold.any(1)]
    assert gold[gold.any(1)][np.arange(len(best)), best].mean() > 0.9
    row = int(np.flatnonzero(gold.any(1))[0])
    first = coder.predict(texts[150 + row : 151 + row])[0].ranked[0]
    assert f"sign{first.code.lower()}x" in first.evidence[0].text
