"""Talking to language models through one `Client` protocol.

Knows names (`openai:gpt-5`, `command:...`, `scripted:...`), attempts, prices and failures. Does not know what is
asked (`agents`), what it is for (`engine`) or where answers are kept (`store`).
"""

from pike.llm.client import CallWatcher, Client, Price, PriceTier
from pike.llm.names import FORMS, Kind, ModelName, connect, parse
from pike.llm.replay import ReplayClient
from pike.llm.retry import complete_with_retries
from pike.llm.tokens import approximate_tokens, most_tokens

__all__ = [
    "FORMS",
    "CallWatcher",
    "Client",
    "Kind",
    "ModelName",
    "Price",
    "PriceTier",
    "ReplayClient",
    "approximate_tokens",
    "complete_with_retries",
    "connect",
    "most_tokens",
    "parse",
]
