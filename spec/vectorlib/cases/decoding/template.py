"""Vectors of `template`: the strings of a compiled chat template, turns, and the ids of the prompt."""

from typing import Any

from vectorlib.reference.tokenizer import Tokenizer, byte_level, sentencepiece
from vectorlib.writer import VectorWriter, vector

CHATML = (
    "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n",
    "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n",
)  # fmt: skip
LLAMA = ("<s> fla ", " ke", "</s><s> fla ", " ke")
BARE = ("", "", " ", "\n")
FIRST_OTHER = ("<|im_start|>snow\n", "<|im_end|>", "<|im_end|><|im_start|>", "<|im_end|> ")
# name, why, strings, earlier messages with the text of their answers, message
Case = tuple[str, str, tuple[str, ...], list[tuple[str, str]], str]
BYTE_LEVEL: list[Case] = [
    ("one_turn", "prefix and suffix around a message", CHATML, [], "snow"),
    ("two_turns", "between and after around the second", CHATML, [("snow", " flake")], "fla ke"),
    ("three_turns", "between and after again", CHATML, [("snow", " flake"), ("100", "10")], " snow"),
    ("literal_control", "control strings of a message are text", CHATML, [("<|im_end|>", "f")],
     "<|im_start|>x"),
    ("no_answer", "an answer of no tokens", CHATML, [("snow", "")], "snow"),
    ("accents", "characters of several bytes", CHATML, [("né", "ぁ")], "ぁ"),
    ("bare", "no control tokens: the answer's ids are never merged with the text after them", BARE,
     [("fla", "fla")], "ke"),
    ("first_is_other", "the first turn has other strings around it than later turns", FIRST_OTHER,
     [("snow", "now"), ("f", "la")], "snow"),
]  # fmt: skip
SENTENCEPIECE: list[Case] = [
    ("one_turn", "text after a control token gets the dummy prefix", LLAMA, [], "snow"),
    ("two_turns", "text after a control token of a later turn gets it too", LLAMA, [("snow", "flake")], "A"),
    ("bare", "text that continues an answer does not get the dummy prefix", BARE, [("fla", "ke")], "snow"),
    ("goes_on_into_control", "the same where a control token follows that text", ("<s>", "", "la", "</s>ke"),
     [("snow", "fla")], "ke"),
]  # fmt: skip


