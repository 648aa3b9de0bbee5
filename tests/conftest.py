"""What many tests share: where the corpora lie, and small made-up data."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

from tests.checks import check_annotations, without_checks

if TYPE_CHECKING:
    from tests.postgres import Server

check_annotations("plant")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of the real corpora; tests that ask for it are skipped where it is not."""
    named = os.environ.get("PLANT_CORPORA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpora"
    if not folder.is_dir():
        pytest.skip("needs the corpora: set PLANT_CORPORA")
    return folder


@pytest.fixture(scope="session")
def postgresql() -> Iterator["Server"]:
    """A PostgreSQL server; tests that ask for it are skipped where there is none to be had."""
    from tests.postgres import running_server, why_not

    if missing := why_not():
        pytest.skip(missing)
    with running_server() as server:
        yield server


@pytest.fixture
def unchecked() -> Iterator[None]:
    """For errors that a user meets who gives a wrong type, and for what takes ten times as long when it is checked."""
    with without_checks():
        yield


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same random tensors, whatever ran before it."""
    torch.manual_seed(0)


settings.register_profile("plant", deadline=None)  # compiled kernels make the first example slow
settings.load_profile("plant")
torch.set_num_threads(1)  # two workers share two cores; threads that wait for one another only cost
