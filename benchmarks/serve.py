"""The service under load: batches against one by one, latencies, memory, search, and the budget of the page.

    python benchmarks/serve.py [CODER] [--requests 600] [--clients 16] [--turns 2] [--only load search page]

CODER is a fitted coder's folder (default: a small one is fitted on made-up notes). Clients are a process of their own
over loopback; three ways of answering take turns in one run: batches, the same service with one note a batch,
and a plain service with a function for a request. `page`: a note of 10,000 words with 60 codes and 300 phrases,
CPU time of Chromium's main thread times four, less what measuring takes.
"""

import argparse
import http.client
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psutil
import uvicorn
from fastapi import FastAPI

from plant.cli.console import print_table
from plant.cli.main import ONE_THREAD
from plant.data.sources.demo import demo_notes
from plant.serve.app import new_app, new_desk
from plant.serve.catalogue import Catalogue
from plant.serve.desk import Desk
from plant.serve.limits import Limits
from plant.serve.reader import Reader, Wish, open_reader
from plant.serve.schemas import PredictIn, PredictionOut, PredictOut
from plant.serve.server import keep_for_good, listening
from plant.serve.store import Store, Who

QUERIES = ("smok", "heart fail", "acute kid", "diab type 2", "pneumonia", "fracture wrist", "a", "n17")
CHROMIUM = "/usr/bin/chromium"
WAYS = ("batches", "one by one", "plain")
PARTS = ("load", "search", "start", "page")


@contextmanager
def service(reader: Reader, store: Path, limits: Limits, *, plain: bool = False) -> Iterator[tuple[str, Desk]]:
    """A service on a free port; plain is what one writes first."""
    opened = listening("127.0.0.1", 0)
    desk = new_desk(reader, Store(store), limits=limits)
    app = plain_app(reader, desk.catalogue.result()) if plain else new_app(desk)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    desk.catalogue.result()
    keep_for_good()
    yield f"http://127.0.0.1:{opened.getsockname()[1]}", desk
    server.should_exit = True
    thread.join()


def post(connection: http.client.HTTPConnection, path: str, body: object) -> tuple[int, float]:
    """The status of an answer, and the seconds until it was read."""
    started = time.perf_counter()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status, time.perf_counter() - started


class Client:
    """A connection of its own that has one request under way: bytes out, and how many bytes the answer still has.

    Sixteen threads of `http.client` took as much of two cores as the service's own loop of events.
    """

    def __init__(self, place: tuple[str, int]) -> None:
        self.socket = socket.create_connection(place, timeout=120)
        self.began, self.heard = 0.0, b""

    def ask(self, request: bytes) -> None:
        self.began, self.heard = time.perf_counter(), b""
        self.socket.sendall(request)

    def answered(self) -> int | None:
        """The status, once the whole answer is there; 0 where the service has hung up."""
        more = self.socket.recv(1 << 18)
        self.heard += more
        head, found, body = self.heard.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) if found else None
        if more and (length is None or len(body) < length):
            return None
        return int(head.split()[1]) if more else 0


def drive(address: str, requests: Iterator[bytes], *, clients: int) -> dict[str, object]:
    """Latencies, requests a second and answers other than 200, of clients that ask as fast as they are answered."""
    host, _, port = urlsplit(address).netloc.rpartition(":")
    seconds, wrong, started = [], 0, time.perf_counter()
    with selectors.DefaultSelector() as waiting:
        for request in islice(requests, clients):
            client = Client((host, int(port)))
            waiting.register(client.socket, selectors.EVENT_READ, client)
            client.ask(request)
        while waiting.get_map():
            for key, _ in waiting.select():
                client = key.data
                status = client.answered()
                if status is None:
                    continue
                seconds.append(time.perf_counter() - client.began)
                wrong += status != 200
                request = next(requests, None) if status else None
                if request is None:
                    waiting.unregister(client.socket)
                    client.socket.close()
                else:
                    client.ask(request)
    return {"seconds": seconds, "speed": len(seconds) / (time.perf_counter() - started), "wrong": wrong}


def written(address: str, body: object) -> bytes:
    """A request for the codes of a body, as it goes over the wire."""
    sent = json.dumps(body).encode()
    head = f"POST /v1/predict HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(sent) + sent


def load(address: str, bodies: Path, *, clients: int, requests: int) -> tuple[dict, list[int]]:
    """The same from a process of their own, and the memory of this one meanwhile, four times a second."""
    command = [sys.executable, __file__, "--drive", address, "--bodies", str(bodies)]
    started = subprocess.Popen(
        [*command, "--clients", str(clients), "--requests", str(requests)], stdout=subprocess.PIPE, text=True
    )
    memory, process = [], psutil.Process()

    def sample() -> None:
        while started.poll() is None:
            memory.append(process.memory_info().rss)
            time.sleep(0.25)

    sampler = threading.Thread(target=sample)
    sampler.start()
    told, _ = started.communicate()
    sampler.join()
    return json.loads(told), memory


