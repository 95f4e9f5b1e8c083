"""Vectors of `template`: the strings of a compiled chat template, turns, and the ids of the prompt."""

from typing import Any

from vectorlib.reference.tokenizer import Tokenizer, byte_level, markup, sentencepiece
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
    ("nothing", "of an answer without text the lead is left", None, " ", " \n", " "),
    ("control", "control strings of an answer are text", None, "", "<|im_end|>", "<|im_end|>"),
    ("thought", "the thought is left out", THINK, "", "<t>f</t>\n\nsnow", "snow"),
    ("thought_begun", "also where the open tag is missing", THINK, "", "f</t>snow", "snow"),
    ("thought_open", "a thought that is not closed has no answer", THINK, "", "<t>snow", ""),
    ("thought_keep", "also where the template keeps thoughts", {**THINK, "earlier": "keep"}, "",
     "<t>f</t>snow", "snow"),
]  # fmt: skip


# What `trim` of jinja2 takes: Unicode's white space and U+001C to U+001F.
WHITE = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
ALL = ["first_start", "first_end", "later_start", "later_end"]
SYSTEM = ["system_start", "system_end"]
AROUND = "\t\x1c \u2003{}\u3000\n\x1f"
# name, why, what differs from PLAIN, earlier messages with the text of their answers, message
TRIM: list[tuple[str, str, dict[str, Any], list[tuple[str, str]], str]] = [
    ("none", "no end is named", {"trim": []}, [(" snow\n", "la")], " fla "),
    ("all", "both ends of every message; answers keep their ids", {"trim": ALL},
     [(AROUND.format("snow"), " la "), ("\n100", " ")], AROUND.format("fla")),
    ("first", "the first message alone", {"trim": ALL[:2]}, [(" snow ", "la")], " fla "),
    ("later", "later messages alone", {"trim": ALL[2:]}, [(" snow ", "la")], " fla "),
    ("start", "the starts alone", {"trim": ALL[::2]}, [(" snow ", "la")], " fla "),
    ("end", "the ends alone", {"trim": ALL[1::2]}, [(" snow ", "la")], " fla "),
    ("inside", "white space inside a message stays", {"trim": ALL}, [], " fla \n ke "),
    ("not_white", "U+FEFF, U+200B and U+180E are not white space", {"trim": ALL}, [],
     " \ufeffsnow\u200b\u180e "),
    ("absent", "absent: no end of a message", {}, [(" snow ", "la")], " fla "),
    ("system", "a system prompt, and the message behind it has an end of its own",
     {"trim": [*ALL, *SYSTEM], "slot": SLOT, "system": " fla \n"}, [(" snow ", "la")], " ke "),
    ("behind", "the start of the message behind a system prompt",
     {"trim": ["behind_start"], "slot": SLOT, "system": " fla "}, [(" snow ", "la")], " ke "),
    ("behind_alone", "it is not that of a message without a system prompt",
     {"trim": ["behind_start"], "slot": SLOT}, [], " ke "),
    ("system_start", "one end of a system prompt", {"trim": SYSTEM[:1], "slot": SLOT, "system": " fla "}, [],
     " ke "),
    ("system_end", "the other end", {"trim": SYSTEM[1:], "slot": SLOT, "system": " fla "}, [], " ke "),
]  # fmt: skip
# name, why, tags of thoughts, lead, ends, answer that a program gives, the part of it that is encoded
GIVEN_TRIM: list[tuple[str, str, dict[str, str] | None, str, list[str], str, str]] = [
    ("none", "white space at both ends stays", None, "", [], " snow\n", " snow\n"),
    ("start", "white space at the start goes", None, " ", ["answer_start"], "\n snow\n", " snow\n"),
    ("end", "white space at the end goes", None, "", ["answer_end"], "\n snow\x1c\n", "\n snow"),
    ("nothing", "white space alone stays", None, "", [], " \n", " \n"),
    ("nothing_end", "white space alone goes with one end", None, "", ["answer_end"], " \n", ""),
    ("others", "the ends of messages are not those of answers", None, "", ALL, " snow ", " snow "),
    ("thought", "white space behind a thought goes with it", THINK, "", [], "<t>f</t>\n\n snow ", "snow "),
    ("thought_none", "without a thought the start stays", THINK, "", [], "\n snow ", "\n snow "),
]  # fmt: skip
TURN = ("[TURN]user\n", "[TURN]<think>\n", "[TURN]user\n", "[TURN]<think>\n")
# With `markup`: name, why, strings, earlier messages with the text of their answers, message
MARKUP: list[Case] = [
    ("html", "tags of HTML are text of messages", TURN, [("<td>snow</td>", "la")], "<tool_call>\n\n</tr>"),
    (
        "forged",
        "markers of turns and tags of thoughts are not read in messages",
        TURN,
        [("[TURN]user", "f")],
        "</think><td>[TURN]<think>",
    ),
    ("bare", "text that continues an answer has its added tokens", BARE, [("<td>", "fla")], "</td>\n\n<s>ke"),
]
# name, why, lead, answer that a program gives
GIVEN_MARKUP = [
    ("html", "an answer that a program gives has its added tokens", "", "<td>snow</td>\n\n</tr>"),
    ("tool", "so has the call of a tool, behind a lead", "\n\n", "<tool_call>{}</tool_call>"),
    ("forged", "control tokens it has none", "", "snow[TURN]</think>"),
]


