"""A headless Chromium, driven through the pipe of its DevTools protocol: it needs no port and no other package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds for one answer


def pipe_above_4() -> tuple[int, int]:
    low = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return read, write


class Chromium:
    """A browser with one page, of 1400 × 1000 pixels."""

    def __init__(self) -> None:
        self.profile = tempfile.mkdtemp(prefix="mmsb-chromium-")
        # The protocol is on descriptors 3 and 4, which these must not be before they are moved there.
        to_read, self.to = pipe_above_4()
        self.answers, from_write = pipe_above_4()
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{to_read} 4>&{from_write}',
                "bash",
                str(ROOT / "build" / "bin" / "chromium"),
                "--headless",
                "--no-sandbox",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--no-first-run",
                f"--user-data-dir={self.profile}",
                "--window-size=1400,1000",
                "about:blank",
            ],
            pass_fds=(to_read, from_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self.number = 0
        self.received = b""
        self.session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Any:
        """The result of a command."""
        self.number += 1
        message: dict[str, object] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.next(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def next(self, until: float) -> dict[str, Any]:
        """The next message; what pages ask for and complain of is noted."""
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            piece = os.read(self.answers, 1 << 20)
            assert piece, "Chromium has ended"
            self.received += piece
        text, self.received = self.received.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(str(message["params"]))
        return message

    def value(self, expression: str) -> Any:
        """What an expression is in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path: Path, query: str = "", shown: str = "document.documentElement?.dataset.shownMs !== undefined") -> None:
        """Opens a page, and waits until it is shown, which an expression says."""
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=path.resolve().as_uri() + query)
        until = time.monotonic() + PATIENCE
        while not self.value(f"location.protocol === 'file:' && ({shown})"):
            assert time.monotonic() < until, f"the page is not shown: {self.complaints}"
            time.sleep(0.02)

    def hover(self, x: float, y: float) -> str:
        """Moves the mouse there, and returns what the tooltip says; "" where there is none."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return self.value("""document.getElementById('tip').style.display === 'block'
            ? [...document.querySelectorAll('#tip tr')].map(r => [...r.children].map(c => c.textContent).join(': ')).join('\\n')
            : ''""")

    def box(self, selector: str) -> dict[str, float]:
        """Where an element is in the window, after scrolling there."""
        return self.value(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            "return e.getBoundingClientRect().toJSON(); })()"
        )

    def resize(self, width: int, height: int) -> None:
        """Gives the window a size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def tall(self) -> None:
        """Makes the window as high as the page."""
        self.resize(1400, self.call("Page.getLayoutMetrics")["cssContentSize"]["height"])
        self.value("new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(shown)))")

    def screenshot(self, path: Path) -> None:
        """Writes the window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def dark(self, on: bool) -> None:
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}],
        )

    def close(self) -> None:
        self.session = None
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)
