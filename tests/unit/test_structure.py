"""Headings and sentences of words, as parts read them."""

import numpy as np
import torch

from plant.data.collate import collate
from plant.data.corpus import take
from plant.data.encode import encode_texts
from plant.data.structure import heading_number, with_structure
from plant.recipe.schema import Prepare
from plant.text.vocab import Vocab

TEXT = "Varón de sesenta años.\nDIAGNÓSTICO\nNeumonía grave. Derrame leve.\n\nTRATAMIENTO\nReposo."
VOCAB = Vocab(("<pad>", "<unk>", "neumonía", "reposo"))


def test_words_know_their_heading_and_their_sentence() -> None:
    documents = with_structure(encode_texts([TEXT, "", "Reposo."], VOCAB, Prepare()), headings=50)
    assert documents.structure is not None
    own = slice(int(documents.token_starts[0]), int(documents.token_starts[1]))
    first, second = heading_number("diagnosis", 50), heading_number("treatment", 50)
    assert documents.structure.headings[own].tolist() == [0] * 4 + [first] * 5 + [second] * 2
    assert documents.structure.sentences[own].tolist() == [0] * 4 + [1] + [2] * 2 + [3] * 2 + [4, 5]


def test_structure_goes_with_its_documents() -> None:
    documents = with_structure(encode_texts([TEXT, "", "Reposo."], VOCAB, Prepare()), headings=50)
    both = collate(documents, [2, 0])
    alone = collate(take(documents, np.array([0])), [0])
    assert both.structure is not None
    assert alone.structure is not None
    assert torch.equal(both.structure.sentences[1], alone.structure.sentences[0])
    assert torch.equal(both.structure.headings[1], alone.structure.headings[0])
    assert not both.structure.headings[0].any()
