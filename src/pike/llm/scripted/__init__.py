"""A client that answers from a script."""

from pike.llm.scripted.client import ScriptedClient
from pike.llm.scripted.script import Line, Script

__all__ = ["Line", "Script", "ScriptedClient"]
