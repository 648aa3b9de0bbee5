"""A small coder and its desk, for tests of the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from plant import CodeBook, Coder
from plant.serve.access import Access
from plant.serve.app import new_app, new_desk
from plant.serve.desk import Desk
from plant.serve.limits import Limits
from plant.serve.reader import Reader
from plant.serve.store import Store

NAMES = {
    "R05": ("Cough", ("dry cough",)),
    "S62": ("Fracture of the wrist", ("broken wrist",)),
    "I10": ("Essential hypertension", ("high blood pressure",)),
    "N17": ("Acute kidney failure", ("acute kidney injury",)),
}
TEXTS = (
    "fever and a dry cough for the week",
    "she fell on ice, broken wrist on the left",
    "known high blood pressure, treated for years",
    "acute kidney injury with high blood pressure",
    "cough and fever, no broken wrist seen",
    "kidney injury in the summer, creatinine rose",
)
CODES = (["R05"], ["S62"], ["I10"], ["N17", "I10"], ["R05"], ["N17"])
NOTE = "HISTORY:\nThe patient had a dry cough and fever. No broken wrist.\n\nCOURSE:\nAcute kidney injury was seen."


def small_coder() -> Reader:
    """A TF-IDF coder of four codes."""
    book = CodeBook(
        "other",
        tuple(NAMES),
        {code: title for code, (title, _) in NAMES.items()},
        {code: also for code, (_, also) in NAMES.items()},
    )
    coder = Coder("tfidf", "prepare.min_count=1").fit(TEXTS * 6, CODES * 6, codebook=book)
    return Reader(coder, "small", "d" * 64)


@dataclass(frozen=True)
class Opened:
    """A desk that answers, and a client of it."""

    client: TestClient
    desk: Desk

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Send JSON."""
        return self.client.post(
            f"/v1{path}", json=body or {}, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def get(self, path: str) -> Any:
        """Ask for something."""
        return self.client.get(f"/v1{path}")

    def add(self, text: str = NOTE, name: str = "") -> str:
        """A note on the desk."""
        return str(self.post("/notes", {"notes": [{"text": text, "name": name}]}).json()["notes"][0])

    def decide(self, note: str, version: int, *changes: dict[str, Any], key: str = "", **more: Any) -> Any:
        """Changes of a note at a version."""
        body = {"changes": list(changes), **more}
        return self.post(f"/notes/{note}/decisions", body, If_Match=f'"{version}"', Idempotency_Key=key)


@contextmanager
def opened_desk(
    reader: Reader, *, store: Path | str = ":memory:", access: Access | None = None, limits: Limits | None = None
) -> Iterator[Opened]:
    """A service over the reader that runs as long as the block."""
    desk = new_desk(reader, Store(store), access=access, limits=limits)
    with TestClient(new_app(desk), base_url="http://localhost") as client:
        yield Opened(client, desk)
