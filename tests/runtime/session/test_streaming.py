"""Half characters are held back and never lost: Japanese, emoji and mixed text, streamed in pieces."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from omnidraft import Generation, LanguageModel, TextSession
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.places import STARTERS
from support.real_tokenizers import TokenizerOf
from support.replay import replay_graph
from support.tiny_tokenizers import byte_level

EMOJI = (
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 "
    "\U0001f1ef\U0001f1f5\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd e\u0301 "
    "\U0001f9d1\U0001f3ff\u200d\U0001f680!"
)


@pytest.fixture(scope="module")
def texts(data: Path) -> dict[str, str]:
    with gzip.open(data / "text/wagahai_ja.txt.gz", "rt", encoding="utf-8") as file:
        japanese = file.read()
    english = (data / "text/frankenstein.txt").read_text(encoding="utf-8")
    middle = len(japanese) // 2
    return {
        "japanese": japanese[middle : middle + 120],
        "emoji": EMOJI * 2,
        "mixed": f"{english[9000:9060]}\n{japanese[9000:9050]}\u00df\u00e9\u0416 {EMOJI}\t{english[:30]}",
    }


def cut(tokenizer: Tokenizer, text: str, rng: random.Random) -> list[int]:
    """Ids of a text whose tokens end at arbitrary bytes, also inside characters."""
    data, ids = text.encode(), []
    while data:
        length = rng.choice([1, 1, 2, 3, 4, 5, 7, 11])
        part = tokenizer.spell(data[:length])
        assert part is not None
        ids += part
        data = data[length:]
    return ids


def check(generation: Generation, ids: Sequence[int], data: bytes) -> None:
    """The pieces make the whole text, which is the plain decoding of all bytes; no piece is withdrawn."""
    whole, shown = data.decode("utf-8", "replace"), ""
    for piece in generation:
        shown += piece.text
        # A piece is final: a half character becomes U+FFFD only when it cannot be completed any more.
        assert whole.startswith(shown)
    assert shown == generation.text == whole
    assert generation.token_ids == list(ids)


# A table model with a real tokenizer


@pytest.fixture(scope="module")
def tokenizers(tokenizer_of: TokenizerOf) -> tuple[Tokenizer, Tokenizer]:
    return LibraryTokenizer.from_file(STARTERS / "drafter"), tokenizer_of("qwen2")


@pytest.fixture(scope="module")
def vocab_map(tokenizers: tuple[Tokenizer, Tokenizer]) -> VocabMap:
    return build_vocab_map(*tokenizers)


def replaying(
    path: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
    vocab_map: VocabMap,
    prompt: list[int],
    ids: list[int],
) -> TextSession:
    """A session whose target generates `ids` after the prompt, and whose drafter spells them."""
    drafter, target = tokenizers
    drafted = drafter.encode(target.text_of(prompt).decode("utf-8", "replace"))
    drafted += [d for t in ids for d in vocab_map.spell(t)]
    graphs: list[Graph] = []
    entries: list[ModelEntry] = []
    for name, script, size in (
        ("target", [*prompt, *ids], vocab_map.target_size),
        ("drafter", drafted, vocab_map.draft_size),
    ):
        graphs.append(replay_graph(path / f"{name}.onnx", script, size, 4096))
        kv = graphs[-1].kv
        entries.append(ModelEntry(name, "Replay", name, name, kv, size, "fp32", None, (), 1))
    costs, template = Costs((1.0,), 0.01, 0.0), PromptTemplate("", "", "", "")
    bundle = Bundle(path, entries[0], entries[1], template, costs, "map", {})
    return TextSession(LanguageModel(bundle, graphs[0], target, vocab_map, graphs[1], drafter))


@pytest.mark.parametrize("name", ["japanese", "emoji", "mixed"])
@pytest.mark.parametrize("mode", ["plain", "trie"])
def test_a_table_model_with_a_real_tokenizer(
    tmp_path: Path, tokenizers: tuple[Tokenizer, Tokenizer], vocab_map: VocabMap,
    texts: dict[str, str], name: str, mode: str,
) -> None:  # fmt: skip
    """Tokens may end inside characters, and rounds of 1 to 12 draft tokens inside tokens."""
    target = tokenizers[1]
    prompt = target.encode("Say it.")
    for seed in range(3):
        rng = random.Random(seed)
        ids = cut(target, texts[name], rng) if seed else target.encode(texts[name])
        # Half a character inside the text, and one at the end.
        stray = [target.byte_ids[b] for b in (0xE3, 0x81)]
        ids = [*ids[: len(ids) // 2], *stray, *ids[len(ids) // 2 :], stray[0]] if seed == 2 else ids
        session = replaying(tmp_path, tokenizers, vocab_map, prompt, ids)
        session.cache.prefill()
        generation = session.generate(
            prompt,
            max_new_tokens=len(ids),
            mode=mode,
            num_draft_tokens=rng.randint(1, 12),
        )
        check(generation, ids, target.text_of(ids))
        assert ("\ufffd" in generation.text) == (seed == 2)
        if mode == "trie":
            assert generation.statistics.accepted > len(ids) / 4, "the test needs accepted drafts"


def test_a_stop_string_inside_emoji_and_across_tokens(
    tmp_path: Path, tokenizers: tuple[Tokenizer, Tokenizer], vocab_map: VocabMap, texts: dict[str, str]
) -> None:
    target, text = tokenizers[1], texts["mixed"]
    prompt = target.encode("Say it.")
    for seed in range(6):
        rng = random.Random(seed)
        ids = cut(target, text, rng)
        session = replaying(tmp_path, tokenizers, vocab_map, prompt, ids)
        session.cache.prefill()
        start = rng.randrange(20, len(text) - 8)
        stop = text[start : start + rng.randint(1, 6)]
        generation = session.generate(
            prompt, max_new_tokens=len(ids), num_draft_tokens=rng.randint(1, 12), stop=[stop]
        )
        shown = "".join(piece.text for piece in generation)
        assert shown == generation.text == text[: text.index(stop)]
        assert generation.stop_string == stop and generation.stop_reason == "stop"
        assert generation.token_ids == ids[: len(generation.token_ids)]


HTML = ["<table>", "<td>", "</td>", "</tr>", "<s>", "[multimodal]", "<tool_call>", "</tool_call>"]


@pytest.mark.parametrize("mode", ["plain", "trie"])
def test_tags_that_are_tokens_of_text_are_read_drafted_written_and_stopped_at(
    tmp_path: Path, mode: str
) -> None:
    """As Gemma 3's HTML and Qwen's calls of tools: added tokens that are not special."""
    target = LibraryTokenizer(byte_level(controls=["<turn>"], added=HTML))
    drafter = LibraryTokenizer(byte_level(controls=["<table>"]))
    pair, vocab_map = (drafter, target), build_vocab_map(drafter, target)
    text = "<table><td>7</td></tr><tool_call>{}</tool_call><s>[multimodal]</tr>"
    prompt = target.encode_prompt("<turn>", text, "<turn>")
    ids = target.encode(text)
    assert prompt == [target.controls["<turn>"].id, *ids, target.controls["<turn>"].id]
    assert len(ids) == 12 and all(target.tokens[i] for i in ids)
    session = replaying(tmp_path, pair, vocab_map, prompt, ids)
    session.cache.prefill()
    generation = session.generate(prompt, max_new_tokens=len(ids), mode=mode, num_draft_tokens=12)
    check(generation, ids, text.encode())
    if mode == "trie":
        assert generation.statistics.accepted > 4, "the drafter proposes the tags"
    session = replaying(tmp_path, pair, vocab_map, prompt, ids)
    stopped = session.generate(prompt, max_new_tokens=len(ids), mode=mode, stop=["</tr>"]).finish()
    assert stopped.text == "<table><td>7</td>" and stopped.stop_string == "</tr>"
