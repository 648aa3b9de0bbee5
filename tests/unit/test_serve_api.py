"""The service: what it answers, what it refuses, and that no note's text leaves it where it should not."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from plant.data.sources.bare import read_texts
from plant.data.sources.options import SourceOptions
from plant.data.sources.tables import open_table
from plant.errors import PlantError
from plant.serve.access import LEAST, Access, Proxy, networks
from plant.serve.batching import Batcher
from plant.serve.keys import ROLES
from plant.serve.limits import Limits
from plant.serve.reader import Reader
from plant.serve.store import Who
from tests.desk_samples import NOTE, Opened, opened_desk, small_coder
from tests.postgres import Server

CANARY = "zebrafishcanary"


@pytest.fixture(scope="module")
def reader() -> Reader:
    return small_coder()


@pytest.fixture
def desk(reader: Reader) -> Iterator[Opened]:
    with opened_desk(reader) as opened:
        yield opened


def said(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged by anyone but the client of the test."""
    return "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))


def test_many_notes_are_coded_as_one_by_one(desk: Opened, reader: Reader) -> None:
    texts = [NOTE, "a dry cough", "high blood pressure"]
    found = desk.post("/predict", {"notes": [{"text": text} for text in texts], "top": 2}).json()
    assert found["model"] == reader.digest
    alone = [reader.coder.predict([text], top=2)[0] for text in texts]
    for row, expected in zip(found["notes"], alone, strict=True):
        assert [code["code"] for code in row["codes"]] == [scored.code for scored in expected.ranked]
        assert [code["probability"] for code in row["codes"]] == pytest.approx(
            [scored.probability for scored in expected.ranked], abs=1e-6
        )


def test_requests_at_the_same_time_share_a_batch_and_get_their_own_answers() -> None:
    sizes: list[int] = []

    def work(kind: str, items: list[int]) -> list[str]:
        return [f"{kind}{item}" for item in items]

    async def ask() -> list[str]:
        batcher = Batcher(work, most=8, seen=sizes.append)
        batcher.start()
        asked = [batcher.ask("ab"[number % 2], number) for number in range(20)]
        answers = await asyncio.gather(*asked)
        await batcher.close()
        return answers

    assert asyncio.run(ask()) == [f"{'ab'[number % 2]}{number}" for number in range(20)]
    assert sizes == [4, 4, 4, 4, 2, 2]


def test_one_bad_item_does_not_take_its_company_with_it() -> None:
    def work(kind: str, items: list[int]) -> list[int]:
        if 3 in items:
            raise ValueError("three")
        return [item * 2 for item in items]

    async def ask() -> list[object]:
        batcher = Batcher(work, most=8)
        batcher.start()
        answers = await asyncio.gather(*(batcher.ask("", number) for number in range(5)), return_exceptions=True)
        await batcher.close()
        return answers

    assert [str(answer) for answer in asyncio.run(ask())] == ["0", "2", "4", "three", "8"]


def test_what_was_accepted_is_answered_while_the_line_closes() -> None:
    held = threading.Event()

    def work(kind: str, items: list[int]) -> list[int]:
        held.wait(5)
        return items

    async def ask() -> list[int]:
        batcher = Batcher(work, most=2)
        batcher.start()
        asked = [asyncio.create_task(batcher.ask("", number)) for number in range(6)]
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0.01)
        held.set()
        await closing
        return [task.result() for task in asked]

    assert asyncio.run(ask()) == list(range(6))


def test_evidence_are_phrases_with_what_negates_them(desk: Opened) -> None:
    [note] = desk.post("/predict", {"notes": [{"text": NOTE}], "top": 4}).json()["notes"]
    lit = {
        code["code"]: [(NOTE[e["start"] : e["end"]], e["caution"]) for e in code["evidence"]] for code in note["codes"]
    }
    assert ("Acute kidney injury", "") in lit["N17"]
    assert ("broken wrist", "negated") in lit["S62"]


