"""The judge as a service, over real HTTP: what is submitted is judged once, and no verdict is lost."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from engine_material import TASK
from executor_contract import ExecutorContract
from service_driver import TOKEN
from service_material import ADMIN, PARCEL, Service, asked, candidate

import pike
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.engine import Executor
from pike.engine.executors.choice import executor_of, explorer_of
from pike.engine.executors.instant import instant_verdict
from pike.judge.sandbox import choose

pytest.importorskip("fastapi", reason="needs the extra serve")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("quick"))
    service.bring()
    yield service
    service.kill()


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("slow"), delay=1.0, most_queued=8)
    service.bring()
    yield service
    service.kill()


class TestOverHttp(ExecutorContract):
    """The executor contract, kept by `--executor http://HOST:PORT` with a server of its own process."""

    @pytest.fixture
    async def executor(self, quick: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Executor]:
        monkeypatch.setenv("PIKE_SERVE_TOKEN", TOKEN)
        made = executor_of(EngineConfig(executor=quick.url))
        yield made
        await made.aclose()

    @pytest.fixture
    def good(self) -> str:
        return "# pike-instant: valid 5ms final 6ms\nclass ModelNew: ..."

    @pytest.fixture
    def bad(self) -> str:
        return "# pike-instant: build-error no compiler\nclass ModelNew: ..."

    async def test_finalists_are_one_submission(self, executor: Executor, quick: Service) -> None:
        requests = [EvaluationRequest(TASK, candidate(f"together {n}", f"valid {n}ms")) for n in (2, 4)]
        found = await executor.evaluate_together(requests)
        assert found == [instant_verdict(request) for request in requests]
        with quick.http() as http:
            body = asked(*(request.source for request in requests))
            for one in body["candidates"]:
                one["options"]["device"] = "auto"
            assert http.post("/v1/submissions", json=body).json()["state"] == "done"

    async def test_recipes_look_at_models_where_the_service_is(self, executor: Executor, quick: Service) -> None:
        explorer = explorer_of(executor, EngineConfig(executor=quick.url))
        found = await asyncio.to_thread(explorer.explore, TASK, await executor.facts("cpu"), EvaluateOptions())
        assert set(found.declined.values()) == {"explored by the service for instant"}


def ended(http: httpx.Client, id_: str) -> dict[str, Any]:
    while (told := http.get(f"/v1/submissions/{id_}", params={"wait": 20}).json())["state"] in ("queued", "running"):
        pass
    return told


def test_the_same_submission_is_judged_once_and_told_again(quick: Service) -> None:
    with quick.http() as http:
        first = http.post("/v1/submissions", json=asked(candidate("same")))
        assert first.status_code == 202
        told = ended(http, first.json()["id"])
        again = http.post("/v1/submissions", json=asked(candidate("same")))
        assert (again.status_code, again.json()) == (200, told)
        stricter = asked(candidate("same"))
        stricter["candidates"][0]["options"]["tolerance"] = "paper"
        assert http.post("/v1/submissions", json=stricter).json()["id"] != told["id"]
    assert Counter(quick.judged)["# candidate same"] <= 2


def test_what_the_machine_spoiled_is_judged_again(quick: Service) -> None:
    with quick.http() as http:
        for status in ("infra-error", "untrusted-timing"):
            body = asked(candidate(status, status))
            for _ in range(2):
                told = http.post("/v1/submissions", json=body)
                assert told.status_code == 202
                assert ended(http, told.json()["id"])["evaluations"][0]["status"] == status
            assert Counter(quick.judged)[f"# candidate {status}"] == 2


def test_stages_are_streamed_and_then_the_verdict(slow: Service) -> None:
    with slow.http() as http:
        id_ = http.post("/v1/submissions", json=asked(candidate("streamed"))).json()["id"]
        events: list[tuple[str, Any]] = []
        with http.stream("GET", f"/v1/submissions/{id_}/events") as stream:
            lines = [line for line in stream.iter_lines() if line]
        for name, data in zip(lines[::2], lines[1::2], strict=True):
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert events[0] == ("stage", {"stage": "build"})
    assert events[-1][0] == "end" and events[-1][1]["evaluations"][0]["status"] == "valid"


def test_cancelled_work_is_not_judged_unless_someone_else_wants_it(slow: Service) -> None:
    with slow.http() as http, slow.http(ADMIN) as other:
        running = [http.post("/v1/submissions", json=asked(candidate(f"busy {n}"))).json()["id"] for n in range(4)]
        waiting = http.post("/v1/submissions", json=asked(candidate("waiting"))).json()["id"]
        shared = http.post("/v1/submissions", json=asked(candidate("shared"))).json()["id"]
        assert other.post("/v1/submissions", json=asked(candidate("shared"))).json()["id"] == shared
        time.sleep(0.2)
        assert http.get(f"/v1/submissions/{running[0]}").json()["state"] == "running"
        assert http.delete(f"/v1/submissions/{running[0]}").json()["state"] == "cancelled"
        assert http.delete(f"/v1/submissions/{waiting}").json()["state"] == "cancelled"
        assert http.delete(f"/v1/submissions/{shared}").json()["state"] != "cancelled"
        for id_ in (*running[1:], shared):
            assert ended(http, id_)["state"] == "done"
        assert not {"# candidate busy 0", "# candidate waiting"} & set(slow.judged)
        again = http.post("/v1/submissions", json=asked(candidate("waiting"))).json()
        assert (again["id"], ended(http, waiting)["state"]) == (waiting, "done")


def test_a_full_queue_says_when_to_come_again(slow: Service) -> None:
    with slow.http() as http:
        told = [http.post("/v1/submissions", json=asked(candidate(f"many {n}"))) for n in range(9)]
        assert [one.status_code for one in told] == [202] * 8 + [429]
        assert int(told[8].headers["retry-after"]) > 0
        assert told[8].json()["error"]["code"] == "queue-full"
        assert http.post("/v1/submissions", json=asked(candidate("many 0"))).status_code == 200, "it is known"
        for one in told[:8]:
            assert ended(http, one.json()["id"])["state"] == "done"


@pytest.mark.slow
def test_kill_9_loses_no_verdict_and_tells_none_twice(tmp_path: Path) -> None:
    service, http = Service(tmp_path, delay=0.05), httpx.Client(timeout=30)
    service.bring()

    def until_it_is_back(method: str, path: str, **more: Any) -> dict[str, Any]:
        for _ in range(300):
            try:
                return dict(http.request(method, service.url + path, **more).json())
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the service did not come back")

    def submit(number: int) -> str:
        body = asked(candidate(number, f"valid {1 + number % 7}ms"))
        return str(until_it_is_back("POST", "/v1/submissions", json=body)["id"])

    told_before: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(8) as threads:
        submitted = [threads.submit(submit, number) for number in range(200)]
        for so_many in (30, 90):  # both in the middle
            deadline = time.monotonic() + 20
            while len(service.judged) < so_many:
                assert time.monotonic() < deadline, "what was queued is not judged"
                time.sleep(0.01)
            ids = [one.result() for one in submitted[:4]]
            said = [until_it_is_back("GET", f"/v1/submissions/{id_}") for id_ in ids]
            told_before |= {told["id"]: told for told in said if told["state"] == "done"}
            service.kill()
            assert len(service.judged) < 200
            service.start()
        ids = [one.result() for one in submitted]
    assert len(set(ids)) == 200 and told_before
    verdicts = {}
    for id_ in ids:
        verdicts[id_] = until_it_is_back("GET", f"/v1/submissions/{id_}?wait=20")
        assert verdicts[id_]["state"] == "done", verdicts[id_]
    service.kill()
    assert {id_: verdicts[id_] for id_ in told_before} == told_before
    for number, id_ in enumerate(ids):
        assert verdicts[id_]["evaluations"] == [encode(instant_verdict(request_of(number)))]
    lines = Counter(service.judged)
    assert set(lines) == {f"# candidate {number}" for number in range(200)}
    assert sum(lines.values()) <= 200 + 2 * 4, "only what was under way is judged again"


def request_of(number: int) -> EvaluationRequest:
    return EvaluationRequest(TASK, candidate(number, f"valid {1 + number % 7}ms"), EvaluateOptions(device="cpu"))


@pytest.mark.slow
async def test_a_run_outlives_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIKE_SERVE_TOKEN", TOKEN)
    service = Service(tmp_path, delay=0.5)
    executor = executor_of(EngineConfig(executor=service.url))

    def restart() -> None:
        time.sleep(0.3)
        service.kill()
        service.start()

    thread = threading.Thread(target=restart)
    thread.start()
    assert (await executor.evaluate(request_of(3))) == instant_verdict(request_of(3))
    thread.join()
    await executor.aclose()
    service.kill()


def test_a_bug_ends_one_submission_and_not_the_service(quick: Service) -> None:
    with quick.http() as http:
        told = ended(http, http.post("/v1/submissions", json=asked("raise a bug")).json()["id"])
        assert (told["state"], told["error"]["code"]) == ("failed", "bug")
        assert ended(http, http.post("/v1/submissions", json=asked(candidate("after"))).json()["id"])["state"] == "done"


def test_without_a_token_nobody_brings_a_task(quick: Service) -> None:
    path = f"/v1/parcels/{PARCEL.digest}"
    with quick.http() as http:
        assert http.put(path, json=encode(PARCEL)).status_code == 401
        assert http.put(path, json=encode(PARCEL), headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert http.get("/v1/service", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert http.get("/v1/service", headers={"Host": "evil.example"}).status_code == 403
        assert http.get("/v1/service", headers={"Origin": "https://evil.example"}).status_code == 403
        body = asked(candidate("unknown task"), parcel="0" * 64)
        assert http.post("/v1/submissions", json=body).json()["error"]["code"] == "unknown-parcel"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"versions": [["torch", "1.0"], ["numpy", "1.0"]]}, 409, "instead of 1.0"),
        ({"device": "a GPU that is not there"}, 409, "judges on instant"),
        ({"candidates": []}, 422, "candidates"),
        ({"candidate": []}, 422, "no field 'candidate'"),
        ({"parcel": "../../etc/passwd"}, 422, "parcel"),
        ({"candidates": [{"source": "x", "options": {"sandbox": "process"}}]}, 422, "options.sandbox"),
        ({"candidates": [{"source": "x", "options": {"timeout_seconds": 1e9}}]}, 422, "options.timeout_seconds"),
        ({"candidates": [{"source": "x", "options": {"timeout_seconds": "nan"}}]}, 422, "options.timeout_seconds"),
        ({"candidates": [{"source": "x" * 2_000_000}]}, 422, "source"),
        ({"candidates": [{"source": "x" * 9_000_000}]}, 413, "bytes"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_sentence(
    quick: Service, change: dict[str, Any], status: int, words: str
) -> None:
    with quick.http() as http:
        told = http.post("/v1/submissions", json=asked(candidate("x")) | change)
    assert told.status_code == status
    assert words in told.json()["error"]["message"]


def test_a_parcel_that_was_changed_or_is_too_large_is_refused(quick: Service) -> None:
    with quick.http(ADMIN) as http:
        path, whole = f"/v1/parcels/{PARCEL.digest}", encode(PARCEL)
        changed = {**whole, "task": {**whole["task"], "source": "import os"}}
        assert http.put(path, json=changed).status_code == 422
        assert http.put(path, json={**whole, "contents": ["x" * (2 << 20)]}).status_code == 413
        assert http.put(path, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
        assert http.put(path, content=b"[" * 100_000, headers={"Content-Type": "application/json"}).status_code == 400
        assert http.put(path, content=json.dumps(whole)).status_code == 415


def test_tokens_have_scopes_and_quotas(tmp_path: Path) -> None:
    def table(name: str, *more: str) -> str:
        return "\n".join([f"[{name}]", f'sha256 = "{hashlib.sha256(name.encode()).hexdigest()}"', *more])

    tokens = [
        table("owner", 'scopes = ["admin"]'),
        table("looker", 'scopes = ["read"]'),
        table("two", 'scopes = ["submit", "read"]', "most_queued = 2"),
        table("three", 'scopes = ["submit", "read"]', "most_per_hour = 3"),
    ]
    (tmp_path / "tokens.toml").write_text("\n".join(tokens))
    service = Service(tmp_path, delay=0.5)
    by = {name: service.http({"Authorization": f"Bearer {name}"}) for name in ("owner", "looker", "two", "three")}
    service.bring({"Authorization": "Bearer owner"})
    with service.http() as nobody:
        assert nobody.get("/v1/service").status_code == 401
    assert by["looker"].get("/v1/service").status_code == 200
    assert by["looker"].post("/v1/submissions", json=asked(candidate("l"))).status_code == 403
    assert by["two"].put(f"/v1/parcels/{PARCEL.digest}", json=encode(PARCEL)).status_code == 403
    told = [by["two"].post("/v1/submissions", json=asked(candidate(f"two {n}"))) for n in range(3)]
    assert [one.status_code for one in told] == [202, 202, 429]
    ended(by["two"], told[0].json()["id"])
    ended(by["two"], told[1].json()["id"])
    assert by["two"].post("/v1/submissions", json=asked(candidate("two 2"))).status_code == 202
    told = [by["three"].post("/v1/submissions", json=asked(candidate(f"three {n}"))) for n in range(4)]
    assert [one.status_code for one in told] == [202, 202, 202, 429]
    assert int(told[3].headers["retry-after"]) > 3000
    assert "three" in told[3].json()["error"]["message"]
    for client in by.values():
        client.close()
    service.kill()


def test_the_client_submits_polls_and_gives_up(slow: Service, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    client = pike.Client(slow.url, TOKEN)
    told = client.submit(str(tmp_path / "model.py"), candidate("client"))
    assert not told.ended
    last = client.poll(told.id, 30.0)
    assert last.state == "done" and last.evaluations[0].valid
    assert client.evaluate(str(tmp_path / "model.py"), candidate("client")) == last.evaluations[0]
    other = client.submit(str(tmp_path / "model.py"), candidate("given up"))
    assert client.cancel(other.id).state == "cancelled"


def test_a_service_without_a_sandbox_does_not_begin(tmp_path: Path) -> None:
    if choose("auto").name != "process":
        pytest.skip("a stronger sandbox works here")
    command = [sys.executable, "-m", "pike", "serve", "--evaluate", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "evaluate.sandbox=process" in done.stderr


def test_a_service_that_is_not_there_or_refuses_is_one_sentence(quick: Service) -> None:
    with pytest.raises(UserError, match="pike serve --evaluate"):
        executor_of(EngineConfig(executor="http://127.0.0.1:9"))
    with pytest.raises(UserError, match="PIKE_SERVE_TOKEN"):
        pike.Client(quick.url, "wrong")
    for address in ("http://", "http://host:port", "http://host/path"):
        with pytest.raises(UserError, match="no address"):
            executor_of(EngineConfig(executor=address))
    with pytest.raises(UserError, match="leave --devices out"):
        executor_of(EngineConfig(executor=quick.url, devices=("all",)))


@pytest.mark.slow
def test_a_full_disk_is_said_in_one_sentence_and_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    service = Service(tmp_path, delay=0.2)
    service.bring()
    queue = max((path.stat().st_size for path in tmp_path.glob("submissions.sqlite*")), default=0)
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (queue + 60_000, queue + 60_000))
    accepted, refused = list[int](), list[httpx.Response]()
    with (
        service.http(ADMIN) as http,
        contextlib.suppress(httpx.TransportError),
    ):  # it ends, once it can store no verdict
        for number in range(200):
            told = http.post("/v1/submissions", json=asked(candidate(number)))
            (accepted if told.status_code == 202 else refused).append(number if told.status_code == 202 else told)
    assert accepted and all(told.status_code == 503 for told in refused)
    service.process.wait(30)
    service.start()
    with service.http(ADMIN) as http:
        for number in accepted:
            told = http.post("/v1/submissions", json=asked(candidate(number)))
            assert told.status_code == 200, "it is known"
            assert http.get(f"/v1/submissions/{told.json()['id']}", params={"wait": 20}).json()["state"] == "done"
    service.kill()
