"""Requests that Schemathesis draws from the description of the service, right ones and wrong ones.

None is answered with a fault of ours, and no refusal repeats what was sent. A short form is among the tests; the long
one (`make fuzz`) draws `PLANT_REQUESTS` of each kind for each route.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from plant.serve.limits import Limits
from plant.serve.reader import Reader
from plant.serve.store import Who
from tests.desk_samples import NOTE, Opened, opened_desk, small_coder

REQUESTS = int(os.environ.get("PLANT_REQUESTS", "300"))
OWN = frozenset({"decisions", "by", "at", "version"})  # what a refusal tells of the note, not of the request
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return small_coder()


def strings(value: Any) -> Iterator[str]:
    """Every string of a JSON value, also those that are keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


def echoes(sent: dict[str, Any], refusal: str, described: str) -> list[str]:
    """What of a request stands in a refusal; words of the description itself are ours."""
    try:
        told = " ".join(strings({name: value for name, value in json.loads(refusal).items() if name not in OWN}))
    except ValueError:
        told = refusal
    submitted = strings([sent.get("json"), sent.get("params"), sent.get("data", b"").decode("latin-1")])
    return [word for word in submitted if len(word) >= 5 and word in told and word not in described]


def asked(desk: Opened, sent: dict[str, Any]) -> Any:
    """The answer to a request as Schemathesis hands it over."""
    body = {"content": sent["data"]} if "data" in sent else {"json": sent["json"]} if "json" in sent else {}
    headers = {name: value.encode("latin-1", "replace") for name, value in sent["headers"].items()}
    params = {name: str(value) for name, value in (sent.get("params") or {}).items()}
    return desk.client.request(sent["method"], sent["url"], params=params, headers=headers, **body)


def refused_badly(desk: Opened, *, requests: int) -> tuple[int, list[str]]:
    """How many requests were made, and which were answered with a fault or with an echo."""
    desk.desk.access.anyone = Who("root", "admin")
    notes = [desk.add(f"{NOTE} {number}", f"n{number}") for number in range(2)]
    described = desk.get("/openapi.json").text
    schema = schemathesis.openapi.from_dict(json.loads(described))
    faults: list[str] = []
    made = [0]
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:
        for strategy in _strategies(operation, notes):

            @settings(max_examples=requests, database=None, suppress_health_check=list(HealthCheck),
                      phases=[Phase.generate], derandomize=True)  # fmt: skip
            @given(case=strategy)
            def ask(case: Any) -> None:
                sent = case.as_transport_kwargs(base_url="http://localhost")
                answer = asked(desk, sent)
                made[0] += 1
                if answer.status_code >= 500:
                    faults.append(f"{answer.status_code} {case.method} {case.path}")
                elif answer.status_code >= 400:
                    found = echoes(sent, answer.text, described)
                    faults.extend(f"echo {case.method} {case.path} {word!r}" for word in found)

            with suppress(Unsatisfiable):  # where nothing is asked for, nothing wrong can be sent
                ask()
    return made[0], faults


def _strategies(operation: Any, notes: Iterable[str]) -> Iterator[Any]:
    """Requests of both kinds; where a route is of a note, also of notes that are there."""
    for mode in MODES:
        yield operation.as_strategy(generation_mode=mode)
    if "{note}" in operation.path:
        headers = st.sampled_from([{"If-Match": f'"{version}"'} for version in range(4)])
        for note in notes:
            yield headers.flatmap(
                lambda header, note=note: operation.as_strategy(path_parameters={"note": note}, headers=header)
            )


def test_an_echo_is_noticed() -> None:
    assert echoes({"json": {"q": "zebra fish"}}, '{"detail": "no zebra fish here"}', "") == ["zebra fish"]
    assert echoes({"json": {"verdict": "accept"}}, '{"detail": "accept or reject"}', '"accept"') == []


def test_no_request_that_can_be_drawn_is_a_fault_or_is_repeated(reader: Reader, unchecked: None) -> None:
    with opened_desk(reader, limits=Limits(body=100_000)) as desk:
        made, faults = refused_badly(desk, requests=4)
    assert faults == []
    assert made > 100


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_no_request_of_thousands_is_a_fault_or_is_repeated(
    reader: Reader, unchecked: None, database: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("postgresql").new_database() if database == "postgresql" else ":memory:"
    with opened_desk(reader, store=address, limits=Limits(body=100_000)) as desk:
        made, faults = refused_badly(desk, requests=REQUESTS)
        assert desk.desk.store.first_forgery() is None
    print(f"{database}: {made:,} requests, {len(faults)} faults")
    assert faults == []
