"""The weakest level: a process of its own with resource limits, which every machine offers.

Knows that nothing is wrapped. Resource limits, environment and killing are the launcher's and hold in every level.
"""

from __future__ import annotations

from pike.evaluate.sandbox.level import Cell


class BareProcess:
    """No wrapping at all."""

    name = "process"
    not_enforced = "network, reading and writing of the user's files, other processes"

    def obstacle(self) -> str:
        """Never an obstacle."""
        return ""

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`argv` unchanged."""
        return argv
