"""The Markdown templates of prompts: the shipped ones, and a user's in their place.

Knows how templates are found, checked and versioned. Does not know roles or values.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.settings.merging import nearest

SHIPPED = Path(__file__).parents[1] / "templates"
_VERSION_CHARACTERS = 12


class Templates:
    """The templates of one folder over the shipped ones."""

    def __init__(self, folder: str, filters: Mapping[str, Callable[..., Any]]) -> None:
        import jinja2  # a machine that only judges has none
        from jinja2.sandbox import SandboxedEnvironment

        self._folder, self._refusal = folder, jinja2.TemplateError
        self._environment = SandboxedEnvironment(
            loader=jinja2.FileSystemLoader([Path(folder), SHIPPED] if folder else SHIPPED),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            # Prompts are Markdown for a model: HTML escaping would damage the source code in them.
            autoescape=False,
        )
        self._environment.filters.update(filters)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """A template with its values.

        Raises:
            UserError: a template of the user's folder is not valid or uses an unknown value.
        """
        try:
            text = self._environment.get_template(name).render(values).strip()
        except self._refusal as error:
            if not self._folder:
                raise
            raise UserError(f"The prompt {name} with the templates in {self._folder} cannot be made: {error}") from None
        # What a model wrote may hold halves of surrogate pairs, which no provider can be sent.
        return text.encode("utf-8", "replace").decode()


@cache
def version(folder: str = "") -> str:
    """A digest of all templates, those of `folder` in the place of the shipped ones.

    Raises:
        UserError: there is no such folder, or it holds no template, or one that takes no place.
    """
    files = {path.relative_to(SHIPPED).as_posix(): path for path in SHIPPED.rglob("*.md")}
    if folder:
        files |= _own(Path(folder), files)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\n{path.read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()[:_VERSION_CHARACTERS]


def _own(folder: Path, shipped: Mapping[str, Path]) -> dict[str, Path]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.md")}
    if not found:
        raise UserError(f"The prompt folder {folder} holds no template: copy one of those in {SHIPPED} and change it")
    for name in found:
        if name not in shipped:
            raise UserError(f"The template {name} in {folder} takes the place of none{nearest(name, shipped)}")
    return found
