"""Pretraining on disk: a language model of a corpus, of more text, and from the starting point that the user has."""

from dataclasses import asdict, dataclass

from plant.errors import InputError
from plant.nn.language.awd_lstm import LanguageModel
from plant.nn.language.published import read_published
from plant.nn.language.store import KIND, load_language_model
from plant.pipeline.texts import Job, Lesson, train_once
from plant.recipe.schema import Pretrain
from plant.stages.pretrain import Pretrained, load_pretrained, pretrain, save_pretrained
from plant.store.artifact import read_manifest
from plant.store.keeper import digest_of


@dataclass(frozen=True)
class Start:
    """Where a model starts: at random, from an earlier model, or from the published weights and words."""

    model: str = ""
    published: tuple[str, str] | None = None

    def load(self, recipe: Pretrain) -> LanguageModel | None:
        """The model to start from, None for a random start."""
        if self.model and self.published:
            raise InputError("--start and --published exclude each other: a model starts from one of them")
        if self.published:
            return read_published(*self.published, direction=recipe.direction)
        return load_language_model(self.model) if self.model else None


def pretrain_once(job: Job, *, start: Start = Start()) -> Pretrained:  # noqa: B008  # frozen
    """Train the language model of a corpus and of more texts, unless one of the same things is there."""
    recipe = job.recipe.pretrain

    def train(lesson: Lesson) -> Pretrained:
        return pretrain(
            lesson.view,
            recipe,
            seed=job.recipe.seed,
            more=lesson.more,
            dev=lesson.dev,
            start=start.load(recipe),
            runtime=lesson.runtime,
        )

    table = {"pretrain": asdict(recipe), "seed": job.recipe.seed}
    return train_once(
        job,
        recipe,
        train,
        inputs=_inputs(job, start),
        kind=KIND,
        save=lambda made, path, inputs: save_pretrained(made, path, recipe=table, inputs=inputs),
        load=load_pretrained,
    )


def _inputs(job: Job, start: Start) -> dict[str, str]:
    """Digests of everything that decides the model."""
    recipe = job.recipe
    decided = {"pretrain": asdict(recipe.pretrain), "prepare": asdict(recipe.prepare), "seed": recipe.seed}
    earlier = {"start": read_manifest(start.model).digest} if start.model else {}
    return {**job.inputs(*(start.published or ())), "recipe": digest_of(decided), **earlier}
