"""Data sets on the Hugging Face Hub: `hf:OWNER/NAME`, or one split of it as `hf:OWNER/NAME/SPLIT`.

Knows the columns of KernelBench's data set (`ScalingIntelligence/KernelBench`: `code`, `level`,
`name`, `problem_id`, one split a level). Does not know how the `datasets` package finds or keeps
the rows.
"""

import importlib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from pike.core.errors import UserError, needing
from pike.core.settings.merging import nearest
from pike.tasks.sources import from_text
from pike.tasks.suite import Suite, SuiteEntry

PREFIX = "hf:"
"""The name of a data set begins with this."""

_CODE, _NAME, _NUMBER = "code", "name", "problem_id"


def load(name: str) -> Suite | None:
    """The tasks of a data set or of one of its splits; None for names of another kind.

    Raises:
        UserError: the name is malformed, the extra `hf` is missing, or the data set cannot be
            loaded.
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
    """Forget the data sets that were loaded before."""
    _splits.cache_clear()


@cache
def _splits(dataset: str) -> Mapping[str, Any]:
    """The rows of each split; kept, because every task of a campaign asks for them."""
    with needing("A suite named hf:...", "hf"):
        datasets = importlib.import_module("datasets")
    try:
        return dict(datasets.load_dataset(dataset))
    except Exception as error:  # the package has no common root for failures of network and disk
        raise UserError(f"Data set '{dataset}' cannot be loaded: {type(error).__name__}: {error}") from error


def _entries(dataset: str, split: str, rows: Any, prefixed: bool) -> Iterator[SuiteEntry]:
    for index, row in enumerate(rows):
        if not isinstance(row.get(_CODE), str):
            raise UserError(f"Data set '{dataset}' is not in KernelBench's format: its rows have no text '{_CODE}'")
        stem = _stem(row, index)
        address = f"{PREFIX}{dataset}/{split}/{stem}"
        id = f"{split}/{stem}" if prefixed else stem
        name = f"{dataset.partition('/')[2]}/{split}/{stem}"
        yield SuiteEntry(id, name, address, address, partial(from_text, row[_CODE], id=name, origin=address))


def _stem(row: Mapping[str, Any], index: int) -> str:
    """The row's name after its number, as in the files from which the data set was made."""
    number = str(row.get(_NUMBER, index + 1))
    name = str(row.get(_NAME) or "task").removesuffix(".py").replace("/", "_")
    return name if name.partition("_")[0] == number else f"{number}_{name}"
