"""Figure 8 by embeddings: a tiny model on the disk, and what is said where there is none."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def figures(out: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = ["figures", str(RUN), "--out", str(out), "--format", "svg", "--only", "similarity", *arguments]
    paths = os.pathsep.join(filter(None, [str(path or ""), os.environ.get("PYTHONPATH", "")]))
    env = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pike", *command], env=env, capture_output=True, text=True, check=False
    )


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


def test_a_model_on_the_disk_is_drawn_from_and_named(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="pip install 'pike-torch[embeddings]'")
    done = figures(tmp_path, "--embeddings", str(tiny_model(tmp_path / "tiny")))
    assert done.returncode == 0, done.stderr
    assert "cosine of embeddings by tiny" in done.stdout
    assert (found := similarities(tmp_path)) and all(0.0 < one <= 1.0 for one in found)


def test_what_the_package_brings_becomes_the_figure(tmp_path: Path) -> None:
    (tmp_path / "sentence_transformers.py").write_text(STAND_IN)
    done = figures(tmp_path, "--embeddings", "letters", path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "embeddings by letters" in done.stdout
    assert all(0.0 < one <= 1.0 + 1e-6 for one in similarities(tmp_path))
    assert (tmp_path / "similarity-embeddings.svg").is_file()
    done = figures(tmp_path, "--embeddings", "nowhere", path=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'nowhere' cannot be loaded for --embeddings (nowhere is no folder)" in done.stderr


def test_without_the_package_or_a_model_the_cure_is_named(tmp_path: Path) -> None:
    (tmp_path / "sentence_transformers.py").write_text("raise ModuleNotFoundError('x', name='sentence_transformers')")
    done = figures(tmp_path, "--embeddings", "any", path=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "pike: --embeddings needs sentence_transformers: pip install 'pike-torch[embeddings]'.\n"
    listed = figures(tmp_path, "--list")
    assert listed.returncode == 0 and "--embeddings" in listed.stdout