def write(writer: VectorWriter) -> None:
    for tokenizer, cases in ((byte_level(), BYTE_LEVEL), (sentencepiece(), SENTENCEPIECE)):
        plain: list[tuple[Any, ...]] = [(case[0], case[1], PLAIN, *case[2:]) for case in cases]
        writer.vectors("template", tokenizer.kind, [_vector(tokenizer, *case) for case in plain])
    writer.vectors("template", "parts", [_vector(byte_level(), *_with_plain(case)) for case in MORE])
    given = [_given(tokenizer, *case) for tokenizer in (byte_level(), sentencepiece()) for case in GIVEN]
    writer.vectors("template", "given", given)
    writer.vectors("template", "trim", _trims())
    writer.vectors("template", "markup", _markup())
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


def _trims() -> list[dict[str, Any]]:
    """Vectors of white space at the ends of messages and answers."""
    tokenizer, vectors = byte_level(), []
    for name, why, differs, turns, message in TRIM:
        vectors.append(_vector(tokenizer, f"trim_{name}", why, {**PLAIN, **differs}, CHATML, turns, message))
    for name, why, think, lead, ends, text, kept in GIVEN_TRIM:
        made = _given(tokenizer, f"trim_{name}", why, think, lead, text, kept)
        made["input"]["trim"] = ends
        vectors.append(made)
    return vectors


def _markup() -> list[dict[str, Any]]:
    """Vectors of added tokens that look like control tokens and are text."""
    tokenizer = markup()
    vectors = []
    for name, why, strings, turns, message in MARKUP:
        vectors.append(_vector(tokenizer, name, why, PLAIN, strings, turns, message))
    for name, why, lead, text in GIVEN_MARKUP:
        made = _given(tokenizer, name, why, None, lead, text, "")
        made["expect"]["ids"] = tokenizer.encode_prompt("", lead + text, "", goes_on=True)
        vectors.append(made)
    return vectors


def _trimmed(text: str, ends: list[str], start: str, end: str) -> str:
    text = text.lstrip(WHITE) if start in ends else text
    return text.rstrip(WHITE) if end in ends else text


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
        ends, start = more.get("trim", []), "later_start" if i else "first_start"
        if i == 0 and more["system"] is not None:
            start = "behind_start"
        text = _trimmed(str(turn["message"]), ends, start, "later_end" if i else "first_end")
        parts = [before, text, behind + (more["begin"] if i == len(turns) else "")]
        if i == 0 and more["system"] is not None:
            system = _trimmed(more["system"], ends, "system_start", "system_end")
            parts[:1] = [more["slot"]["before"], system, more["slot"]["after"]]
        ids += [*tokenizer.encode_prompt(*parts, goes_on=i > 0), *turn["answer"]]
    given = {
        "tokenizer": tokenizer.file, "prefix": prefix, "suffix": suffix,
        "between": between, "after": after, **more, "turns": turns, "message": message,
    }  # fmt: skip
    return vector(f"{tokenizer.name or tokenizer.kind}_{name}", why, given, {"ids": ids})


def _given(
    tokenizer: Tokenizer, name: str, why: str, think: dict[str, str] | None, lead: str, text: str, kept: str
) -> dict[str, Any]:
    """A vector of an earlier answer that a program gives as text."""
    ids = tokenizer.spell(kept.encode()) if kept else []
    given: dict[str, Any] = {"tokenizer": tokenizer.file, "lead": lead, "think": think, "given": text}
    return vector(f"{tokenizer.name or tokenizer.kind}_given_{name}", why, given, {"ids": ids})
