"""The weakest level: a process of its own, which every machine offers.

Knows that nothing is wrapped. Limits, environment, system call filter and killing are the launcher's and hold in
every level; the network is out of reach because the filter allows no sockets but local ones.
"""

from __future__ import annotations

from pike.evaluate.sandbox.level import Cell, Claim


class BareProcess:
    """No wrapping at all."""

    name = "process"
    claims: frozenset[Claim] = frozenset()
    seen_with_cuda = True
    filters = False
    inherits = True

    def obstacle(self) -> str:
        """Never an obstacle."""
        return ""

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`argv` unchanged."""
        return argv

    def end(self, cell: Cell) -> None:
        """Nothing is left."""
