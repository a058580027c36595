"""litellm, unmodified: chats, streams, texts, embeddings and errors over OpenAI's endpoints.

litellm needs many packages, so it is in none of irc's extras: IRC_LITELLM_PYTHON names an
interpreter that has it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from irc_compiler.llm.llm import LLM
from support.models.byte_decoder import save_byte_model
from support.serving import serving

PYTHON = os.environ.get("IRC_LITELLM_PYTHON") or (
    sys.executable if importlib.util.find_spec("litellm") else ""
)

CLIENT = """
import json, sys
import litellm

how = {"api_base": f"http://{sys.argv[1]}/v1", "api_key": "none", "max_retries": 0}
messages = [{"role": "user", "content": "hello"}]
options = {"model": "openai/tiny", "messages": messages, "max_tokens": 20, "temperature": 0, **how}
chat = litellm.completion(**options)
chunks = list(litellm.completion(**options, stream=True))
text = litellm.text_completion(
    model="text-completion-openai/tiny", prompt="once upon", max_tokens=12, temperature=0, **how
)
vectors = litellm.embedding(model="openai/tiny", input=["hello"], **how)
try:
    litellm.completion(**{**options, "model": "openai/absent"})
    error = ""
except litellm.NotFoundError as found:
    error = str(found)
print(json.dumps({
    "chat": chat.choices[0].message.content,
    "tokens": chat.usage.completion_tokens,
    "streamed": "".join(c.choices[0].delta.content or "" for c in chunks),
    "text": text.choices[0].text,
    "vector": vectors.data[0]["embedding"],
    "error": error,
}))
"""


@pytest.mark.slow
def test_litellm(tmp_path: Path) -> None:
    if not PYTHON:
        pytest.skip("not run: litellm is not installed (IRC_LITELLM_PYTHON names an interpreter)")
    save_byte_model(tmp_path / "tiny" / "1")
    llm = LLM(tmp_path / "tiny" / "1", num_threads=1)
    with serving(tmp_path) as server:
        done = subprocess.run(
            [PYTHON, "-c", CLIENT, server.http],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    wanted = llm.chat([{"role": "user", "content": "hello"}], max_tokens=20)
    assert found["chat"] == found["streamed"] == wanted.text
    assert found["tokens"] == len(wanted.tokens)
    assert found["text"] == llm.generate("once upon", max_tokens=12).text
    assert found["vector"] == pytest.approx(llm.embed("hello").reshape(-1).tolist(), abs=1e-6)
    assert "absent" in found["error"]
