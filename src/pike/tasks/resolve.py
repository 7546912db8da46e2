"""From the text that a user types to a task.

Knows the three forms of a task's name and tells them apart. Does not know how each is read.
"""

import difflib
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks import variants
from pike.tasks.callables import from_callable
from pike.tasks.loaders import load_suite, shipped, suite_of
from pike.tasks.sources import from_file


def resolve(text: str, *, folder: Path | None = None) -> Task:
    """The task called `text`.

    Args:
        text: a KernelBench-format file, `SUITE/ID`, or `package.module:callable`. The first two may
            end with `:small` for the small variant. SUITE is a shipped or registered suite,
            a folder, or `hf:OWNER/NAME[/SPLIT]`.
        folder: where the module of a `package.module:callable` is kept; the user's cache by
            default.

    Raises:
        UserError: nothing has that name (the message offers near ones), or the task cannot be used.
    """
    stem, wants_small = variants.split(text)
    path = Path(stem).expanduser()
    if path.is_file():
        return variants.small(from_file(path)) if wants_small else from_file(path)
    if path.suffix == ".py":
        raise UserError(f"There is no task file {text}")
    if (suite := suite_of(text)) is not None:
        raise UserError(
            f"'{text}' is a suite of {len(suite.entries)}, not a task: name one of it, "
            f"for example '{text.rstrip('/')}/{suite.entries[0].id}'"
        )
    return _in_a_suite(text) or _elsewhere(text, folder)


def in_suite(suite: str) -> tuple[Task, ...]:
    """The tasks of a suite by number, or their small variants for `SUITE:small`.

    Raises:
        UserError: there is no such suite, or one of its tasks cannot be used.
    """
    return load_suite(suite).tasks()


def _in_a_suite(text: str) -> Task | None:
    """The task `SUITE/ID`, with the longest SUITE that exists."""
    parts = text.split("/")
    for cut in range(len(parts) - 1, 0, -1):
        head = "/".join(parts[:cut])
        suite = suite_of(head) if head else None
        if suite is not None:
            return suite.find("/".join(parts[cut:])).read()
    return None


def _elsewhere(text: str, folder: Path | None) -> Task:
    if ":" in text and "/" not in text:
        return from_callable(text, folder=folder)
    by_id = {entry.id: entry.name for name in shipped.names() for entry in load_suite(name).entries}
    close = [by_id[text]] if text in by_id else difflib.get_close_matches(text, by_id.values(), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else "; pike tasks lists the suites"
    raise UserError(f"There is no task '{text}': give a file, SUITE/ID or package.module:callable{hint}")
