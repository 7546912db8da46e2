"""Whatever the description of the evaluation service allows, and more, is answered: never a status of 500."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from service_material import ADMIN, PARCEL, Service, asked, candidate

pytest.importorskip("fastapi", reason="needs the extra serve")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("fuzzed"))
    made.bring()
    yield made
    assert made.process.poll() is None, "the service ended"
    made.kill()


@pytest.mark.slow
def test_nothing_is_answered_by_500(service: Service) -> None:
    schemathesis = pytest.importorskip("schemathesis")  # imported late, because it takes a second
    api = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [found.ok() for found in api.get_all_operations()]
    seen: Counter[int] = Counter()
    for operation in operations:

        @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            if case.method == "POST" and isinstance(case.body, dict):
                case.body.update(parcel=PARCEL.digest, device="", versions=[])
            response = case.call(headers=ADMIN)
            seen[response.status_code] += 1
            assert response.status_code < 500, response.text
            if response.status_code >= 400:
                assert set(response.json()["error"]) == {"code", "message"}

        ask()
    assert len(operations) == 7
    assert seen[422] and seen[404], seen  # whether one is accepted is left to chance


@pytest.mark.parametrize("source", ["\ud800", "\0", "'" * 100_000, "\u202e", "# pike-instant: valid 0ms"])
def test_odd_candidates_are_judged_or_refused(service: Service, source: str) -> None:
    with service.http() as http:
        body = asked(candidate("x"))
        body["candidates"][0]["source"] = source
        told = http.post("/v1/submissions", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert told.status_code < 500
        id_ = told.json()["id"]
        assert http.get(f"/v1/submissions/{id_}", params={"wait": 20}).json()["state"] in ("done", "failed")
