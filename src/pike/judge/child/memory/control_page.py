"""The page of host memory on which judge and child meet within a microsecond.

Both sides poll instead of sleeping. A child that writes early can only harm itself: an early word
is an early commitment. Does not know how keys and commitments are used.
"""

import ctypes
import struct
from typing import Final

import torch

PAGE_BYTES: Final = 4096
KEY_BYTES: Final = 16
_READY, _GO, _KEY, _DIGEST, _COMMITTED = 0, 8, 9, 24, 26
COMMITMENT_OFFSET: Final = 8 * _DIGEST
"""Offset in bytes of a commitment: two words of digest, then the ticket."""
GO_OFFSET: Final = 8 * _GO
"""Offset in bytes of the ticket of the current call, followed by the two words of its key."""


def key_words(key: bytes) -> tuple[int, int]:
    """A key of 16 bytes as the two words that the page holds."""
    low, high = struct.unpack("<QQ", key)
    return low, high


class ControlPage:
    """The page, as 64-bit words."""

    def __init__(self, page: torch.Tensor) -> None:
        """Write and read on `page`: at least 4096 bytes of host memory (uint8)."""
        self._page = page  # keeps the memory
        self._words = (ctypes.c_uint64 * (PAGE_BYTES // 8)).from_address(page.data_ptr())

    def ready(self) -> int:
        """The ticket of the call for which the child waits."""
        return self._words[_READY]

    def say_ready(self, ticket: int) -> None:
        """Say that the child is about to wait for this call."""
        self._words[_READY] = ticket

    def go(self, ticket: int, key: tuple[int, int]) -> None:
        """Begin the call by saying its key (see `key_words`)."""
        words = self._words
        words[_KEY], words[_KEY + 1] = key
        words[_GO] = ticket

    def wait_for_key(self, ticket: int) -> bytes:
        """Poll until the call begins; a judge that dies takes this process along."""
        words = self._words
        while words[_GO] != ticket:
            pass
        return struct.pack("<QQ", words[_KEY], words[_KEY + 1])

    def committed(self) -> int:
        """The ticket of the last call whose outputs were committed."""
        return self._words[_COMMITTED]

    def digest(self) -> bytes:
        """The digest (16 bytes) of the last commitment."""
        return struct.pack("<QQ", self._words[_DIGEST], self._words[_DIGEST + 1])

    def commit(self, ticket: int, digest: bytes) -> None:
        """Publish a commitment (what a GPU does by itself)."""
        self._words[_DIGEST], self._words[_DIGEST + 1] = struct.unpack("<QQ", digest)
        self._words[_COMMITTED] = ticket
