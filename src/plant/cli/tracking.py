"""A run told to MLflow or TensorBoard, where somebody asks: knobs, figures, epochs of networks; nothing of a note."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from plant.errors import InputError

if TYPE_CHECKING:
    from plant.recipe.schema import Recipe
    from plant.steps.run import Run

LONGEST = 250  # characters of a value that MLflow takes
NAME = str.maketrans({"@": " at ", "(": "", ")": "", "+": " plus "})  # what MLflow does not take in names


def mlflow_of() -> Any:
    """The package, told to be missing before hours of work rather than after."""
    try:
        import mlflow
    except ImportError as error:
        raise InputError("--mlflow needs MLflow: pip install mlflow") from error
    return mlflow


def check_tensorboard() -> None:
    """Tell that the package is missing before hours of work rather than in their first epoch."""
    if find_spec("tensorboard") is None:
        raise InputError("--tensorboard needs TensorBoard: pip install tensorboard")


def tell_mlflow(mlflow: Any, uri: str, done: "Run", recipe: "Recipe", name: str) -> None:
    """Write one run: its recipe as parameters, its report and its epochs as metrics."""
    from plant.recipe.origins import flat
    from plant.recipe.reading import recipe_table

    try:
        mlflow.set_tracking_uri(uri)
        with mlflow.start_run(run_name=name):
            mlflow.log_params({key: str(value)[:LONGEST] for key, value in flat(recipe_table(recipe))})
            for measure, value in _figures(done).items():
                mlflow.log_metric(measure.translate(NAME), value)
            for measure, value, epoch in _epochs(done.coder.facts.get("history", {})):
                mlflow.log_metric(measure.translate(NAME), value, step=epoch)
    except Exception as error:  # whatever a server, a proxy or a database has to complain of
        raise InputError(f"MLflow could not be told ({type(error).__name__}); the run itself is whole") from error


def _figures(done: "Run") -> Mapping[str, float]:
    if done.report is None:
        return {}
    return {measure: float(value.value) for measure, value in done.report.measures.items()}


def _epochs(history: Mapping[str, Any]) -> Iterator[tuple[str, float, int]]:
    for member, epochs in history.items():
        for epoch in epochs:
            yield f"{member} loss", float(epoch["loss"]), int(epoch["number"])
            for measure, value in epoch["measures"].items():
                yield f"{member} choosing {measure}", float(value), int(epoch["number"])
