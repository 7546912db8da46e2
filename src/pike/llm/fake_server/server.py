"""A real HTTP server on 127.0.0.1 that plays an LLM provider, well or badly, request by request.

Knows model pages, when a reply is sent, and how a provider or the network fails. Does not know our
clients. It is shipped, so that a rehearsal of a run needs no provider::

    with FakeServer([Reply(status=429, retry_after="1"), Reply(text="hello")]) as server:
        client = connect(f"openai:any@{server.url}", LlmConfig())
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from pike.llm.fake_server.batches import FakeBatches, RecordedRequest, Rule
from pike.llm.fake_server.wire import Dialect, FakeReply, Fault, answer_body, chat_stream, dialect_of, error_body

HELLO = FakeReply()


class FakeServer(AbstractContextManager["FakeServer"]):
    """Serves scripted replies on a free port until it is closed.

    Args:
        replies: given to requests for answers in order of their arrival; afterwards `default`.
        default: the reply when the list is used up, or a rule that makes one from the request.
        models: what the model pages list; anything else is unknown there.
        keys: accepted keys for the model pages; None accepts all.
        slots: the most answers that are made at once; further requests wait in silence.

    Attributes:
        batches: the vendors' batch APIs; each call in a batch takes a reply as one alone would.
        most_in_flight: the largest number of answers that were being made at once.
    """

    def __init__(
        self,
        replies: Iterable[FakeReply] = (),
        default: FakeReply | Rule = HELLO,
        models: Iterable[str] = ("fake-model",),
        keys: Iterable[str] | None = None,
        slots: int = 1000,
    ) -> None:
        self._slots = threading.Semaphore(slots)
        self._replies = list(replies)
        self._default = default
        self._models = tuple(models)
        self._keys = None if keys is None else frozenset(keys)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._requests: list[RecordedRequest] = []
        self.batches = FakeBatches(self._reply_to)
        self._in_flight = self.most_in_flight = 0
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def root(self) -> str:
        """The address without a version, for Anthropic and Google."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The address of the OpenAI protocol."""
        return f"{self.root}/v1"

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Every request for an answer so far, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    def close(self) -> None:
        """Stop serving; hanging replies end."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, handler: _Handler, request: RecordedRequest) -> None:
        page = self.batches.answer(request, self.root)
        if page is not None:
            handler.send(page.status, page.text, page.headers)
            return
        dialect = dialect_of(request.path)
        if dialect is Dialect.MODELS:
            self._serve_models(handler, request)
            return
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            reply = self._reply_to(request)
            with self._slots:
                self._closing.wait(reply.delay_seconds)
                self._play(handler, request, dialect, reply)
        finally:
            with self._lock:
                self._in_flight -= 1

    def _reply_to(self, request: RecordedRequest) -> FakeReply:
        """The reply to one call, which is recorded; one of a batch as if it had come alone."""
        with self._lock:
            self._requests.append(request)
            reply = self._replies.pop(0) if self._replies else self._default
        return reply if isinstance(reply, FakeReply) else reply(request)

    def _play(self, handler: _Handler, request: RecordedRequest, dialect: Dialect, reply: FakeReply) -> None:
        if reply.fault is Fault.HANG:
            self._closing.wait()
            handler.drop()
        elif reply.fault is Fault.DROP:
            handler.drop()
        elif reply.status >= 400:
            message = reply.message.replace("{key}", _key(request))
            body = error_body(dialect, reply.status, reply.code, message)
            handler.send(reply.status, json.dumps(body), {"retry-after": reply.retry_after})
        elif reply.fault is Fault.NOT_JSON:
            handler.send(200, "<html>busy</html>", {"content-type": "text/html"})
        elif reply.fault is Fault.MALFORMED_JSON:
            handler.send(200, '{"choices": [', {})
        elif request.body.get("stream") and dialect is Dialect.CHAT:
            self._stream(handler, chat_stream(reply, request.model), reply)
        elif reply.fault is Fault.SILENT_MID_BODY:
            self._closing.wait()
        else:
            text = json.dumps(answer_body(dialect, reply, request.model))
            handler.send(200, text, {}, cut=reply.fault is Fault.DROP_MID_BODY)

    def _stream(self, handler: _Handler, events: list[str], reply: FakeReply) -> None:
        cut = reply.fault in (Fault.DROP_MID_BODY, Fault.SILENT_MID_BODY, Fault.CLOSE_MID_BODY)
        handler.begin_stream()
        for event in events[: max(1, len(events) // 2)] if cut else events:
            handler.send_event(event)
            self._closing.wait(reply.pause_seconds)
        if reply.fault is Fault.SILENT_MID_BODY:
            self._closing.wait()
        if reply.fault is Fault.DROP_MID_BODY:
            time.sleep(0.05)
            handler.drop()

    def _serve_models(self, handler: _Handler, request: RecordedRequest) -> None:
        if self._keys is not None and _key(request) not in self._keys:
            handler.send(401, json.dumps(error_body(Dialect.CHAT, 401, "invalid_api_key", "wrong key")), {})
        elif request.path.endswith("/key"):
            handler.send(200, json.dumps({"data": {"label": "fake"}}), {})
        elif request.path.endswith("/models"):
            rows = [{"id": model, "object": "model", "created": 0, "owned_by": "fake"} for model in self._models]
            handler.send(200, json.dumps({"object": "list", "data": rows}), {})
        elif (model := request.path.partition("/models/")[2]) in self._models:
            handler.send(200, json.dumps({"id": model, "object": "model", "created": 0, "owned_by": "fake"}), {})
        else:
            handler.send(404, json.dumps(error_body(Dialect.CHAT, 404, "model_not_found", "no such model")), {})


def _key(request: RecordedRequest) -> str:
    for header in ("authorization", "x-api-key", "x-goog-api-key"):
        if value := request.headers.get(header):
            return value.removeprefix("Bearer ")
    return ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: FakeServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what many tests want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(size)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path, headers = self.path.partition("?")[0], {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(path, headers, body if isinstance(body, dict) else {}, raw, self.command)
        cast(_Server, self.server).owner._serve(self, request)

    do_GET = do_DELETE = do_POST  # without a body

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are recorded, not printed."""

    def send(self, status: int, text: str, headers: Mapping[str, str | None], *, cut: bool = False) -> None:
        """Send a whole reply, or with `cut` half of its body and then a reset."""
        data = text.encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.wfile.flush()
        if cut:
            # Lets the half be read before the reset discards it.
            time.sleep(0.05)
            self.drop()

    def begin_stream(self) -> None:
        """Send the head of a stream, which ends with the connection."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()

    def send_event(self, event: str) -> None:
        """Send one event at once."""
        self.wfile.write(event.encode())
        self.wfile.flush()

    def drop(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()
