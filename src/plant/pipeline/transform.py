"""Further training of a transformer on disk: on the text of a corpus, and on more text."""

from dataclasses import asdict

from plant.errors import RecipeError
from plant.pipeline.texts import Job, Lesson, train_once
from plant.stages.transform import KIND, Transformed, inputs_of, load_transformed, save_transformed, transform


def transform_once(job: Job) -> Transformed:
    """Train the recipe's transformer, unless it is there already; `encoder.folder` may then name it."""
    recipe = job.recipe
    if not recipe.masked.epochs:
        raise RecipeError("this recipe does not train its transformer further: use --set masked.epochs=3")

    def train(lesson: Lesson) -> Transformed:
        return transform(lesson.view, recipe, more=lesson.more, dev=lesson.dev, runtime=lesson.runtime)

    table = {"masked": asdict(recipe.masked), "seed": recipe.seed}
    return train_once(
        job,
        recipe.masked,
        train,
        inputs={**job.inputs(), **inputs_of(recipe)},
        kind=KIND,
        save=lambda made, path, inputs: save_transformed(made, path, recipe=table, inputs=inputs),
        load=load_transformed,
    )
