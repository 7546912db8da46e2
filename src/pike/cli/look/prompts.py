"""`pike prompts`: what each role is asked.

Knows how prompts are printed. Does not know their words (`agents`).
"""

from pike.api import judging
from pike.api.options import given
from pike.cli import options as opt
from pike.cli.terminal import Terminal


def prompts(
    task: opt.Task,
    strategy: opt.Strategy = None,
    device: opt.Device = None,
    precision: opt.Precision = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Print a typical prompt of every role; --set prompt.folder=FOLDER tries templates of your own."""
    version, found = judging.prompts(task, given(locals()))
    terminal = Terminal(as_json)
    terminal.show(f"Prompts, version {version}")
    for role, prompt in found.items():
        terminal.show(f"==== {role}, system prompt\n\n{prompt.system}\n\n==== {role}, prompt\n\n{prompt.user}\n")
    terminal.result({"version": version, "prompts": found})
