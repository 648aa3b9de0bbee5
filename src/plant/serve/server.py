"""The running service: a socket, a log without texts, an end that loses nothing."""

import gc
import ipaddress
import logging
import socket
import sys
from collections.abc import Iterable

import uvicorn
from fastapi import FastAPI

from plant.errors import InputError
from plant.serve.limits import Limits
from plant.serve.problems import Problem
from plant.serve.store import Store, Who
from plant.types import Note

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def answered_hosts(host: str, further: Iterable[str]) -> frozenset[str]:
    """The names of hosts that are answered: a page elsewhere cannot reach us under a name of its own."""
    names = {*LOCAL, *(name.lower() for name in further)}
    return frozenset(names if host in ("0.0.0.0", "::") else {*names, host.lower()})


def put_on_desk(store: Store, notes: Iterable[Note], who: Who, limits: Limits) -> tuple[int, int]:
    """Notes into the queue: how many are new, and how many were there before."""
    new = known = 0
    for note in notes:
        if len(note.text) > limits.text:
            raise InputError(f"a note has {len(note.text):,} characters; the desk takes {limits.text:,} at most")
        try:
            added = store.add_note(who, note.id, note.text)[1]
        except Problem as problem:
            raise InputError(f"notes cannot be put on the desk: {problem.detail}") from problem
        new, known = new + added, known + (not added)
    return new, known


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named in full: asyncio turns off waiting for a full packet only where the protocol says TCP (40 ms an answer).
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except (OSError, OverflowError, TypeError, UnicodeError) as error:  # the last two of names that are no host's
        opened.close()
        raise InputError(f"{host}, port {port} cannot be listened at ({error}): choose another with --port") from error
    return opened


def serve(app: FastAPI, opened: socket.socket, *, limits: Limits) -> None:
    """Answer until told to stop (SIGINT, SIGTERM); what was accepted by then is answered."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # its lines have whole paths
        server_header=False,
        proxy_headers=False,  # who asks is decided by the true peer
        timeout_graceful_shutdown=int(limits.seconds),
        h11_max_incomplete_event_size=64 << 10,
    )
    keep_for_good()
    uvicorn.Server(config).run(sockets=[opened])


def keep_for_good() -> None:
    """Tell the collector of garbage not to look at coder and code book again and again: half a millisecond a note."""
    gc.collect()
    gc.freeze()


def log_to_stderr(level: str) -> None:
    """Our own lines, which hold no text; those of the server are kept to what went wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    own = logging.getLogger("plant.serve")
    own.addHandler(handler)
    own.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
