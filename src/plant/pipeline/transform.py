"""Further training of a transformer on disk: on the text of a corpus, and on more text."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from plant.artifact import read_manifest
from plant.data.corpus import training_view
from plant.data.store import load_corpus
from plant.errors import RecipeError
from plant.keeper import InFolder, digest_of
from plant.pipeline.prepare import fingerprint
from plant.pipeline.pretrain import dev_text, further_text
from plant.recipe import Recipe
from plant.stages.pretrain import more_text
from plant.stages.transform import KIND, Transformed, inputs_of, load_transformed, save_transformed, transform
from plant.train.masked import Epoch
from plant.types import Progress, silent


def transform_once(
    corpus_path: Path,
    out: Path,
    recipe: Recipe,
    *,
    texts: Sequence[str] = (),
    text_column: str = "",
    device: str = "cpu",
    told: Callable[[str], None] = lambda sentence: None,
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> Transformed:
    """Train the recipe's transformer into `out`, unless it is there already; `encoder.folder` may then name it."""
    if not recipe.masked.epochs:
        raise RecipeError("this recipe does not train its transformer further: use --set masked.epochs=3")
    files = {"files": digest_of([*map(fingerprint, texts), text_column])} if texts else {}
    inputs = {"corpus": read_manifest(corpus_path, "corpus").digest, **inputs_of(recipe), **files}
    keeper = InFolder(out.parent, told=lambda name, new: told(f"{'written' if new else 'already there'}: {out}"))

    def make() -> Transformed:
        corpus = load_corpus(corpus_path)
        return transform(
            training_view(corpus),
            recipe,
            more=[*more_text(corpus, recipe.masked), *further_text(texts, text_column, corpus, recipe, told)],
            dev=None if recipe.masked.held_out_text else dev_text(corpus),
            checkpoint=keeper.checkpoint(out.name, inputs),
            device=device,
            log=log,
            progress=progress,
        )

    table = {"masked": asdict(recipe.masked), "seed": recipe.seed}
    return keeper.once(
        out.name,
        inputs,
        make,
        kind=KIND,
        save=lambda made, path, inputs: save_transformed(made, path, recipe=table, inputs=inputs),
        load=load_transformed,
    )
