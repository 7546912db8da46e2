"""How a candidate's failure travels through the judge.

Knows only the pair of status and reason. Does not know who raises it or what becomes of it.
"""

from __future__ import annotations

from pike.core.evaluation import Status


class Refused(Exception):
    """The candidate failed in a way that ends its evaluation.

    Attributes:
        status: the verdict's status, anything but valid.
        reason: one sentence.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
