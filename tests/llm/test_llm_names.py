import pytest

from pike.core.errors import UserError
from pike.core.settings.config import LlmConfig
from pike.llm import connect, parse
from pike.llm.names import forms


@pytest.mark.parametrize(
    ("text", "prefix", "target", "url"),
    [
        ("openai:gpt-5", "openai", "gpt-5", ""),
        ("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", ""),
        ("google:gemini-2.5-pro", "google", "gemini-2.5-pro", ""),
        ("openrouter:deepseek/deepseek-r1:free", "openrouter", "deepseek/deepseek-r1:free", ""),
        ("openai:qwen/q3@http://127.0.0.1:8000/v1", "openai", "qwen/q3", "http://127.0.0.1:8000/v1"),
        ("openai:q@https://gpu.example.com/v1/", "openai", "q", "https://gpu.example.com/v1"),
        ("openai:q@http://[::1]:8000/v1", "openai", "q", "http://[::1]:8000/v1"),
        ("command:my-agent --print 'a b'", "command", "my-agent --print 'a b'", ""),
        ("replay:runs/demo", "replay", "runs/demo", ""),
        ("scripted:a:b.toml", "scripted", "a:b.toml", ""),
        (" none ", "none", "", ""),
        ("by-hand", "by-hand", "", ""),
    ],
)
def test_a_name_is_taken_apart_and_put_together(text, prefix, target, url):
    name = parse(text)
    assert (name.prefix, name.target, name.url) == (prefix, target, url)
    assert parse(name.text) == name


@pytest.mark.parametrize("text", ["", "gpt-5", "openai:", "mistral:large", "none:x", "by-hand:me", ":", "openai: "])
def test_an_unknown_name_lists_the_forms(text):
    with pytest.raises(UserError) as caught:
        parse(text)
    assert forms() in str(caught.value)


@pytest.mark.parametrize(
    "address", ["http://user:s3cretpw@host/v1", "https://host/v1?key=s3cretpw", "http://s3cretpw@host/v1"]
)
def test_an_address_with_credentials_is_refused_without_repeating_them(address):
    with pytest.raises(UserError) as caught:
        parse(f"openai:m@{address}")
    assert "s3cretpw" not in str(caught.value)
    assert "OPENAI_API_KEY" in str(caught.value)


@pytest.mark.parametrize("text", ["openai:@http://host/v1", "openai:m@http://", "openai:m@http://host:port/v1"])
def test_a_broken_address_is_a_user_error(text):
    with pytest.raises(UserError):
        parse(text)


def test_a_misquoted_command_is_a_user_error():
    with pytest.raises(UserError, match="quotes"):
        parse("command:agent 'oops")


@pytest.mark.parametrize("text", ["none", "replay:runs/demo"])
def test_names_without_a_client_say_so(text):
    with pytest.raises(UserError, match="asks no model"):
        connect(text, LlmConfig())


def test_connecting_needs_neither_key_nor_llm_packages():
    import subprocess
    import sys

    program = (
        "import sys\n"
        "from pike.core.settings.config import LlmConfig\n"
        "from pike.llm import connect\n"
        "for name in ('openai:gpt-5', 'anthropic:x', 'google:y', 'openrouter:z', 'command:cat'):\n"
        "    assert connect(name, LlmConfig()).name == name\n"
        "assert not [m for m in sys.modules if m.startswith(('pydantic_ai', 'openai', 'torch', 'httpx'))]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": "/usr/bin:/bin"})


def test_without_the_llm_packages_the_cure_is_named():
    import subprocess
    import sys

    program = (
        "import asyncio, sys\n"
        "sys.modules['pydantic_ai'] = sys.modules['httpx2'] = None\n"
        "from pike.core.settings.config import LlmConfig\n"
        "from pike.llm import connect\n"
        "try:\n"
        "    asyncio.run(connect('openai:m@http://127.0.0.1:9/v1', LlmConfig()).check())\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("UserError")
    assert "pip install 'pike-torch[llm]'" in done.stdout
