"""An answer depends on its own request: not on the requests before it, and not on those beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from support.serving import Serving, serving

LONG = "Tom had a red ball and a blue ball, and he put both of them into a big box. " * 4
ASKED: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": text}], "temperature": temperature, "seed": seed}
    for seed, text in enumerate([f"{LONG}Where is it?", f"{LONG}Who had it?", "Hello!", "What is 3 and 4?"])
    for temperature in (0.0, 0.9)
]


def answers(client: OpenAI, model: str, order: list[int]) -> dict[int, Any]:
    """The texts, and what was drafted for each: both depend on the request alone."""
    found = {}
    for i in order:
        answer: Any = client.chat.completions.create(model=model, **ASKED[i])
        counts = {name: value for name, value in answer.omnidraft.items() if name != "seconds"}
        found[i] = answer.choices[0].message.content, counts
    return found


def test_texts_do_not_depend_on_the_order_of_requests(client: OpenAI, served: Serving) -> None:
    numbers = [*range(len(ASKED))]
    first = answers(client, served.model, numbers)
    assert len({text for text, _ in first.values()}) > 4
    assert answers(client, served.model, numbers[::-1]) == first
    assert answers(client, served.model, [i for i in numbers for _ in range(2)]) == first


def test_texts_that_are_asked_for_at_once_do_not_mix(bundle: Path) -> None:
    with serving(bundle, queue=64) as started, started.client() as client:
        alone = answers(client, started.model, [*range(len(ASKED))])

        def streamed(i: int) -> tuple[int, str]:
            chunks = client.chat.completions.create(model=started.model, stream=True, **ASKED[i])
            return i, "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

        with ThreadPoolExecutor(8) as pool:
            found = [*pool.map(streamed, [*range(len(ASKED))] * 3)]
    assert found == [(i, alone[i][0]) for i in [*range(len(ASKED))] * 3]


def test_prompts_that_begin_alike_are_read_once(client: OpenAI, served: Serving) -> None:
    """Whole chunks of 64 tokens, and none of what an answer wrote."""
    cached = []
    for i in (0, 2, 4, 2):
        usage = client.chat.completions.create(model=served.model, **ASKED[i]).usage
        assert usage is not None and usage.prompt_tokens_details is not None
        cached.append((usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens))
    (_, _), (tokens, shared), (_, other), (_, again) = cached
    assert tokens > 65 and shared is not None and shared >= 64 and shared % 64 == 0
    assert other == 0 and again == 0


def test_a_context_that_other_kernels_wrote_is_not_reused(client: OpenAI, served: Serving) -> None:
    """An answer that comes back as part of a prompt is read again: its rounds had other lengths."""
    first = ASKED[0]["messages"]
    answer = client.chat.completions.create(model=served.model, messages=first, max_tokens=80)
    talk = [
        *first,
        {"role": "assistant", "content": answer.choices[0].message.content},
        {"role": "user", "content": "Why?"},
    ]
    usage = client.chat.completions.create(model=served.model, messages=talk, max_tokens=4).usage
    assert answer.usage is not None and usage is not None and usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == (answer.usage.prompt_tokens - 1) // 64 * 64


def test_a_refused_request_leaves_the_next_one_as_it_was(client: OpenAI, served: Serving) -> None:
    expected = answers(client, served.model, [0, 1])
    for wrong in ([], [{"role": "assistant", "content": "x"}], [{"role": "user", "content": "cat " * 3000}]):
        status, body = served.ask("/v1/chat/completions", {"messages": wrong})
        assert status == 400 and body["error"]["message"], body
    assert answers(client, served.model, [1, 0]) == expected


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_system_prompt_is_gone_with_its_request(seed: int, client: OpenAI, served: Serving) -> None:
    expected = answers(client, served.model, [5])
    with_system: Any = [{"role": "system", "content": "Answer in one word."}, *ASKED[seed]["messages"]]
    client.chat.completions.create(model=served.model, messages=with_system, seed=seed, temperature=0.9)
    assert answers(client, served.model, [5]) == expected
