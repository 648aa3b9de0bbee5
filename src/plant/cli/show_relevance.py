"""`plant show relevance`: the best words of a code, by mutual information and by the ranker, and the ranker's nDCG."""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plant.cli.console import print_table, say
from plant.errors import InputError, unknown

if TYPE_CHECKING:
    from plant.nn.planting.ranker_store import TrainedRanker
    from plant.relevance.relevance import Relevance


@dataclass(frozen=True)
class Word:
    """A word of a code's list with its score."""

    word: str
    score: float


@dataclass(frozen=True)
class CodeWords:
    """The best words of one code; `by_ranker` and `ndcg` are empty without a ranker."""

    code: str
    description: str
    notes: int
    by_information: tuple[Word, ...]
    by_ranker: tuple[Word, ...]
    ndcg: dict[str, float]


@dataclass(frozen=True)
class Bin:
    """How well the codes of a frequency bin are ranked: mean nDCG at each cutoff."""

    fitted_notes: str
    codes: int
    ndcg: dict[str, float]


def add_relevance_options(parser: argparse.ArgumentParser) -> None:
    """`--code` and `--top`; path, --json and --plot are those of `plant show`."""
    parser.add_argument("--code", metavar="CODE", help="the code whose best words are shown")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="how many words of the code (default: 15)")


def show_relevance(arguments: argparse.Namespace) -> None:
    """Print the best words of `--code`, then the ranker's nDCG by frequency bin; draw them with `--plot`."""
    from plant.relevance.store import load_relevance

    if arguments.top < 1:
        raise InputError(f"--top {arguments.top}: at least one word is shown")
    folder, ranker_folder = _folders(Path(arguments.path))
    named = load_relevance(folder)
    relevance = named.thing
    trained = _ranker(ranker_folder, relevance)
    words = None
    if arguments.code:
        label = _label(arguments.code, relevance.codes)
        description = named.codebook.description(arguments.code)
        words = code_words(relevance, trained, label, named.vocab.tokens, description=description, top=arguments.top)
    bins = quality_by_frequency(trained, relevance) if trained else ()
    if arguments.json:
        content = {"code": asdict(words) if words else None, "ranker": [asdict(row) for row in bins]}
        print(json.dumps(content, ensure_ascii=False))
    else:
        _print(words, bins, relevance)
    if arguments.plot:
        from plant.cli.relevance_plots import draw_relevance

        draw_relevance(words, bins, trained.curve if trained else (), Path(arguments.plot))
        say(f"drawn: {arguments.plot}")


def code_words(
    relevance: "Relevance",
    trained: "TrainedRanker | None",
    label: int,
    words: tuple[str, ...],
    *,
    description: str,
    top: int,
) -> CodeWords:
    """The best words of a label over the whole vocabulary, by both ways of ranking."""
    listed = int((relevance.scores[label] > 0).sum())
    tokens, scores = relevance.tokens[label, :listed][:top], relevance.scores[label, :listed][:top]
    return CodeWords(
        code=relevance.codes[label],
        description=description,
        notes=int(relevance.label_counts[label]),
        by_information=tuple(Word(words[t], float(s)) for t, s in zip(tokens, scores, strict=True)),
        by_ranker=_best_by_ranker(trained, label, words, top) if trained else (),
        ndcg=_named(trained.ndcg[label]) if trained else {},
    )


def quality_by_frequency(trained: "TrainedRanker", relevance: "Relevance") -> tuple[Bin, ...]:
    """Mean nDCG of the labels of each training-frequency bin that has any, then of all."""
    from plant.evaluate.measures.bins import BIN_ENDS, BIN_NAMES

    bin_of = np.searchsorted(BIN_ENDS, relevance.label_counts)
    groups = [(name, bin_of == number) for number, name in enumerate(BIN_NAMES) if (bin_of == number).any()]
    groups.append(("all", np.ones(len(bin_of), dtype=bool)))
    return tuple(Bin(name, int(mine.sum()), _named(trained.ndcg[mine].mean(0))) for name, mine in groups)


def print_quality(bins: tuple[Bin, ...]) -> None:
    """nDCG by frequency bin, as a table."""
    header = ["fitted notes", "codes", *(bins[0].ndcg if bins else ())]
    print_table(header, [[row.fitted_notes, row.codes, *row.ndcg.values()] for row in bins])


def _print(words: CodeWords | None, bins: tuple[Bin, ...], relevance: "Relevance") -> None:
    if words:
        print(f"{words.code}  {words.description}  ({words.notes:,} of {relevance.n_documents:,} fitted notes)")
        print_table(*_side_by_side(words))
    else:
        say("give --code to see the words of a code")
    if bins:
        print("\nnDCG of the ranker over the whole vocabulary:")
        print_quality(bins)


def _side_by_side(words: CodeWords) -> tuple[list[str], list[list[object]]]:
    columns = [words.by_information, words.by_ranker] if words.by_ranker else [words.by_information]
    header = ["", "by mutual information", "score", "by the ranker", "score"][: 1 + 2 * len(columns)]
    rows: list[list[object]] = []
    for place in range(max(len(column) for column in columns)):
        entries = [column[place] if place < len(column) else Word("", float("nan")) for column in columns]
        cells = [[entry.word, entry.score if entry.word else ""] for entry in entries]
        rows.append([place + 1, *(cell for pair in cells for cell in pair)])
    return header, rows


def _best_by_ranker(trained: "TrainedRanker", label: int, words: tuple[str, ...], top: int) -> tuple[Word, ...]:
    import torch

    with torch.no_grad():
        scores = trained.ranker.scores(torch.arange(len(words)), torch.tensor([label]))[0]
    order = scores.argsort(descending=True, stable=True)[:top].tolist()
    return tuple(Word(words[token], float(scores[token])) for token in order)


def _named(values: np.ndarray) -> dict[str, float]:
    from plant.nn.planting.ranker_store import CUTOFFS

    return {f"nDCG@{k}": float(value) for k, value in zip(CUTOFFS, values, strict=True)}


def _folders(path: Path) -> tuple[Path, Path | None]:
    """The relevance and, if there is one, the ranker: of a run, or either of them and the other one beside it."""
    from plant.store.artifact import is_artifact

    is_relevance, is_ranker = is_artifact(path, "relevance"), is_artifact(path, "ranker")
    run = path.parent if is_relevance or is_ranker else path
    ranker = path if is_ranker else run / "ranker"
    return path if is_relevance else run / "relevance", ranker if is_artifact(ranker, "ranker") else None


def _ranker(folder: Path | None, relevance: "Relevance") -> "TrainedRanker | None":
    """The ranker, if its labels and tokens are those of the relevance."""
    if folder is None:
        return None
    from plant.nn.planting.ranker_store import load_ranker

    trained = load_ranker(folder).thing
    shape = (len(trained.ranker.token_vectors), len(trained.ranker.label_vectors))
    if shape != (relevance.n_tokens, len(relevance.codes)):
        raise InputError(f"{folder} was not trained on this relevance: run `plant rank` again")
    return trained


def _label(code: str, codes: tuple[str, ...]) -> int:
    if code not in codes:
        near = [known for known in codes if known[:2] == code[:2]] or list(codes[:20])
        raise InputError(unknown("code (no fitted note has it):", code, near[:40]))
    return codes.index(code)
