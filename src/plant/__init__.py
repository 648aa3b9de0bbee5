"""Read a long text, name the right codes out of thousands, and show the words that made the decision.

    from plant import Coder

    coder = Coder("plant").fit(texts, codes)
    coder.predict(["Admitted with chest pain ..."])[0].ranked[0]

What stands here is what users call; everything else may move between versions.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plant.kernels import find_room

if TYPE_CHECKING:
    from plant.coder import Coder
    from plant.codes.codebook import CodeBook
    from plant.codes.files import read_codebook
    from plant.errors import PlantError
    from plant.recipe.reading import load_recipe
    from plant.recipe.schema import Recipe
    from plant.types import Evidence, Note, Prediction, ScoredCode, Span

__version__ = "0.2.0"
__all__ = ["CodeBook", "Coder", "Evidence", "Note", "PlantError", "Prediction", "Recipe", "ScoredCode", "Span",
           "__version__", "load_recipe", "read_codebook"]  # fmt: skip

_HOMES = {
    "CodeBook": "plant.codes.codebook",
    "Coder": "plant.coder",
    "Evidence": "plant.types",
    "Note": "plant.types",
    "PlantError": "plant.errors",
    "Prediction": "plant.types",
    "Recipe": "plant.recipe.schema",
    "ScoredCode": "plant.types",
    "Span": "plant.types",
    "load_recipe": "plant.recipe.reading",
    "read_codebook": "plant.codes.files",
}
find_room(os.environ)  # numba reads it when it is imported, and it is not yet


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import plant` alone loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'plant' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
