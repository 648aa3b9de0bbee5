"""Would a neural tagger find places better? Character CNN and BiLSTM with a chain on top, beside the tagger in use.

    python benchmarks/neural_tagger.py CORPORA/cantemist --fit train --report dev1 --language spanish [--epochs 12]
    python benchmarks/neural_tagger.py CORPORA/codiesp_d --fit train --folds 2 --language spanish

Both taggers learn from the same sentences. Three rows of figures: the tagger in use, the neural one, and the mean of
their P(tag); of each the exact spans of its likeliest tags (F1, P, R), the marked mentions among all spans above the
finder's threshold, and how many such spans a note has. Word vectors are trained on fitted and unlabelled texts.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from places import BARE, Marked, marked, measured, tasks_of
from torch import Tensor, nn

from plant.candidates import places as finding
from plant.candidates.places import Finder, FinderOptions, fit_finder
from plant.candidates.tagging import N_TAGS, OUTSIDE, allowed_moves, spans_of_tags, tags_of
from plant.candidates.words import NoteWords
from plant.data.sources import open_source
from plant.store.ragged import offsets
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab, build_vocab
from plant.train.streams import Text
from plant.train.word_vectors import train_word_vectors

LETTERS = {
    letter: number + 2
    for number, letter in enumerate("abcdefghijklmnopqrstuvwxyzñáéíóúüABCDEFGHIJKLMNOPQRSTUVWXYZÑ0123456789.,-/()")
}
LONGEST_WORD, TOGETHER, NEVER = 18, 48, -1e4


@dataclass(frozen=True)
class Vectors:
    """Words with vectors of the fitted and the unlabelled texts."""

    vocab: Vocab
    values: NDArray[np.float32]


class Network(nn.Module):
    """Letters and words, then sentences both ways, then a chain of tags."""

    def __init__(self, vectors: Vectors) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.from_numpy(vectors.values.copy()), freeze=False, padding_idx=0)
        self.letters = nn.Embedding(len(LETTERS) + 2, 24, padding_idx=0)
        self.shapes = nn.Conv1d(24, 40, 3, padding=1)
        self.lstm = nn.LSTM(vectors.values.shape[1] + 40, 100, batch_first=True, bidirectional=True)
        self.drop, self.tags = nn.Dropout(0.4), nn.Linear(200, N_TAGS)
        self.moves = nn.Parameter(torch.zeros(N_TAGS, N_TAGS))
        allowed = torch.from_numpy(allowed_moves())
        self.register_buffer("fence", torch.where(allowed, 0.0, NEVER))

    def forward(self, words: Tensor, letters: Tensor, lengths: Tensor) -> Tensor:
        """What speaks for each tag of each word."""
        batch, width, size = letters.shape
        shapes = self.shapes(self.letters(letters.view(-1, size)).transpose(1, 2)).relu()
        shapes = shapes.masked_fill((letters.view(-1, 1, size) == 0), 0).amax(2).view(batch, width, -1)
        seen = self.drop(torch.cat([self.words(words), shapes], 2))
        packed = nn.utils.rnn.pack_padded_sequence(seen, lengths, batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=width)
        return self.tags(self.drop(states))

    def sums(self, logits: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the sums over all paths up to each word, and of all whole paths; padding repeats the end."""
        moves, begin = self.moves + self.fence, self.fence[OUTSIDE]
        state = logits[:, 0] + begin
        states = [state]
        for place in range(1, logits.shape[1]):
            on = torch.logsumexp(state[:, :, None] + moves, 1) + logits[:, place]
            state = torch.where(mask[:, place, None], on, state)
            states.append(state)
        return torch.stack(states, 1), torch.logsumexp(state + self.fence[:, OUTSIDE], 1)

    def loss(self, logits: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        _, total = self.sums(logits, mask)
        own = (logits.gather(2, tags[:, :, None])[:, :, 0] * mask).sum(1)
        steps = self.moves[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        return (total - own - steps.sum(1)).sum() / mask.sum()

    def marginals(self, logits: Tensor, mask: Tensor) -> Tensor:
        """P(tag) of each word: the slope of the logarithm of all paths' sum."""
        with torch.enable_grad():
            given = logits.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.sums(given, mask)[1].sum(), given)
        return slope


@dataclass(frozen=True)
class Sentence:
    words: list[int]
    letters: list[list[int]]
    tags: list[int]


def sentences_of(note: NoteWords, tags: NDArray[np.int8], vocab: Vocab) -> list[Sentence]:
    numbers = vocab.encode([word.lower() for word in note.surfaces]).tolist()
    letters = [[LETTERS.get(letter, 1) for letter in word[:LONGEST_WORD]] for word in note.surfaces]
    bounds = zip(note.sentences[:-1].tolist(), note.sentences[1:].tolist(), strict=True)
    return [Sentence(numbers[a:b], letters[a:b], tags[a:b].tolist()) for a, b in bounds if a < b]


def batched(some: Sequence[Sentence]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    lengths = torch.tensor([len(one.words) for one in some])
    width = int(lengths.max())
    words, tags = torch.zeros(len(some), width, dtype=torch.long), torch.zeros(len(some), width, dtype=torch.long)
    letters = torch.zeros(len(some), width, LONGEST_WORD, dtype=torch.long)
    for row, one in enumerate(some):
        words[row, : len(one.words)], tags[row, : len(one.tags)] = torch.tensor(one.words), torch.tensor(one.tags)
        for place, own in enumerate(one.letters):
            letters[row, place, : len(own)] = torch.tensor(own)
    return words, letters, lengths, tags, torch.arange(width) < lengths[:, None]


def fit_network(sentences: Sequence[Sentence], vectors: Vectors, *, epochs: int, seed: int) -> Network:
    torch.manual_seed(seed)
    network, order = Network(vectors), np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=0.01)
    by_length = sorted(range(len(sentences)), key=lambda number: len(sentences[number].words))
    batches = [by_length[first : first + TOGETHER] for first in range(0, len(by_length), TOGETHER)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, epochs * len(batches))
    for _ in range(epochs):
        network.train()
        for number in order.permutation(len(batches)):
            words, letters, lengths, tags, mask = batched([sentences[place] for place in batches[number]])
            loss = network.loss(network(words, letters, lengths), tags, mask)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return network.eval()


def read_network(network: Network, note: NoteWords, vocab: Vocab) -> NDArray[np.float32]:
    """P(tag) of each word of a note."""
    every = sentences_of(note, np.zeros(len(note), np.int8), vocab)
    found = []
    with torch.no_grad():
        for first in range(0, len(every), TOGETHER):
            words, letters, lengths, _, mask = batched(every[first : first + TOGETHER])
            marginals = network.marginals(network(words, letters, lengths), mask)
            found += [marginals[row, :length].numpy() for row, length in enumerate(lengths.tolist())]
    return np.concatenate(found).astype(np.float32)


def likeliest(probabilities: NDArray[np.float32], sentences: NDArray[np.int32]) -> NDArray[np.int8]:
    """The path with the largest product of P(tag) that tags may follow."""
    fence = np.where(allowed_moves(), 0.0, -np.inf)
    logs, tags = np.log(probabilities + 1e-9), np.zeros(len(probabilities), np.int8)
    for first, last in zip(sentences[:-1].tolist(), sentences[1:].tolist(), strict=True):
        if first == last:
            continue
        best, back = logs[first] + fence[OUTSIDE], []
        for place in range(first + 1, last):
            ways = best[:, None] + fence
            back.append(ways.argmax(0))
            best = ways.max(0) + logs[place]
        tag = int((best + fence[:, OUTSIDE]).argmax())
        tags[last - 1] = tag
        for place in range(last - 2, first - 1, -1):
            tag = int(back[place - first][tag])
            tags[place] = tag
    return tags


def vectors_of(texts: Sequence[str]) -> Vectors:
    words = [tokenize(text).forms for text in texts]
    vocab = build_vocab(Counter(word for each in words for word in each), min_count=3)
    tokens = [vocab.encode(each) for each in words]
    text = Text(np.concatenate(tokens), offsets([len(each) for each in tokens]))
    return Vectors(vocab, train_word_vectors(text, len(vocab), seed=1).astype(np.float32))


def drawn_sentences(finder: Finder, taught: Marked, vocab: Vocab, seed: int) -> Iterator[Sentence]:
    """The sentences that the tagger in use learns from."""
    for note, mentions in zip(taught.words, taught.mentions, strict=True):
        spans = finding._short_spans(mentions, finder.options.longest)
        tags = tags_of(spans, len(note), note.sentences)
        drawn = finding._drawn(note, tags, finder.options.unmarked, seed)
        filled = [which for which, length in zip(drawn, np.diff(note.sentences), strict=True) if length]
        yield from (one for one, which in zip(sentences_of(note, tags, vocab), filled, strict=True) if which)


def counted(
    probabilities: NDArray[np.float32], path: NDArray[np.int8], note: NoteWords, gold: set[tuple[int, int]]
) -> Counter[str]:
    options = FinderOptions()
    found = {tuple(span) for span in spans_of_tags(path).tolist()}
    likely = finding._likely_spans(probabilities, note.sentences, options.threshold, options.longest)
    every = found | {tuple(span) for span in likely.tolist()}
    sizes = {"marked": len(gold), "tagged": len(found), "right": len(gold & found)}
    return Counter(**sizes, found=len(gold & every), places=len(every), notes=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--fit", default="train")
    parser.add_argument("--report", default="")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--language", default="")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.corpus is None:
        parser.print_usage()  # among all benchmarks: there are no notes to fit on
        return
    notes = list(open_source(given.corpus).notes())
    fitted = marked([note for note in notes if note.split in given.fit.split(",")], given.language)
    reported = marked([note for note in notes if note.split and note.split == given.report], given.language)
    vectors = vectors_of([note.text for note in notes if note.split in (*given.fit.split(","), BARE)])
    totals = {name: Counter[str]() for name in ("in use", "neural", "mean")}
    seconds = Counter[str]()
    for taught, asked in tasks_of(fitted, reported, given.folds):
        begun = time.process_time()
        finder = fit_finder(taught.words, taught.mentions, seed=given.seed)
        seconds["in use"] += time.process_time() - begun
        begun = time.process_time()
        sentences = list(drawn_sentences(finder, taught, vectors.vocab, given.seed))
        network = fit_network(sentences, vectors, epochs=given.epochs, seed=given.seed)
        seconds["neural"] += time.process_time() - begun
        for note, mentions in zip(asked.words, asked.mentions, strict=True):
            gold = {(each.first, each.last) for each in mentions}
            own, path = finding._read(finder, note, *finding._found(finder, note))
            neural = read_network(network, note, vectors.vocab)
            mean = (own + neural) / 2
            totals["in use"] += counted(own, path, note, gold)
            totals["neural"] += counted(neural, likeliest(neural, note.sentences), note, gold)
            totals["mean"] += counted(mean, likeliest(mean, note.sentences), note, gold)
    for name, total in totals.items():
        print(json.dumps({"tagger": name, **measured(total), "fitting CPU s": seconds[name]}), flush=True)


if __name__ == "__main__":
    main()