def plain_app(reader: Reader, catalogue: Catalogue) -> FastAPI:
    """What one writes first: a function that answers one request, in a thread of the pool."""
    app = FastAPI()

    @app.post("/v1/predict")
    def predict(asked: PredictIn) -> PredictOut:
        ranked = reader.work(Wish(asked.top), [note.text for note in asked.notes])
        codes = [reader.shown(note.text, found, catalogue) for note, found in zip(asked.notes, ranked, strict=True)]
        notes = [PredictionOut(name=note.name, codes=own) for note, own in zip(asked.notes, codes, strict=True)]
        return PredictOut(model=reader.digest, notes=notes)

    return app


def small_reader() -> Reader:
    """A coder fitted on a few notes of the demo corpus."""
    from plant import Coder

    notes = list(demo_notes(notes=150))
    coder = Coder("plant-cnn", "fit.epochs=1", "rank.epochs=1").fit([n.text for n in notes], [n.codes for n in notes])
    return Reader(coder, "small", "0" * 64)


def throughput(reader: Reader, folder: Path, *, clients: int, requests: int, turns: int, ways: Sequence[str]) -> None:
    """The ways of answering, in turns."""
    texts = [note.text for note in demo_notes(notes=3000) if note.split == "test"][:64]
    bodies = folder / "bodies.json"
    bodies.write_text(json.dumps([{"notes": [{"text": text}], "top": 15} for text in texts]))
    rows = []
    for kind in ("warm", *ways * turns):
        limits = replace(Limits(), batch=1 if kind == "one by one" else 16)
        started = time.perf_counter()
        with service(reader, folder / f"{time.time()}.sqlite", limits, plain=kind == "plain") as (address, _):
            ready = time.perf_counter() - started
            some, worked = requests if kind != "warm" else 64, time.process_time()
            told, memory = load(address, bodies, clients=clients, requests=some)
            worked = 1000 * (time.process_time() - worked) / some
        ordered = sorted(told["seconds"])
        at = [1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99)]
        tenth = [
            statistics.mean(memory[len(memory) * part // 10 : len(memory) * (part + 1) // 10 or 1]) for part in (1, 9)
        ]
        if kind != "warm":
            rows.append([kind, told["speed"], worked, *at, told["wrong"], 100 * (tenth[1] / tenth[0] - 1)])
    print(f"{requests:,} requests a row, {clients} clients; the last service was laid out in {ready:.1f} s")
    print_table(
        ["answers", "requests/s", "CPU ms each", "p50 ms", "p99 ms", "errors", "memory, last to second tenth %"], rows
    )
    means = {kind: statistics.mean(row[1] for row in rows if row[0] == kind) for kind in ways}
    for kind in ways[1:]:
        print(f"{ways[0]} / {kind}: {means[ways[0]] / means[kind]:.2f}")


def start(coder: str, folder: Path) -> None:
    """Seconds from the command to the first answer that the service is ready, the code book laid out; of three.

    CPU seconds of the process as well: where others use the core, they are what does not depend on them.
    """
    taken, worked = [], []
    for turn in range(3):
        port = listening("127.0.0.1", 0)
        number = port.getsockname()[1]
        port.close()
        command = [
            sys.executable,
            "-c",
            "from plant.cli.main import main; main()",
            "serve",
            coder,
            "--port",
            str(number),
        ]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--store", str(folder / f"start-{turn}.sqlite")], stderr=subprocess.DEVNULL
        )
        while not _is_ready(number) and process.poll() is None:
            time.sleep(0.02)
        taken.append(time.perf_counter() - began)
        worked.append(sum(psutil.Process(process.pid).cpu_times()[:2]))
        process.terminate()
        process.wait()
    print(f"start to ready: {min(taken):.2f} s at best, {max(taken):.2f} at most; CPU {min(worked):.2f} s at best")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/v1/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def search(reader: Reader, folder: Path) -> None:
    """The time of a search, within the process and over loopback."""
    with service(reader, folder / "search.sqlite", Limits()) as (address, desk):
        book = desk.catalogue.result()
        inside, outside = [], []
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        for query in QUERIES * 5:
            started = time.perf_counter()
            book.search(query)
            inside.append(1000 * (time.perf_counter() - started))
            outside.append(1000 * post(connection, "/v1/codes/search", {"q": query})[1])
        rows = [
            ["in the process", statistics.median(inside), max(inside)],
            ["over loopback", statistics.median(outside), max(outside)],
        ]
    print(f"search among {len(book.codes):,} codes")
    print_table(["where", "median ms", "greatest ms"], rows)


SLOWED = 4  # how many times slower the machine of a coder may be
ACTS = {
    "nothing": "() => {}",  # what measuring costs
    "hover": "row => row.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, movementX: 1}))",
    "key": "() => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))",
    "scroll": "() => { document.querySelector('#note').scrollTop += 700 }",
    "threshold": """() => {
        const slider = document.querySelector('#threshold');
        slider.value = (Number(slider.value) + 7) % 99;
        slider.dispatchEvent(new Event('input'));
    }""",
}
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
OPEN = """([button, title]) => new Promise(done => {
    const named = () => document.querySelector('#title').textContent === title;
    const there = () => named() && document.querySelector('.row[data-code]');
    const look = () => there() ? done() : setTimeout(look, 20);
    document.querySelector(button)?.click();
    look();
})"""
SETTLE = """() => new Promise(done => {
    const whole = () => !document.querySelector('#text').style.minHeight && !document.querySelector('.row:empty');
    const look = () => whole() ? done() : setTimeout(look, 50);
    look();
})"""
SEARCH = """query => new Promise(done => {
    const field = document.querySelector('#query');
    field.value = query;
    field.dispatchEvent(new Event('input'));
    const listed = new MutationObserver(() => { listed.disconnect(); done(); });
    listed.observe(document.querySelector('#hits'), {childList: true});
})"""
BUDGET = {"page, fonts and first note": 300, "another note": 300, "hover": 50, "key": 50, "scroll": 50, "search": 100}
TIMES = 20


def page(reader: Reader, folder: Path) -> None:
    """The budget of the page: CPU milliseconds of the main thread times `SLOWED`, less what measuring takes."""
    from playwright.sync_api import sync_playwright

    text = "\n\n".join(note.text for note in demo_notes(notes=40))
    text = text[: [place for place, letter in enumerate(text) if letter.isspace()][13_000]]
    with service(reader, folder / "page.sqlite", Limits()) as (address, desk), sync_playwright() as playwright:
        names = list(desk.reader.labels)
        for name, known in (("long", names[:60]), ("longer", names[60:120])):  # no row of the one stays for the other
            note, _ = desk.store.add_note(Who("bench"), name, text + name)
            desk.store.keep_prediction(note, reader.digest, "", _many_codes(known, text))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        devtools = tab.context.new_cdp_session(tab)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

        def spent() -> float:
            found = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
            return 1000 * SLOWED * found["TaskDuration"]

        def cost(act: str, argument: object = None) -> float:
            before = spent()
            tab.evaluate(act, argument)
            tab.evaluate(FRAMES)
            return spent() - before

        tab.goto(address)
        tab.evaluate(OPEN, ["none", "long"])
        tab.evaluate(FRAMES)
        taken = {"page, fonts and first note": [spent()]}
        rest = [cost(SETTLE)]
        taken["another note"] = []
        for turn in range(8):
            taken["another note"].append(cost(OPEN, ["#next", "longer"] if turn % 2 == 0 else ["#previous", "long"]))
            rest.append(cost(SETTLE))
        taken["its far lines and rows, when idle"] = rest
        rows = tab.query_selector_all(".row[data-code]")
        rows[0].focus()
        for name, act in ACTS.items():
            taken[name] = [cost(act, row) for row in rows[:TIMES]]
        tab.evaluate("document.querySelector('#open-search').click()")
        tab.evaluate(FRAMES)
        taken["search"] = [cost(SEARCH, query[:length]) for query in QUERIES[:4] for length in range(1, 6)]
        browser.close()
    nothing = statistics.median(taken.pop("nothing"))
    print(f"\npage: {len(text.split()):,} words, 60 codes, 300 phrases; CPU times {SLOWED}, less {nothing:.0f}")
    table = [[name, *_middle_and_most(values, nothing), BUDGET.get(name, "")] for name, values in taken.items()]
    print_table(["what", "median ms", "p95 ms", "budget"], table)


def _middle_and_most(values: list[float], nothing: float) -> tuple[float, float]:
    ordered = sorted(value - nothing for value in values)
    return statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]


