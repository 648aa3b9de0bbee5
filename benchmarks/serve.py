"""The service under load: batches against one by one, latencies, memory, search, and the budget of the page.

    python benchmarks/serve.py [CODER] [--requests 600] [--clients 16] [--browser]

CODER is a fitted coder's folder (default: a small one is fitted on made-up notes). Clients are threads of this process
over loopback; with and without batches take turns in one run. `--browser` measures the page: a note of 10,000 words
with 60 codes and 300 phrases, CPU time of Chromium's main thread times four.
"""

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psutil
import uvicorn

from plant.cli.console import print_table
from plant.data.sources.demo import demo_notes
from plant.serve.app import new_app, new_desk
from plant.serve.desk import Desk
from plant.serve.limits import Limits
from plant.serve.reader import Reader, open_reader
from plant.serve.server import listening
from plant.serve.store import Store, Who

QUERIES = ("smok", "heart fail", "acute kid", "diab type 2", "pneumonia", "fracture wrist", "a", "n17")
CHROMIUM = "/usr/bin/chromium"


@contextmanager
def service(reader: Reader, store: Path, limits: Limits) -> Iterator[tuple[str, Desk]]:
    """A service on a free port."""
    opened = listening("127.0.0.1", 0)
    desk = new_desk(reader, Store(store), limits=limits)
    server = uvicorn.Server(uvicorn.Config(new_app(desk), log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    desk.catalogue.result()
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


def load(
    address: str, bodies: list[object], *, clients: int, requests: int
) -> tuple[list[float], float, int, list[int]]:
    """Latencies, requests a second, answers other than 200, and the memory after each tenth."""
    host, left, seconds, wrong, memory = urlsplit(address).netloc, iter(range(requests)), [], [], []
    lock, process = threading.Lock(), psutil.Process()

    def client() -> None:
        connection = http.client.HTTPConnection(host, timeout=120)
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            status, took = post(connection, "/v1/predict", bodies[number % len(bodies)])
            with lock:
                seconds.append(took)
                if status != 200:
                    wrong.append(status)
                if len(seconds) % max(1, requests // 10) == 0:
                    memory.append(process.memory_info().rss)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, requests / (time.perf_counter() - started), len(wrong), memory


def small_reader() -> Reader:
    """A coder fitted on a few notes of the demo corpus."""
    from plant import Coder

    notes = list(demo_notes(notes=150))
    coder = Coder("plant-cnn", "fit.epochs=1", "rank.epochs=1").fit([n.text for n in notes], [n.codes for n in notes])
    return Reader(coder, "small", "0" * 64)


def throughput(reader: Reader, folder: Path, *, clients: int, requests: int) -> None:
    """Both ways of answering, in turns."""
    texts = [note.text for note in demo_notes(notes=3000) if note.split == "test"][:64]
    bodies: list[object] = [{"notes": [{"text": text}], "top": 15} for text in texts]
    rows = []
    for kind in ("warm", "batches", "one by one", "batches", "one by one"):
        limits = replace(Limits(), batch=1 if kind == "one by one" else 16)
        with service(reader, folder / f"{time.time()}.sqlite", limits) as (address, _):
            some = requests if kind != "warm" else 32
            seconds, speed, wrong, memory = load(address, bodies, clients=clients, requests=some)
        ordered = sorted(seconds)
        at = [1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99)]
        growth = memory[-1] / memory[1] - 1 if len(memory) > 1 else 0.0
        if kind != "warm":
            rows.append([kind, speed, *at, wrong, 100 * growth])
    print_table(["answers", "requests/s", "p50 ms", "p99 ms", "errors", "memory, last to second tenth %"], rows)
    means = {kind: statistics.mean(row[1] for row in rows if row[0] == kind) for kind in ("batches", "one by one")}
    print(f"batches / one by one: {means['batches'] / means['one by one']:.2f}\n")


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
    "hover": "row => row.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, movementX: 1}))",
    "key": "row => { row.focus(); row.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true})) }",
    "scroll": "() => { document.querySelector('#note').scrollTop += 700 }",
    "threshold": """() => {
        const slider = document.querySelector('#threshold');
        slider.value = (Number(slider.value) + 7) % 99;
        slider.dispatchEvent(new Event('input'));
    }""",
}
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def page(reader: Reader, folder: Path) -> None:
    """The budget of the page: CPU milliseconds of the browser's main thread, times `SLOWED`."""
    from playwright.sync_api import sync_playwright

    text = "\n\n".join(note.text for note in demo_notes(notes=40))
    text = text[: [place for place, letter in enumerate(text) if letter.isspace()][13_000]]
    with service(reader, folder / "page.sqlite", Limits()) as (address, desk), sync_playwright() as playwright:
        note, _ = desk.store.add_note(Who("bench"), "long", text)
        words, codes = len(text.split()), _many_codes(desk, text)
        desk.store.keep_prediction(note, reader.digest, "", codes)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        devtools = tab.context.new_cdp_session(tab)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

        def spent() -> float:
            found = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
            return 1000 * SLOWED * found["TaskDuration"]

        def cost(act: str, row: object) -> float:
            before = spent()
            tab.evaluate(act, row)
            tab.evaluate(FRAMES)
            return spent() - before

        other, _ = desk.store.add_note(Who("bench"), "longer", text + " .")
        desk.store.keep_prediction(other, reader.digest, "", codes)
        tab.goto(address)
        tab.wait_for_selector(".row[data-code]")
        tab.evaluate(FRAMES)
        rows = [["page, fonts and first note", spent(), spent()]]
        before = spent()
        tab.locator("#next").click()
        tab.wait_for_function("() => document.querySelector('#title').textContent === 'longer'")
        tab.wait_for_selector(".row[data-code]")
        tab.evaluate(FRAMES)
        rows.append(["another note", spent() - before, spent() - before])
        for name, act in ACTS.items():
            handles = tab.query_selector_all(".row[data-code]")[:20]
            values = sorted(cost(act, handle) for handle in handles)
            rows.append([name, statistics.median(values), values[int(0.95 * (len(values) - 1))]])
        browser.close()
    spans = sum(len(code["evidence"]) for code in codes)
    print(f"\npage: {words:,} words, {len(codes)} codes, {spans} phrases; CPU times {SLOWED}")
    print_table(["what", "median ms", "p95 ms"], rows)


def _many_codes(desk: Desk, text: str) -> list[dict]:
    """60 codes with 5 phrases each, spread over the text."""
    places = [(start, start + 28) for start in range(100, len(text) - 100, len(text) // 310)][:300]
    known = list(desk.reader.labels)[:60]
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
    parser.add_argument("--browser", action="store_true")
    arguments = parser.parse_args()
    reader = open_reader(arguments.coder) if arguments.coder else small_reader()
    with TemporaryDirectory() as folder:
        throughput(reader, Path(folder), clients=arguments.clients, requests=arguments.requests)
        search(reader, Path(folder))
        if arguments.browser:
            page(reader, Path(folder))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
