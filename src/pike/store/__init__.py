"""The memory of every run: an append-only journal and content-addressed blobs.

Knows files, transactions and locks. Does not know what events mean.
"""

from pike.store.journal import Journal, read
from pike.store.verification import Verification, verify

__all__ = ["Journal", "Verification", "read", "verify"]
