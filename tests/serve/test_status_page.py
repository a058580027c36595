"""The status page: what it reads, and the page itself in headless Chromium."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient
from support.chromium import BROWSER, Page
from support.serving import Server


def fetch(server: Server, path: str) -> str:
    with urllib.request.urlopen(f"http://{server.http}/{path}", timeout=60) as response:
        return response.read().decode()


def send_request(server: Server) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        given = httpclient.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.ones((1, 4), np.float32))
        client.infer("affine", [given])


def test_status(server: Server) -> None:
    send_request(server)
    found = json.loads(fetch(server, "status"))
    models = {m["name"]: m for m in found["models"]}
    assert found["ready"] and models["affine"]["state"] == "READY"
    assert models["affine"]["batching"] == "sizes 2, 4, 8" and models["affine"]["recent"]
    assert models["affine"]["queue"] == 0 and models["affine"]["memory"] > 0
    assert models["broken"]["state"] == "UNAVAILABLE" and models["broken"]["reason"]
    assert "not configured" in models["counting"]["batching"]


def test_the_page_loads_nothing_from_elsewhere(server: Server) -> None:
    page = fetch(server, "")
    assert "<title>irc serve</title>" in page
    assert not re.findall(r"(?:src|href)=", page)
    assert re.findall(r"https?://[^\"]+", page) == ["http://www.w3.org/2000/svg"]


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="not run: Chromium is not there")
def test_the_page_in_a_browser(server: Server, tmp_path: Path) -> None:
    send_request(server)
    send_request(server)
    with Page(tmp_path / "none.html", tmp_path, url=f"http://{server.http}/") as page:
        rows = page.run("[...document.querySelectorAll('#models tr')].map(r => r.innerText)")
        assert any("affine" in row and "READY" in row for row in rows)
        assert any("broken" in row and "UNAVAILABLE" in row for row in rows)
        assert page.run("document.querySelectorAll('#models svg polyline').length") >= 1
        page.screenshot(tmp_path / "status.png")
        assert (tmp_path / "status.png").stat().st_size > 5000 and not page.thrown
