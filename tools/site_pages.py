"""The pages of the site that are made while it is built: the command line, and the lists of
folders.

A hook of mkdocs. Knows the Typer application and the folders of `docs`. Does not know the API,
which mkdocstrings reads from docstrings, and does not need the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from pike.cli.main import app

COMMAND_LINE = "reference/command-line.md"
NEWEST_FIRST = ("experiments",)
"""Folders whose files begin with a date."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every file of a folder where `nav` names the folder."""
    assert config.nav is not None
    config.nav = [_filled(item, Path(config.docs_dir)) for item in config.nav]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of the command line."""
    files.append(File.generated(config, COMMAND_LINE, content=command_line(typer.main.get_command(app))))
    return files


def command_line(root: Any) -> str:
    """A page of every command with its arguments and options, as `--help` has them."""
    parts = ["# Command line", "Every command with `--help` shows the same. Exit codes: 0 done; 1 refused, or nothing",
             "found; 2 the input is wrong; 3 the outside world failed; 130 interrupted."]  # fmt: skip
    for name, command in root.commands.items():
        parts += [f"\n## pike {name}\n", _prose(command.help or ""), ""]
        parts += _parameters(command)
        for verb, inner in getattr(command, "commands", {}).items():
            parts += [f"\n### pike {name} {verb}\n", _prose(inner.help or ""), "", *_parameters(inner)]
    return "\n".join(parts) + "\n"


def _parameters(command: Any) -> Iterator[str]:
    """Two tables, of arguments and of options."""
    for kind, title in (("argument", "Argument"), ("option", "Option")):
        shown = [one for one in command.params if one.param_type_name == kind and not getattr(one, "hidden", False)]
        if shown:
            yield f"| {title} | Meaning | Default |\n| --- | --- | --- |"
            for one in shown:
                meaning = _cell(getattr(one, "help", "") or "")
                yield f"| {_names(one)} | {meaning} | {_cell(_default(one))} |"
            yield ""


def _default(parameter: Any) -> str:
    if isinstance(getattr(parameter, "show_default", None), str):
        return f"`{parameter.show_default}`"
    plain = parameter.default in (None, False, (), [], "") or callable(parameter.default)
    return "" if plain else f"`{parameter.default}`"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _cell(text: str) -> str:
    return " ".join(_prose(text).split()).replace("|", "\\|")


def _prose(text: str) -> str:
    """Text for Rich as Markdown: its escapes and the marks of its paragraphs are taken away."""
    plain = re.sub(r"(?<!\\)\[/?b\]", "**", text).replace("\\[", "[").replace("\b", "")
    return plain.replace("<", "&lt;").strip()


def _filled(item: Any, docs: Path) -> Any:
    """`item` of the navigation with the pages of the folder that it names."""
    if isinstance(item, list):
        return [_filled(one, docs) for one in item]
    if not isinstance(item, dict):
        return item
    ((title, place),) = item.items()
    if isinstance(place, str) and place.endswith("/"):
        return {title: _pages(docs, place.rstrip("/"))}
    return {title: _filled(place, docs)}


def _pages(docs: Path, folder: str) -> list[str]:
    names = {path.relative_to(docs).as_posix() for path in (docs / folder).glob("*.md")}
    names |= {COMMAND_LINE} if COMMAND_LINE.startswith(f"{folder}/") else set()
    index = f"{folder}/index.md"
    ordered = sorted(names - {index}, reverse=folder in NEWEST_FIRST)
    return [*([index] if index in names else []), *ordered]
