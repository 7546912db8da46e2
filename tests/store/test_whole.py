"""Files that are whole or absent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pike.store.whole import replacing


def test_two_threads_may_write_one_file_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with ThreadPoolExecutor(1) as other, replacing(path) as mine:
        mine.write(b"mine")
        other.submit(_write, path, b"other").result()
    assert path.read_bytes() == b"mine"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)
