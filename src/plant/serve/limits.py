"""How much the service takes at once; beyond, it says so with a clear 4xx answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one request and of all requests together."""

    body: int = 16 << 20  # bytes
    text: int = 2_000_000  # characters of a note
    together: int = 64  # notes of one request
    in_flight: int = 128  # requests that are being answered
    batch: int = 16  # notes that the coder reads at once
    seconds: float = 60.0  # until a request is given up
    top: int = 200  # codes of a note
    hits: int = 50  # of a search
    query: int = 400  # characters that are searched for
    changes: int = 500  # decisions of one request
    held: float = 120.0  # seconds that a note stays with who opened it, unless it is asked for again
