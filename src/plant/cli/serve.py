"""`plant serve`: an API over a fitted coder, and a desk for people who code."""

import argparse
import getpass
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from plant.cli.console import say
from plant.errors import InputError
from plant.types import Note

DEMO = "demo"
DEMO_NOTES = 40


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("coder", metavar="CODER", nargs="?", default="", help="folder of a coder: RUN/coder")
    parser.add_argument("--notes", action="append", default=[], metavar="FILE",
                        help="put the notes of a file on the desk (jsonl, csv, parquet, txt; `demo`: some unseen notes "
                        "of the demo corpus); those already there stay; may be repeated")  # fmt: skip
    parser.add_argument("--store", default="desk.sqlite", metavar="FILE",
                        help="where notes and decisions are kept (default: desk.sqlite)")  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at, 0 for any free one (default: 8000)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME",
                        help="a name under which it is reached, such as a proxy's; may be repeated")  # fmt: skip
    parser.add_argument("--tokens", default="", metavar="FILE", help="who is let in; a must beyond this machine")
    parser.add_argument("--new-token", default="", metavar="NAME", help="make a token for a person, show it, and end")
    parser.add_argument("--role", default="coder", choices=("coder", "reviewer"), help="of the new token's person")
    parser.add_argument("--name", default="", help="who decides where nobody has tokens (default: your user name)")
    parser.add_argument("--export", default="", metavar="FILE",
                        help="write what was decided as JSON lines for `plant prepare`, and end")  # fmt: skip
    parser.add_argument("--text-column", default="", help="column of the texts")
    parser.add_argument("--id-column", default="", help="column of the notes' ids")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="put at most N notes of each file on the desk")
    parser.add_argument("--seconds", type=float, default=60.0, help="until a request is given up (default: 60)")
    parser.add_argument("--log", default="warning", choices=("info", "warning"), help="info: a line for each request")


def run(arguments: argparse.Namespace) -> None:
    if arguments.coder and not Path(arguments.coder).is_dir():
        raise InputError(f"there is no folder {arguments.coder}: fit a coder with plant run, or plant demo")
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError("the desk needs further packages: pip install 'plant-xmtc[serve]'") from error
    if arguments.new_token:
        _new_token(arguments)
    elif arguments.export:
        _export(Path(arguments.store), Path(arguments.export))
    else:
        _serve(arguments)


def _new_token(arguments: argparse.Namespace) -> None:
    from plant.serve.access import add_token

    if not arguments.tokens:
        raise InputError("--new-token needs --tokens FILE, where the token's digest is kept")
    token = add_token(Path(arguments.tokens), arguments.new_token, arguments.role)
    say(f"a token for {arguments.new_token} ({arguments.role}); it is shown once, {arguments.tokens} keeps its digest:")
    print(token)


def _export(store: Path, out: Path) -> None:
    from plant.serve.export import export_lines
    from plant.serve.store import Store
    from plant.store.artifact import atomic_file

    if not store.is_file():
        raise InputError(f"there is no store {store}: name it with --store")
    opened = Store(store)
    with atomic_file(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        count = 0
        for line in export_lines(opened):
            file.write(line)
            count += 1
    opened.close()
    say(f"{count:,} finished notes: {out}")


def _serve(arguments: argparse.Namespace) -> None:
    from plant.serve.access import Access, read_tokens
    from plant.serve.app import new_app, new_desk
    from plant.serve.limits import Limits
    from plant.serve.reader import open_reader
    from plant.serve.server import answered_hosts, is_local, listening, log_to_stderr, put_on_desk, serve
    from plant.serve.store import Store, Who

    if not arguments.coder:
        raise InputError("name the folder of a coder: plant serve RUN/coder")
    if not is_local(arguments.host) and not arguments.tokens:
        raise InputError(f"{arguments.host} can be reached from elsewhere: say with --tokens FILE who is let in")
    if arguments.seconds <= 0:
        raise InputError(f"--seconds {arguments.seconds:g}: a time above 0")
    limits = Limits(seconds=arguments.seconds)
    me = Who(arguments.name or _user(), "reviewer")
    access = Access(read_tokens(Path(arguments.tokens)) if arguments.tokens else {}, me)
    with listening(arguments.host, arguments.port) as opened:
        reader, store = open_reader(arguments.coder), Store(arguments.store)
        for name in arguments.notes:
            new, known = put_on_desk(store, _notes(name, arguments), me, limits)
            say(f"{name}: {new:,} notes put on the desk, {known:,} were there")
        log_to_stderr(arguments.log)
        hosts = answered_hosts(arguments.host, arguments.allow_host)
        app = new_app(new_desk(reader, store, access=access, limits=limits, hosts=hosts))
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        address = f"http://{host}:{opened.getsockname()[1]}/"
        say(f"the desk is at {address} (Ctrl+C ends it; decisions are kept in {arguments.store})")
        try:
            serve(app, opened, limits=limits)
        except KeyboardInterrupt:  # raised again by the server once everything is answered
            say("the desk is closed")


def _notes(name: str, arguments: argparse.Namespace) -> Iterator[Note]:
    if name == DEMO:
        from plant.data.sources.demo import demo_notes

        unseen = (note for note in demo_notes() if note.split == "test")
        return islice(unseen, arguments.most or DEMO_NOTES)
    from plant.data.sources.bare import read_texts

    notes = read_texts(name, text_column=arguments.text_column, id_column=arguments.id_column)
    return islice(notes, arguments.most) if arguments.most else notes


def _user() -> str:
    """The name of who runs this; some containers have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "coder"
