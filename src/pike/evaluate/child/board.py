"""The page of host memory on which judge and child meet within a microsecond.

Knows the words on it: the child says that it is ready, the judge says the key, and the commitment to the outputs ends
the call. Both sides look at it in a loop instead of sleeping. Does not know what a key opens or how a commitment is
made. Whatever the child writes here can only refuse it: an early word is an early commitment.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Final

import torch

BOARD_BYTES: Final = 4096
KEY_BYTES: Final = 16
_READY, _GO, _KEY, _DIGEST, _COMMITTED = 0, 8, 9, 24, 26
COMMITMENT_OFFSET: Final = 8 * _DIGEST
"""Where, in bytes, a commitment lies: two words of digest and the ticket behind them."""
GO_OFFSET: Final = 8 * _GO
"""Where, in bytes, the ticket of the call that has begun lies, and behind it the two words of its key."""


def key_words(key: bytes) -> tuple[int, int]:
    """A key of 16 bytes as it is written on a board."""
    low, high = struct.unpack("<QQ", key)
    return low, high


class Board:
    """The page, as 64-bit words."""

    def __init__(self, page: torch.Tensor) -> None:
        """Write and read on `page`: at least 4096 bytes of host memory (uint8)."""
        self._page = page  # keeps the memory
        self._words = (ctypes.c_uint64 * (BOARD_BYTES // 8)).from_address(page.data_ptr())

    def ready(self) -> int:
        """The ticket of the call for which the child waits."""
        return self._words[_READY]

    def say_ready(self, ticket: int) -> None:
        """The child is about to wait for this call."""
        self._words[_READY] = ticket

    def go(self, ticket: int, key: tuple[int, int]) -> None:
        """The call begins: from here on the key (see `key_words`) is known."""
        words = self._words
        words[_KEY], words[_KEY + 1] = key
        words[_GO] = ticket

    def wait_for_key(self, ticket: int) -> bytes:
        """Look until the call begins; the other side is there or kills this one."""
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
