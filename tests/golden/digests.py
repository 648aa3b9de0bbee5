"""Write down what `plant` predicts on a small corpus, recipe by recipe: run it before and after a change of structure.

    python tests/golden/digests.py FOLDER            prints a JSON table: recipe -> digests

Everything goes through the command line, so that the program runs on any version. Bits depend on the processor and on
the versions of libraries: compare digests made on one machine.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

RECIPES = ("prior", "tfidf", "plant-demo", "plant-cnn", "interaction", "plant-interaction", "caml-small", "plant")
NOTES = 240
QUICK = ("fit.epochs=2", "fit.frozen_epochs=1", "rank.epochs=5", "pretrain.epochs=1", "prepare.min_count=1")


def write_corpus(path: Path) -> None:
    """The first notes of the embedded corpus with their marks, as JSON lines."""
    from plant.data.sources import open_source

    notes = (note for _, note in zip(range(NOTES), open_source("demo").notes(), strict=False))
    with path.open("w", encoding="utf-8") as file:
        for number, note in enumerate(notes):
            marks = [
                {"start": s.start, "end": s.end, "label": code} for code, spans in note.evidence.items() for s in spans
            ]
            split = ("train", "train", "train", "dev", "test")[number % 5]
            row = {"id": note.id, "text": note.text, "codes": list(note.codes), "split": split, "evidence": marks}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def plant(*arguments: str) -> str:
    """What a `plant` command prints on standard output, with one thread."""
    program = "from plant.cli.main import main; main()"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def digests(recipe: str, corpus: Path, out: Path) -> dict[str, str]:
    """Digests of the scores of the reported notes, and of the predictions with evidence of all notes."""
    changes = [word for change in QUICK for word in ("--set", change)]
    plant("run", str(corpus), "--recipe", recipe, "--out", str(out), *changes)
    predicted = plant("predict", str(out / "coder"), str(corpus))
    return {
        "scores": digest((out / "predictions" / "tensors.safetensors").read_bytes()),
        "evidence": digest(predicted.encode()),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "notes.jsonl"
    write_corpus(corpus)
    print(json.dumps({recipe: digests(recipe, corpus, folder / recipe) for recipe in RECIPES}, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
