"""Prompts: titles of codes, each followed by a mask, before a note; what is guessed at a mask answers for its code.

Yang et al. 2022, "Knowledge injected prompt based fine-tuning for multi-label few-shot ICD coding" (KEPT). With g the
logits of all sub-words at the mask of a code: z = g[yes] - g[no]; in training the cross-entropy of g against yes or no.
Titles that do not fit together are read in blocks, notes that do not fit in windows; the window with the largest z
answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.nn.language.masked import MaskedModel
from plant.nn.language.transformer import Transformer
from plant.nn.language.windows import WindowPlan
from plant.text.subwords import SubwordTokenizer

ANSWERS = ("yes", "no")
SEEING_ALL = ("longformer",)  # families in which chosen positions look at all others and are looked at by all
PAGES_AT_ONCE = 8  # that go through the network together, whatever the batch

Pieces = NDArray[np.int32]


@dataclass(frozen=True)
class PromptPlan:
    """Sub-words that are read at a time, how many of them titles and masks may take, and how far windows overlap."""

    window: int
    prompt: int
    overlap: int

    def __post_init__(self) -> None:
        if self.prompt + self.overlap + 2 > self.window:
            raise RecipeError(
                f"kept.prompt = {self.prompt} and encoder.overlap = {self.overlap} leave no room for a note in "
                f"encoder.window = {self.window}: make one of the two smaller, or the window larger"
            )


@dataclass(frozen=True)
class NotePieces:
    """The sub-words of a note, and the place of the word that each belongs to."""

    numbers: Pieces
    words: Pieces


@dataclass(frozen=True)
class Pages:
    """What the network reads: prompt, separator, window of a note, a row each; and the pairs that masks answer for.

    A pair is a note and one of its candidates, numbered in their order. `prompt` is true up to the separator.
    """

    inputs: Int[Tensor, "page position"]
    mask: Bool[Tensor, "page position"]
    prompt: Bool[Tensor, "page position"]
    words: Int[Tensor, "page position"]  # places of words in their note, -1 elsewhere
    asked: Bool[Tensor, "page position"]
    pairs: Int[Tensor, "answer"]  # of the masks, page by page
    n_pairs: int

    def to(self, device: str) -> "Pages":
        """The same on another device."""
        tensors = ("inputs", "mask", "prompt", "words", "asked", "pairs")
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})

    def parts(self, size: int) -> Iterator["Pages"]:
        """Some pages at a time."""
        ends = self.asked.sum(1).cumsum(0).tolist()
        for first in range(0, len(self.inputs), size):
            rows, answers = slice(first, first + size), slice(ends[first - 1] if first else 0, ends[first:][:size][-1])
            own = {name: getattr(self, name)[rows] for name in ("inputs", "mask", "prompt", "words", "asked")}
            yield replace(self, **own, pairs=self.pairs[answers])


class PromptedModel(nn.Module):
    """A transformer that answers prompts by the head that guesses hidden words; `yes` and `no` are sub-words."""

    def __init__(
        self, transformer: Transformer, *, yes: int, no: int, head: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.masked, self.yes, self.no = MaskedModel(transformer, head=head), yes, no

    def forward(self, pages: Pages) -> Float[Tensor, "pair"]:
        """The score of each pair."""
        return _largest(torch.cat([self._score(self._guess(part)) for part in pages.parts(PAGES_AT_ONCE)]), pages)

    def loss(self, pages: Pages, right: Bool[Tensor, "pair"]) -> Float[Tensor, ""]:
        """The mean cross-entropy over pairs, each at the mask that answers for it."""
        guesses = torch.cat([self._guess(part) for part in pages.parts(PAGES_AT_ONCE)]).float()
        wanted = torch.where(right, self.yes, self.no)
        return F.cross_entropy(guesses[_answering(self._score(guesses), pages)], wanted)

    def weigh(self, pages: Pages, asked: Sequence[int], *, n_words: int) -> Float[Tensor, "asked word"]:
        """Gradient x input: what the sub-words of each word add to the score of some pairs, to first order."""
        words = self.masked.network.get_input_embeddings()
        found = torch.zeros(len(asked), n_words + 1, device=pages.inputs.device)
        with torch.enable_grad():
            embedded = words(pages.inputs).detach().requires_grad_()  # a leaf: words are weighed, not their vectors
            parts = zip(pages.parts(PAGES_AT_ONCE), embedded.split(PAGES_AT_ONCE), strict=True)
            scores = _largest(torch.cat([self._score(self._guess(part, some)) for part, some in parts]), pages)
            for row, pair in enumerate(asked):
                (slope,) = torch.autograd.grad(scores[pair], embedded, retain_graph=True)
                found[row].index_add_(0, pages.words.flatten() + 1, (slope * embedded).sum(-1).detach().flatten())
        return found[:, 1:]

    def _guess(self, pages: Pages, embedded: Tensor | None = None) -> Float[Tensor, "answer piece"]:
        read = {"input_ids": pages.inputs} if embedded is None else {"inputs_embeds": embedded}
        if self.masked.network.config.model_type in SEEING_ALL:
            read["global_attention_mask"] = pages.prompt.long()
        return self.masked.guess(pages.asked, attention_mask=pages.mask.long(), **read)

    def _score(self, guesses: Float[Tensor, "answer piece"]) -> Float[Tensor, "answer"]:
        return (guesses[:, self.yes] - guesses[:, self.no]).float()


def load_parameters(model: PromptedModel, saved: Mapping[str, Tensor]) -> None:
    """Fill the parameters with those that were kept; weights that stand in several places are kept once."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(saved[name])


