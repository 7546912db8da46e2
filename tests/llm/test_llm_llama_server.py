"""A real llama.cpp server with a model of random weights: `pip install xllamacpp gguf`, then `-m network`."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pike.core.query import Finish
from pike.core.settings.config import LlmConfig
from pike.llm import connect

pytestmark = pytest.mark.network

WIDTH, LAYERS, INNER = 64, 2, 128
BYTES = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
SERVE = """
import sys, time, xllamacpp
terms = xllamacpp.CommonParams()
terms.model.path, terms.n_ctx, terms.n_parallel, terms.port = sys.argv[1], 8192, 1, int(sys.argv[2])
terms.n_gpu_layers, terms.cpuparams.n_threads = 0, 1
server = xllamacpp.Server(terms)
time.sleep(300)
"""


def write_model(path: Path) -> None:
    """A llama of 2 layers whose tokens are bytes."""
    gguf, np = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    rng = np.random.default_rng(0)
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(8192)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(4)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(BYTES))
    file.add_tokenizer_model("llama")
    file.add_token_list(BYTES)
    file.add_token_scores([0.0] * len(BYTES))
    kinds = gguf.TokenType
    file.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256)
    file.add_chat_template(TEMPLATE)
    shapes = {"token_embd": (len(BYTES), WIDTH), "output": (len(BYTES), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        inner = {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        square = {f"attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        norms = {f"{name}_norm": (WIDTH,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in (inner | square | norms).items()}
    for name, shape in shapes.items():
        values = np.ones(shape) if name.endswith("norm") else rng.standard_normal(shape) * 0.05
        file.add_tensor(f"{name}.weight", values.astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    write_model(model)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVE, str(model), str(port)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


async def test_a_real_server_is_checked_and_streams_answers_with_their_tokens(address, ask):
    client = connect(f"openai:tiny.gguf@{address}", LlmConfig(timeout_seconds=30.0))
    await client.check()
    answers = await asyncio.gather(*(client.complete(ask(i, max_output_tokens=64)) for i in range(6)))
    await client.aclose()
    assert all(answer.input_tokens > 20 and 0 < answer.output_tokens <= 64 for answer in answers)
    assert {answer.usd for answer in answers} == {0.0}
    assert {answer.finish for answer in answers} <= {Finish.STOP, Finish.LENGTH}
    assert any(answer.text for answer in answers)


async def test_a_prompt_beyond_its_context_is_refused_in_its_words_with_the_cure(address, ask):
    client = connect(f"openai:tiny.gguf@{address}", LlmConfig(timeout_seconds=30.0))
    with pytest.raises(Exception, match=r"context size.*prompt\.most_tokens") as caught:
        await client.complete(ask(prompt="x" * 20_000))
    await client.aclose()
    assert not caught.value.transient
