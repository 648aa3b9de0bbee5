"""Perplexity of a trained language model beside that of a modified Kneser-Ney 3-gram, on the same tokens.

    plant prepare ../shared/corpora/cantemist --out corpus --fit train --choose dev1 --report dev2
    plant pretrain corpus --out lm
    python benchmarks/perplexity.py corpus lm [--role choose] [--json]

Without a corpus it takes the demo corpus, and a small model that it trains on it for one epoch.
Both are fitted on the fitted and the unlabelled notes of the corpus (the language model by `plant pretrain`), have the
same vocabulary with one unknown word, and foresee every token and the end of each reported note. The 3-gram follows
Chen and Goodman 1999: interpolated, three discounts for each order, continuation counts below the highest. The language
model is measured a second time with weights of eight bits.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Corpus, Documents, Role, take
from plant.data.store import load_corpus
from plant.text.vocab import PADDING

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """The n-grams of one order as sorted numbers, their discounted counts, and what each context leaves over."""

    keys: Numbers
    kept: NDArray[np.float64]  # (count - discount) / count of the context
    contexts: Numbers
    left: NDArray[np.float64]  # the probability mass that goes to the next lower order


@dataclass(frozen=True)
class KneserNey:
    """An interpolated 3-gram; `orders` from the unigram up."""

    n_words: int
    orders: tuple[Order, ...]

    def probability(self, grams: Numbers) -> NDArray[np.float64]:
        """Of the last word of each row of `grams` ([rows, 3]) after the two before it."""
        chance = np.full(len(grams), 1 / self.n_words)
        for n, order in enumerate(self.orders, start=1):
            keys = numbered(grams[:, 3 - n :], self.n_words)
            kept = looked_up(order.keys, order.kept, keys, missing=0.0)
            chance = kept + looked_up(order.contexts, order.left, keys // self.n_words, missing=1.0) * chance
        return chance


def fit_kneser_ney(grams: Numbers, n_words: int) -> KneserNey:
    """Count 3-grams, then how many words each shorter n-gram follows (raw counts at the beginning of documents)."""
    trigrams, counts = np.unique(numbered(grams, n_words), return_counts=True)
    starts = grams[:, 1] == PADDING
    raw = dict(zip(*np.unique(numbered(grams[starts][:, 1:], n_words), return_counts=True), strict=True))
    bigrams, followed = np.unique(trigrams % n_words**2, return_counts=True)
    followed = np.array([raw.get(key, count) for key, count in zip(bigrams, followed, strict=True)])
    words, preceded = np.unique(bigrams % n_words, return_counts=True)
    levels = ((words, preceded), (bigrams, followed), (trigrams, counts))
    return KneserNey(n_words, tuple(_discounted(keys, count, n_words) for keys, count in levels))


def _discounted(keys: Numbers, counts: Numbers, n_words: int) -> Order:
    ones, twos, threes, fours = (max(1, int((counts == n).sum())) for n in (1, 2, 3, 4))
    ratio = ones / (ones + 2 * twos)
    discounts = np.array(
        [0, 1 - 2 * ratio * twos / ones, 2 - 3 * ratio * threes / twos, 3 - 4 * ratio * fours / threes]
    )
    discount = discounts[np.minimum(counts, 3)]
    contexts, place = np.unique(keys // n_words, return_inverse=True)
    totals = np.bincount(place, counts)
    return Order(keys, (counts - discount) / totals[place], contexts, np.bincount(place, discount) / totals)


def trigrams_of(documents: Documents) -> Numbers:
    """One row for each word to foresee, the end included; a document begins after two boundaries."""
    rows = []
    for document in range(len(documents)):
        tokens = documents.tokens_of(document)
        padded = np.concatenate([[PADDING, PADDING], tokens, [PADDING]]).astype(np.int64)
        rows.append(np.lib.stride_tricks.sliding_window_view(padded, 3))
    return np.concatenate(rows)


def numbered(grams: Numbers, n_words: int) -> Numbers:
    """Each n-gram as one number."""
    number = np.zeros(len(grams), np.int64)
    for column in grams.T:
        number = number * n_words + column
    return number


def looked_up(keys: Numbers, values: NDArray[np.float64], wanted: Numbers, *, missing: float) -> NDArray[np.float64]:
    """The value of each wanted key, `missing` where there is none."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], missing)


def with_role(corpus: Corpus, *roles: Role) -> Documents:
    """The notes of some roles."""
    return take(corpus.documents, np.flatnonzero(np.isin(corpus.role, roles)))


def reference_perplexity(corpus: Corpus, measured_on: Documents) -> float:
    """Of the 3-gram."""
    model = fit_kneser_ney(trigrams_of(with_role(corpus, Role.FIT, Role.UNLABELLED)), len(corpus.vocab))
    return float(np.exp(-np.log(model.probability(trigrams_of(measured_on))).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("language_model", type=Path, nargs="?")
    parser.add_argument("--role", choices=("report", "choose"), default="report", help="notes that are foreseen")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        given = (arguments.corpus, arguments.language_model) if arguments.language_model else of_demo(Path(folder))
        found = measured(load_corpus(given[0]), given[1], Role[arguments.role.upper()])
    print(
        json.dumps({"perplexity": found}) if arguments.json else "\n".join(f"{k:24} {v:.4f}" for k, v in found.items())
    )


def of_demo(folder: Path) -> tuple[Path, Path]:
    """The demo corpus and a small language model of it."""
    from plant.recipe.reading import load_recipe
    from plant.steps.prepare import Request, prepare_once
    from plant.steps.pretrain import PRETRAIN
    from plant.steps.single import made_at, opened_corpus

    recipe = load_recipe("plant", ["pretrain.embedding=64", "pretrain.hidden=128", "pretrain.epochs=1"])
    prepare_once(Request("demo"), folder / "corpus", recipe)
    made_at(folder / "lm", PRETRAIN, recipe, opened_corpus(folder / "corpus"))
    return folder / "corpus", folder / "lm"


def measured(corpus: Corpus, path: Path, role: Role) -> dict[str, float]:
    """Perplexities on the notes of a role; `ratio` is how many times lower than the 3-gram's the model's is."""
    from plant.nn.language.quantized import Int8AWDLSTM
    from plant.nn.language.store import load_language_model
    from plant.train.language_model import fluency

    model, notes = load_language_model(path), with_role(corpus, role)
    if model.vocab != corpus.vocab or not len(notes):
        raise SystemExit("the model must have the words of this corpus, and the corpus notes to foresee")
    reference, ours = reference_perplexity(corpus, notes), fluency(model, notes)
    model.network = Int8AWDLSTM(model.network)  # type: ignore[assignment]  # it reads in the same way
    rounded = fluency(model, notes)
    return {
        "ratio": reference / ours.perplexity,
        "lower_by_percent": 100 * (1 - ours.perplexity / reference),
        "three_gram": reference,
        "language_model": ours.perplexity,
        "accuracy": ours.accuracy,
        "language_model_int8": rounded.perplexity,
        "int8_loss_percent": 100 * (rounded.perplexity / ours.perplexity - 1),
        "foreseen": float(len(notes.tokens) + len(notes)),
    }


if __name__ == "__main__":
    main()
