"""Relevance on disk, with the words and codes that its numbers stand for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.relevance.relevance import Relevance
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.text.vocab import Vocab

KIND = "relevance"
VOCAB, CODES = "vocab.txt", "codes.jsonl"
ARRAYS = ("tokens", "scores", "label_counts", "token_counts")


def save_relevance(
    relevance: Relevance,
    path: Path | str,
    *,
    vocab: Vocab,
    codebook: CodeBook,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Manifest:
    """Write the lists, and the names of their tokens and labels as readable files."""
    facts = {
        "form": relevance.form,
        "notes": relevance.n_documents,
        "codes": len(relevance.codes),
        "vocabulary": relevance.n_tokens,
        "keep": relevance.tokens.shape[1],
    }
    tensors = {name: getattr(relevance, name) for name in ARRAYS}
    files = name_files(vocab, codebook, relevance.codes)
    return save_artifact(path, KIND, tensors=tensors, files=files, recipe=recipe, inputs=inputs, facts=facts)


def load_relevance(path: Path | str) -> Relevance:
    """Open what `save_relevance` wrote; the lists are maps of the file."""
    artifact = open_artifact(path, KIND)
    return Relevance(
        codes=codebook_from_jsonl(artifact.text(CODES)).codes,
        n_documents=artifact.manifest.facts["notes"],
        form=artifact.manifest.facts["form"],
        **{name: artifact.tensors[name] for name in ARRAYS},
    )


def name_files(vocab: Vocab, codebook: CodeBook, codes: tuple[str, ...]) -> dict[str, str]:
    """The side files that name tokens and labels: words in order, and the code book of just these codes."""
    book = CodeBook(
        system=codebook.system,
        codes=codes,
        descriptions={code: codebook.description(code) for code in codes if codebook.description(code)},
    )
    return {VOCAB: "\n".join(vocab.tokens) + "\n", CODES: codebook_to_jsonl(book)}


def load_names(path: Path | str) -> tuple[Vocab, CodeBook]:
    """The words and codes of an artifact that `name_files` went into; the code book's order is that of the labels."""
    artifact = open_artifact(path)
    return Vocab(tuple(artifact.text(VOCAB).split("\n")[:-1])), codebook_from_jsonl(artifact.text(CODES))
