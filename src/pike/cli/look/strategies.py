"""`pike strategies`: the strategies by name.

Knows how their differences are printed. Does not know any strategy.
"""

import dataclasses
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from pike.api.views import PresetInfo, presets
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of


def strategies(config: opt.Config = None, as_json: opt.Json = False) -> None:
    """List the strategies by name, those that a configuration file adds last."""
    terminal = Terminal(as_json)
    found = presets(config)
    terminal.show(presets_table(found))
    terminal.result({"strategies": [dataclasses.asdict(preset) for preset in found]})


def presets_table(presets: Iterable[PresetInfo]) -> Table:
    """The strategies by name."""
    table = table_of(("strategy", "what it is", "differs from"))
    for preset in presets:
        differences = [f"{option}={value}" for option, value in preset.differences]
        differences += [f"a model of its own for {role}" for role in preset.own_models]
        compared = f"{preset.base}: " if preset.base else "options of its own: " if differences else "the default"
        differs = compared + ", ".join(differences)
        table.add_row(Text(preset.name, style="bold"), Text(preset.summary), Text(differs))
    return table
