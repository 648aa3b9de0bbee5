"""What goes over the wire: files of the page packed for who reads that, answers without a wait for a full packet."""

import asyncio
import gzip
import socket

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from plant.serve.files import page_file, page_files, page_router
from plant.serve.server import listening


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.include_router(page_router())
    return TestClient(app)


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, br", True), ("br;q=1, GZIP; q=0.5", True), ("identity", False), ("gzip;q=0", False), ("", False)],
)
def test_a_file_is_packed_for_who_reads_that_and_the_same_for_all(
    client: TestClient, accepted: str, packed: bool
) -> None:
    answer = client.get("/desk/main.js", headers={"accept-encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") is packed
    assert answer.content == page_files()["main.js"].content
    assert answer.headers["vary"] == "Accept-Encoding"


def test_a_file_that_is_known_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/desk/desk.css").headers["etag"]
    assert client.get("/desk/desk.css", headers={"if-none-match": tag}).status_code == 304
    assert client.get("/desk/desk.css", headers={"if-none-match": '"other"'}).status_code == 200


def test_what_packing_makes_no_smaller_is_sent_as_it_is() -> None:
    assert not page_file(b"a", "font/woff2").packed
    assert gzip.decompress(page_file(b"a" * 1000, "text/css").packed) == b"a" * 1000


def test_the_page_keeps_its_budget_of_bytes() -> None:
    sent: dict[str, int] = {}
    for path, file in page_files().items():
        kind = path[path.rfind(".") :]
        sent[kind] = sent.get(kind, 0) + len(file.packed or file.content)
    assert sum(len(file.content) for path, file in page_files().items() if path.endswith(".js")) <= 60_000
    assert sent[".css"] <= 30_000
    assert sent[".woff2"] <= 140_000


def test_answers_do_not_wait_for_a_full_packet() -> None:
    """An answer of head and body in two writes took 40 ms more where the second waited for the first's receipt."""

    async def waits() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted: socket.socket = writer.get_extra_info("socket")
            seen.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        opened = listening("127.0.0.1", 0)
        async with await asyncio.start_server(look, sock=opened):
            _, writer = await asyncio.open_connection(*opened.getsockname())
            answer = await seen
            writer.close()
            return answer

    assert asyncio.run(waits()) != 0
