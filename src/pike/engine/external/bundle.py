"""Bundles and verdicts: files that carry judging to another machine and back.

Knows their records, and that each line is hashed together with all lines before it. Does not know
what waits in a run (`elsewhere`) or how it is judged (`judging`).
"""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pike
from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import StoreError, UserError, saying
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest
from pike.engine.executors.parcel import Parcel
from pike.store.whole import replacing

FORMAT = 1
SUFFIX = ".jsonl"
_BEGIN = b'{"record": {"kind": "'


@dataclass(frozen=True, slots=True)
class BundleHead:
    """The first line of a bundle; `lines` follow."""

    kind: ClassVar[str] = "bundle"

    lines: int
    format: int = FORMAT
    pike: str = pike.__version__


@dataclass(frozen=True, slots=True)
class Waiting:
    """Candidates that one worker judges together: one of a search, or the finalists of a run.

    Attributes:
        run: the run's name in its campaign, empty for a run that stands alone.
        parcel: the digest of the task's parcel.
        terms: the run's own terms; those of a request may be stricter.
        requests: without their task.
    """

    kind: ClassVar[str] = "waiting"

    run: str
    parcel: str
    terms: EvaluateOptions
    requests: tuple[EvaluationRequest, ...]


@dataclass(frozen=True, slots=True)
class VerdictsHead:
    """The first line of a file of verdicts: the bundle's digest, and where it is judged."""

    kind: ClassVar[str] = "verdicts"

    bundle: str
    device: DeviceFacts
    format: int = FORMAT
    pike: str = pike.__version__


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdicts on what waited together.

    Attributes:
        number: its place among what waits in the bundle, from 0.
        run: as in `Waiting`.
        parcel: as in `Waiting`.
        terms: as in `Waiting`.
        effort: how much was measured of the first of them; baselines come after finalists.
        sources: SHA-256 of each candidate.
        evaluations: in the order of `sources`.
    """

    kind: ClassVar[str] = "verdict"

    number: int
    run: str
    parcel: str
    terms: EvaluateOptions
    effort: Effort
    sources: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]


Line = BundleHead | Parcel | Waiting | VerdictsHead | Verdict


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle that was read: parcels by digest, what waits, and the digest of it all."""

    parcels: dict[str, Parcel]
    waiting: tuple[Waiting, ...]
    digest: str


