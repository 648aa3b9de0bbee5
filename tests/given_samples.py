"""One of everything that parts may ask for, small: twenty words and six codes."""

import numpy as np
import torch
from torch import Tensor

from plant.codes.codebook import CodeBook
from plant.codes.tree import CodeTree
from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.nn.language.terms import Terms
from plant.nn.language.transformer import Transformer, network_of, new_config
from plant.nn.matching.titles import names_from
from plant.nn.parts.given import Given
from plant.nn.planting.ranker import BilinearRanker
from plant.relevance.relevance import Relevance
from plant.tensors import Batch, Subwords
from plant.text.subwords import SubwordTokenizer
from plant.text.vocab import Vocab

CODES = tuple("ABCDEF")
VOCAB = Vocab(("<pad>", "<unk>", *(f"word{letter}" for letter in "abcdefghijklmnopqr")))
DESCRIPTIONS = torch.tensor([[2, 3, 4], [5, 0, 0], [6, 7, 0], [0, 0, 0], [8, 9, 10], [11, 2, 0]])
FREQUENCIES = np.array([0.5, 0.2, 0.05, 0.01, 0.3, 0.1], np.float32)
BOOK = CodeBook(
    "other",
    CODES,
    {c: " ".join(VOCAB.tokens[w] for w in row if w) for c, row in zip(CODES, DESCRIPTIONS.tolist(), strict=True)},
)
RELEVANCE = Relevance(
    codes=CODES,
    tokens=np.array([[2, 3, 4], [5, 6, 0], [7, 2, 8], [9, 10, 11], [12, 3, 0], [13, 14, 15]], np.int32),
    scores=np.array(
        [[0.5, 0.3, 0.1], [0.4, 0.2, 0], [0.9, 0.5, 0.4], [0.3, 0.2, 0.1], [0.6, 0.1, 0], [0.7, 0.4, 0.2]], np.float32
    ),
    label_counts=np.full(len(CODES), 5),
    token_counts=np.full(len(VOCAB), 9),
    n_documents=50,
    form="mi",
)


def subwords_of(tokens: Tensor) -> Subwords:
    """Made-up sub-words: as many for each token as its number modulo 3 says, and at least one."""
    rows = [[(int(t) + 5 * n, place) for place, t in enumerate(row) if t for n in range(max(1, int(t) % 3))]
            for row in tokens]  # fmt: skip
    width = max(map(len, rows))
    filled = torch.tensor([row + [(0, -1)] * (width - len(row)) for row in rows]).view(len(rows), width, 2)
    return Subwords(filled[..., 0], filled[..., 1])


TREE = CodeTree((*CODES, "AB", "ABC"), np.array([6, 6, 7, -1, -1, 4, 7, -1]))
TREE_DESCRIPTIONS = torch.cat([DESCRIPTIONS, torch.tensor([[2, 0, 0], [0, 0, 0]])])
TERMS = Terms(
    Batch(DESCRIPTIONS, DESCRIPTIONS > 0, subwords=subwords_of(DESCRIPTIONS)),
    ((0, 1), (1,), (2,), (3,), (4, 0, 5), (5,)),
)


def sample_given() -> Given:
    """Everything, with random weights."""
    config = new_config(40, hidden=8, layers=1, heads=2)
    pooler = {"dense.weight": torch.randn(8, 8), "dense.bias": torch.randn(8)}
    tokenizer = SubwordTokenizer("{}", first=2, last=3, padding=0, mask=4)
    return Given(
        VOCAB,
        CODES,
        BOOK,
        FREQUENCIES,
        relevance=RELEVANCE,
        ranker=BilinearRanker(len(VOCAB), len(CODES), size=3),
        language_model=LanguageModel(VOCAB, AWDLSTM(len(VOCAB), embedding=8, hidden=4, layers=2)),
        word_vectors=np.random.default_rng(0).standard_normal((len(VOCAB), 8)).astype(np.float32),
        names=names_from(DESCRIPTIONS, n_words=len(VOCAB)),
        hyperbolic=np.random.default_rng(1).uniform(-0.3, 0.3, (len(CODES), 3)).astype(np.float32),
        label_pairs=np.array([[0, 1, 3], [0, 4, 1], [2, 3, 2]]),
        transformer=Transformer(config, tokenizer, network_of(config, {}).state_dict(), pooler),
    )
