"""The command `irc serve` as a process: addresses, signals, TLS, tokens, logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as grpcclient
from irc_compiler.cli.main import main
from irc_compiler.serve.server import open_socket
from support.serving import affine, command, save_model
from support.waiting import wait_until


def ready(url: str, context: Any = None) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=10, context=context):
            return True
    except urllib.error.HTTPError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_and_it_listens_on_loopback(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(affine())
    words = (str(path), "--http", "0", "--grpc", "0", "--metrics", "0")
    with command(*words) as (process, ports):
        assert sorted(ports) == ["grpc", "http", "metrics"]
        wait_until(lambda: ready(f"http://127.0.0.1:{ports['http']}"))
        inodes = listening_inodes(process.pid)
        assert inodes and set(inodes.values()) <= LOOPBACK
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
        assert "loaded model/1" in log and "shutting down" in log and "Traceback" not in log


# 127.0.0.1, and the same as gRPC's IPv6 sockets have it.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def listening_inodes(pid: int) -> dict[str, str]:
    """Addresses (as /proc writes them) of the process's listening TCP sockets, by inode."""
    inodes = set[str]()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
    found = dict[str, str]()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found[fields[9]] = fields[1].split(":")[0]
    return found


def test_bad_arguments_are_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path, "m", affine())
    cases = {
        (str(tmp_path / "nowhere"),): "no model repository",
        (str(tmp_path), "--tls-cert", str(tmp_path / "none.pem")): "TLS file is not there",
        (str(tmp_path), "--token-file", str(tmp_path / "none")): "token can't be read",
        (str(tmp_path), "--http", "70000"): "not a port",
        (str(tmp_path), "--host", "192.0.2.1", "--http", "0"): "can't listen",
    }
    for words, message in cases.items():
        assert main(["serve", *words]) == 2
        assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    try:
        subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not run: openssl is not there to make a certificate")
    return cert, key


@pytest.mark.slow
def test_tls_tokens_and_json_logs(tmp_path: Path, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    save_model(tmp_path, "m", affine())
    (tmp_path / "token").write_text("s3cret\n")
    words = [str(tmp_path), "--http", "0", "--grpc", "0", "--log", "json", "-v"]
    words += ["--tls-cert", cert, "--tls-key", key, "--token-file", str(tmp_path / "token")]
    with command(*words) as (process, ports):
        context = ssl.create_default_context(cafile=cert)
        url = f"https://127.0.0.1:{ports['http']}"
        wait_until(lambda: ready(url, context))
        headers = {"Authorization": "Bearer s3cret", "X-Request-Id": "id-1"}
        request = urllib.request.Request(f"{url}/v2/models/m", headers=headers)
        with urllib.request.urlopen(request, context=context, timeout=60) as response:
            assert response.status == 200
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/v2", context=context, timeout=60)
        assert caught.value.code == 401
        with grpcclient.InferenceServerClient(
            f"localhost:{ports['grpc']}", ssl=True, root_certificates=cert
        ) as client:
            assert client.is_server_ready()
            assert client.is_model_ready("m", headers={"authorization": "Bearer s3cret"})
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        events = [json.loads(line) for line in log.splitlines()]
        assert any(e.get("request_id") == "id-1" and e["outcome"] == "ok" for e in events)
        assert "s3cret" not in log and process.returncode == 0


@pytest.mark.slow
def test_a_second_server_on_the_port_is_an_error(tmp_path: Path) -> None:
    save_model(tmp_path, "m", affine())
    with command(str(tmp_path), "--http", "0", "--grpc", "0") as (_, ports):
        for option in ("http", "grpc"):
            words = [sys.executable, "-m", "irc_compiler", "serve", str(tmp_path)]
            words += ["--http", "0", f"--{option}", str(ports[option])]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120)
            assert done.returncode == 2 and "can't listen" in done.stderr, done.stderr


@pytest.mark.slow
def test_the_command_needs_the_extra() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from irc_compiler.cli.main import main; "
        "sys.exit(main(['serve', '.']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2 and 'pip install "irc-compiler[serve]"' in done.stderr


def test_connections_send_at_once() -> None:
    """The end of an answer does not wait for the client to acknowledge its beginning."""
    delays = list[int]()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        delays.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect() -> None:
        listening = open_socket("127.0.0.1", 0)
        async with await asyncio.start_server(note, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()

    asyncio.run(connect())
    assert delays == [1]
