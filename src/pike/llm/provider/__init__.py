"""The client for everything that is asked over the network."""

from pike.llm.provider.batch import BatchClient
from pike.llm.provider.client import ProviderClient
from pike.llm.provider.endpoint import Endpoint

__all__ = ["BatchClient", "Endpoint", "ProviderClient"]
