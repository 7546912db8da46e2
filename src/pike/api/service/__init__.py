"""The evaluation service: its client for Python, and what the server needs to be one.

Knows the verbs of a client. Does not know HTTP's server side (`server`).
"""

from pike.api.service.client import Client
from pike.engine.executors.service.wire import SubmissionState

__all__ = ["Client", "SubmissionState"]
