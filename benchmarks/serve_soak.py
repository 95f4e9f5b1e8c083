"""Eight clients ask a server for some minutes: `python -m benchmarks.serve_soak BUNDLE --minutes 10`.

Each text is compared with the one that the same request got alone. Some clients go away in the middle of an
answer. The server is killed half-way and started again. Memory is the resident memory of the server.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai

CLIENTS, TOKENS, LEAVES, PORT = 8, 48, 0.15, 8765
STORY = "Tom had a red ball and a blue ball, and he put both of them into a big box. " * 6
PET = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}, "legs": {"enum": [2, 3, 4]}}}
FORM = {"type": "json_schema", "json_schema": {"name": "pet", "schema": PET | {"required": ["kind", "legs"]}}}
QUESTIONS = ["Where is it?", "Who had it?", "How many balls are there?", "What colour is the box?"]
REQUESTS: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": text}], "temperature": heat, "seed": 7, **more}
    for text in [*(f"{STORY}{question}" for question in QUESTIONS), "Write a short poem.", "What is 3 and 4?"]
    for heat, more in ((0.0, {}), (0.8, {}), (0.8, {"response_format": FORM}))
]


class Soak:
    """A server, the texts that it must give, and what happened."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self.counts: Counter[str] = Counter()
        self.expected: dict[int, str] = {}
        self.memory: list[int] = []
        self.restarting = threading.Event()
        self.client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none", max_retries=0, timeout=300
        )
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "omnidraft", "serve", str(self._bundle), "--port", str(PORT)]
        process = subprocess.Popen(command)
        while process.poll() is None:
            with suppress(openai.APIConnectionError):
                self.client.models.list()
                return process
            time.sleep(0.2)
        sys.exit("the server did not start")

    def kill_and_restart(self) -> None:
        """Kill the server amid its answers, and start it again."""
        self.restarting.set()
        self.process.kill()
        self.process.wait()
        self.process = self._started()
        self.restarting.clear()

    def text(self, number: int, leave_after: int | None = None) -> str | None:
        """The streamed text of a request; None where the client went away after some chunks."""
        text = ""
        stream = self.client.chat.completions.create(
            model=self._bundle.resolve().name, stream=True, max_tokens=TOKENS, **REQUESTS[number]
        )
        with stream:
            for i, chunk in enumerate(stream):
                if i == leave_after:
                    return None
                text += chunk.choices[0].delta.content or ""
        return text

    def ask(self, seed: int, end: float) -> None:
        """One client until the end."""
        chance = random.Random(seed)
        while time.monotonic() < end:
            number = chance.randrange(len(REQUESTS))
            leaves = chance.randrange(2, 8) if chance.random() < LEAVES else None
            try:
                text = self.text(number, leaves)
            except (openai.APIError, openai.APIConnectionError) as error:
                self.counts["failed while it was down" if self.restarting.is_set() else f"lost: {error}"] += 1
                time.sleep(0.2)
                continue
            wrong = text is not None and text != self.expected[number]
            self.counts["left" if text is None else "wrong" if wrong else "right"] += 1

    def resident(self) -> int:
        """Bytes of resident memory of the server."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run the soak, and print what happened; the status is 1 where a text was lost or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    given = parser.parse_args()
    soak = Soak(given.bundle)
    soak.expected = {i: soak.text(i) or "" for i in range(len(REQUESTS))}
    begin = time.monotonic()
    end, killed = begin + 60 * given.minutes, False
    clients = [threading.Thread(target=soak.ask, args=(seed, end)) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    halves: list[list[int]] = [[], []]
    while time.monotonic() < end:
        time.sleep(min(5.0, 3 * given.minutes))
        halves[killed].append(soak.resident())
        if not killed and time.monotonic() > begin + 30 * given.minutes:
            soak.kill_and_restart()
            killed = True
    for client in clients:
        client.join()
    for name, values in zip(("before the kill", "after it"), halves, strict=True):
        third = values[len(values) // 3]
        print(f"memory {name}: {third / 1e6:.0f} MB after a third, {values[-1] / 1e6:.0f} MB at the end")
    print(", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items())))
    soak.process.terminate()
    soak.process.wait()
    sys.exit(any(what.startswith(("wrong", "lost")) for what in soak.counts))


if __name__ == "__main__":
    main()
