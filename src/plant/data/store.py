"""A corpus on disk."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.codes.systems import strange_codes
from plant.data.corpus import Corpus, Documents, Role
from plant.data.notes import Source
from plant.data.splits import split_manifest
from plant.store.artifact import Artifact, Manifest, open_artifact, save_artifact
from plant.store.checks import check_length, check_numbers, check_starts, well_formed
from plant.store.strings import Strings
from plant.text.vocab import Vocab

KIND = "corpus"
FLAT = (
    "tokens", "token_starts", "labels", "label_starts", "char_starts", "char_ends",
    "evidence_labels", "evidence_spans", "evidence_starts", "text", "text_starts",
)  # fmt: skip


def save_corpus(
    corpus: Corpus,
    path: Path | str,
    *,
    recipe: Mapping[str, Any],
    inputs: Mapping[str, str] | None = None,
    source: Source | None = None,
) -> Manifest:
    """Write a corpus; texts, where kept, lie in the tensor file."""
    tensors = {name: getattr(corpus.documents, name) for name in FLAT} | {"split": corpus.split, "role": corpus.role}
    for name, strings in (("ids", Strings.of(corpus.documents.ids)), ("groups", Strings.of(corpus.groups))):
        tensors |= {name: strings.letters, f"{name}_starts": strings.starts}
    files = {
        "vocab.txt": "\n".join(corpus.vocab.tokens) + "\n",
        "codebook.jsonl": codebook_to_jsonl(corpus.codebook),
        "documents.json": json.dumps(_names(corpus)),
    }
    facts = corpus_facts(corpus, source)
    return save_artifact(path, KIND, tensors=tensors, files=files, recipe=recipe, inputs=inputs, facts=facts)


def load_corpus(path: Path | str) -> Corpus:
    """Open a corpus; its arrays are maps of the file."""
    artifact = open_artifact(path, KIND)
    with well_formed(path):
        corpus = _opened(artifact)
        _check(corpus)
    return corpus


def _opened(artifact: Artifact) -> Corpus:
    names = artifact.table("documents.json")
    flat: dict[str, Any] = {name: artifact.tensors[name] for name in FLAT}
    return Corpus(
        vocab=Vocab(tuple(artifact.text("vocab.txt").splitlines())),
        codebook=codebook_from_jsonl(artifact.text("codebook.jsonl")),
        codes=tuple(names["codes"]),
        documents=Documents(ids=_strings(artifact, names, "ids"), **flat),
        splits=tuple(names["splits"]),
        split=np.asarray(artifact.tensors["split"]),
        role=np.asarray(artifact.tensors["role"]),
        groups=_strings(artifact, names, "groups"),
        tokens_lost=artifact.manifest.facts["tokens_lost"],
        notes_cut=artifact.manifest.facts.get("notes_cut", 0),
    )


def _strings(artifact: Artifact, names: Mapping[str, Sequence[str]], name: str) -> Strings:
    """The ids or the groups; earlier versions kept them in the file of names."""
    if name in names:
        return Strings.of(names[name])
    letters, starts = np.asarray(artifact.tensors[name]), np.asarray(artifact.tensors[f"{name}_starts"])
    check_starts(f"{name}_starts", starts, len(letters), rows=len(artifact.tensors["role"]))
    return Strings(letters, starts)


def _check(corpus: Corpus) -> None:
    """Refuse arrays that do not belong together: everything below trusts them."""
    documents, n_codes = corpus.documents, len(corpus.codes)
    for name, values in (("token", documents.tokens), ("label", documents.labels), ("text", documents.text),
                         ("evidence", documents.evidence_labels)):  # fmt: skip
        check_starts(f"{name}_starts", getattr(documents, f"{name}_starts"), len(values), rows=len(documents))
    for name in ("char_starts", "char_ends"):
        check_length(name, getattr(documents, name), len(documents.tokens))
    for name, numbers, below in (
        ("tokens", documents.tokens, len(corpus.vocab)),
        ("labels", documents.labels, n_codes),
        ("evidence_labels", documents.evidence_labels, n_codes),
        ("split", corpus.split, len(corpus.splits)),
        ("role", corpus.role, len(Role)),
    ):
        check_numbers(name, numbers, below)
    check_length("split", corpus.split, len(documents))
    check_length("role", corpus.role, len(documents))


def _names(corpus: Corpus) -> dict[str, Sequence[str]]:
    return {"codes": corpus.codes, "splits": corpus.splits}


def corpus_facts(corpus: Corpus, source: Source | None = None) -> dict[str, Any]:
    """What a person wants to know of a corpus first, and what names its splits."""
    name = source.name.encode(errors="replace").decode() if source else "notes"  # bytes of a file's name may be any
    notes = Counter(corpus.splits[number] for number in corpus.split)
    roles = Counter(Role(role).name.lower() for role in corpus.role)
    parts = [f"{corpus.splits[n]}:{Role(r).name.lower()}" for n, r in zip(corpus.split, corpus.role, strict=True)]
    strange = len(strange_codes(corpus.codes, corpus.codebook.system))
    return {
        "source": name,
        "left_out": dict(source.facts) if source else {},
        "notes": {name: notes[name] for name in corpus.splits},
        "roles": dict(sorted(roles.items())),
        "codes": len(corpus.codes),
        **({"local_codes": strange, "system": corpus.codebook.system} if strange else {}),
        "tokens": int(corpus.documents.token_starts[-1]),
        "tokens_lost": corpus.tokens_lost,
        **({"notes_cut": corpus.notes_cut} if corpus.notes_cut else {}),  # without it, digests are as they were
        "vocabulary": len(corpus.vocab),
        "split_manifest": split_manifest(name, corpus.documents.ids, parts).to_dict(),
    }
