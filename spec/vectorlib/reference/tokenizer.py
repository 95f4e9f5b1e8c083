"""Two small tokenizers as `tokenizer.json`, with their own byte-pair encoding: spec/01-tokens.md."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

SPACE = "\u2581"
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_REST = [b for b in range(256) if b not in _PRINTABLE]
LETTERS = {**{b: chr(b) for b in _PRINTABLE}, **{b: chr(256 + n) for n, b in enumerate(_REST)}}
# GPT-2's word pattern, as far as the cases need it.
_WORD = re.compile(r" ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


@dataclass(frozen=True)
class Control:
    """A control token; `strips` says whether it removes the spaces before it (l) and after it (r)."""

    id: int
    content: str
    strips: str = ""


@dataclass(frozen=True)
class Tokenizer:
    """A BPE tokenizer.

    Attributes:
        kind: byte_level or sentencepiece.
        pieces: by id.
        merges: by rank.
        added: plain text that is always one token.
        name: of its files; the kind without one.
    """

    kind: str
    pieces: Sequence[str]
    merges: Sequence[tuple[str, str]]
    controls: Sequence[Control]
    added: Sequence[tuple[int, str]] = ()
    name: str = ""

    @property
    def file(self) -> str:
        """The name of tokenizer.json."""
        return f"{self.name or self.kind}.tokenizer.json"

    def as_json(self) -> dict[str, Any]:
        """The content of tokenizer.json, as the tokenizers package reads it."""
        added = [_added(c.id, c.content, c.strips, special=True) for c in self.controls]
        added += [_added(i, text, "", special=False) for i, text in self.added]
        in_added = {entry["content"] for entry in added} if self.kind == "byte_level" else set()
        model = {
            "type": "BPE", "dropout": None, "unk_token": None if self.kind == "byte_level" else "<unk>",
            "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": self.kind != "byte_level", "byte_fallback": self.kind != "byte_level",
            "ignore_merges": False,
            "vocab": {p: i for i, p in enumerate(self.pieces) if p not in in_added},
            "merges": [list(pair) for pair in self.merges],
        }  # fmt: skip
        shape = _BYTE_LEVEL if self.kind == "byte_level" else _SENTENCEPIECE
        return {"version": "1.0", "truncation": None, "padding": None,
                "added_tokens": sorted(added, key=lambda e: int(e["id"])), **shape,
                "model": model}  # fmt: skip

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes of a token; None for control tokens."""
        piece = self.pieces[token]
        if any(c.id == token for c in self.controls):
            return None
        if any(i == token for i, _ in self.added):
            return piece.encode()
        if self.kind == "byte_level":
            return bytes(b for letter in piece for b, name in LETTERS.items() if name == letter)
        byte = re.fullmatch("<0x(..)>", piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; SentencePiece puts a dummy space in front."""
        if self.kind == "sentencepiece":
            return self._bpe(SPACE + text.replace(" ", SPACE)) if text else []
        ids: list[int] = []
        names = dict((name, i) for i, name in self.added)
        for part in self._parts(text):
            ids += [names[part]] if part in names else self._words(part)
        return ids

    def _parts(self, text: str) -> list[str]:
        """Added tokens and the text between them; the longest where several begin."""
        names = sorted((name for _, name in self.added), key=len, reverse=True)
        return re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]

    def spell(self, data: bytes) -> list[int]:
        """Ids of a fragment: no dummy space, and bytes that are not text become byte tokens."""
        ids: list[int] = []
        for part in re.findall("[\udc80-\udcff]+|[^\udc80-\udcff]+", data.decode("utf-8", "surrogateescape")):
            stray = (
                part.encode("utf-8", "surrogateescape")
                if part[0] >= "\udc80" and part[0] <= "\udcff"
                else b""
            )
            if self.kind == "byte_level":
                ids += self._bpe("".join(LETTERS[b] for b in stray)) if stray else self._words(part)
            else:
                ids += [self._byte(b) for b in stray] or self._bpe(part.replace(" ", SPACE))
        return ids

    def encode_prompt(self, *parts: str, goes_on: bool = False) -> list[int]:
        """Ids of a prompt: control tokens are read in the first part, the third, and so on, not in the texts.

        With `goes_on` the prompt follows other ids, and its first run of text is a fragment.
        """
        ids: list[int] = []
        plain, strips_after = "", ""
        for run in [r for i, p in enumerate(parts) for r in ([p] if i % 2 else self._split(p))]:
            if isinstance(run, str):
                plain += run
                continue
            plain = plain.lstrip() if "r" in strips_after else plain
            plain = plain.rstrip() if "l" in run.strips else plain
            ids += [*self._run(plain, goes_on and not ids), run.id]
            plain, strips_after = "", run.strips
        return ids + self._run(plain.lstrip() if "r" in strips_after else plain, goes_on and not ids)

    def _run(self, text: str, goes_on: bool) -> list[int]:
        names = {name: i for i, name in self.added}
        parts = self._parts(text) if goes_on else []
        going_on = [
            i for part in parts for i in ([names[part]] if part in names else self.spell(part.encode()))
        ]
        return going_on if goes_on else self.encode(text)

    def _split(self, template: str) -> list[str | Control]:
        names = {c.content: c for c in self.controls}
        parts = re.split("(" + "|".join(map(re.escape, names)) + ")", template)
        return [names.get(part, part) for part in parts]

    def _words(self, text: str) -> list[int]:
        return [
            i for word in _WORD.findall(text) for i in self._bpe("".join(LETTERS[b] for b in word.encode()))
        ]

    def _bpe(self, word: str) -> list[int]:
        """Join the leftmost pair of the lowest rank, until no pair has a rank."""
        parts = list(word)
        rank = {pair: n for n, pair in enumerate(self.merges)}
        while len(parts) > 1:
            ranked = [(rank.get((a, b), len(rank)), n) for n, (a, b) in enumerate(pairwise(parts))]
            lowest, at = min(ranked)
            if lowest == len(rank):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [i for part in parts for i in self._ids(part)]

    def _ids(self, part: str) -> list[int]:
        return (
            [list(self.pieces).index(part)] if part in self.pieces else [self._byte(b) for b in part.encode()]
        )

    def _byte(self, byte: int) -> int:
        return list(self.pieces).index(f"<0x{byte:02X}>")


def _added(token: int, content: str, strips: str, *, special: bool) -> dict[str, Any]:
    return {"id": token, "content": content, "single_word": False, "lstrip": "l" in strips,
            "rstrip": "r" in strips, "normalized": False, "special": special}  # fmt: skip


_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BYTE_LEVEL = {"normalizer": None, "pre_tokenizer": _BYTES, "post_processor": None, "decoder": _BYTES}
_SENTENCEPIECE = {
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ]},
    "pre_tokenizer": None,
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
    ]},
}  # fmt: skip


def byte_level() -> Tokenizer:
    """As GPT-2 and Qwen2: the 256 bytes, then one token for each merge."""
    pairs = [("Ġ", "f"), ("l", "a"), ("k", "e"), ("Ġf", "la"), ("Ġfla", "ke"), ("f", "la"), ("fla", "ke"),
             ("Ġ", "s"), ("n", "o"), ("no", "w"), ("Ġs", "now"), (LETTERS[0xE3], LETTERS[0x81]),
             ("Ġ", "Ġ"), ("ĠĠ", "Ġ"), ("1", "0"), ("10", "0"), (LETTERS[0xC3], LETTERS[0xA9])]  # fmt: skip
    pieces = [LETTERS[b] for b in range(256)] + [a + b for a, b in pairs]
    base = len(pieces)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    controls = [Control(base + n, name) for n, name in enumerate(names)]
    return Tokenizer(
        "byte_level", [*pieces, *names, "<tool>"], pairs, [*controls, Control(base + 3, "<tool>", "lr")]
    )


def markup() -> Tokenizer:
    """As Qwen3: tools and HTML are tokens of text; tags of thoughts and markers of turns are not."""
    plain = byte_level()
    controls = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "[TURN]"]
    added = ["<tool_call>", "</tool_call>", "<td>", "</td>", "</tr>", "<s>", "[F]", "\n\n"]
    pieces = [*plain.pieces[:-4], *controls, *added]
    ids = {name: pieces.index(name) for name in (*controls, *added)}
    return Tokenizer(
        "byte_level", pieces, plain.merges, [Control(ids[name], name) for name in controls],
        [(ids[name], name) for name in added], "markup",
    )  # fmt: skip


def sentencepiece() -> Tokenizer:
    """As Llama-2: control tokens, bytes, letters, merges; each single letter exists twice."""
    pairs = [(SPACE, "f"), ("l", "a"), (SPACE + "f", "la"), ("k", "e"), (SPACE, "s"), ("n", "o"), ("no", "w"),
             (SPACE + "s", "now"), (SPACE, SPACE)]  # fmt: skip
    names = ["<unk>", "<s>", "</s>"]
    letters = sorted(set("flakesnowé.A" + SPACE))
    pieces = [*names, *(f"<0x{b:02X}>" for b in range(256)), *letters, *(a + b for a, b in pairs)]
    return Tokenizer("sentencepiece", pieces, pairs, [Control(i, name) for i, name in enumerate(names)])
