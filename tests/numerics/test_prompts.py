"""Answers to prompts equal their equations, written out for one page at a time; what does not fit is read in pieces."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from plant.errors import RecipeError
from plant.nn.language.prompts import (
    NotePieces,
    PromptedModel,
    PromptPlan,
    answers_of,
    blocks_of,
    pages_of,
    title_pieces,
)
from plant.nn.language.transformer import Transformer, new_config, read_folder, read_head
from plant.systems.kept import reranked
from plant.text.subwords import SubwordTokenizer, train_wordpiece
from tests.unit.test_transformer import save_tokenizer

TITLES = ("fever of the night", "pain", "broken arm", "breast pain")
TEXTS = ("The night fever was gone yes no", "pain in the broken arm " * 4, "")
PLAN = PromptPlan(window=24, prompt=9, overlap=2)


def tokenizer() -> SubwordTokenizer:
    return train_wordpiece([*TITLES, *TEXTS], size=130)


def transformer() -> Transformer:
    cutter = tokenizer()
    return Transformer(new_config(len(cutter), hidden=8, layers=1, heads=2, positions=32), cutter)


def note(text: str, cutter: SubwordTokenizer) -> NotePieces:
    (cut,) = cutter.cut([text])
    return NotePieces(cut.numbers, np.arange(len(cut.numbers), dtype=np.int32))


def model_of(shape: Transformer, seed: int = 0) -> PromptedModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yes, no = answers_of(shape.tokenizer, new=True)
        model = PromptedModel(replace(shape, weights=_weights(shape)), yes=yes, no=no).double().eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def _weights(shape: Transformer) -> dict[str, Tensor]:
    from plant.nn.language.transformer import network_of

    return network_of(shape.config, {}).state_dict()


def read(shape: Transformer, model: PromptedModel, texts: tuple[str, ...], asked: list[list[int]]) -> Tensor:
    cutter = shape.tokenizer
    notes = [note(text, cutter) for text in texts]
    return model(pages_of(notes, asked, title_pieces(TITLES, cutter, PLAN), cutter, PLAN))


def guesses(model: PromptedModel, numbers: list[int]) -> Tensor:
    """Logits of every sub-word at every position: BERT of one layer and its head, in plain words."""
    bert, head = model.masked.network.bert, model.masked.network.cls.predictions
    words, layer = bert.embeddings, bert.encoder.layer[0]
    place = words.position_embeddings.weight[: len(numbers)] + words.token_type_embeddings.weight[0]
    states = words.LayerNorm(words.word_embeddings.weight[numbers] + place)
    look, size = layer.attention.self, 8 // 2
    found = []
    for own in (slice(0, size), slice(size, None)):
        q, k, v = (part(states)[:, own] for part in (look.query, look.key, look.value))
        found.append(torch.softmax(q @ k.T / size**0.5, 1) @ v)
    after = layer.attention.output
    states = after.LayerNorm(after.dense(torch.cat(found, 1)) + states)
    inner = F.gelu(layer.intermediate.dense(states))
    states = layer.output.LayerNorm(layer.output.dense(inner) + states)
    states = head.transform.LayerNorm(F.gelu(head.transform.dense(states)))
    return states @ words.word_embeddings.weight.T + head.bias


def plain_score(shape: Transformer, model: PromptedModel, text: str, asked: list[int], place: int) -> Tensor:
    """The score of one candidate: the largest over the windows of the note behind the block that its title is in."""
    cutter, titles = shape.tokenizer, [cut.numbers.tolist() for cut in shape.tokenizer.cut(TITLES)]
    (block,) = [b for b in blocks_of([len(titles[label]) for label in asked], most=PLAN.prompt) if place in b]
    prompt = [piece for other in block for piece in [*titles[asked[other]], cutter.mask]]
    mask = sum(len(titles[asked[other]]) + 1 for other in block if other <= place)
    pieces, room = note(text, cutter).numbers.tolist(), PLAN.window - 1 - len(prompt)
    scores, first = [], 0
    while True:
        page = [cutter.first, *prompt, cutter.last, *pieces[first : first + room], cutter.last]
        logits = guesses(model, page)[mask]
        scores.append(logits[model.yes] - logits[model.no])
        if first + room >= len(pieces):
            return torch.stack(scores).amax()
        first += room - PLAN.overlap


def test_answers_equal_their_equations() -> None:
    shape = transformer()
    model, asked = model_of(shape), [[2, 0, 1], [3, 1, 2, 0], [1]]
    found = read(shape, model, TEXTS, asked)
    plain = [
        plain_score(shape, model, text, own, place)
        for text, own in zip(TEXTS, asked, strict=True)
        for place in range(len(own))
    ]
    assert_close(found, torch.stack(plain).float(), atol=1e-5, rtol=1e-5)


def test_other_notes_and_their_padding_change_nothing() -> None:
    shape = transformer()
    model, asked = model_of(shape), [[0, 1], [3, 1, 2], [2]]
    alone = [read(shape, model, (text,), [own]) for text, own in zip(TEXTS, asked, strict=True)]
    assert_close(read(shape, model, TEXTS, asked), torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_the_gradient_of_the_loss_is_its_slope() -> None:
    shape = transformer()
    model = model_of(shape)
    cutter = shape.tokenizer
    pages = pages_of([note(TEXTS[0], cutter)], [[0, 1]], title_pieces(TITLES, cutter, PLAN), cutter, PLAN)
    right = torch.tensor([True, False])

    def loss(step: float, way: list[Tensor]) -> Tensor:
        moved = {n: p + step * w for (n, p), w in zip(model.named_parameters(), way, strict=True)}
        tied = torch.nn.utils.stateless._reparametrize_module(model, moved, tie_weights=True)
        with tied:
            return _double_loss(model, pages, right)

    slopes = torch.autograd.grad(_double_loss(model, pages, right), list(model.parameters()))
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        way = [torch.randn_like(p) for p in model.parameters()]
        measured = (loss(1e-5, way) - loss(-1e-5, way)) / 2e-5
    expected = sum((slope * w).sum() for slope, w in zip(slopes, way, strict=True))
    assert_close(measured, torch.as_tensor(expected), atol=1e-5, rtol=1e-5)


def _double_loss(model: PromptedModel, pages, right: Tensor) -> Tensor:
    guessed = torch.cat([model._guess(part) for part in pages.parts(8)])
    return F.cross_entropy(guessed, torch.where(right, model.yes, model.no))


def test_the_loss_is_that_of_the_whole_vocabulary_where_the_best_window_answers() -> None:
    shape = transformer()
    model, cutter = model_of(shape), shape.tokenizer
    pages = pages_of([note(TEXTS[1] * 3, cutter)], [[1]], title_pieces(TITLES, cutter, PLAN), cutter, PLAN)
    guessed = torch.cat([model._guess(part) for part in pages.parts(8)])
    assert len(guessed) > 1  # windows
    best = (guessed[:, model.yes] - guessed[:, model.no]).argmax()
    expected = -guessed[best].log_softmax(0)[model.yes]
    assert_close(model.loss(pages, torch.tensor([True])), expected.float(), atol=1e-5, rtol=1e-5)


def test_no_title_and_no_word_is_left_out() -> None:
    cutter = tokenizer()
    titles = title_pieces(TITLES, cutter, PLAN)
    pages = pages_of([note(TEXTS[1], cutter)], [[3, 0, 2, 1]], titles, cutter, PLAN)
    assert set(pages.pairs.tolist()) == {0, 1, 2, 3}
    n_pieces = len(note(TEXTS[1], cutter).numbers)
    for pair in range(4):
        pages_of_pair = [page for page, answer in _answers(pages) if answer == pair]
        read_words = {word for page in pages_of_pair for word in pages.words[page].tolist()} - {-1}
        assert read_words == set(range(n_pieces))
    assert int(pages.mask.sum(1).max()) <= PLAN.window + 2


def _answers(pages) -> list[tuple[int, int]]:
    rows = pages.asked.nonzero()[:, 0].tolist()
    return list(zip(rows, pages.pairs.tolist(), strict=True))


@pytest.mark.parametrize(
    ("lengths", "blocks"),
    [([], []), ([3], [range(1)]), ([3, 3, 3], [range(0, 2), range(2, 3)]), ([7, 1, 1], [range(0, 1), range(1, 3)])],
)
def test_titles_are_read_together_as_far_as_they_fit(lengths: list[int], blocks: list[range]) -> None:
    assert blocks_of(lengths, most=8) == blocks


def test_a_title_that_has_no_room_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"kept.prompt is 3, but the title .* set kept.prompt to \d+ or more"):
        title_pieces(TITLES, tokenizer(), PromptPlan(24, 3, 2))
    with pytest.raises(RecipeError, match="leave no room for a note"):
        PromptPlan(window=10, prompt=8, overlap=2)


def test_codes_that_are_no_candidates_keep_their_order_below() -> None:
    first = np.array([0.9, 0.8, 0.7, 1.0, 0.1])
    scores = reranked(first, [0, 3], np.array([1e-6, 0.5]))
    assert np.argsort(-scores).tolist() == [3, 0, 1, 2, 4]
    assert scores[[0, 3]].tolist() == [1e-6, 0.5]


def test_words_add_what_they_say_of_a_pair() -> None:
    shape = transformer()
    model, cutter = model_of(shape).float(), shape.tokenizer
    pages = pages_of([note(TEXTS[1], cutter)], [[1, 2]], title_pieces(TITLES, cutter, PLAN), cutter, PLAN)
    n_words = len(note(TEXTS[1], cutter).numbers)
    weights = model.weigh(pages, [1], n_words=n_words + 1)
    best = int(torch.stack([model._score(model._guess(part)) for part in pages.parts(1)])[:, 1].argmax())
    read_there = pages.words[best][pages.words[best] >= 0]
    assert bool((weights[0, read_there] != 0).all())
    assert int((weights[0] != 0).sum()) == len(read_there)  # windows that did not answer say nothing


def save_longformer(folder: Path) -> Transformer:
    """A tiny Longformer as Hugging Face writes it, with the tokenizer of these texts."""
    from transformers import LongformerConfig, LongformerForMaskedLM

    cutter = tokenizer()
    config = LongformerConfig(
        vocab_size=len(cutter), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        attention_window=[4], max_position_embeddings=130, pad_token_id=cutter.padding, sep_token_id=cutter.last,
        type_vocab_size=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(5)
        LongformerForMaskedLM(config).save_pretrained(folder)
    save_tokenizer(folder, cutter)
    return read_folder(folder)


def test_prompts_of_a_longformer_see_the_whole_note(tmp_path: Path) -> None:
    shape = save_longformer(tmp_path)
    yes, no = answers_of(shape.tokenizer, new=False)
    model = PromptedModel(shape, yes=yes, no=no, head=read_head(tmp_path)).eval()
    cutter, plan = shape.tokenizer, PromptPlan(120, 30, 0)
    titles = title_pieces(TITLES, cutter, plan)

    def score(*texts: str) -> Tensor:
        return model(pages_of([note(text, cutter) for text in texts], [[0, 1]] * len(texts), titles, cutter, plan))

    far = "arm " * 60
    assert not torch.allclose(score(f"{far} pain"), score(f"{far} fever"), atol=1e-7, rtol=0)
    assert_close(score(f"{far} pain", "fever")[2:], score("fever"), atol=1e-5, rtol=1e-5)
    assert_close(score("fever", f"{far} pain")[2:], score(f"{far} pain"), atol=1e-5, rtol=1e-5)
