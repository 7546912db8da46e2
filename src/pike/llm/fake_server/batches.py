"""The batch APIs of the vendors: OpenAI's with files, Anthropic's, and Google's with uploads.

Knows the documented pages from creating a batch to its results. Does not know sockets, or what a
single answer says (`wire`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pike.llm.fake_server.wire import Dialect, FakeReply, answer_body, error_body

_MADE = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it arrived; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    raw: bytes = b""
    method: str = "POST"

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model") or self.path.rpartition("/")[2].partition(":")[0])


Rule = Callable[[RecordedRequest], FakeReply]
"""Makes the reply to one call; one of a batch has the headers of the batch."""


@dataclass(frozen=True, slots=True)
class FakePage:
    """What the server sends back."""

    text: str
    status: int = 200
    headers: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class _Job:
    """One batch: who made it, and the lines of its results."""

    lines: list[dict[str, Any]]
    input_file: str = ""


class FakeBatches:
    """Serves batches; they end at once unless `held` is set.

    Attributes:
        held: no batch ends while this is true.
        expired: calls of batches are not run; they expire.
        jobs: how many batches were made.
        looks: how often somebody asked how a batch stands.
        reachable: otherwise every look fails.
    """

    def __init__(self, reply: Rule) -> None:
        self.held = self.expired = False
        self.reachable = True
        self.jobs = self.looks = 0
        self._reply = reply
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._files: dict[str, bytes] = {}

    def forget(self) -> None:
        """Drop every batch, as vendors do after a while."""
        self._jobs.clear()

    def answer(self, request: RecordedRequest, root: str) -> FakePage | None:
        """The page of a batch API, None for any other path."""
        path = request.path
        with self._lock:
            if "/messages/batches" in path:
                return self._anthropic(request, root)
            if path.startswith("/upload/") or ":batchGenerateContent" in path or path.endswith(":download"):
                return self._google_making(request, root)
            if path.startswith("/v1beta/batches/"):
                return self._looked_at(path.removeprefix("/v1beta/"), _google_job)
            if path.startswith("/v1beta/files/"):
                return FakePage("{}")
            if path == "/v1/batches":
                return self._openai_made(request)
            if path.startswith("/v1/batches/"):
                return self._looked_at(path.rpartition("/")[2], _openai_job)
            return self._openai_file(request) if path.startswith("/v1/files") else None

    def _looked_at(self, name: str, shown: Callable[[str, _Job, bool], dict[str, Any]]) -> FakePage:
        self.looks += 1
        if not self.reachable:
            return FakePage(json.dumps(error_body(Dialect.CHAT, 503, "busy", "try later")), 503)
        job = self._jobs.get(name)
        if job is None:
            return FakePage(json.dumps(error_body(Dialect.CHAT, 404, "not_found", "no such batch")), 404)
        return FakePage(json.dumps(shown(name, job, not self.held)))

    def _anthropic(self, request: RecordedRequest, root: str) -> FakePage:
        name, _, results = request.path.partition("/messages/batches")[2].strip("/").partition("/")

        def shown(name: str, job: _Job, ended: bool) -> dict[str, Any]:
            return _anthropic_job(name, job, ended, root)

        if not name:
            lines = [
                {"custom_id": one["custom_id"], "result": self._anthropic_result(request.headers, one["params"])}
                for one in request.body["requests"]
            ]
            name = self._keep(f"msgbatch_{self.jobs}", _Job(lines))
            return FakePage(json.dumps(shown(name, self._jobs[name], False)))
        if results:
            return FakePage(_jsonl(self._jobs[name].lines), headers={"content-type": "application/x-jsonl"})
        return self._looked_at(name, shown)

    def _anthropic_result(self, headers: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, Any]:
        if self.expired:
            return {"type": "expired"}
        reply = self._reply(RecordedRequest("/v1/messages", headers, params))
        if reply.status >= 400:
            error = error_body(Dialect.ANTHROPIC, reply.status, reply.code, reply.message)
            return {"type": "errored", "error": error}
        return {"type": "succeeded", "message": answer_body(Dialect.ANTHROPIC, reply, params["model"])}

    def _openai_file(self, request: RecordedRequest) -> FakePage:
        if request.path == "/v1/files":
            name = f"file-{len(self._files)}"
            self._files[name] = _uploaded(request.headers, request.raw)
            return FakePage(json.dumps({"id": name, "object": "file", "bytes": len(request.raw), "purpose": "batch"}))
        name = request.path.removeprefix("/v1/files/").partition("/")[0]
        if request.method == "DELETE":
            return FakePage(json.dumps({"id": name, "object": "file", "deleted": True}))
        return FakePage(self._files[name].decode())

    def _openai_made(self, request: RecordedRequest) -> FakePage:
        file = request.body["input_file_id"]
        lines = [
            {"id": "batch_req", "custom_id": line["custom_id"], **self._openai_result(request.headers, line)}
            for line in _lines(self._files[file])
        ]
        name = self._keep(f"batch_{self.jobs}", _Job(lines, file))
        self._files[f"out-{name}"] = _jsonl(lines).encode()
        return FakePage(json.dumps(_openai_job(name, self._jobs[name], False)))

    def _openai_result(self, headers: Mapping[str, str], line: Mapping[str, Any]) -> dict[str, Any]:
        if self.expired:
            return {"response": None, "error": {"code": "batch_expired", "message": "expired"}}
        reply = self._reply(RecordedRequest(line["url"], headers, line["body"]))
        status, body = 200, answer_body(Dialect.RESPONSES, reply, line["body"]["model"])
        if reply.status >= 400:
            status, body = reply.status, error_body(Dialect.RESPONSES, reply.status, reply.code, reply.message)
        return {"response": {"status_code": status, "request_id": "r", "body": body}, "error": None}

    def _google_making(self, request: RecordedRequest, root: str) -> FakePage:
        path, headers = request.path, request.headers
        if path.endswith(":download"):
            return FakePage(self._files[path.rpartition("/")[2].partition(":")[0]].decode())
        if ":batchGenerateContent" in path:
            model = path.rpartition("/")[2].partition(":")[0]
            given = request.body["batch"]["inputConfig"]
            file = str(given.get("fileName") or given.get("file_name")).removeprefix("files/")
            lines = [self._google_result(headers, model, line) for line in _lines(self._files[file])]
            name = self._keep(f"batches/b{self.jobs}", _Job(lines))
            self._files[f"out{self.jobs - 1}"] = _jsonl(lines).encode()
            return FakePage(json.dumps(_google_job(name, self._jobs[name], False)))
        if "start" in headers.get("x-goog-upload-command", ""):
            return FakePage("{}", headers={"x-goog-upload-url": f"{root}/upload/v1beta/files"})
        name = f"in{len(self._files)}"
        self._files[name] = request.raw
        made = {"file": {"name": f"files/{name}", "mimeType": "application/jsonl", "state": "ACTIVE"}}
        return FakePage(json.dumps(made), headers={"x-goog-upload-status": "final"})

    def _google_result(self, headers: Mapping[str, str], model: str, line: Mapping[str, Any]) -> dict[str, Any]:
        if self.expired:
            return {"key": line["key"], "error": {"code": 4, "message": "expired"}}
        reply = self._reply(RecordedRequest(f"/v1beta/models/{model}:generateContent", headers, line["request"]))
        if reply.status >= 400:
            return {"key": line["key"], "error": {"code": 14, "message": reply.message}}
        return {"key": line["key"], "response": answer_body(Dialect.GOOGLE, reply, model)}

    def _keep(self, name: str, job: _Job) -> str:
        self._jobs[name] = job
        self.jobs += 1
        return name


def _anthropic_job(name: str, job: _Job, ended: bool, root: str) -> dict[str, Any]:
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    return {
        "id": name,
        "type": "message_batch",
        "processing_status": "ended" if ended else "in_progress",
        "request_counts": {**counts, "succeeded" if ended else "processing": len(job.lines)},
        "created_at": _MADE,
        "expires_at": _MADE,
        "ended_at": _MADE if ended else None,
        "results_url": f"{root}/v1/messages/batches/{name}/results" if ended else None,
    }


def _openai_job(name: str, job: _Job, ended: bool) -> dict[str, Any]:
    return {
        "id": name,
        "object": "batch",
        "endpoint": "/v1/responses",
        "completion_window": "24h",
        "status": "completed" if ended else "in_progress",
        "created_at": 1_767_225_600,
        "input_file_id": job.input_file,
        "output_file_id": f"out-{name}" if ended else None,
        "request_counts": {"total": len(job.lines), "completed": len(job.lines) if ended else 0, "failed": 0},
    }


def _google_job(name: str, _: _Job, ended: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "createTime": _MADE}
    metadata["state"] = "BATCH_STATE_SUCCEEDED" if ended else "BATCH_STATE_RUNNING"
    if ended:
        metadata["output"] = {"responsesFile": f"files/out{name.removeprefix('batches/b')}"}
    return {"name": name, "metadata": metadata, "done": ended}


def _lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines() if line.strip()]


def _jsonl(lines: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(line) for line in lines)


def _uploaded(headers: Mapping[str, str], raw: bytes) -> bytes:
    """The file in a form of several parts."""
    boundary = headers["content-type"].partition("boundary=")[2].encode()
    for part in raw.split(b"--" + boundary):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    return b""
