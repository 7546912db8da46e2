"""What `pike mcp` prints for clients, and what it says where it cannot serve."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from server_material import MODEL, TOKEN

from pike import server
from pike.cli import main
from pike.core.errors import UserError

COMMAND = ["/a place/pike", "mcp", "--runs", "/here/runs"]
TABLES = {"claude-code": "mcpServers", "claude-desktop": "mcpServers", "cursor": "mcpServers", "vscode": "servers"}


def parsed(client: str, url: str = "") -> dict[str, object]:
    place, _, text = server.client_config(client, COMMAND, url).partition("\n\n")
    assert place
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]["pike"]
    return json.loads(text)[TABLES[client]]["pike"]


@pytest.mark.parametrize("client", server.CLIENTS)
def test_a_client_is_told_the_command(client: str) -> None:
    entry = parsed(client)
    assert (entry["command"], entry["args"]) == (COMMAND[0], COMMAND[1:])


@pytest.mark.parametrize("client", sorted(set(server.CLIENTS) - {"claude-desktop"}))
def test_a_client_is_told_the_address_and_never_a_token(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server.TOKEN_VARIABLE, TOKEN)
    entry = parsed(client, "http://127.0.0.1:8765/mcp")
    assert entry["url"] == "http://127.0.0.1:8765/mcp"
    assert TOKEN not in json.dumps(entry)
    assert "command" not in entry


def test_a_client_that_starts_its_servers_itself_has_no_use_for_an_address() -> None:
    with pytest.raises(UserError, match="leave out --http"):
        server.client_config("claude-desktop", COMMAND, "http://127.0.0.1:8765/mcp")


def test_the_printed_command_repeats_the_options_with_paths_that_hold_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(MODEL)
    given = ["mcp", "--print-config", "cursor", "tiny.py", "--query-budget", "7", "--set", "engine.finalists=1"]
    assert main.run(given) == 0
    words = json.loads(capsys.readouterr().out)["mcpServers"]["pike"]["args"]
    after = words[words.index("mcp") + 1 :]
    assert after[0] == str(tmp_path / "tiny.py")
    assert after[1:3] == ["--runs", str(tmp_path / "runs")]
    assert after[3:] == ["--query-budget", "7", "--set", "engine.finalists=1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--print-config", "emacs"], "known: claude-code"),
        (["--run", "nowhere"], "no run in 'nowhere'"),
        (["no-such-task.py"], "no-such-task.py"),
        (["--query-budget", "3", "--strategy", "agant"], "agant"),
        (["--http", "--host", "0.0.0.0", "--no-token"], "needs a token"),
        (["--http", "--host", "256.0.0.1"], "Cannot listen on 256.0.0.1"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["mcp", *arguments]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert said in complaint
    assert complaint.startswith("pike: ")


def test_without_the_extra_the_command_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "pike.server.tools", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    assert main.run(["mcp"]) == 2
    assert "pip install 'pike-torch[mcp]'" in capsys.readouterr().err