def test_any_code_that_the_coder_knows_can_be_explained(desk: Opened) -> None:
    found = desk.post("/explain", {"text": NOTE, "code": "S62"}).json()
    assert NOTE[found["evidence"][0]["start"] : found["evidence"][0]["end"]] == "broken wrist"
    assert desk.post("/explain", {"text": NOTE, "code": "Z99"}).status_code == 404


def test_the_coder_is_told_with_its_digest_and_explains_in_every_way_that_it_names(
    desk: Opened, reader: Reader
) -> None:
    [model] = desk.get("/models").json()["models"]
    assert (model["name"], model["digest"], model["codes"]) == ("small", reader.digest, 4)
    assert model["explainers"]
    for explainer in model["explainers"]:
        body = {"notes": [{"text": NOTE}], "top": 4, "explainer": explainer}
        [note] = desk.post("/predict", body).json()["notes"]
        assert any(code["evidence"] for code in note["codes"]), explainer


@pytest.mark.parametrize(("query", "kind"), [("N17", "code"), ("acute kid", "title"), ("broken wr", "synonym")])
def test_the_code_book_is_searched_by_code_words_and_synonyms(desk: Opened, query: str, kind: str) -> None:
    found = desk.post("/codes/search", {"q": query}).json()
    assert (found["total"], found["hits"][0]["kind"], found["hits"][0]["known"]) == (1, kind, True)


def test_a_finished_note_is_opened_again_by_a_reviewer(desk: Opened) -> None:
    note = desk.add()
    assert desk.post(f"/notes/{note}/finish", If_Match='"0"').json()["state"] == "finished"
    assert desk.decide(note, 1, {"code": "R05", "verdict": "accept"}).status_code == 409
    assert desk.post(f"/notes/{note}/reopen", If_Match='"1"').json()["state"] == "open"
    assert desk.decide(note, 2, {"code": "R05", "verdict": "accept"}).status_code == 200
    assert desk.post(f"/notes/{note}/finish").status_code == 428
    many = [{"code": f"C{number}", "verdict": "accept"} for number in range(501)]
    assert desk.decide(note, 3, *many).status_code == 413


def test_a_note_goes_from_the_queue_to_an_export_that_prepare_reads(desk: Opened, tmp_path: Path) -> None:
    note = desk.add(NOTE, "visit-1")
    desk.add("not finished", "visit-2")
    assert desk.get(f"/notes/{note}").json()["codes"] is None
    shown = desk.post(f"/notes/{note}/predict").json()
    assert [section["title"] for section in shown["sections"]] == ["History", "Course"]
    start = NOTE.index("dry cough")
    accepted = {"code": "R05", "verdict": "accept", "evidence": [{"start": start, "end": start + 9}]}
    assert desk.decide(note, 0, accepted, {"code": "S62", "verdict": "reject"}).json()["version"] == 1
    assert desk.decide(note, 1, {"code": "J99.9", "verdict": "accept"}, order=["J99.9", "R05"]).json()["version"] == 2
    finished = desk.post(f"/notes/{note}/finish", If_Match='"2"').json()
    assert [(row["code"], row["origin"]) for row in finished["decisions"]] == [
        ("J99.9", "added"),
        ("R05", "model"),
        ("S62", "model"),
    ]
    (tmp_path / "export.jsonl").write_text(desk.get("/export").text)
    [back] = open_table(tmp_path / "export.jsonl", SourceOptions()).notes()
    assert (back.id, back.text, back.codes) == ("visit-1", NOTE, ("J99.9", "R05"))
    assert [NOTE[span.start : span.end] for span in back.evidence["R05"]] == ["dry cough"]
    assert next(read_texts(str(tmp_path / "export.jsonl"))).text == NOTE


