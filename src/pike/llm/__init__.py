"""Talking to language models through one `Client` protocol.

Knows names (`openai:gpt-5`, `command:...`, `scripted:...`), attempts, prices and failures. Does not
know what is asked (`agents`), what for (`engine`) or where answers are kept (`store`).
"""

from pike.llm.client import CallWatcher, Client, Price
from pike.llm.given import ExternalClient, ReplayClient
from pike.llm.names import EXTERNAL, REPLAY, connect, forms, parse, require_keys
from pike.llm.retry import complete_with_retries
from pike.llm.tokens import approximate_tokens, most_tokens
from pike.llm.vendors import Vendor, chat_completions, key_variables

__all__ = [
    "EXTERNAL",
    "REPLAY",
    "CallWatcher",
    "Client",
    "ExternalClient",
    "Price",
    "ReplayClient",
    "Vendor",
    "approximate_tokens",
    "chat_completions",
    "complete_with_retries",
    "connect",
    "forms",
    "key_variables",
    "most_tokens",
    "parse",
    "require_keys",
]
