"""Suites that the user registered: others' tasks as they were published, under a name of one's own.

Knows where registrations are kept, and that files must be as they were when they were registered.
Does not know how a place is read (`kernelbench`, `huggingface`, `folder`) or what a commit is.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.codec import decode, encode
from pike.core.errors import StoreError, UserError, saying
from pike.core.settings.merging import nearest
from pike.core.task import TaskFile
from pike.tasks import variants
from pike.tasks.loaders import folder, huggingface, kernelbench, own_files, shipped
from pike.tasks.suite import Suite, SuiteEntry

PUBLISHED = "published"
"""Under this name a level stands in front, beside the shipped suite: `level3-pike:published`."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(:[A-Za-z0-9][\w.+-]*)?")


@dataclass(frozen=True, slots=True)
class RegisteredSuite:
    """One suite that the user registered.

    Attributes:
        name: what is typed for it, for example `level3-pike:published` or `kernelbench:level1`.
        added_as: the name that was given to everything at its place.
        place: the folder of its files, or `hf:OWNER/NAME/SPLIT`.
        commit: of the checkout, `-dirty` behind it where files differed; empty without one.
        files: each file below its place, with the SHA-256 of its content.
        tasks: the ids of its tasks.
    """

    name: str
    added_as: str
    place: str
    commit: str
    files: dict[str, str]
    tasks: tuple[str, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that are gone or differ from what was registered."""
        try:
            found = _read_place(self.place)
        except UserError:
            found = None
        now = _digests(self.place, found.entries) if found else {}
        return tuple(file for file, digest in self.files.items() if now.get(file) != digest)


def load(name: str) -> Suite | None:
    """The registered suite of that name, None if there is none.

    Raises:
        UserError: a file of it has changed since, or the registrations cannot be read.
    """
    suite = registered().get(name)
    if suite is None:
        return None
    if changed := suite.changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        restored = f"check out {suite.commit} there again" if suite.commit else "restore what was there"
        raise UserError(
            f"The suite '{name}' is no longer what was registered: {changed[0]}{more} in {suite.place} changed or "
            f"went; {restored}, or register it anew after pike suites remove {suite.added_as}"
        )
    found = _read_place(suite.place)
    entries = {entry.id: entry for entry in found.entries} if found else {}
    return Suite(name, tuple(_renamed(name, entries[id]) for id in suite.tasks))


def registered() -> dict[str, RegisteredSuite]:
    """Every registered suite by name, in the order of their registration.

    Raises:
        UserError: the file of registrations cannot be read.
    """
    path = _path()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {suite.name: suite for suite in (decode(RegisteredSuite, one) for one in found)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"The registered suites in {path} cannot be read: {error}; mend or delete the file") from error


def add(name: str, place: str, commit: str = "") -> tuple[RegisteredSuite, ...]:
    """Register the suites at a place: a checkout, a folder, or a data set.

    Args:
        name: what they are called: itself for one suite, `NAME:LEVEL` for each of several levels,
            and `LEVEL:published` for the name `published`.
        place: as for `pike tasks`.
        commit: of the checkout, for people.

    Raises:
        UserError: the name is taken or cannot be one, or no task is there.
        StoreError: the registrations cannot be written.
    """
    known = registered()
    if not _NAME.fullmatch(name) or name.endswith(variants.SUFFIX) or name.startswith(huggingface.PREFIX):
        raise UserError(f"A suite cannot be called '{name}': give a word such as published, kernelbench or metr")
    if any(suite.added_as == name for suite in known.values()):
        raise UserError(f"The name '{name}' is registered already: pike suites remove {name} frees it")
    if (found := _read_place(place)) is None:
        raise UserError(f"There is nothing at '{place}': give a checkout, a folder of tasks or hf:OWNER/NAME")
    levels: dict[str, list[SuiteEntry]] = {}
    for entry in found.entries:
        levels.setdefault(entry.id.rpartition("/")[0], []).append(entry)
    added = tuple(_suite(name, level, entries, commit) for level, entries in levels.items())
    for suite in added:
        if suite.name in known or suite.name in shipped.names():
            raise UserError(f"There is a suite '{suite.name}' already: choose another name than '{name}'")
    _write([*known.values(), *added])
    return added


def remove(name: str) -> tuple[RegisteredSuite, ...]:
    """Forget the suites that were added under a name; their files stay.

    Raises:
        UserError: nothing was added under it.
        StoreError: the registrations cannot be written.
    """
    known = registered()
    gone = tuple(suite for suite in known.values() if suite.added_as == name)
    if not gone:
        hint = nearest(name, {suite.added_as for suite in known.values()}) if known else "; none is registered"
        raise UserError(f"No suites were added as '{name}'{hint}")
    _write([suite for suite in known.values() if suite.added_as != name])
    return gone


def _read_place(place: str) -> Suite | None:
    for read in (huggingface.load, kernelbench.load, folder.load):
        if (found := read(place)) is not None:
            return found
    return None


def _suite(name: str, level: str, entries: list[SuiteEntry], commit: str) -> RegisteredSuite:
    full = name if not level else f"{level}:{name}" if name == PUBLISHED else f"{name}:{level}"
    place = entries[0].where.rpartition("/")[0]
    ids = tuple(entry.id.rpartition("/")[2] for entry in entries)
    return RegisteredSuite(full, name, place, commit, _digests(place, entries), ids)


def _digests(place: str, entries: Iterable[SuiteEntry]) -> dict[str, str]:
    """The files of tasks and what they import beside them, below the place, with their digests."""
    return {
        file.path.removeprefix(f"{place}/"): file.digest
        for entry in entries
        for file in _files(entry)
        if file.digest  # what is not there has none
    }


def _files(entry: SuiteEntry) -> tuple[TaskFile, ...]:
    try:
        task = entry.read()
    except UserError:  # a file that is no task yet is registered all the same
        path = Path(entry.where)
        return (TaskFile(entry.where, hashlib.sha256(path.read_bytes()).hexdigest()),) if path.is_file() else ()
    return task.files or (TaskFile(entry.where, hashlib.sha256(task.source.encode()).hexdigest()),)


def _renamed(suite: str, entry: SuiteEntry) -> SuiteEntry:
    name = f"{suite}/{entry.id}"
    return replace(entry, name=name, address=name, read=lambda: replace(entry.read(), id=name))


def _write(suites: Iterable[RegisteredSuite]) -> None:
    path = _path()
    with saying(StoreError, f"The registered suites cannot be kept in {path.parent}"):
        own_files.write(path, f"{json.dumps([encode(suite) for suite in suites], indent=1)}\n".encode())


def _path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "pike" / "suites.json"