def source_digest(source: str) -> str:
    """What names a candidate in a file of verdicts."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def is_verdicts(path: Path) -> bool:
    """Whether a file claims to hold a bundle or verdicts, so that it is no answer."""
    try:
        with path.open("rb") as file:
            return path.suffix == SUFFIX or file.read(len(_BEGIN)) == _BEGIN
    except OSError:
        return False


def write_bundle(path: Path, parcels: Iterable[Parcel], waiting: Iterable[Waiting]) -> str:
    """Write a bundle; the same content is the same file. Returns its digest.

    Raises:
        StoreError: the disk refuses.
    """
    body: list[Line] = [*parcels, *waiting]
    digest = ""
    with replacing(path) as file:
        for line in [BundleHead(len(body)), *body]:
            text, digest = _written(line, digest)
            file.write(text)
    return digest


def read_bundle(path: Path) -> OpenBundle:
    """Read a bundle.

    Raises:
        UserError: it is none, is not whole, was changed, or has another format.
    """
    head, *body = lines = _read(path, _content(path), BundleHead, (Parcel, Waiting))
    assert isinstance(head[0], BundleHead)
    if head[0].lines != len(body):
        raise UserError(f"The bundle {path} is not whole: {len(body)} of {head[0].lines} lines came; copy it again")
    parcels = {one.digest: one for one, _ in body if isinstance(one, Parcel)}
    waiting = tuple(one for one, _ in body if isinstance(one, Waiting))
    return OpenBundle(parcels, waiting, lines[-1][1])


def read_verdicts(path: Path) -> tuple[VerdictsHead, tuple[Verdict, ...]]:
    """Read a file of verdicts; the last one on the same candidates counts.

    Raises:
        UserError: it is none, was changed, or has another format.
    """
    (head, _), *body = _read(path, _whole(_content(path)), VerdictsHead, (Verdict,))
    assert isinstance(head, VerdictsHead)
    return head, tuple({one.number: one for one, _ in body if isinstance(one, Verdict)}.values())


class VerdictsFile:
    """A file of verdicts that grows; a line that was cut off is written again.

    Args:
        path: the file, which may hold earlier verdicts on the same bundle.
        head: its first line.

    Raises:
        UserError: it belongs to another bundle or device, was changed, or another process writes
            it.
        StoreError: the disk refuses.
    """

    def __init__(self, path: Path, head: VerdictsHead) -> None:
        self.known: tuple[Verdict, ...] = ()
        self._path, self._digest = path, ""
        with saying(StoreError, f"The verdicts {path} cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"Another process writes the verdicts {path}: wait for it, or name another --out") from None
        self._file.seek(0)
        held = self._file.readall()
        if held[: len(_BEGIN)] != _BEGIN[: len(held)]:
            raise UserError(f"{path} holds something else than verdicts: name another file with --out")
        if data := _whole(held):
            lines = _read(path, data, VerdictsHead, (Verdict,))
            self._require_same(lines[0][0], head)
            self.known = read_verdicts(path)[1]
            self._digest = lines[-1][1]
        self._end = len(data)
        self._file.truncate(self._end)
        if not data:
            self.add(head)

    def add(self, line: VerdictsHead | Verdict) -> None:
        """Write one more line; it is on the disk afterwards.

        Raises:
            StoreError: the disk refuses; the lines before it stay.
        """
        text, digest = _written(line, self._digest)
        try:
            if self._file.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._end)
            raise StoreError(
                f"The verdicts {self._path} cannot be written: {error.strerror}; those before are kept, make room and "
                "repeat the command"
            ) from error
        self._end, self._digest = self._end + len(text), digest

    def close(self) -> None:
        """Let other processes write it."""
        self._file.close()

    def _require_same(self, found: Line, head: VerdictsHead) -> None:
        assert isinstance(found, VerdictsHead)
        if found.bundle != head.bundle:
            raise UserError(f"{self._path} holds verdicts on another bundle: name another file with --out")
        if found.device.name != head.device.name:
            raise UserError(
                f"{self._path} was judged on {found.device.name} and this is {head.device.name}, and times on them are "
                "not comparable: go on there, or name another file with --out"
            )


def _written(line: Line, before: str) -> tuple[bytes, str]:
    record = encode(line)
    digest = _digest(record, before)
    return json.dumps({"record": record, "digest": digest}).encode() + b"\n", digest


def _digest(record: Any, before: str) -> str:
    return hashlib.sha256(f"{before}\n{json.dumps(record)}".encode()).hexdigest()


def _content(path: Path) -> bytes:
    with saying(UserError, f"The file {path} cannot be read", "name what pike wrote"):
        return path.read_bytes()


def _whole(data: bytes) -> bytes:
    """The lines without one that was cut off."""
    return data[: data.rfind(b"\n") + 1]


def _read(path: Path, data: bytes, head: type[Line], kinds: Sequence[type[Line]]) -> list[tuple[Line, str]]:
    """Lines with their digests, the first of them of the type `head`.

    Raises:
        UserError: it is something else, or it was changed.
    """
    found: list[tuple[Line, str]] = []
    before = ""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            record, digest = (read := json.loads(line))["record"], read["digest"]
            kind, format_ = record["kind"], record.get("format")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise _changed(path, number) from None
        if number == 1 and kind != head.kind:
            verb = "judge it first, with pike judge" if kind == BundleHead.kind else f"a {head.kind} file is needed"
            raise UserError(f"{path} holds no {head.kind}, but '{kind}': {verb}")
        if number == 1 and format_ != FORMAT:
            raise UserError(f"{path} has format {format_}, and this PIKE reads {FORMAT}: use one version on both sides")
        if _digest(record, before) != digest:
            raise _changed(path, number)
        try:
            found.append((_decoded(record, (head,) if number == 1 else kinds), digest))
        except ValueError as error:
            raise UserError(f"{path} was written by another version of PIKE: {error}; use one on both sides") from None
        before = digest
    if not found:
        raise UserError(f"{path} is empty")
    return found


def _decoded(record: Any, kinds: Sequence[type[Line]]) -> Line:
    for kind in kinds:
        if record["kind"] == kind.kind:
            return decode(kind, {name: value for name, value in record.items() if name != "kind"})
    raise ValueError(f"an unexpected line '{record['kind']}'")


def _changed(path: Path, number: int) -> UserError:
    return UserError(f"{path} was changed or damaged in line {number}: copy it again from where it was written")
