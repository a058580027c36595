"""Versions, states and hot reload: no request is lost, and a bad file changes nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient
from irc_compiler.serve.settings import Settings
from support.serving import WEIGHT, Server, affine, save_model, serving
from support.waiting import wait_until
from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)
POLLED = Settings(poll_seconds=0.02)


def ask(client: httpclient.InferenceServerClient, version: str = "") -> float:
    """The bias of the model that answers."""
    given = httpclient.InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X)
    found = client.infer("m", [given], version).as_numpy("y") - X @ WEIGHT
    assert np.ptp(found) == 0
    return float(found[0, 0])


def index(server: Server) -> dict[tuple[str, str], tuple[str, str]]:
    with httpclient.InferenceServerClient(server.http) as client:
        found = client.get_model_repository_index()
    return {(m["name"], m["version"]): (m["state"], m["reason"]) for m in found}


@pytest.mark.slow
def test_versions_and_policies(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        save_model(tmp_path, "m", affine(version), version)
    (tmp_path / "m" / "config.json").write_text('{"version_policy": {"latest": 2}}')
    with serving(tmp_path) as server, httpclient.InferenceServerClient(server.http) as client:
        assert ask(client) == 3 and ask(client, "2") == 2
        with pytest.raises(InferenceServerException, match="unknown version"):
            ask(client, "1")
        assert client.get_model_metadata("m")["versions"] == ["2", "3"]


@pytest.mark.slow
def test_polling_loads_replaces_and_removes(tmp_path: Path) -> None:
    save_model(tmp_path, "m", affine(1))
    with (
        serving(tmp_path, POLLED) as server,
        httpclient.InferenceServerClient(server.http) as client,
    ):
        assert ask(client) == 1
        save_model(tmp_path, "m", affine(2))  # the same version, other content
        wait_until(lambda: ask(client) == 2)
        save_model(tmp_path, "m", affine(3), 2)
        wait_until(lambda: ask(client) == 3)
        wait_until(lambda: ("m", "1") not in index(server) or index(server)["m", "1"][1])
        (tmp_path / "m" / "2" / "model.onnx").unlink()
        (tmp_path / "m" / "2").rmdir()
        wait_until(lambda: ask(client) == 2)
        (tmp_path / "m").rename(tmp_path / ".m")
        wait_until(lambda: not client.is_model_ready("m"))


@pytest.mark.slow
def test_a_bad_file_keeps_the_last_version_and_says_why(tmp_path: Path) -> None:
    path = save_model(tmp_path, "m", affine(1))
    good = path.read_bytes()
    with (
        serving(tmp_path, POLLED) as server,
        httpclient.InferenceServerClient(server.http) as client,
    ):
        save_model(tmp_path, "m", b"not a model")
        wait_until(lambda: index(server)["m", "1"][1])
        state, reason = index(server)["m", "1"]
        assert state == "READY" and "m/1/model.onnx" in reason and str(tmp_path) not in reason
        assert ask(client) == 1
        save_model(tmp_path, "m", good[: len(good) // 2], 2)
        wait_until(lambda: index(server).get(("m", "2"), ("", ""))[1])
        assert index(server)["m", "2"][0] == "UNAVAILABLE" and ask(client) == 1
        (tmp_path / "m" / "config.json").write_text("{")
        wait_until(lambda: "config.json" in index(server)["m", "1"][1])
        assert ask(client) == 1
        (tmp_path / "m" / "config.json").unlink()
        save_model(tmp_path, "m", affine(5), 2)
        wait_until(lambda: ask(client) == 5)
        assert index(server)["m", "2"] == ("READY", "")


def test_requests_load_and_unload(tmp_path: Path) -> None:
    save_model(tmp_path, "m", affine(1))
    settings = Settings(allow_load=True, poll_seconds=0.02)
    with (
        serving(tmp_path, settings) as server,
        httpclient.InferenceServerClient(server.http) as client,
    ):
        client.unload_model("m")
        with pytest.raises(InferenceServerException, match="unloaded"):
            ask(client)
        save_model(tmp_path, "m", affine(2))
        client.load_model("m")
        assert ask(client) == 2
        for name in ("nobody", "../m", "m/1"):
            with pytest.raises(InferenceServerException):
                client.load_model(name)
        with pytest.raises(InferenceServerException, match="no parameters"):
            client.load_model("m", config=json.dumps({}))
        save_model(tmp_path, "m", b"bad")
        with pytest.raises(InferenceServerException, match="could not be loaded"):
            client.load_model("m")
        assert ask(client) == 2


def test_a_model_that_can_not_be_batched_says_so(tmp_path: Path) -> None:
    save_model(tmp_path, "m", affine())
    config = {"shapes": {"x": [2, 4]}, "batching": {}}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with serving(tmp_path) as server:
        assert "one symbolic size" in index(server)["m", "1"][1]


@pytest.mark.slow
def test_reloading_loses_no_request(tmp_path: Path) -> None:
    """Clients ask without a pause while the model is replaced again and again: each answer is that
    of a version that was there, and none is an error."""
    save_model(tmp_path, "m", affine(0))
    failures, answers, over = list[str](), list[float](), threading.Event()

    def keep_asking() -> None:
        with httpclient.InferenceServerClient(server.http) as client:
            while not over.is_set():
                try:
                    answers.append(ask(client))
                except Exception as error:
                    failures.append(str(error))

    with serving(tmp_path, POLLED) as server:
        threads = [threading.Thread(target=keep_asking) for _ in range(3)]
        for thread in threads:
            thread.start()
        with httpclient.InferenceServerClient(server.http) as client:
            for bias in range(1, 12):  # six replacements of a version, then new versions
                save_model(tmp_path, "m", affine(bias), max(1, bias - 5))
                wait_until(lambda wanted=bias: ask(client) == wanted)
        over.set()
        for thread in threads:
            thread.join(60)
    assert failures == [] and len(answers) > 50 and set(answers) <= set(range(12))
