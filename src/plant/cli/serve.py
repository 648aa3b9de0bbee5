"""`plant serve`: an API over a fitted coder, a desk for people who code, and the keys of those who are let in."""

import argparse
import getpass
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from plant.cli.console import say
from plant.errors import InputError
from plant.types import Note

if TYPE_CHECKING:
    from plant.serve.access import Access, Proxy
    from plant.serve.store import Store
    from plant.serve.trail import Who

DEMO = "demo"
DEMO_NOTES = 40
LONGEST_REQUEST = 86_400  # seconds


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="CODER", nargs="*",
                        help="folder of a coder: RUN/coder; or `keys add NAME`, `keys list`, `keys revoke NAME`: "
                        "who is let in; or `audit`: all that was done, as JSON lines, checked")  # fmt: skip
    parser.add_argument("--notes", action="append", default=[], metavar="FILE",
                        help="put the notes of a file on the desk (jsonl, csv, parquet, txt; `demo`: some unseen notes "
                        "of the demo corpus); those already there stay; may be repeated")  # fmt: skip
    parser.add_argument("--store", default="desk.sqlite", metavar="FILE",
                        help="where notes, decisions and keys are kept (default: desk.sqlite); for several servers "
                        "postgresql://USER@HOST/DATABASE")  # fmt: skip
    parser.add_argument("--store-password", default="", metavar="FILE",
                        help="file with the password of a PostgreSQL store")  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at, 0 for any free one (default: 8000)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME",
                        help="a name under which it is reached, such as a proxy's; may be repeated")  # fmt: skip
    parser.add_argument("--role", default="coder", choices=("coder", "reviewer", "admin"), help="of the new key")
    parser.add_argument("--proxy-user", default="", metavar="HEADER",
                        help="header in which a trusted proxy says who asks")  # fmt: skip
    parser.add_argument("--proxy-role", default="", metavar="HEADER",
                        help="header in which it says their role (default: all are coders)")  # fmt: skip
    parser.add_argument("--proxy-from", action="append", default=[], metavar="ADDRESS",
                        help="address or network of that proxy (default: this machine); may be repeated")  # fmt: skip
    parser.add_argument("--name", default="", help="who decides where nobody has keys (default: your user name)")
    parser.add_argument("--export", default="", metavar="FILE",
                        help="write what was decided as JSON lines for `plant prepare`, and end")  # fmt: skip
    parser.add_argument("--text-column", default="", help="column of the texts")
    parser.add_argument("--id-column", default="", help="column of the notes' ids")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="put at most N notes of each file on the desk")
    parser.add_argument("--seconds", type=float, default=60.0, help="until a request is given up (default: 60)")
    parser.add_argument("--log", default="warning", choices=("info", "warning"), help="info: a line for each request")


def run(arguments: argparse.Namespace) -> None:
    first = arguments.words[0] if arguments.words else ""
    if first not in ("", "keys", "audit") and not Path(first).is_dir():  # said before anything heavy is imported
        raise InputError(f"there is no folder {first}: fit a coder with plant run, or plant demo")
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError("the desk needs further packages: pip install 'plant-xmtc[serve]'") from error
    if first == "keys":
        _keys(arguments)
    elif first == "audit":
        _audit(arguments)
    elif arguments.export:
        _export(arguments)
    else:
        _serve(arguments)


def _keys(arguments: argparse.Namespace) -> None:
    act, *names = [*arguments.words[1:], ""][: max(len(arguments.words) - 1, 1)]
    if (act, len(names)) not in (("add", 1), ("list", 0), ("revoke", 1)):
        raise InputError("plant serve keys add NAME --role coder|reviewer|admin, keys list, or keys revoke NAME")
    from plant.serve.keys import check_name
    from plant.serve.trail import Who

    if act == "add":
        check_name(names[0])  # before a store is made for it
    me = Who(_user(), "admin")
    with _store(arguments, there=act != "add") as store:
        if act == "list":
            for row in store.keys.all():
                print("\t".join([row["name"], row["role"], row["made_at"], row["revoked_at"] or "valid"]))
        elif act == "add":
            key = store.keys.add(me, names[0], arguments.role)
            say(f"a key for {names[0]} ({arguments.role}); it is shown once, {store.place} keeps its digest:")
            print(key)
        elif store.keys.revoke(me, names[0]):
            say("revoked: it opens nothing from now on")
        else:
            raise InputError("nobody of that name has a key: plant serve keys list")


def _audit(arguments: argparse.Namespace) -> None:
    with _store(arguments, there=True) as store:
        after = 0
        while rows := store.audit(after=after, most=1000):
            for row in rows:
                print(json.dumps(dict(row), ensure_ascii=False))
            after = rows[-1]["id"]
        if (forged := store.first_forgery()) is not None:
            raise InputError(f"the trail does not hold from line {forged:,} on: it was changed behind the desk's back")
    say("the trail is whole")


