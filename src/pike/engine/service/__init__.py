"""The judge as a service: a queue that survives a restart, and what judges it.

Knows submissions, their owners and their verdicts. Does not know HTTP or tokens (`server`).
"""

from pike.engine.service.judging import Desk, DeskTerms
from pike.engine.service.limits import refused
from pike.engine.service.opening import opened_desk

__all__ = ["Desk", "DeskTerms", "opened_desk", "refused"]
