"""Figure 8 by embeddings: a tiny model on the disk, and what is said where there is none."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pike.cli.main import run

RUN = Path(__file__).resolve().parents[1] / "store" / "assets" / "journal_v1_models"
STAND_IN = '''
"""Stands in for the package: a text is embedded as its counts of four letters."""

import numpy as np


class SentenceTransformer:
    def __init__(self, model):
        if model == "nowhere":
            raise OSError("nowhere is no folder\\nand more")

    def encode(self, texts, normalize_embeddings, show_progress_bar):
        assert len(set(texts)) == len(texts), "each piece is embedded once"
        return np.array([[text.count(letter) for letter in "e(x="] for text in texts], dtype=float)
'''


def figures(out: Path, *arguments: str) -> int:
    return run(["figures", str(RUN), "--out", str(out), "--format", "svg", "--only", "similarity", *arguments])


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`brought(source)` puts a package in the place of sentence-transformers."""

    def bring(source: str) -> None:
        (tmp_path / "sentence_transformers.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("sentence_transformers", None)

    yield bring
    sys.modules.pop("sentence_transformers", None)


def similarities(out: Path) -> list[float]:
    with (out / "similarity-embeddings.csv").open() as file:
        return [float(row["similarity"]) for row in csv.DictReader(file)]


def tiny_model(folder: Path) -> Path:
    """A model of a few thousand random weights."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir()
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "import",
        "torch",
        "class",
        "return",
        "def",
        "(",
        ")",
        "=",
        ".",
    ]
    (folder / "vocab.txt").write_text("\n".join(words))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_model_on_the_disk_is_drawn_from_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentence_transformers", reason="pip install 'pike-torch[embeddings]'")
    assert figures(tmp_path, "--embeddings", str(tiny_model(tmp_path / "tiny"))) == 0
    assert "cosine of embeddings by tiny" in capsys.readouterr().out
    assert (found := similarities(tmp_path)) and all(0.0 < one <= 1.0 for one in found)


def test_what_the_package_brings_becomes_the_figure(
    tmp_path: Path, brought: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    brought(STAND_IN)
    assert figures(tmp_path, "--embeddings", "letters") == 0
    assert "embeddings by letters" in capsys.readouterr().out
    assert all(0.0 < one <= 1.0 + 1e-6 for one in similarities(tmp_path))
    assert (tmp_path / "similarity-embeddings.svg").is_file()
    assert figures(tmp_path, "--embeddings", "nowhere") == 2
    said = capsys.readouterr().err
    assert "'nowhere' cannot be loaded for --embeddings (nowhere is no folder)" in said and said.count("\n") == 1


def test_without_the_package_or_a_model_the_cure_is_named(
    tmp_path: Path, brought: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    brought("raise ModuleNotFoundError('x', name='sentence_transformers')")
    assert figures(tmp_path, "--embeddings", "any") == 2
    said = "pike: --embeddings needs sentence_transformers: pip install 'pike-torch[embeddings]'.\n"
    assert capsys.readouterr().err == said
    assert figures(tmp_path, "--list") == 0
    assert "--embeddings" in capsys.readouterr().out
