"""A page in headless Chromium, with a mouse and a keyboard: its own protocol over pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

BROWSER = next(
    (b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), ""
)
WIDTH, HEIGHT = 1400, 900


class Page:
    """A page, opened at `path#wish` or `url`. To be closed (`with`). What it throws is an error."""

    def __init__(self, path: Path, folder: Path, wish: str = "", *, url: str = "") -> None:
        theirs, self._to = os.pipe()
        self._from, others = os.pipe()
        words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        words += [f"--user-data-dir={folder / 'profile'}", f"--window-size={WIDTH},{HEIGHT}"]
        # The protocol wants these numbers.
        shell = f'exec "$@" 3<&{theirs} 4>&{others}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *words, "about:blank"],
            pass_fds=(theirs, others),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(others)
        self._left, self._number, self._session = b"", 0, ""
        self.thrown: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        found = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self._ask("Runtime.enable")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self._ask("Page.enable")
        self._ask("Page.navigate", url=url or f"file://{path}#{wish}")
        self.run(
            "new Promise(done=>{const look=()=>document.body?.dataset.ready?done(1):"
            "setTimeout(look,20);look()})"
        )

    def run(self, code: str) -> Any:
        """The value of an expression in the page; of a promise, what it promises."""
        options = {"expression": code, "awaitPromise": True, "returnByValue": True}
        found = self._ask("Runtime.evaluate", **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """mousePressed, mouseMoved, mouseReleased or mouseWheel at a place of the window."""
        button = {"button": "left", "clickCount": 1} if kind != "mouseWheel" else {}
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button, **more)

    def click(self, selector: str) -> None:
        """Press and release in the middle of an element."""
        where = f"(r=>[r.x+r.width/2,r.y+r.height/2])({_element(selector)}.getBoundingClientRect())"
        x, y = self.run(where)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def key(self, name: str) -> None:
        """One key, by its name or character."""
        text = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self._ask("Input.dispatchKeyEvent", type="keyUp", key=name)

    def screenshot(self, path: Path) -> None:
        """What the window shows, as a PNG."""
        path.write_bytes(
            base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])
        )

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.thrown.append(str(answer["params"]["exceptionDetails"]))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser is gone"
            self._left += more
        one, self._left = self._left.split(b"\0", 1)
        return json.loads(one)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait(timeout=300)


def _element(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"
