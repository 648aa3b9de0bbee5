"""Who may ask: on this machine everyone, from elsewhere those with a token.

A file holds a line for each person: name, role, and the digest of their token; the token itself is told once, when it
is made. The page exchanges it for a session, which lives as long as the service and reaches scripts of no page.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from plant.errors import InputError
from plant.serve.store import Who
from plant.store.artifact import atomic_file

ROLES = ("coder", "reviewer")
"""A reviewer may do what a coder may, and reopen finished notes, put notes on the desk and export."""

NAME = re.compile(r"[\w.@-]{1,60}")
COOKIE = "plant_session"


@dataclass
class Access:
    """The tokens that are let in, and the sessions that were opened with them; without tokens everyone is `anyone`."""

    tokens: Mapping[str, Who] = field(default_factory=dict)
    anyone: Who = field(default_factory=lambda: Who("coder", "reviewer"))
    sessions: dict[str, str] = field(default_factory=dict)  # session -> digest of its token

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are."""
        return not self.tokens

    def who(self, bearer: str, session: str) -> Who | None:
        """Who holds a token or a session; None for nobody we know."""
        if self.is_open:
            return self.anyone
        digest = digest_of(bearer) if bearer else self.sessions.get(session, "")
        return self.tokens.get(digest)

    def begin(self, token: str) -> str | None:
        """A session for a token."""
        digest = digest_of(token)
        if digest not in self.tokens:
            return None
        session = secrets.token_urlsafe(32)
        self.sessions[session] = digest
        return session

    def end(self, session: str) -> None:
        """Forget a session."""
        self.sessions.pop(session, None)


def digest_of(token: str) -> str:
    """What is kept of a token: tokens are random, so that a plain hash cannot be turned back."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_tokens(path: Path) -> dict[str, Who]:
    """The people of a file, by the digest of their token."""
    if not path.is_file():
        raise InputError(
            f"there is no file {path} of tokens: make one with plant serve --new-token NAME --tokens {path}"
        )
    found: dict[str, Who] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        cells = line.split()
        if not cells or line.startswith("#"):
            continue
        if len(cells) != 3 or cells[1] not in ROLES or not re.fullmatch(r"[0-9a-f]{64}", cells[2]):
            raise InputError(f"{path}, line {number}: expected a name, a role ({' or '.join(ROLES)}) and a digest")
        found[cells[2]] = Who(cells[0], cells[1])
    if not found:
        raise InputError(f"{path} names nobody: make a token with plant serve --new-token NAME --tokens {path}")
    return found


def add_token(path: Path, name: str, role: str) -> str:
    """A new token for a person, who loses the one they had."""
    if not NAME.fullmatch(name):
        raise InputError("the name of a token has letters, digits and . _ @ - only, 60 at most")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    token = secrets.token_urlsafe(24)
    kept = [line for line in lines if line.split()[:1] != [name]]
    with atomic_file(path) as temporary:
        temporary.write_text("\n".join([*kept, f"{name} {role} {digest_of(token)}", ""]), encoding="utf-8")
    path.chmod(0o600)
    return token
