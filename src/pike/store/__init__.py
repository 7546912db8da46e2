"""The memory of every run: an append-only journal and content-addressed blobs; and the results of contenders.

Knows files, transactions and locks. Does not know what events mean.
"""

from pike.store.journal import Journal, read
from pike.store.results import ResultFolder, ResultLines, read_results
from pike.store.verification import Verification, verify

__all__ = ["Journal", "ResultFolder", "ResultLines", "Verification", "read", "read_results", "verify"]
