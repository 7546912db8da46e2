"""Talking to language models through one `Client` protocol.

Knows names (`openai:gpt-5`, `command:...`, `scripted:...`), attempts, prices and failures. Does not
know what is asked (`agents`), what for (`engine`) or where answers are kept (`store`).
"""

from pike.llm.given import ExternalClient
from pike.llm.names import EXTERNAL, REPLAY, connect, parse, require_keys
from pike.llm.retry import complete_with_retries
from pike.llm.vendors import key_variables

__all__ = [
    "EXTERNAL",
    "REPLAY",
    "ExternalClient",
    "complete_with_retries",
    "connect",
    "key_variables",
    "parse",
    "require_keys",
]