def _export(arguments: argparse.Namespace) -> None:
    from plant.serve.export import export_lines
    from plant.store.artifact import atomic_file

    out, count = Path(arguments.export), 0
    with (
        _store(arguments, there=True) as store,
        atomic_file(out) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for line in export_lines(store):
            file.write(line)
            count += 1
    say(f"{count:,} finished notes: {out}")


def _serve(arguments: argparse.Namespace) -> None:
    from plant.serve.app import new_app, new_desk
    from plant.serve.limits import Limits
    from plant.serve.reader import open_reader
    from plant.serve.server import answered_hosts, listening, log_to_stderr, put_on_desk, serve
    from plant.serve.trail import Who

    if len(arguments.words) != 1:
        raise InputError("name the folder of a coder: plant serve RUN/coder")
    if not 0 < arguments.seconds <= LONGEST_REQUEST:
        raise InputError(f"--seconds {arguments.seconds:g}: a time above 0, {LONGEST_REQUEST} at most")
    if arguments.most < 0:
        raise InputError(f"--most {arguments.most}: a number of notes, 0 for all")
    limits, proxy = Limits(seconds=arguments.seconds), _proxy(arguments)
    me = Who(arguments.name or _user(), "reviewer")
    # what can be refused is looked at before a store is made, which would stay behind
    waiting = [(name, _begun(_notes(name, arguments))) for name in arguments.notes]
    reader = open_reader(arguments.words[0])
    with listening(arguments.host, arguments.port) as opened, _store(arguments) as store:
        access = _access(arguments, store, me, proxy)
        for name, notes in waiting:
            new, known = put_on_desk(store, notes, me, limits)
            say(f"{name}: {new:,} notes put on the desk, {known:,} were there")
        log_to_stderr(arguments.log)
        hosts = answered_hosts(arguments.host, arguments.allow_host)
        desk = new_desk(reader, store, access=access, limits=limits, hosts=hosts)
        app = new_app(desk)
        desk.warm_up()
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        address = f"http://{host}:{opened.getsockname()[1]}/"
        say(f"the desk is at {address} (Ctrl+C ends it; decisions are kept in {store.place})")
        try:
            serve(app, opened, limits=limits)
        except KeyboardInterrupt:  # raised again by the server once everything is answered
            say("the desk is closed")


def _proxy(arguments: argparse.Namespace) -> "Proxy | None":
    """The proxy that says who asks, if one is named."""
    from plant.serve.access import Proxy, networks

    if not arguments.proxy_user:
        if arguments.proxy_role or arguments.proxy_from:
            raise InputError("--proxy-role and --proxy-from need --proxy-user HEADER, which says who asks")
        return None
    peers = networks(arguments.proxy_from or ("127.0.0.0/8", "::1"))
    return Proxy(arguments.proxy_user, arguments.proxy_role, peers)


def _access(arguments: argparse.Namespace, store: "Store", me: "Who", proxy: "Proxy | None") -> "Access":
    """Who is let in: everyone only where nobody but this machine can ask, and nobody has a key."""
    from plant.serve.access import Access
    from plant.serve.server import is_local

    keyed = store.keys.are_there()
    if proxy is None and not keyed and not is_local(arguments.host):
        raise InputError(
            f"{arguments.host} can be reached from elsewhere: make keys for those who are let in "
            "(plant serve keys add NAME), or name a trusted proxy's header (--proxy-user)"
        )
    return Access(None if proxy or keyed else me, proxy)


@contextmanager
def _store(arguments: argparse.Namespace, *, there: bool = False) -> "Iterator[Store]":
    """The store that was named; `there` refuses to make a file for it."""
    from plant.serve.database import is_url
    from plant.serve.store import Store

    path = Path(arguments.store)
    if there and not is_url(arguments.store) and not path.is_file():
        raise InputError(f"there is no store {path}: name it with --store")
    password = Path(arguments.store_password).read_text("utf-8").strip() if arguments.store_password else ""
    with closing(Store(arguments.store, password=password)) as store:
        yield store


def _notes(name: str, arguments: argparse.Namespace) -> Iterator[Note]:
    if name == DEMO:
        from plant.data.sources.demo import demo_notes

        unseen = (note for note in demo_notes() if note.split == "test")
        return islice(unseen, arguments.most or DEMO_NOTES)
    from plant.data.sources.bare import read_texts

    notes = read_texts(name, text_column=arguments.text_column, id_column=arguments.id_column)
    return islice(notes, arguments.most) if arguments.most else notes


def _begun(notes: Iterator[Note]) -> Iterator[Note]:
    """The same notes, the first of which is read now: a file that holds none is told."""
    return chain(list(islice(notes, 1)), notes)


def _user() -> str:
    """The name of who runs this; some containers have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "coder"
