"""The openai package as a client: its calls, its streams, its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from omnidraft import GenerationConfig, TextSession, load
from support.serving import Serving

HI: Any = [{"role": "user", "content": "How many legs do 3 cats have?"}]
TALK: Any = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "What is 3 and 4?"},
    {"role": "assistant", "content": "7"},
    {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "5?"}]},
]
AS_TEXT = [*TALK[:3], {"role": "user", "content": "And 5?"}]


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    legs: int


@pytest.fixture(scope="module")
def session(bundle: Path) -> TextSession:
    return load(bundle, measure="never")


def test_the_model_is_listed(client: OpenAI, served: Serving) -> None:
    (model,) = client.models.list().data
    assert model.id == served.model == client.models.retrieve(served.model).id


@pytest.mark.parametrize(("given", "same"), [(HI, HI), (TALK, AS_TEXT)], ids=["one", "talk"])
def test_an_answer_is_that_of_a_session(
    given: Any, same: Any, client: OpenAI, served: Serving, session: TextSession
) -> None:
    expected = session.chat(same, max_new_tokens=24).finish()
    answer = client.chat.completions.create(model=served.model, messages=given, max_tokens=24)
    assert answer.choices[0].message.content == expected.text and expected.text
    assert answer.usage is not None and answer.usage.prompt_tokens == len(expected.prompt_ids)
    assert answer.usage.completion_tokens == len(expected.token_ids)


def test_a_stream_is_the_same_answer(client: OpenAI, served: Serving) -> None:
    whole = client.chat.completions.create(model=served.model, messages=HI)
    chunks = [*client.chat.completions.create(
        model=served.model, messages=HI, stream=True, stream_options={"include_usage": True}
    )]  # fmt: skip
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage == whole.usage and not chunks[-1].choices
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_tells_what_was_drafted(client: OpenAI, served: Serving) -> None:
    """The parts of all chunks are the text; a plain answer has none that was proposed."""
    for mode, proposed in (("trie", True), ("plain", False)):
        stream = client.chat.completions.create(
            model=served.model, messages=HI, stream=True, extra_body={"mode": mode}
        )
        chunks: list[Any] = [*stream]
        parts = [part for chunk in chunks for part in getattr(chunk, "omnidraft", {}).get("parts", ())]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert "".join(part for part, _ in parts) == text
        assert bool({source for _, source in parts} & {"draft", "copy"}) == proposed
        counts = chunks[-1].omnidraft
        assert bool(counts["accepted_drafts"] + counts["accepted_copies"]) == proposed


def test_a_seed_repeats_a_sampled_text(client: OpenAI, served: Serving, session: TextSession) -> None:
    def text(seed: int) -> str | None:
        answer = client.chat.completions.create(
            model=served.model, messages=HI, temperature=0.9, top_p=0.95, seed=seed, max_completion_tokens=24
        )
        return answer.choices[0].message.content

    session.reset_cache()  # n-grams of other tests would change what a seed draws
    expected = session.chat(HI, temperature=0.9, top_p=0.95, seed=5, max_new_tokens=24).finish().text
    assert text(5) == text(5) == expected
    assert len({text(seed) for seed in range(4)}) > 1


def test_stop_strings_end_an_answer(client: OpenAI, served: Serving) -> None:
    whole = client.chat.completions.create(model=served.model, messages=HI).choices[0].message.content
    assert whole is not None and len(whole) > 8
    answer = client.chat.completions.create(model=served.model, messages=HI, stop=[whole[6:8]])
    assert answer.choices[0].message.content == whole[: whole.index(whole[6:8])]
    assert answer.choices[0].finish_reason == "stop"


def test_the_number_of_tokens_is_kept(client: OpenAI, served: Serving) -> None:
    answer = client.chat.completions.create(model=served.model, messages=HI, max_completion_tokens=3)
    assert answer.usage is not None and answer.usage.completion_tokens == 3
    assert answer.choices[0].finish_reason == "length"


def test_logprobs_are_those_of_a_session(client: OpenAI, served: Serving, session: TextSession) -> None:
    config = GenerationConfig(max_new_tokens=8, logprobs=True, ignore_eos=False)
    expected = session.chat(HI, config).finish()
    answer = client.chat.completions.create(model=served.model, messages=HI, logprobs=True, max_tokens=8)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    found = [each.logprob for each in logprobs.content]
    assert found == pytest.approx(expected.logprobs[: len(found)], abs=1e-4) and found
    assert b"".join(bytes(each.bytes or []) for each in logprobs.content).decode() == expected.text
    chunks = client.chat.completions.create(
        model=served.model, messages=HI, logprobs=True, max_tokens=8, stream=True
    )
    streamed = [chunk.choices[0].logprobs for chunk in chunks]
    assert [e.logprob for each in streamed if each for e in each.content or []] == pytest.approx(found)


def test_an_answer_is_parsed_with_pydantic(client: OpenAI, served: Serving) -> None:
    answer = client.chat.completions.parse(model=served.model, messages=HI, response_format=Pet)
    pet = answer.choices[0].message.parsed
    assert isinstance(pet, Pet) and pet.kind in ("cat", "dog")
    with client.chat.completions.stream(model=served.model, messages=HI, response_format=Pet) as stream:
        final = stream.get_final_completion().choices[0].message
    assert final.parsed == pet and final.content == answer.choices[0].message.content


def test_a_json_object_is_one(client: OpenAI, served: Serving) -> None:
    import json

    answer = client.chat.completions.create(
        model=served.model, messages=HI, response_format={"type": "json_object"}, max_tokens=60
    )
    assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)


def test_completions_continue_a_text_or_ids(client: OpenAI, served: Serving, session: TextSession) -> None:
    expected = session.generate("Once upon a time", raw=True, max_new_tokens=12).finish()
    prompts: list[Any] = ["Once upon a time", ["Once upon a time"], [*expected.prompt_ids]]
    for prompt in prompts:
        answer = client.completions.create(model=served.model, prompt=prompt, max_tokens=12, logprobs=0)
        assert answer.choices[0].text == expected.text
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None and "".join(logprobs.tokens or []) == expected.text
    stream = client.completions.create(
        model=served.model, prompt="Once upon a time", max_tokens=12, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream) == expected.text


def test_the_client_raises_its_own_errors(client: OpenAI, served: Serving) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model gpt-4o"):
        client.chat.completions.create(model="gpt-4o", messages=HI)
    with pytest.raises(openai.BadRequestError) as many:
        client.chat.completions.create(model=served.model, messages=HI, n=2)
    assert many.value.param == "n"
    long: Any = [{"role": "user", "content": "cat " * 2000}]
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model=served.model, messages=long)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="max_tokens: 0 is not from 1 to"):
        client.chat.completions.create(model=served.model, messages=HI, max_tokens=0, stream=True)
