"""A program that several processes run at once: small models trained together; the first writes their digests.

    python -m tests.trained_together OUT ENCODER,ENCODER ACCUMULATE [exact | labels]
    python -m tests.trained_together OUT ENCODER,ENCODER ACCUMULATE ray:ADDRESS      two processes of a Ray cluster

Instead of a classifier with an encoder, `language-model` is trained too.
$PLANT_KILL kills one process once: `sum:1` process 1 between backward and sum, `save:0` process 0 inside of a save.
`node:HEAD` lets one wait there for the end of its node, which it names, unless that is the head of the cluster.
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plant.cluster.pool import Call
from plant.cluster.training import train_on_ray
from plant.data.corpus import Role, gold_codes, held_out, training_view
from plant.nn.language.awd_lstm import AWDLSTM, LanguageModel
from plant.nn.language.transformer import Transformer, network_of, new_config
from plant.nn.parts.given import Given
from plant.nn.parts.table import ENCODERS
from plant.recipe.schema import Fit, Part, Pretrain, Recipe
from plant.steps.pretrain import pretrain
from plant.steps.relate import relate
from plant.systems.fit_classifier import fit_classifier
from plant.text.subwords import train_wordpiece
from plant.train import checkpoint
from plant.train.history import ClassifierEpoch
from plant.train.language_model import LanguageModelEpoch
from plant.train.loop import Runtime
from plant.train.seed import seeded
from plant.train.together import Together, ranked
from tests.made_up import corpus_of, notes_of

FIT = Fit(frozen_epochs=1, epochs=2, batch=4, patience=0, checkpoint_minutes=0.0)


def main(out: Path, encoders: Sequence[str], accumulate: int, exact: bool) -> None:
    torch.set_num_threads(1)
    with ranked(exact=exact, by_labels="labels" in sys.argv) as together:
        together = arranged(together, out)
        found = {encoder: digest_of(encoder, accumulate, together, out) for encoder in encoders}
        if together.rank == 0:
            out.write_text(json.dumps(found))


def process(out: str, encoders: Sequence[str], accumulate: int, kill: str) -> None:
    """What a process of a Ray cluster does."""
    os.environ["PLANT_KILL"] = kill
    main(Path(out), encoders, accumulate, False)


def digest_of(encoder: str, accumulate: int, together: Together, out: Path) -> dict[str, Any]:
    """Weights, and the losses of the epochs."""
    saved = out.with_name(f"{out.stem}-{encoder}.checkpoint")
    if encoder == "language-model":
        return language_model_of(accumulate, Runtime[LanguageModelEpoch](saved, together=together))
    corpus = corpus_of(notes_of(50))
    view = training_view(corpus)
    decoder = Part("planted", {"planted": False, "dropout": 0.3}) if encoder == "cnn" else Part("label-attention")
    options = {**ENCODERS.tiny(encoder), **({"dropout": 0.3} if encoder in ("cnn", "bilstm", "bigru") else {})}
    made = {
        "relevance": relate(view, Recipe().relate),
        "transformer": tiny_transformer() if encoder == "transformer" else None,
    }
    recipe = Recipe(encoder=Part(encoder, options), decoder=decoder, fit=replace(FIT, accumulate=accumulate))
    with seeded(3):
        language_model = LanguageModel(view.vocab, AWDLSTM(len(view.vocab), embedding=8, hidden=6, layers=2))
    given = Given(view.vocab, view.codes, view.codebook, view.label_shares(), language_model=language_model, **made)
    runtime = Runtime[ClassifierEpoch](saved, together=together)
    choosing = held_out(corpus, Role.CHOOSE, view.codes)
    fitted = fit_classifier(view, choosing, recipe, given, gold=gold_codes(corpus, Role.CHOOSE), runtime=runtime)
    return about(fitted.classifier, [epoch.loss for epoch in fitted.history])


def tiny_transformer() -> Transformer:
    """A BERT of random weights and sub-words of its own, dropout on (Hugging Face's tenth)."""
    cutter = train_wordpiece([note.text for note in notes_of(50)], size=120)
    config = new_config(len(cutter), hidden=16, layers=2, heads=2, positions=64)
    with seeded(4):
        return Transformer(config, cutter, network_of(config, {}).state_dict())


def language_model_of(accumulate: int, runtime: Runtime[LanguageModelEpoch]) -> dict[str, Any]:
    """Streams that end at different places, five of them in parts of three and two, and dev text that is measured."""
    corpus = corpus_of(notes_of(50))
    recipe = Pretrain(
        embedding=8, hidden=6, layers=2, epochs=2, batch=5, bptt=7, accumulate=accumulate, checkpoint_minutes=0.0
    )
    dev = held_out(corpus, Role.CHOOSE, training_view(corpus).codes)
    found = pretrain(training_view(corpus), recipe, dev=dev, runtime=runtime)
    measured = [epoch.perplexity or 0.0 for epoch in found.history]
    return about(found.model, [*(epoch.loss for epoch in found.history), *measured])


def about(model: nn.Module, losses: list[float]) -> dict[str, Any]:
    weights = hashlib.sha256()
    for tensor in model.state_dict().values():
        weights.update(tensor.numpy().tobytes())
    flat = torch.cat([tensor.double().flatten() for tensor in model.state_dict().values()])
    return {"weights": weights.hexdigest(), "losses": losses, "flat": flat.tolist()}


def arranged(together: Together, out: Path) -> Together:
    """The same processes, one of which will be killed where that is asked for and was not done."""
    what, _, rank = os.environ.get("PLANT_KILL", "").partition(":")
    mark = out.with_name("killed")
    if what == "node" and not mark.exists() and node_id() != rank:
        return Mortal(together, Waiting(mark, 5))
    if what in ("", "node") or int(rank) != together.rank or mark.exists():
        return together
    if what == "save":
        checkpoint.write_tensors = Dying(mark, 3)
        return together
    return Mortal(together, Dying(mark, 5))


class Dying:
    """At so many calls, the end."""

    def __init__(self, mark: Path, calls: int) -> None:
        self.mark, self.calls = mark, calls

    def __call__(self, path: Path, tensors: Any) -> None:
        self.calls -= 1
        if self.calls == 0:
            self.mark.touch()
            Path(path).write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        if tensors is not None:
            from plant.store.safetensors import write_tensors

            write_tensors(path, tensors)


class Waiting:
    """At so many calls the name of this node is written, for somebody to end it."""

    def __init__(self, mark: Path, calls: int) -> None:
        self.mark, self.calls = mark, calls

    def __call__(self, path: Path, tensors: Any) -> None:
        self.calls -= 1
        if self.calls == 0:
            self.mark.write_text(node_id())
            time.sleep(3600)


def node_id() -> str:
    """The node of a Ray cluster on which this process runs."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


class Mortal:
    """A process among others that is killed between backward and sum."""

    def __init__(self, inner: Together, dying: Dying | Waiting) -> None:
        self.inner, self.dying = inner, dying

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def rank(self) -> int:
        return self.inner.rank

    @property
    def size(self) -> int:
        return self.inner.size

    def computed(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        self.dying(self.dying.mark.with_name("half"), None)
        self.inner.computed(number, parameters)


def on_ray(address: str, out: Path, encoders: Sequence[str], accumulate: int) -> None:
    from tests.trained_together import process  # by a name that the nodes know

    kill = os.environ.pop("PLANT_KILL", "")
    part = Call(process, (str(out), tuple(encoders), accumulate, kill))
    train_on_ray(part, address, workers=2, most=2, room=out.parent)


if __name__ == "__main__":
    options = sys.argv[4:]
    out, encoders, accumulate = Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
    if options and options[0].startswith("ray:"):
        on_ray(options[0].removeprefix("ray:"), out, encoders, accumulate)
    else:
        main(out, encoders, accumulate, "exact" in options)
