"""170,000 labels on one machine: training steps of the planted decoder, then ranked codes with evidence.

    python benchmarks/labels.py [--json] [--labels 170000] [--notes 8] [--length 1500]

Made-up notes and relevance, a convolution of 400 filters, static and planted attention, AdamW with all its states. What
runs is what `plant run` and `plant predict` run. `ratio` is 24 GB over the peak memory of the whole process.
"""

import argparse
import json
import resource
import time
from dataclasses import replace

import numpy as np
import torch
from decoder import N_TOKENS, made_up_relevance
from inference import made_up_notes

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents
from plant.evaluate.choosing.judge import judge_on
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.nn.planting.ranker import RANKERS
from plant.recipe.schema import Fit, Part, Recipe
from plant.store.ragged import offsets
from plant.systems.classifier import ClassifierSystem
from plant.systems.coder import FittedCoder
from plant.text.vocab import Vocab
from plant.train.classifier import Notes, train_classifier

CODES_PER_NOTE, LISTED, MACHINE = 15, 1_000, 24_000
RECIPE = Recipe(
    encoder=Part("cnn", {"embedding": 100, "filters": 400, "kernels": (5,)}),
    decoder=Part("planted"),
    fit=Fit(epochs=1, batch=4),
)


def given_for(n_labels: int) -> Given:
    relevance = made_up_relevance(np.random.default_rng(0), n_labels, LISTED)
    codes = tuple(f"C{label}" for label in range(n_labels))
    vocab = Vocab(tuple(f"w{token}" for token in range(N_TOKENS)))
    ranker = RANKERS.build("bilinear", {}, n_tokens=N_TOKENS, n_labels=n_labels)
    return Given(vocab, codes, CodeBook("other", (), {}), np.full(n_labels, 1e-4, np.float32), relevance, ranker)


def labelled(notes: Documents, n_labels: int) -> Documents:
    """The notes with random codes, and words of one letter as their text."""
    random = np.random.default_rng(0)
    rows = [np.sort(random.choice(n_labels, CODES_PER_NOTE, replace=False)) for _ in range(len(notes))]
    places = np.concatenate([np.arange(length, dtype=np.int32) for length in np.diff(notes.token_starts)])
    return replace(
        notes,
        labels=np.concatenate(rows).astype(np.int32), label_starts=offsets([CODES_PER_NOTE] * len(notes)),
        char_starts=places, char_ends=places + 1,
        text=np.full(len(notes.tokens), ord("w"), np.uint8), text_starts=notes.token_starts,
    )  # fmt: skip


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(*, n_labels: int, notes: int, length: int) -> dict[str, float]:
    torch.manual_seed(0)
    given, documents = given_for(n_labels), labelled(made_up_notes(notes, length), n_labels)
    classifier = build_classifier(RECIPE, given)
    built = megabytes()
    gold = [tuple(given.codes[label] for label in documents.labels_of(row)) for row in range(notes)]
    started = time.perf_counter()
    history = train_classifier(
        classifier, Notes(documents, documents, n_labels, judge_on(documents, given.codes, gold)), RECIPE.fit, seed=1
    )
    trained, peak_training = time.perf_counter() - started, megabytes()
    predicted = coded(ClassifierSystem(RECIPE, classifier, given), documents)
    return {
        "parameters": sum(parameter.numel() for parameter in classifier.parameters()),
        "megabytes built": built,
        "megabytes in training": peak_training,
        "megabytes at the end": megabytes(),
        "seconds a note, training step": history[0].seconds / notes,
        "seconds, training with measures": trained,
        "seconds a note, codes with evidence": predicted / notes,
    }


def coded(model: ClassifierSystem, documents: Documents) -> float:
    """Seconds for the 15 best codes of each note with the words that speak for them."""
    n_labels = len(model.given.codes)
    coder = FittedCoder(
        recipe=RECIPE, vocab=model.given.vocab, codebook=model.given.codebook,
        codes=model.given.codes, system=model, thresholds=np.full(n_labels, 0.5, np.float32), temperature=1.0,
        train_counts=np.zeros(n_labels, np.int64), train_documents=0, facts={},
    )  # fmt: skip
    started = time.perf_counter()
    predictions = coder.code(documents, top=15)
    assert all(len(prediction.ranked) >= 15 and prediction.ranked[0].evidence for prediction in predictions)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--labels", type=int, default=170_000)
    parser.add_argument("--notes", type=int, default=8)
    parser.add_argument("--length", type=int, default=1_500)
    arguments = parser.parse_args()
    found = measured(n_labels=arguments.labels, notes=arguments.notes, length=arguments.length)
    result = {"labels": {"ratio": MACHINE / found["megabytes at the end"], "labels": arguments.labels, **found}}
    rows = [f"{name:40} {value:14,.2f}" for name, value in result["labels"].items()]
    print(json.dumps(result) if arguments.json else "\n".join(rows))


if __name__ == "__main__":
    main()
