"""The HTTP interface of the evaluation service, described by OpenAPI.

Knows which address does what, for which scope, and in which order a submission is looked at. Does
not know how it is judged (`api.service`), or how the service listens (`serving`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect

import pike
from pike.api.service.desk import DIGEST, Desk, Submission, SubmissionState, as_parcel, as_submission, refused, unlike
from pike.core.codec import encode
from pike.core.device import DeviceFacts
from pike.server.dashboard.guard import host_of
from pike.server.evaluation.access import ADMIN, READ, SUBMIT, TASKS, Caller, ServiceTokens
from pike.server.evaluation.answers import HANDLED, RequestRefused, answer, read_json, refusal

MOST_SUBMISSION_BYTES = 8 << 20
_FULL_SECONDS = 2.0
BEAT_SECONDS = 15.0
"""A silence after which a stream says that it stands."""
_SCHEMAS = "#/components/schemas/"

Digest = Annotated[str, Path(pattern=f"^{DIGEST.pattern}$", description="SHA-256 as 64 hexadecimal digits.")]
Device = Annotated[str, Path(pattern="^(auto|cpu|cuda(:[0-9]{1,2})?)$")]
Seen = Annotated[int, Query(ge=0, le=1000, description="Answer at once where there are more stages.")]
Wait = Annotated[float, Query(ge=0, le=30, description="Seconds to wait for its end.")]


class Interface:
    """The addresses.

    Args:
        desk: takes and judges.
        tokens: who may ask.
        hosts: the names under which it answers.
        most_bytes: of a parcel.
    """

    def __init__(self, desk: Desk, tokens: ServiceTokens, hosts: Sequence[str], most_bytes: int) -> None:
        self._desk, self._tokens, self._hosts, self._most_bytes = desk, tokens, hosts, most_bytes

    def app(self) -> FastAPI:
        """The application, without the pages that would load scripts from elsewhere."""
        app = FastAPI(
            title="PIKE evaluation service",
            version=pike.__version__,
            docs_url=None,
            redoc_url=None,
            dependencies=[Depends(HTTPBearer(auto_error=False))],
        )
        one = "/v1/submissions/{id}"
        routes: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = [
            ("GET", "/v1/service", self.service, {}),
            ("GET", "/v1/devices/{device}", self.facts, {"response_model": DeviceFacts}),
            ("PUT", "/v1/parcels/{digest}", self.bring, {"openapi_extra": _body({"type": "object"})}),
            ("POST", "/v1/submissions", self.submit, {"response_model": SubmissionState, "openapi_extra": _asked()}),
            ("GET", one, self.poll, {"response_model": SubmissionState}),
            ("GET", f"{one}/events", self.follow, {}),
            ("DELETE", one, self.cancel, {"response_model": SubmissionState}),
        ]
        for method, path, end, more in routes:
            app.add_api_route(path, end, methods=[method], **more)
        for kind in HANDLED:
            app.add_exception_handler(kind, refusal)
        described = app.openapi
        app.openapi = lambda: _with_schemas(described())  # type: ignore[method-assign]
        return app

    async def service(self, request: Request) -> Response:
        """Versions, device and size of the service."""
        self._caller(request, READ, SUBMIT)
        return answer(self._desk.info)

    async def facts(self, request: Request, device: Device) -> Response:
        """What a device of the service is."""
        self._caller(request, READ, SUBMIT)
        return answer(await self._desk.facts(device))

    async def bring(self, request: Request, digest: Digest) -> Response:
        """Bring a task with its files; its code runs outside of every sandbox (scope `tasks`)."""
        self._caller(request, TASKS)
        value = await _read(request, self._most_bytes)
        try:
            parcel = await asyncio.to_thread(as_parcel, value)
        except (ValueError, RecursionError) as error:
            raise RequestRefused(422, "invalid", str(error)) from error
        if parcel.digest != digest:
            raise RequestRefused(
                422, "invalid", f"The parcel's digest is {parcel.digest[:64]}, not that of the address"
            )
        await asyncio.to_thread(self._desk.bring, parcel)
        return answer({"digest": digest}, 201)

    async def submit(self, request: Request) -> Response:
        """Submit one candidate, or several that are judged together. What is known is not judged again."""
        caller = self._caller(request, SUBMIT)
        try:
            submission = as_submission(await _read(request, MOST_SUBMISSION_BYTES))
        except (ValueError, RecursionError) as error:
            raise RequestRefused(422, "invalid", str(error)) from error
        self._check(submission)
        if self._desk.is_new(submission):
            self._require_room(caller)
        told, new = self._desk.submit(submission, caller.name)
        return answer(told, 202 if new else 200)

    async def poll(self, request: Request, id: Digest, wait: Wait = 0.0, seen: Seen = 1000) -> Response:
        """Where a submission stands, with its verdicts once it is done."""
        self._caller(request, READ)
        self._known(id)
        return answer(await self._desk.news(id, seen, wait) if wait else self._known(id))

    async def follow(self, request: Request, id: Digest) -> Response:
        """Its stages as server-sent events (`stage`), and at last the submission itself (`end`)."""
        self._caller(request, READ)
        self._known(id)
        return StreamingResponse(self._events(id), media_type="text/event-stream")

    async def cancel(self, request: Request, id: Digest) -> Response:
        """Give a submission up: what nobody else wants leaves the queue, or is stopped."""
        caller = self._caller(request, SUBMIT)
        self._known(id)
        self._desk.cancel(id, None if caller.may(ADMIN) else caller.name)
        return answer(self._known(id))

    def _caller(self, request: Request, *scopes: str) -> Caller:
        """Who asks, if any of the scopes is theirs.

        Raises:
            RequestRefused: it is not.
        """
        if "origin" in request.headers or host_of(request.scope) not in self._hosts:
            raise RequestRefused(403, "unknown-host", "Neither other sites nor under other names: see --allow-host")
        caller = self._tokens.caller(request.headers.getlist("authorization"))
        if caller is not None and any(caller.may(scope) for scope in scopes):
            return caller
        if caller is None or "authorization" not in request.headers:
            raise RequestRefused(401, "no-token", f"This needs a token with the scope {' or '.join(scopes)}")
        raise RequestRefused(403, "forbidden", f"The token of '{caller.name}' has not the scope {' or '.join(scopes)}")

    def _check(self, submission: Submission) -> None:
        """Refuse what cannot be judged here.

        Raises:
            RequestRefused: it cannot.
        """
        if why := refused(submission, self._desk.terms.sandbox):
            raise RequestRefused(422, "invalid", why)
        info = self._desk.info
        if submission.versions and (differing := unlike(info.versions, submission.versions)):
            raise RequestRefused(
                409, "unlike-versions", f"The service has {differing}; install the same here and there"
            )
        if submission.device not in ("", info.device.name):
            raise RequestRefused(409, "unlike-device", f"The service judges on {info.device.name}: begin a new run")
        if not self._desk.has_parcel(submission.parcel):
            raise RequestRefused(409, "unknown-parcel", "Bring the task first: PUT /v1/parcels/{digest}")

    def _require_room(self, caller: Caller) -> None:
        """Refuse more than the service or the caller's quota takes for now.

        Raises:
            RequestRefused: it takes nothing more for now.
        """
        if self._desk.is_full:
            raise RequestRefused(429, "queue-full", "The queue is full: submit again later", _FULL_SECONDS)
        if seconds := self._desk.wait_seconds(caller.name, caller.quota):
            raise RequestRefused(429, "quota", f"The quota of '{caller.name}' is used up: submit again later", seconds)

    async def _events(self, id_: str) -> AsyncIterator[str]:
        seen = 0
        while (now := await self._desk.news(id_, seen, BEAT_SECONDS)) is not None and not now.ended:
            stages = (f"event: stage\ndata: {json.dumps({'stage': stage})}\n\n" for stage in now.stages[seen:])
            yield "".join(stages) or ": still here\n\n"
            seen = len(now.stages)
        yield f"event: end\ndata: {json.dumps(encode(now))}\n\n"

    def _known(self, id_: str) -> SubmissionState:
        if (told := self._desk.told(id_)) is None:
            raise RequestRefused(404, "unknown-submission", "There is no such submission: submit it again")
        return told


async def _read(request: Request, most_bytes: int) -> Any:
    try:
        return await read_json(request, most_bytes)
    except ClientDisconnect as error:
        raise RequestRefused(400, "gone", "The client went away") from error


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _asked() -> dict[str, Any]:
    return _body({"$ref": f"{_SCHEMAS}Submission"})


def _with_schemas(description: dict[str, Any]) -> dict[str, Any]:
    """The description with the records that no route of FastAPI reads itself."""
    found = TypeAdapter(Submission).json_schema(ref_template=f"{_SCHEMAS}{{model}}")
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    schemas |= found.pop("$defs", {}) | {"Submission": found}
    return description
