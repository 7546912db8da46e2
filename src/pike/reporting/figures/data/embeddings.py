"""How alike two sources are to a model that embeds texts.

Knows sentence-transformers and that a model reads only the beginning of a long text. Does not know
runs or figures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from itertools import chain

from pike.core.errors import UserError, needing

_PIECE_LINES = 12
"""Lines that are embedded at once: small models read about 256 tokens."""


class Embeddings:
    """Similarities by one model, which is loaded when the first is asked for.

    Args:
        model: a folder with a model, or a name that sentence-transformers knows.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._known: dict[str, list[float]] = {}

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of the embeddings of each pair of sources.

        The embedding of a source is the mean over its pieces of a few lines, so that all of it
        counts. A piece that many sources share is embedded once.

        Raises:
            UserError: sentence-transformers is missing, or the model cannot be loaded.
        """
        new = set(chain.from_iterable(_pieces(source) for source in chain.from_iterable(pairs))) - self._known.keys()
        if new:
            ordered = sorted(new)
            self._known |= zip(ordered, self._embedded(ordered), strict=True)
        return [_cosine(self._mean(one), self._mean(other)) for one, other in pairs]

    def _mean(self, source: str) -> list[float]:
        vectors = [self._known[piece] for piece in _pieces(source)]
        return [sum(values) / len(vectors) for values in zip(*vectors, strict=True)]

    def _embedded(self, pieces: list[str]) -> Iterable[list[float]]:
        with needing("--embeddings", "embeddings"):
            from sentence_transformers import SentenceTransformer
        try:
            model = SentenceTransformer(self.model)
        except (OSError, ValueError) as error:
            first = str(error).strip().partition(os.linesep)[0]
            raise UserError(
                f"The model '{self.model}' cannot be loaded for --embeddings ({first}): name a folder with a model "
                "of sentence-transformers"
            ) from error
        found: Iterable[list[float]] = model.encode(pieces, normalize_embeddings=True, show_progress_bar=False).tolist()
        return found


def _pieces(source: str) -> list[str]:
    lines = [line for line in source.splitlines() if line.strip()]
    return ["\n".join(lines[at : at + _PIECE_LINES]) for at in range(0, max(1, len(lines)), _PIECE_LINES)]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(float.__mul__, one, other)) / lengths if lengths else 0.0
