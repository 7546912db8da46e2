"""A real HTTP server that plays an LLM provider, well or badly."""

from pike.llm.fake_server.server import FakeServer
from pike.llm.fake_server.wire import FakeReply, Fault

__all__ = ["FakeReply", "FakeServer", "Fault"]
