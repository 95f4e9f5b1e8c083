"""A page in headless Chromium, driven through its debugging protocol."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from shutil import which
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """A page that was opened; `problems` are the errors that it wrote into its console."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self._socket, self._number = socket, 0
        self.problems: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=120)
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(str(message["params"]))
            if message.get("id") == self._number:
                return message["result"]

    async def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")


@asynccontextmanager
async def page_at(url: str) -> AsyncIterator[Page]:
    """Open a page in a browser of its own."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="omnidraft-chromium-") as profile:
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        more = [f"--user-data-dir={profile}", "--window-size=1000,700", "--no-first-run", "about:blank"]
        process = subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            found = (re.search(r"ws://([^/]+)/", line) for line in process.stderr)
            address = next(match for match in found if match)[1]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://{address}/json/list") as response:
                    target = next(each for each in await response.json() if each["type"] == "page")
                async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    page = Page(socket)
                    for domain in ("Page", "Runtime", "Log"):
                        await page.call(f"{domain}.enable")
                    await page.call("Page.navigate", url=url)
                    while not await page.value(
                        "document.readyState === 'complete' && location.href !== 'about:blank'"
                    ):
                        pass
                    yield page
        finally:
            process.terminate()
            process.communicate()
