"""How a child is held: the strongest level that this machine offers, said in words.

A level knows how to wrap a command and what it does not enforce; it does not know what the command is for. A further
level is one file, listed once in `choice`.
"""

from pike.evaluate.sandbox.bubblewrap import Bubblewrap
from pike.evaluate.sandbox.choice import LEVELS, choose
from pike.evaluate.sandbox.container import ENGINES, Container, discard
from pike.evaluate.sandbox.level import CHANNEL, Cell, Claim, SandboxLevel
from pike.evaluate.sandbox.process import BareProcess

__all__ = [
    "CHANNEL", "ENGINES", "LEVELS", "BareProcess", "Bubblewrap", "Cell", "Claim", "Container", "SandboxLevel",
    "choose", "discard",
]  # fmt: skip