def test_offsets_are_code_points_whatever_the_text(desk: Opened) -> None:
    text = "🫁🫁 e\u0301 שלום\r\nNUL \x00 then a dry cough"
    note, start = desk.add(text, "odd"), text.index("dry")
    desk.decide(note, 0, {"code": "R05", "verdict": "accept", "evidence": [{"start": start, "end": start + 9}]})
    desk.post(f"/notes/{note}/finish", If_Match='"1"')
    record = json.loads(desk.get("/export").text)
    assert [record["text"][e["start"] : e["end"]] for e in record["evidence"]] == ["dry cough"]


def test_two_pages_of_one_note_lose_nothing(desk: Opened) -> None:
    note = desk.add()
    assert desk.decide(note, 0, {"code": "R05", "verdict": "accept"}).status_code == 200
    late = desk.decide(note, 0, {"code": "S62", "verdict": "reject"})
    assert late.status_code == 412
    assert (late.json()["version"], [row["code"] for row in late.json()["decisions"]]) == (1, ["R05"])
    assert desk.client.head(f"/v1/notes/{note}").headers["etag"] == '"1"'


def test_a_key_that_is_sent_again_gets_the_first_answer(desk: Opened) -> None:
    note = desk.add()
    answers = [desk.decide(note, 0, {"code": "R05", "verdict": "accept"}, key="k-1").json() for _ in range(2)]
    assert answers[0] == answers[1]


def test_the_coder_is_asked_again_only_where_it_is_wished(desk: Opened) -> None:
    note = desk.add()
    first = desk.post(f"/notes/{note}/predict").json()["model"]["at"]
    assert desk.post(f"/notes/{note}/predict").json()["model"]["at"] == first
    assert desk.post(f"/notes/{note}/predict", {"again": True}).json()["model"]["at"] >= first


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/predict", {"notes": []}, 422),
        ("/predict", {"notes": [{"text": ""}]}, 422),
        ("/predict", {"notes": [{"text": " "}]}, 422),
        ("/predict", {"notes": [{"text": CANARY, CANARY: 1}]}, 422),
        ("/predict", {"notes": [{"text": [CANARY]}]}, 422),
        ("/predict", {"notes": [{"text": CANARY}], "explainer": CANARY}, 422),
        ("/predict", {"notes": [{"text": CANARY}] * 70}, 413),
        ("/predict", {"notes": [{"text": CANARY * 2000}]}, 413),
        ("/explain", {"text": CANARY, "code": CANARY}, 404),
        ("/notes/" + CANARY, None, 405),
        ("/" + CANARY, {}, 404),
        ("/codes/search", {"q": CANARY, "limit": CANARY}, 422),
    ],
)
def test_what_cannot_be_answered_is_a_clear_4xx_without_the_text(
    reader: Reader, caplog: pytest.LogCaptureFixture, path: str, body: object, status: int
) -> None:
    with caplog.at_level(logging.DEBUG), opened_desk(reader, limits=Limits(text=20_000, body=200_000)) as desk:
        answer = desk.post(path, body)
        counted = desk.get("/metrics").text
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert CANARY not in answer.text + said(caplog) + counted


def test_text_is_in_no_log_and_no_metric(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), opened_desk(reader) as desk:
        note = desk.add(f"a dry cough {CANARY}", CANARY)
        desk.post(f"/notes/{note}/predict")
        desk.post("/codes/search", {"q": CANARY})
        desk.post("/predict", {"notes": [{"text": CANARY}]})
        desk.decide(note, 0, {"code": "R05", "verdict": "accept"})
        counted = desk.get("/metrics").text
    assert CANARY not in said(caplog) + counted
    assert note not in said(caplog)
    assert 'plant_decisions_total{verdict="accept"} 1.0' in counted


