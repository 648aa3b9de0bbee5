"""A corpus on disk."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plant.artifact import Manifest, open_artifact, save_artifact
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.data.corpus import Corpus, Documents, Role
from plant.data.splits import split_manifest
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
    source: str = "",
) -> Manifest:
    """Write a corpus; texts, where kept, lie in the tensor file."""
    tensors = {name: getattr(corpus.documents, name) for name in FLAT} | {"split": corpus.split, "role": corpus.role}
    files = {
        "vocab.txt": "\n".join(corpus.vocab.tokens) + "\n",
        "codebook.jsonl": codebook_to_jsonl(corpus.codebook),
        "documents.json": json.dumps({"ids": corpus.documents.ids, "groups": corpus.groups, "codes": corpus.codes}),
    }
    facts = corpus_facts(corpus, source)
    return save_artifact(path, KIND, tensors=tensors, files=files, recipe=recipe, inputs=inputs, facts=facts)


def load_corpus(path: Path | str) -> Corpus:
    """Open a corpus; its arrays are maps of the file."""
    artifact = open_artifact(path, KIND)
    names = json.loads(artifact.text("documents.json"))
    flat = {name: artifact.tensors[name] for name in FLAT}
    return Corpus(
        vocab=Vocab(tuple(artifact.text("vocab.txt").splitlines())),
        codebook=codebook_from_jsonl(artifact.text("codebook.jsonl")),
        codes=tuple(names["codes"]),
        documents=Documents(ids=tuple(names["ids"]), **flat),
        splits=tuple(artifact.manifest.facts["notes"]),
        split=np.asarray(artifact.tensors["split"]),
        role=np.asarray(artifact.tensors["role"]),
        groups=tuple(names["groups"]),
        tokens_lost=artifact.manifest.facts["tokens_lost"],
    )


def corpus_facts(corpus: Corpus, source: str = "") -> dict[str, Any]:
    """What a person wants to know of a corpus first, and what names its splits."""
    notes = Counter(corpus.splits[number] for number in corpus.split)
    roles = Counter(Role(role).name.lower() for role in corpus.role)
    splits = [corpus.splits[number] for number in corpus.split]
    return {
        "source": source,
        "notes": {name: notes[name] for name in corpus.splits},
        "roles": dict(sorted(roles.items())),
        "codes": len(corpus.codes),
        "tokens": int(corpus.documents.token_starts[-1]),
        "tokens_lost": corpus.tokens_lost,
        "vocabulary": len(corpus.vocab),
        "split_manifest": split_manifest(corpus.documents.ids, splits).to_dict(),
    }
