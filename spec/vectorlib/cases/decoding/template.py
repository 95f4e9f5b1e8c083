"""Vectors of `template`: the four strings of a compiled chat template, turns, and the ids of the prompt."""

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


def write(writer: VectorWriter) -> None:
    for tokenizer, cases in ((byte_level(), BYTE_LEVEL), (sentencepiece(), SENTENCEPIECE)):
        writer.vectors("template", tokenizer.kind, [_vector(tokenizer, case) for case in cases])
    alone: dict[str, Any] = {"tokenizer": "byte_level.tokenizer.json"}
    alone |= {"prefix": "<|im_start|>", "suffix": "<|im_end|>"}
    alone |= {"between": None, "after": None, "turns": [{"message": "snow", "answer": [1]}], "message": "f"}
    why = "between and after are null: a second turn is refused"
    refused = vector("single_turn_only", why, alone, {"refused": True})
    ids = byte_level().encode_prompt(str(alone["prefix"]), "f", str(alone["suffix"]))
    first = vector("single_turn_first", "the first turn is not refused", {**alone, "turns": []}, {"ids": ids})
    writer.vectors("template", "refused", [refused, first])


def _vector(tokenizer: Tokenizer, case: Case) -> dict[str, Any]:
    name, why, strings, earlier, message = case
    turns: list[dict[str, Any]] = [
        {"message": text, "answer": tokenizer.spell(answer.encode())} for text, answer in earlier
    ]
    ids: list[int] = []
    for i, (text, answer) in enumerate([*((t["message"], t["answer"]) for t in turns), (message, [])]):
        before, behind = strings[2:] if i else strings[:2]
        ids += [*tokenizer.encode_prompt(before, str(text), behind, goes_on=i > 0), *answer]
    prefix, suffix, between, after = strings
    given = {
        "tokenizer": f"{tokenizer.kind}.tokenizer.json", "prefix": prefix, "suffix": suffix,
        "between": between, "after": after, "turns": turns, "message": message,
    }  # fmt: skip
    return vector(f"{tokenizer.kind}_{name}", why, given, {"ids": ids})