def test_a_word_sent_to_every_route_in_every_place_comes_back_in_no_refusal_log_or_metric(
    reader: Reader, caplog: pytest.LogCaptureFixture, unchecked: None
) -> None:
    bodies = ({CANARY: CANARY}, {"text": CANARY, "code": CANARY, "notes": [{"text": CANARY, "name": CANARY, "x": 1}],
              "q": {CANARY: 1}, "token": CANARY, "changes": [{"code": CANARY, "verdict": CANARY}], "order": [CANARY],
              "take": CANARY, "again": CANARY, "explainer": CANARY})  # fmt: skip
    headers = {"If-Match": CANARY, "Idempotency-Key": f"{CANARY}!", "Cookie": f"plant_session={CANARY}",
               "Authorization": f"Bearer {CANARY}", "Accept": CANARY, "X-Remote-User": CANARY}  # fmt: skip
    refusals = ""
    with caplog.at_level(logging.DEBUG), opened_desk(reader) as desk:
        note = desk.add(f"a dry cough {CANARY}", "one")
        places = [(method, path.replace("{note}", of)) for method, path in sorted(LEAST) for of in (note, CANARY)]
        for access in (Access(Who("root", "admin")), Access(anyone=None)):
            desk.desk.access = access
            for method, path in [*places, (CANARY.upper(), "/v1/me"), ("GET", f"/v1/{CANARY}"), ("GET", f"/{CANARY}")]:
                for body in bodies:
                    asked = f"{path}?{CANARY}={CANARY}&after={CANARY}&state={CANARY}&format={CANARY}"
                    answer = desk.client.request(method, asked, json=body, headers=headers)
                    assert answer.status_code < 500
                    refusals += answer.text if answer.status_code >= 400 else ""
        desk.desk.access = Access()
        counted = desk.get("/metrics").text
    found = (refusals + said(caplog) + counted).lower()
    assert CANARY not in found
    assert len(refusals) > 1000
    assert 'method="OTHER"' in counted


