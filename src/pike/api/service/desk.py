"""What the server of a service needs, and how it reads what comes over the wire.

Knows the records. Does not know who may ask.
"""

from typing import Any

from pike.core.codec import decode
from pike.engine.executors.parcel import Parcel
from pike.engine.executors.service.wire import Problem as Problem
from pike.engine.executors.service.wire import Submission as Submission
from pike.engine.executors.service.wire import SubmissionState as SubmissionState
from pike.engine.executors.versions import unlike as unlike
from pike.engine.service import Desk as Desk
from pike.engine.service import DeskTerms as DeskTerms
from pike.engine.service import opened_desk as opened_desk
from pike.engine.service import refused as refused
from pike.engine.service.limits import DIGEST as DIGEST
from pike.engine.service.limits import Quota as Quota


def as_submission(value: Any) -> Submission:
    """What a client asks.

    Raises:
        ValueError: a field is unknown, missing or of the wrong type.
    """
    return decode(Submission, value)


def as_parcel(value: Any) -> Parcel:
    """What a client brings; raises as `as_submission` does."""
    fields = value if isinstance(value, dict) else {}
    return decode(Parcel, {name: item for name, item in fields.items() if name != "kind"})
