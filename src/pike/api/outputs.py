"""What is done with the folder of a run: load its winner, write its page, draw its
figures, hand it to another tool.

Knows the files of a run's folder. Does not know how a run is carried out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pike.api.targets import Inputs, call_of
from pike.core.errors import UserError
from pike.engine.tools.openevolve import islands_of
from pike.exchange import Exported, export_run, import_from
from pike.reporting.figures.entry import FigureEntry

if TYPE_CHECKING:
    from torch import nn

    from pike.api.dropin import Form


def load(
    path: str | Path | Sequence[str | Path],
    reference: nn.Module,
    example_inputs: Inputs | None = None,
    *,
    init_inputs: tuple[Any, ...] | None = None,
) -> nn.Module:
    """Load the candidate of a `best.py` as a drop-in for `reference`.

    The file's code runs in this process.

    >>> faster = pike.load("best.py", reference=model)
    >>> with torch.no_grad():
    ...     faster(example).shape
    torch.Size([32, 64])

    Args:
        path: a `best.py` that PIKE wrote, or several, each for calls of its own (`dynamic_batch`).
        reference: the original model with the weights to use. It is not copied, and it answers
            the calls that were not judged.
        example_inputs: the inputs of a call, where the file does not describe them.
        init_inputs: constructor arguments of `ModelNew`, where the file does not hold them.

    Returns:
        A `DropIn`.

    Raises:
        UserError: a file is missing, was not written by PIKE, or was judged elsewhere than another.
    """
    from pike.api.dropin import DropIn

    paths = [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]
    forms = []
    for one in paths:
        forms.append(_form(one, example_inputs, init_inputs))  # a comprehension would be a frame to warnings
    if not forms:
        raise UserError("There is no file to load: give the path of a best.py to pike.load")
    first, *more = forms
    for path, form in zip(paths, forms, strict=True):
        if (form.judged.device, form.judged.gpu) != (first.judged.device, first.judged.gpu):
            raise UserError(f"The files {paths[0]} and {path} were judged on different devices: load them one by one")
    return DropIn(reference, first.build, first.judged, more=tuple(more))


def _form(path: Path, example_inputs: Inputs | None, init_inputs: tuple[Any, ...] | None) -> Form:
    from pike.api.dropin import Form, FromSource, JudgedCalls
    from pike.engine.output import best_file
    from pike.engine.output.signature import describe

    terms = best_file.read(path)
    call = terms.call
    if call is None:
        if example_inputs is None:
            raise UserError(f"The file {path} does not say what calls look like: give example_inputs to pike.load")
        example = call_of(example_inputs)
        call = describe(example.args, example.kwargs)
    if terms.constants is None and len(re.findall(r"\w\[", call)) > 1:
        warnings.warn(
            f"The file {path} does not say which inputs were the same in all judged calls, for example a mask of ones: "
            "the candidate may take them for granted; optimise again to be told of other values",
            stacklevel=3,
        )
    gpu = terms.evaluation.device if terms.device == "cuda" else ""
    judged = JudgedCalls(call, terms.device, gpu, terms.dtypes, terms.constants or ())
    arguments = terms.arguments() if init_inputs is None else init_inputs
    return Form(FromSource(path.read_text(), terms.evaluation.weights, arguments), judged)


def report(folder: str | Path) -> Path:
    """Write the page of a run, finished or not, of a campaign, a suite or a folder of runs.

    >>> pike.report("runs/example").name
    'report.html'

    Args:
        folder: the folder of a run, of several, of a campaign or a suite.

    Returns:
        The page.

    Raises:
        UserError: there is neither a run nor a result in `folder`.
    """
    from pike.reporting import write

    return write(Path(folder))


def export(folder: str | Path, to: str, out: str | Path | None = None) -> Exported:
    """Write a run, finished or not, in the form of another tool or into a tracker's store.

    >>> pike.export("runs/example", "openevolve").counts["islands"]
    [2]

    Args:
        folder: the folder of a run.
        to: the form: `jsonl`, `hf-dataset`, `openevolve`, `kernelbench`, `mlflow`, `wandb`,
            `trackio` or `tensorboard`.
        out: the folder for it, by default inside the run's folder.

    Raises:
        UserError: there is no such form, no run in `folder`, a package is missing, or the export
            cannot be written.
        BoundaryError: the journal cannot be read, or a tracker failed.
    """
    return export_run(Path(folder), to, Path(out) if out is not None else None)


def import_runs(source: str | Path, out: str | Path = "runs") -> tuple[Path, ...]:
    """Write runs of another tool as journals that are marked imported, and give their folders.

    >>> [run] = pike.import_runs(pike.export("runs/example", "openevolve").path, "runs/imported")
    >>> pike.report(run).name
    'report.html'

    Args:
        source: a PIKE data folder or a part of it, a checkpoint of OpenEvolve, or a database of
            ShinkaEvolve.
        out: the folder in which each run gets a folder.

    Raises:
        UserError: the layout is unknown, nothing in it can be used, or a run's folder exists.
        StoreError: the disk refused.
    """
    return import_from(Path(source), Path(out))


def figures(
    folders: str | Path | Sequence[str | Path],
    out: str | Path = "figures",
    *,
    formats: Sequence[str] = ("png", "pdf", "svg"),
    only: Sequence[str] = (),
    published: bool = False,
    embeddings: str | Path = "",
) -> tuple[FigureEntry, ...]:
    """Draw runs, campaigns and suites as the papers do, each figure with the CSV it is drawn from.

    >>> [entry.name for entry in pike.figures("runs/example", formats=["svg"], only=["tasks"])]
    ['tasks']

    Args:
        folders: of runs, campaigns or suites; one contender on one task in several is a repeat.
        out: the folder for the files.
        formats: among `png`, `pdf` and `svg`.
        only: kinds of figures, all by default; `pike figures --list` names them.
        published: draw the numbers that others published beside them.
        embeddings: a model of sentence-transformers, as a folder or a name: also draw how alike
            candidates and seeds are to it.

    Returns:
        What was drawn, with its files, and what could not be drawn, with what is missing.

    Raises:
        UserError: a folder holds nothing to draw from, a name is unknown, an extra is missing, or the
            model cannot be loaded.
    """
    from pike.reporting.figures.choice import DrawingTerms, draw_all

    return draw_all(_paths(folders), Path(out), formats, DrawingTerms(only, published, str(embeddings), islands_of))


def list_figures(
    folders: str | Path | Sequence[str | Path],
    *,
    only: Sequence[str] = (),
    published: bool = False,
    embeddings: str | Path = "",
) -> tuple[FigureEntry, ...]:
    """What `figures` would draw, and what is missing for the rest."""
    from pike.reporting.figures.choice import DrawingTerms, list_all

    return list_all(_paths(folders), DrawingTerms(only, published, str(embeddings), islands_of))


def _paths(folders: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(folders)] if isinstance(folders, str | Path) else [Path(one) for one in folders]
