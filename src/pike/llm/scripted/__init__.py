"""A client that answers from a script."""

from pike.llm.scripted.client import ScriptedClient

__all__ = ["ScriptedClient"]