def test_half_a_surrogate_pair_is_refused(desk: Opened) -> None:
    answer = desk.client.post(
        "/v1/notes", content=b'{"notes": [{"text": "a \\ud83e b"}]}', headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422


def test_bodies_that_are_too_large_or_no_json_are_refused(reader: Reader) -> None:
    with opened_desk(reader, limits=Limits(body=1000)) as desk:
        assert desk.post("/predict", {"notes": [{"text": "x" * 2000}]}).status_code == 413
        parts = (b"x" * 500 for _ in range(4))
        kind = {"content-type": "application/json"}
        assert desk.client.post("/v1/predict", content=parts, headers=kind).status_code == 413
        assert desk.client.post("/v1/predict", content=b"{", headers=kind).json()["detail"] == "the body is no JSON"
        assert desk.client.post("/v1/predict", data={"a": "b"}).status_code == 415


def test_too_many_requests_and_too_slow_answers_are_told(reader: Reader) -> None:
    with opened_desk(reader, limits=Limits(in_flight=0)) as desk:
        assert desk.get("/me").status_code == 429
        assert desk.get("/health").status_code == 200
    with opened_desk(reader, limits=Limits(seconds=1e-9)) as desk:
        assert desk.post("/predict", {"notes": [{"text": NOTE}]}).status_code in (408, 503)


def test_pages_of_other_origins_and_names_are_refused(reader: Reader) -> None:
    with opened_desk(reader) as desk:
        desk.desk.hosts = frozenset({"localhost"})
        assert desk.post("/codes/search", {"q": "a"}, Sec_Fetch_Site="cross-site").status_code == 403
        assert desk.post("/codes/search", {"q": "a"}, Origin="http://evil.example").status_code == 403
        assert desk.post("/codes/search", {"q": "a"}, Origin="null").status_code == 403
        assert desk.post("/codes/search", {"q": "a"}, Origin="http://localhost:8000").status_code == 200
        assert desk.client.get("/v1/me", headers={"host": "evil.example"}).status_code == 421
        assert desk.client.get("/v1/me", headers={"host": "localhost:8000"}).status_code == 200


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def walked(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes, also those of routers that were included."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from walked(inner.routes) if inner is not None else [route]


def routes_of(opened: Opened) -> set[tuple[str, str]]:
    """Every method and path that anything answers, whether it is described or not, but the description itself."""
    found = list(walked(opened.client.app.routes))  # type: ignore[attr-defined]
    assert [route.path for route in found if not isinstance(route, APIRoute)] == ["/v1/openapi.json"]
    return {(method, route.path) for route in found if isinstance(route, APIRoute) for method in route.methods}


def test_every_route_is_denied_unless_a_role_was_given_it(reader: Reader, unchecked: None) -> None:
    with opened_desk(reader) as desk:
        routes = routes_of(desk)
        keys = {role: desk.desk.store.keys.add(Who("root", "admin"), f"a-{role}", role) for role in ROLES}
        desk.desk.access = Access(anyone=None)
        assert desk.get("/openapi.json").status_code == 401
        let_in = {
            role: {
                (method, path)
                for method, path in routes
                if desk.client.request(method, path.replace("{note}", "x" * 16), json={}, headers=headers).status_code
                not in (401, 403)
            }
            for role, headers in {"": {}, **{role: bearer(key) for role, key in keys.items()}}.items()
        }
    assert routes == set(LEAST), "a route has no line in the table of access.py, or a line no route"
    ranks = ("", *ROLES)
    for rank, role in enumerate(ranks):
        assert let_in[role] == {route for route, least in LEAST.items() if ranks.index(least) <= rank}


def test_a_route_that_nobody_thought_of_is_refused_to_all(reader: Reader) -> None:
    with opened_desk(reader) as desk:
        desk.client.app.get("/v1/forgotten")(lambda: {})  # type: ignore[attr-defined]
        assert desk.get("/forgotten").status_code == 403


def test_a_key_opens_the_desk_until_it_is_revoked(reader: Reader, tmp_path: Path) -> None:
    with opened_desk(reader, store=tmp_path / "desk.sqlite", access=Access(anyone=None)) as desk:
        keys = desk.desk.store.keys
        key = keys.add(Who("root", "admin"), "anna", "coder")
        assert desk.client.get("/v1/me", headers=bearer(key)).json()["name"] == "anna"
        assert desk.client.get("/v1/me", headers=bearer("wrong")).status_code == 401
        second = keys.add(Who("root", "admin"), "anna", "reviewer")
        assert desk.client.get("/v1/me", headers=bearer(key)).status_code == 401
        assert desk.client.get("/v1/me", headers=bearer(second)).json()["role"] == "reviewer"
        assert keys.revoke(Who("root", "admin"), "anna")
        assert desk.client.get("/v1/me", headers=bearer(second)).status_code == 401
        assert [row["action"] for row in desk.desk.store.audit()] == ["add-key", "add-key", "revoke-key"]
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert key.encode() not in kept
    assert second.encode() not in kept


def test_a_session_of_the_page_begins_with_a_key_and_ends_with_it(reader: Reader, tmp_path: Path) -> None:
    with opened_desk(reader, access=Access(anyone=None)) as desk:
        keys = desk.desk.store.keys
        key = keys.add(Who("root", "admin"), "anna", "coder")
        assert desk.post("/session", {"token": "wrong"}).status_code == 401
        begun = desk.post("/session", {"token": key})
        assert {"httponly", "samesite=strict"} <= {
            part.strip().lower() for part in begun.headers["set-cookie"].split(";")
        }
        assert desk.get("/me").json() == {"name": "anna", "role": "coder", "version": desk.get("/me").json()["version"]}
        assert desk.get("/export").status_code == 403
        desk.client.delete("/v1/session")
        assert desk.get("/me").status_code == 401
        assert "Secure" in desk.post("/session", {"token": key}, X_Forwarded_Proto="https").headers["set-cookie"]
        desk.post("/session", {"token": key})
        assert desk.get("/me").status_code == 200
        keys.revoke(Who("root", "admin"), "anna")
        assert desk.get("/me").status_code == 401


@pytest.mark.parametrize(
    ("peers", "headers", "status"),
    [
        (("testclient",), {}, 0),  # no address at all
        (("10.0.0.0/8",), {"X-User": "anna", "X-Role": "reviewer"}, 401),  # not from the proxy
        (("127.0.0.1",), {}, 401),
        (("127.0.0.1",), {"X-User": "anna"}, 401),
        (("127.0.0.1",), {"X-User": "anna", "X-Role": "owner"}, 401),
        (("127.0.0.1",), {"X-User": "anna <x>", "X-Role": "coder"}, 401),
        (("127.0.0.1",), [("X-User", "anna"), ("X-User", "root"), ("X-Role", "admin")], 401),
        (("127.0.0.1",), {"X-User": "anna", "X-Role": "reviewer"}, 200),
    ],
)
def test_a_proxy_is_believed_from_its_own_address_alone(
    reader: Reader, peers: tuple[str, ...], headers: object, status: int
) -> None:
    if not status:
        with pytest.raises(PlantError, match="address or a network"):
            networks(peers)
        return
    access = Access(anyone=None, proxy=Proxy("X-User", "X-Role", networks(peers)))
    with opened_desk(reader, access=access) as desk:
        client = TestClient(desk.client.app, base_url="http://localhost", client=("127.0.0.1", 50000))
        answer = client.get("/v1/me", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == status
    assert status != 200 or (answer.json()["name"], answer.json()["role"]) == ("anna", "reviewer")


def test_the_trail_is_for_admins_and_has_no_text(reader: Reader) -> None:
    with opened_desk(reader) as desk:
        note = desk.add(f"a dry cough {CANARY}", "one")
        desk.decide(note, 0, {"code": "R05", "verdict": "accept"})
        assert desk.get("/audit").status_code == 403
        desk.desk.access.anyone = Who("root", "admin")
        answer = desk.get("/audit")
    assert [line["action"] for line in answer.json()["lines"]] == ["add", "decide"]
    assert CANARY not in answer.text


def test_the_service_is_not_ready_while_its_store_does_not_answer(reader: Reader, postgresql: Server) -> None:
    address = postgresql.new_database()
    with opened_desk(reader, store=address) as desk:
        desk.desk.catalogue.result()
        assert desk.get("/ready").status_code == 200
        postgresql.drop(address)
        assert desk.get("/ready").status_code == 503
        late = desk.post("/notes", {"notes": [{"text": CANARY}]})
        assert (late.status_code, CANARY in late.text) == (503, False)


def test_two_people_see_who_has_a_note(reader: Reader) -> None:
    with opened_desk(reader) as desk:
        note = desk.add()
        desk.desk.access.anyone = Who("anna", "coder")
        assert desk.post(f"/notes/{note}/hold").json() == {"holder": "anna", "mine": True}
        desk.desk.access.anyone = Who("bert", "coder")
        assert desk.post(f"/notes/{note}/hold").json() == {"holder": "anna", "mine": False}
        assert desk.decide(note, 0, {"code": "R05", "verdict": "accept"}).status_code == 409
        assert desk.post(f"/notes/{note}/hold", {"take": True}).json()["mine"]
        assert desk.decide(note, 0, {"code": "R05", "verdict": "accept"}).status_code == 200


def test_the_queue_comes_in_parts(desk: Opened) -> None:
    for number in range(250):
        desk.desk.store.add_note(Who("anna"), f"n{number}", "a dry cough")
    first = desk.get("/queue").json()
    second = desk.get(f"/queue?after={first['next']}").json()
    names = [item["name"] for part in (first, second) for item in part["items"]]
    assert names == [f"n{number}" for number in range(250)]
    assert (second["next"], second["counts"]) == (None, {"open": 250, "finished": 0})


def test_every_answer_carries_a_policy_that_allows_no_foreign_script(desk: Opened) -> None:
    for path in ("/", "/v1/me", "/v1/nothing", "/desk/../app.py"):
        policy = desk.client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert desk.client.get("/desk/%2e%2e/app.py").status_code == 404
    assert desk.get("/me").headers["cache-control"] == "no-store"
