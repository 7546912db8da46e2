"""Data sets on the Hugging Face Hub: `hf:OWNER/NAME`, or one split of it as `hf:OWNER/NAME/SPLIT`.

Knows the columns of KernelBench's data set (`ScalingIntelligence/KernelBench`: `code`, `level`, `name`, `problem_id`,
one split a level) and asks the `datasets` package for the rows. Does not know how that package finds or keeps them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.sources import from_text
from pike.tasks.suite import Entry, Suite

PREFIX = "hf:"
"""What the name of a data set begins with."""

_CODE, _NAME, _NUMBER = "code", "name", "problem_id"


def load(name: str) -> Suite | None:
    """The tasks of a data set or of one of its splits; None where the name stands for something else.

    Raises:
        UserError: the name has another form, the extra `hf` is missing, or the data set cannot be had or has no
            column `code`.
    """
    if not name.startswith(PREFIX):
        return None
    parts = name.removeprefix(PREFIX).split("/")
    if len(parts) > 3 and all(parts):
        return None  # a task in a split
    if len(parts) not in (2, 3) or not all(parts):
        raise UserError(f"'{name}' names no data set: give {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME/SPLIT")
    dataset = "/".join(parts[:2])
    splits = _splits(dataset)
    if len(parts) == 3 and parts[2] not in splits:
        if len(splits) == 1:
            return None  # a task in a data set that is not split
        raise UserError(f"Data set '{dataset}' has no split '{parts[2]}'{nearest(parts[2], splits)}")
    wanted = parts[2:] or list(splits)
    prefixed = len(parts) == 2 and len(splits) > 1
    found = [entry for split in wanted for entry in _entries(dataset, split, splits[split], prefixed)]
    if not found:
        raise UserError(f"Data set '{name}' has no rows")
    return Suite(name, tuple(found))


def forget() -> None:
    """Ask anew for data sets that were loaded before."""
    _splits.cache_clear()


@cache
def _splits(dataset: str) -> Mapping[str, Any]:
    """The rows of each split; kept, as every task of a campaign asks for them."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise UserError("Suites named hf:... need the extra 'hf': pip install 'pike-torch[hf]'") from None
    try:
        return dict(datasets.load_dataset(dataset))
    except Exception as error:  # network, disk, or a data set that does not exist: the package has no common root
        raise UserError(f"Data set '{dataset}' cannot be loaded: {type(error).__name__}: {error}") from error


def _entries(dataset: str, split: str, rows: Any, prefixed: bool) -> Iterator[Entry]:
    for index, row in enumerate(rows):
        if not isinstance(row.get(_CODE), str):
            raise UserError(f"Data set '{dataset}' is not in KernelBench's format: its rows have no text '{_CODE}'")
        stem = _stem(row, index)
        address = f"{PREFIX}{dataset}/{split}/{stem}"
        id = f"{split}/{stem}" if prefixed else stem
        name = f"{dataset.partition('/')[2]}/{split}/{stem}"
        yield Entry(id, name, address, address, partial(_task, row[_CODE], name, address))


def _stem(row: Mapping[str, Any], index: int) -> str:
    """The row's name with its number before it, as in the files that the data set was made from."""
    number = str(row.get(_NUMBER, index + 1))
    name = str(row.get(_NAME) or "task").removesuffix(".py").replace("/", "_")
    return name if name.partition("_")[0] == number else f"{number}_{name}"


def _task(source: str, name: str, address: str) -> Task:
    return from_text(source, id=name, origin=address)
