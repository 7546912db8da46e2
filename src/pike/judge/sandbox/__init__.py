"""How a child is held: the strongest level that this machine offers, said in words.

A level wraps a command and names what it does not enforce. A further one is one file in `choice`.
"""

from pike.judge.sandbox.bubblewrap import Bubblewrap
from pike.judge.sandbox.choice import CONTAINERS, LEVELS, choose, discard
from pike.judge.sandbox.container import Container
from pike.judge.sandbox.level import CHANNEL, BareProcess, Claim, SandboxLevel, SandboxSpec

__all__ = [
    "CHANNEL",
    "CONTAINERS",
    "LEVELS",
    "BareProcess",
    "Bubblewrap",
    "Claim",
    "Container",
    "SandboxLevel",
    "SandboxSpec",
    "choose",
    "discard",
]  # fmt: skip
