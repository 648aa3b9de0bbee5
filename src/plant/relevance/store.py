"""Relevance on disk, with the words and codes that its numbers stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.errors import ArtifactError
from plant.relevance.mutual_information import Form
from plant.relevance.relevance import Relevance
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.checks import check_count, check_finite, check_length, check_numbers, check_shape, well_formed
from plant.store.keeper import Kind
from plant.text.vocab import Vocab

Thing = TypeVar("Thing")

KIND = "relevance"
VOCAB, CODES = "vocab.txt", "codes.jsonl"
ARRAYS = ("tokens", "scores", "label_counts", "token_counts")


@dataclass(frozen=True)
class Named(Generic[Thing]):
    """A thing of tokens and labels, with the readable files that name them."""

    thing: Thing
    files: Mapping[str, str]

    @property
    def vocab(self) -> Vocab:
        """The words that the tokens stand for."""
        return Vocab(tuple(self.files[VOCAB].split("\n")[:-1]))

    @property
    def codebook(self) -> CodeBook:
        """The codes that the labels stand for, in their order."""
        return codebook_from_jsonl(self.files[CODES])


def save_relevance(
    named: Named[Relevance],
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Manifest:
    """Write the lists, and the names of their tokens and labels as readable files."""
    relevance = named.thing
    facts = {
        "form": relevance.form,
        "notes": relevance.n_documents,
        "codes": len(relevance.codes),
        "vocabulary": relevance.n_tokens,
        "keep": relevance.tokens.shape[1],
    }
    tensors = {name: getattr(relevance, name) for name in ARRAYS}
    return save_artifact(path, KIND, tensors=tensors, files=named.files, recipe=recipe, inputs=inputs, facts=facts)


def load_relevance(path: Path | str) -> Named[Relevance]:
    """Open what `save_relevance` wrote; the lists are maps of the file."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        files = {name: artifact.text(name) for name in (VOCAB, CODES)}
        relevance = Relevance(
            codes=codebook_from_jsonl(files[CODES]).codes,
            n_documents=check_count("notes", artifact.manifest.facts["notes"]),
            form=artifact.manifest.facts["form"],
            **{name: artifact.tensors[name] for name in ARRAYS},
        )
        named = Named(relevance, files)
        _check(named)
    return named


def _check(named: Named[Relevance]) -> None:
    """Refuse lists that do not belong together, or to the words and codes that name them."""
    relevance, codes = named.thing, len(named.thing.codes)
    check_length("tokens", relevance.tokens, codes)
    check_numbers("tokens", relevance.tokens, relevance.n_tokens, axes=2)
    check_shape("scores", relevance.scores, relevance.tokens.shape)
    check_shape("label_counts", relevance.label_counts, (codes,), "iu")
    check_shape("token_counts", relevance.token_counts, (len(named.vocab),), "iu")
    check_finite({"scores": relevance.scores})
    if relevance.form not in get_args(Form):
        raise ArtifactError("the form of the folder's information is none that is known: make it again")


RELEVANCE = Kind(KIND, save_relevance, load_relevance)


def name_files(vocab: Vocab, codebook: CodeBook, codes: tuple[str, ...]) -> dict[str, str]:
    """The side files that name tokens and labels: words in order, and the code book of just these codes."""
    book = CodeBook(
        system=codebook.system,
        codes=codes,
        descriptions={code: codebook.description(code) for code in codes if codebook.description(code)},
    )
    return {VOCAB: "\n".join(vocab.tokens) + "\n", CODES: codebook_to_jsonl(book)}
