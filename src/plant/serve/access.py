"""Who may ask, and for what: on this machine everyone, from elsewhere those with a key or behind a trusted proxy.

Every route has a line in `LEAST`; one without is refused to all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers

from plant.errors import InputError
from plant.serve.keys import ROLES, Keys, is_name
from plant.serve.trail import Who

COOKIE = "plant_session"
EVERYONE = ""  # no key is asked for

LEAST: Mapping[tuple[str, str], str] = {
    ("GET", "/"): EVERYONE,
    ("GET", "/desk/{path:path}"): EVERYONE,
    ("GET", "/v1/health"): EVERYONE,
    ("GET", "/v1/ready"): EVERYONE,
    ("POST", "/v1/session"): EVERYONE,
    ("DELETE", "/v1/session"): EVERYONE,
    ("GET", "/v1/me"): "coder",
    ("GET", "/v1/metrics"): "coder",
    ("GET", "/v1/models"): "coder",
    ("POST", "/v1/predict"): "coder",
    ("POST", "/v1/explain"): "coder",
    ("POST", "/v1/codes/search"): "coder",
    ("GET", "/v1/queue"): "coder",
    ("GET", "/v1/notes/{note}"): "coder",
    ("HEAD", "/v1/notes/{note}"): "coder",
    ("POST", "/v1/notes/{note}/predict"): "coder",
    ("POST", "/v1/notes/{note}/explain"): "coder",
    ("POST", "/v1/notes/{note}/hold"): "coder",
    ("POST", "/v1/notes/{note}/decisions"): "coder",
    ("POST", "/v1/notes/{note}/finish"): "coder",
    ("POST", "/v1/notes"): "reviewer",
    ("POST", "/v1/notes/{note}/reopen"): "reviewer",
    ("GET", "/v1/export"): "reviewer",
    ("GET", "/v1/audit"): "admin",
}
"""The least role that a route asks for."""

OPEN = frozenset(path for (_, path), role in LEAST.items() if role == EVERYONE and path.startswith("/v1"))


@dataclass(frozen=True)
class Proxy:
    """A proxy that has asked who someone is, and says so in headers; believed only from its own addresses."""

    user: str  # the header with the name
    role: str = ""  # the header with the role; without one everybody is a coder
    peers: tuple[IPv4Network | IPv6Network, ...] = ()

    def who(self, headers: Headers, peer: str) -> Who | None:
        """Who the proxy says it is; a header that comes twice may be forged, and is not believed."""
        names, roles = headers.getlist(self.user), headers.getlist(self.role) if self.role else ["coder"]
        if len(names) != 1 or len(roles) != 1 or not self._is_trusted(peer):
            return None
        return Who(names[0], roles[0]) if is_name(names[0]) and roles[0] in ROLES else None

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self.peers)


@dataclass
class Access:
    """Who is let in: `anyone` where nobody has to say who they are, else those with keys or behind the proxy."""

    anyone: Who | None = field(default_factory=lambda: Who("coder", "reviewer"))
    proxy: Proxy | None = None

    def who(self, keys: Keys, headers: Headers, *, session: str, peer: str) -> Who | None:
        """Who asks; None for nobody we know."""
        if self.anyone is not None:
            return self.anyone
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return keys.holder(key.strip())
        if self.proxy is not None and (found := self.proxy.who(headers, peer)):
            return found
        return keys.of_session(session) if session else None


def is_allowed(who: Who | None, method: str, route: str) -> bool:
    """Whether someone may ask for a route; nobody may where the table has no line for it."""
    least = LEAST.get((method, route))
    if least is None:
        return False
    return least == EVERYONE or (who is not None and ROLES.index(who.role) >= ROLES.index(least))


def networks(addresses: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Addresses and networks from which a proxy is believed."""
    try:
        return tuple(ip_network(address, strict=False) for address in addresses)
    except ValueError as error:
        raise InputError("--proxy-from takes an address or a network, such as 10.0.0.7 or 10.0.0.0/24") from error