def _largest(scores: Float[Tensor, "answer"], pages: Pages) -> Float[Tensor, "pair"]:
    return scores[_answering(scores, pages)]


def _answering(scores: Float[Tensor, "answer"], pages: Pages) -> Int[Tensor, "pair"]:
    """For each pair the answer with the largest score, the first of equals."""
    fixed = scores.detach()  # which of them answers is no matter of gradients
    best = fixed.new_full((pages.n_pairs,), -torch.inf).scatter_reduce(0, pages.pairs, fixed, "amax")
    answers = torch.arange(len(scores), device=scores.device)
    places = torch.where(fixed == best[pages.pairs], answers, len(scores))
    return answers.new_full((pages.n_pairs,), len(scores)).scatter_reduce(0, pages.pairs, places, "amin")


def blocks_of(lengths: Sequence[int], *, most: int) -> list[range]:
    """Titles that are read together, in their order: as many as fit with a mask after each."""
    blocks, first, taken = [], 0, 0
    for place, length in enumerate(lengths):
        if place > first and taken + length + 1 > most:
            blocks.append(range(first, place))
            first, taken = place, 0
        taken += length + 1
    return [*blocks, range(first, len(lengths))] if len(lengths) else []


def pages_of(
    notes: Sequence[NotePieces],
    candidates: Sequence[Sequence[int]],
    titles: Sequence[Pieces],
    tokenizer: SubwordTokenizer,
    plan: PromptPlan,
) -> Pages:
    """The pages of some notes, each with its candidates."""
    rows, pairs, before = list[_Page](), list[int](), 0
    for note, labels in zip(notes, candidates, strict=True):
        for block in blocks_of([len(titles[label]) for label in labels], most=plan.prompt):
            prompt = [[*titles[labels[place]].tolist(), tokenizer.mask] for place in block]
            for page in _windows([piece for title in prompt for piece in title], note, tokenizer, plan):
                rows.append(page)
                pairs += [before + place for place in block]
        before += len(labels)
    return _padded(rows, pairs, before, tokenizer)


@dataclass(frozen=True)
class _Page:
    numbers: list[int]
    words: list[int]
    prompt: int  # positions up to the separator


def _windows(prompt: list[int], note: NotePieces, tokenizer: SubwordTokenizer, plan: PromptPlan) -> Iterator[_Page]:
    """A prompt in front of every window of a note; in front of nothing where a note has no sub-words."""
    windows = WindowPlan(plan.window - 1 - len(prompt), plan.overlap)
    for number in range(max(1, windows.count(len(note.numbers)))):
        own = slice(number * windows.step, number * windows.step + windows.length)
        head = [tokenizer.first, *prompt, tokenizer.last]
        words = [*[-1] * len(head), *note.words[own].tolist(), -1]
        yield _Page([*head, *note.numbers[own].tolist(), tokenizer.last], words, len(head))


def _padded(rows: Sequence[_Page], pairs: Sequence[int], n_pairs: int, tokenizer: SubwordTokenizer) -> Pages:
    shape = (len(rows), max((len(page.numbers) for page in rows), default=0))
    inputs, words = torch.full(shape, tokenizer.padding), torch.full(shape, -1)
    mask, prompt = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)
    for row, page in enumerate(rows):
        own = slice(len(page.numbers))
        inputs[row, own], words[row, own] = torch.tensor(page.numbers), torch.tensor(page.words)
        mask[row, own], prompt[row, : page.prompt] = True, True
    asked = prompt & (inputs == tokenizer.mask)
    return Pages(inputs, mask, prompt, words, asked, torch.tensor(pairs, dtype=torch.long), n_pairs)


def title_pieces(titles: Sequence[str], tokenizer: SubwordTokenizer, plan: PromptPlan) -> tuple[Pieces, ...]:
    """Titles as sub-words; an error for one that has no room in a prompt."""
    if tokenizer.mask is None:
        raise RecipeError("the tokenizer of encoder.folder has no mask, at which a prompt is answered: take another")
    pieces = tuple(cut.numbers[cut.numbers != tokenizer.mask] for cut in tokenizer.cut(titles))
    longest = max(range(len(pieces)), key=lambda place: len(pieces[place]), default=None)
    if longest is not None and len(pieces[longest]) + 1 > plan.prompt:
        needed = len(pieces[longest]) + 1
        raise RecipeError(
            f"kept.prompt is {plan.prompt}, but the title {titles[longest][:60]!r} takes {needed} sub-words with its "
            f"mask: set kept.prompt to {needed} or more"
        )
    return pieces


def answers_of(tokenizer: SubwordTokenizer, *, new: bool) -> tuple[int, int]:
    """The sub-words for yes and no: the first that the two words do not share.

    A new tokenizer may know neither word; a new network has no idea of them either, so any two sub-words will do.
    """
    yes, no = (cut.numbers.tolist() for cut in tokenizer.cut(ANSWERS))
    for pair in zip(yes, no, strict=False):
        if pair[0] != pair[1]:
            return pair
    if new:
        return tokenizer.first, tokenizer.last
    raise RecipeError(f"the tokenizer of encoder.folder does not tell {ANSWERS[0]!r} from {ANSWERS[1]!r}: take another")
