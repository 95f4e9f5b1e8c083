"""The page, in a browser: it chats, shows what was drafted, and asks nobody but its server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.browser import CHROMIUM, page_at
from support.serving import Serving, serving

ASK = """
document.getElementById("message").value = %r;
document.getElementById("tokens").value = %d;
document.getElementById("ask").requestSubmit();
new Promise((done) => { const timer = setInterval(() => {
  if (!document.getElementById("send").disabled) { clearInterval(timer); done(true); } }, 20); });
"""


@pytest.mark.skipif(CHROMIUM is None, reason="the page is tried in Chromium, which is not installed")
def test_the_page_chats_and_shows_what_was_drafted(served: Serving) -> None:
    async def tried() -> None:
        async with page_at(f"http://127.0.0.1:{served.port}/") as page:
            await page.value(ASK % ("How many legs do 3 cats have?", 24))
            assert await page.value("document.getElementById('model').textContent") == served.model
            texts = await page.value("[...document.querySelectorAll('.text')].map((e) => e.textContent)")
            answer = served.ask("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "How many legs do 3 cats have?"}], "max_tokens": 24,
            })[1]["choices"][0]["message"]["content"]  # fmt: skip
            assert texts == [answer, answer]  # the drafted one, and the plain one to compare
            marks = "document.querySelectorAll('.answer:nth-child(%d) .%s').length"
            assert await page.value(marks % (1, "draft") + "+" + marks % (1, "copy"))
            assert not await page.value(marks % (2, "draft") + "+" + marks % (2, "copy"))
            speeds = await page.value("[...document.querySelectorAll('.speed')].map((e) => e.textContent)")
            assert all("tokens/s" in speed for speed in speeds) and len(speeds) == 2
            await page.value(ASK % ("<b>Why</b>?", 4))  # the conversation goes on; text stays text
            assert await page.value("document.querySelectorAll('.user')[1].textContent") == "<b>Why</b>?"
            assert await page.value("document.querySelectorAll('.text').length") == 4
            loaded = await page.value("performance.getEntriesByType('resource').map((e) => e.name)")
            assert all(name.startswith(f"http://127.0.0.1:{served.port}/") for name in loaded), loaded
            assert page.problems == []  # no script or style that the policy forbids

    asyncio.run(tried())


@pytest.mark.skipif(CHROMIUM is None, reason="the page is tried in Chromium, which is not installed")
def test_a_refusal_is_shown(bundle: Path) -> None:
    async def tried(port: int) -> None:
        async with page_at(f"http://127.0.0.1:{port}/") as page:
            await page.value(ASK % ("cat " * 2000, 8))
            assert "the context holds" in await page.value("document.querySelector('.error').textContent")

    with serving(bundle) as started:
        asyncio.run(tried(started.port))
