"""The module that stands in for the original, with the optimised code inside.

Knows which calls the optimised code may answer. Does not know how it came about. Needs torch.
"""

from pike.api.dropin.calls import JudgedCalls
from pike.api.dropin.candidate import FromSource
from pike.api.dropin.module import DropIn
from pike.api.dropin.optimised import Form

__all__ = ["DropIn", "Form", "FromSource", "JudgedCalls"]