def _many_codes(known: list[str], text: str) -> list[dict]:
    """60 codes with 5 phrases each, spread over the text."""
    places = [(start, start + 28) for start in range(100, len(text) - 100, len(text) // 310)][:300]
    return [
        {
            "code": code, "title": f"Title of {code}", "chapter": "", "path": [], "probability": 0.99 - number / 100,
            "threshold": 0.3, "suggested": True,
            "evidence": [{"start": a, "end": b, "weight": 0.2} for a, b in places[number::60]],
        }
        for number, code in enumerate(known)
    ]  # fmt: skip


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coder", nargs="?", default="")
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS[:2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--drive", default="", help=argparse.SUPPRESS)
    parser.add_argument("--bodies", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        bodies = [written(arguments.drive, body) for body in json.loads(arguments.bodies.read_text())]
        print(json.dumps(drive(arguments.drive, islice(cycle(bodies), arguments.requests), clients=arguments.clients)))
        return
    reader = open_reader(arguments.coder) if arguments.coder else small_reader()
    with TemporaryDirectory() as folder:
        if "load" in arguments.only:
            throughput(
                reader,
                Path(folder),
                clients=arguments.clients,
                requests=arguments.requests,
                turns=arguments.turns,
                ways=arguments.ways,
            )
        if "search" in arguments.only:
            search(reader, Path(folder))
        if "start" in arguments.only and arguments.coder:
            start(arguments.coder, Path(folder))
        if "page" in arguments.only:
            page(reader, Path(folder))
    sys.stdout.flush()


if __name__ == "__main__":
    if not ONE_THREAD.keys() <= os.environ.keys():  # numpy is there already: begin again, as `plant serve` begins
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    main()
