"""One model of one provider at one address, and the pydantic-ai model that asks it.

Knows which key counts and what is missing where a package is. Does not know requests or answers.
"""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pike.core.errors import UserError
from pike.llm.redact import redact
from pike.llm.vendors import Access, Vendor, chat_completions, key_of

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

INSTALL = "pip install 'pike-torch[llm]'"
CONNECT_SECONDS = 10.0
NO_KEY = "no-key-needed"
"""What an own server is sent where no key is set; the protocol wants one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one provider at one address.

    Attributes:
        own_server: an OpenAI-compatible server of the user, which needs no key and has no list
            price.
        free: it charges nothing, because it is this machine's or in a private network.
        batched: it is asked through the batch API, at half its price.
    """

    name: str
    vendor: Vendor
    model: str
    base_url: str
    own_server: bool = False
    free: bool = False
    batched: bool = False

    @classmethod
    def of(cls, name: str, vendor: Vendor, model: str, url: str = "", free: bool = False) -> Endpoint:
        """The endpoint behind a name; with a `url`, the server at that address."""
        if not url:
            return cls(name, vendor, model, vendor.base_url)
        # The effort goes out as it is: pydantic-ai cannot know which models of such a server reason.
        own = dataclasses.replace(vendor, build=chat_completions, effort_setting="openai_reasoning_effort")
        return cls(name, own, model, url, own_server=True, free=free)

    @property
    def key_variable(self) -> str:
        """The environment variable that people should set."""
        return self.vendor.key_variables[0]

    def key(self) -> str:
        """The key for this endpoint.

        Raises:
            UserError: none is set and the provider wants one.
        """
        found = key_of(self.vendor) or (NO_KEY if self.own_server else "")
        if not found:
            raise UserError(f"'{self.name}' needs an API key: set the environment variable {self.key_variable}")
        return found

    def model_over(self, http: httpx2.AsyncClient) -> Model:
        """The pydantic-ai model, over these connections.

        Raises:
            UserError: no key is set, a package is missing, or the model's name cannot be one.
        """
        from pydantic_ai.exceptions import UserError as Rejected

        key = self.key()
        # Profiles of reasoning models drop `temperature` and warn on every call; the drop is documented instead.
        warnings.filterwarnings("ignore", message="Sampling parameters", category=UserWarning)
        try:
            return self.vendor.build(Access(self.model, self.base_url, key, http))
        except ImportError as error:
            raise UserError(f"'{self.name}' needs more packages: {INSTALL} (missing: {error.name})") from None
        except Rejected as error:
            raise UserError(f"'{self.name}' cannot be asked: {redact(str(error))}") from None


def http_client(timeout_seconds: float) -> httpx2.AsyncClient:
    """Connections for one client, to be closed by it.

    Raises:
        UserError: pydantic-ai is not installed.
    """
    try:
        import httpx2
        from pydantic_ai.models import create_async_httpx2_client
    except ImportError as error:
        raise UserError(f"Asking a language model needs more packages: {INSTALL} (missing: {error.name})") from None
    return create_async_httpx2_client(timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_SECONDS))