SLOT = {"before": "<|im_start|>snow\n", "after": "<|im_end|>\n<|im_start|>user\n"}
PLAIN: dict[str, Any] = {"begin": "", "lead": "", "slot": None, "think": None, "system": None}
THINK = {"open": "<t>", "close": "</t>", "earlier": "trim"}
# name, why, what differs from PLAIN, strings, earlier messages with the text of their answers, message
MORE: list[tuple[str, str, dict[str, Any], tuple[str, ...], list[tuple[str, str]], str]] = [
    ("system", "a system prompt takes the place of the prefix", {"slot": SLOT, "system": "fla ke"},
     CHATML, [],
     "snow"),
    ("system_later", "a system prompt, and later turns", {"slot": SLOT, "system": "fla ke"}, CHATML,
     [("snow", " flake"), ("100", "10")], " snow"),
    ("system_joined", "text of the template between system prompt and message is tokenized with both",
     {"slot": {"before": "<|im_start|>", "after": "ow"}, "system": "sn"}, CHATML, [], "fla"),
    ("system_literal_control", "control strings of a system prompt are text",
     {"slot": SLOT, "system": "<|im_end|>"}, CHATML, [], "snow"),
    ("system_none", "a template with a place for a system prompt, and none given", {"slot": SLOT}, CHATML, [],
     "snow"),
    ("begin", "the text before an answer that is to be written", {"begin": "<|im_start|>\n"}, CHATML, [],
     "snow"),
    ("begin_later", "it does not stand before earlier answers", {"begin": "<|im_start|>\n"}, CHATML,
     [("snow", " flake")], "fla"),
]  # fmt: skip
# name, why, tags of thoughts, lead, answer that a program gives, the part of it that is encoded
GIVEN: list[tuple[str, str, dict[str, str] | None, str, str, str]] = [
    ("text", "an answer as text", None, "", "fla ke", "fla ke"),
    ("lead", "the white space that the model writes before an answer", None, " ", "snow", " snow"),
    ("white", "white space at both ends does not count", None, " ", " \n snow\n", " snow"),
    ("nothing", "an answer without text has no ids, and no lead", None, " ", " \n", ""),
    ("control", "control strings of an answer are text", None, "", "<|im_end|>", "<|im_end|>"),
    ("thought", "the thought is left out", THINK, "", "<t>f</t>\n\nsnow", "snow"),
    ("thought_begun", "also where the open tag is missing", THINK, "", "f</t>snow", "snow"),
    ("thought_open", "a thought that is not closed has no answer", THINK, "", "<t>snow", ""),
    ("thought_keep", "also where the template keeps thoughts", {**THINK, "earlier": "keep"}, "",
     "<t>f</t>snow", "snow"),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    for tokenizer, cases in ((byte_level(), BYTE_LEVEL), (sentencepiece(), SENTENCEPIECE)):
        plain: list[tuple[Any, ...]] = [(case[0], case[1], PLAIN, *case[2:]) for case in cases]
        writer.vectors("template", tokenizer.kind, [_vector(tokenizer, *case) for case in plain])
    writer.vectors("template", "parts", [_vector(byte_level(), *_with_plain(case)) for case in MORE])
    given = [_given(tokenizer, *case) for tokenizer in (byte_level(), sentencepiece()) for case in GIVEN]
    writer.vectors("template", "given", given)
    alone: dict[str, Any] = {"tokenizer": "byte_level.tokenizer.json", **PLAIN}
    alone |= {"prefix": "<|im_start|>", "suffix": "<|im_end|>"}
    alone |= {"between": None, "after": None, "turns": [{"message": "snow", "answer": [1]}], "message": "f"}
    why = "between and after are null: a second turn is refused"
    refused = vector("single_turn_only", why, alone, {"refused": True})
    ids = byte_level().encode_prompt(str(alone["prefix"]), "f", str(alone["suffix"]))
    first = vector("single_turn_first", "the first turn is not refused", {**alone, "turns": []}, {"ids": ids})
    given_system = {**alone, "turns": [], "system": "snow"}
    no_slot = vector("no_slot", "a system prompt, and no place for it", given_system, {"refused": True})
    writer.vectors("template", "refused", [refused, first, no_slot])


def _with_plain(case: tuple[Any, ...]) -> tuple[Any, ...]:
    name, why, differs, *rest = case
    return name, why, {**PLAIN, **differs}, *rest


def _vector(
    tokenizer: Tokenizer,
    name: str,
    why: str,
    more: dict[str, Any],
    strings: tuple[str, ...],
    earlier: list[tuple[str, str]],
    message: str,
) -> dict[str, Any]:
    turns: list[dict[str, Any]] = [
        {"message": text, "answer": tokenizer.spell(answer.encode())} for text, answer in earlier
    ]
    prefix, suffix, between, after = strings
    ids: list[int] = []
    for i, turn in enumerate([*turns, {"message": message, "answer": []}]):
        before, behind = (between, after) if i else (prefix, suffix)
        parts = [before, str(turn["message"]), behind + (more["begin"] if i == len(turns) else "")]
        if i == 0 and more["system"] is not None:
            parts[:1] = [more["slot"]["before"], more["system"], more["slot"]["after"]]
        ids += [*tokenizer.encode_prompt(*parts, goes_on=i > 0), *turn["answer"]]
    given = {
        "tokenizer": f"{tokenizer.kind}.tokenizer.json", "prefix": prefix, "suffix": suffix,
        "between": between, "after": after, **more, "turns": turns, "message": message,
    }  # fmt: skip
    return vector(f"{tokenizer.kind}_{name}", why, given, {"ids": ids})


def _given(
    tokenizer: Tokenizer, name: str, why: str, think: dict[str, str] | None, lead: str, text: str, kept: str
) -> dict[str, Any]:
    """A vector of an earlier answer that a program gives as text."""
    ids = tokenizer.spell(kept.encode()) if kept else []
    given = {"tokenizer": f"{tokenizer.kind}.tokenizer.json", "lead": lead, "think": think, "given": text}
    return vector(f"{tokenizer.kind}_given_{name}", why, given, {"ids": ids})
