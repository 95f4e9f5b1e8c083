"""Vectors of `utf8` and `stop`: bytes to text as they arrive, and where the text ends."""

from collections.abc import Sequence
from typing import Any

from vectorlib.reference.stop import Limits, end_of, stream
from vectorlib.writer import VectorWriter, vector

CHUNKS: list[tuple[str, str, list[str]]] = [
    ("ascii", "nothing is held back", ["61 62", "63"]),
    ("empty", "no bytes at all", []),
    ("empty_chunks", "empty chunks, as control tokens give", ["", "61", "", "62"]),
    ("two_bytes_split", "é waits for its second byte", ["c3", "a9"]),
    ("three_bytes_split", "日 byte by byte", ["e6", "97", "a5"]),
    ("four_bytes_split", "😀 in two halves", ["f0 9f", "98 80"]),
    (
        "emoji_sequence",
        "a family emoji: its joined characters come out one by one",
        ["f0 9f 91 a8 e2", "80 8d f0 9f 91", "a9"],
    ),
    ("flag", "two regional indicators, the second split", ["f0 9f 87 af f0 9f", "87 b5"]),
    ("combining", "a letter and its accent are two characters", ["65 cc", "81"]),
    ("text_then_half", "complete characters come at once, the half waits", ["61 e6 97", "a5 62"]),
    ("half_at_end", "a half character at the end becomes one U+FFFD", ["61 e6 97"]),
    ("half_of_four_at_end", "three of four bytes are still one U+FFFD", ["f0 9f 98"]),
    ("stray_continuation", "a byte that cannot begin a character", ["80 61"]),
    ("two_stray_continuations", "one U+FFFD for each", ["80 bf"]),
    ("broken_off", "an incomplete character, then a letter", ["e6 97 61"]),
    ("broken_off_across", "the letter arrives later", ["e6 97", "61"]),
    ("broken_by_lead", "an incomplete character, then another one", ["e6", "c3", "a9"]),
    ("overlong", "C0 AF is not a slash: both bytes are invalid", ["c0 af"]),
    ("overlong_three", "E0 80: the second byte is out of range", ["e0", "80", "80"]),
    ("surrogate", "ED A0 80 is half a surrogate pair, which UTF-8 does not have", ["ed a0 80"]),
    ("surrogate_split", "the same, byte by byte", ["ed", "a0", "80"]),
    ("overlong_four", "F0 80: the second byte is out of range, so each byte is one", ["f0 80 80 80"]),
    (
        "edges_of_three",
        "E0 A0 80 and ED 9F BF are the first and the last second byte",
        ["e0 a0", "80 ed 9f", "bf"],
    ),
    ("edges_of_four", "F0 90 80 80 is the first character of four bytes", ["f0 90", "80", "80"]),
    ("edges_missed", "E0 9F, ED A0, F0 8F and F4 90 miss them", ["e0 9f", "ed a0", "f0 8f", "f4 90"]),
    ("edges_of_two", "C1 never begins a character, C2 80 is the first of two bytes", ["c1 80 c2", "80"]),
    ("three_of_four_broken", "three of four bytes, then a letter: one U+FFFD", ["f0 90 80", "61"]),
    ("two_then_bad", "a good second byte, then a bad third one that begins a character", ["e6 97", "c3 a9"]),
    ("lead_lead_lead", "three first bytes: one U+FFFD for each", ["f0", "e6", "c3", "61"]),
    ("too_large", "F4 90 is beyond U+10FFFF", ["f4 90 80 80"]),
    ("never_valid", "F5 and FF occur in no UTF-8", ["f5", "ff", "61"]),
    ("largest", "U+10FFFF itself", ["f4 8f", "bf bf"]),
    ("nul", "NUL is an ordinary character", ["00 61"]),
    ("byte_order_mark", "U+FEFF at the start is text and is kept", ["ef bb", "bf 61"]),
    ("mixed_scripts", "日本 and é in odd pieces", ["e6 97 a5 e6", "9c", "ac c3", "a9 21"]),
]

TOKENS = ["", "a", "b", "c", "END", "\n", "\nUser", ":", "日", "EN", "D", "ab", " stop", "</", "s>"]
HALVES = {15: "e697", 16: "a5", 17: "f09f", 18: "9880"}
EOS = 0

# name, why, rounds, stop strings, max_new_tokens, room
Case = tuple[str, str, list[list[int]], list[str], int, int]
STOPS: list[Case] = [
    ("eos", "the end token is emitted and has no text", [[1, 2], [3, EOS]], [], 99, 99),
    ("eos_inside_block", "tokens accepted after the end token are not output", [[1, EOS, 2, 3]], [], 99, 99),
    ("eos_first", "an empty text", [[EOS, 1]], [], 99, 99),
    ("length", "max_new_tokens is reached", [[1, 2], [3]], [], 3, 99),
    ("length_and_eos", "the last allowed token is the end token: the reason is eos",
     [[1, 2, EOS]], [], 3, 99),
    ("length_of_one", "one token", [[2]], [], 1, 99),
    ("length_half", "the limit cuts a character: U+FFFD", [[1, 15]], [], 2, 99),
    ("context", "the context is full", [[1, 2], [3]], [], 99, 3),
    ("context_and_length", "both limits at once: the reason is length", [[1, 2, 3]], [], 3, 3),
    ("goes_on", "the output goes on", [[1, 2], [3]], ["END"], 99, 99),
    ("stop_one_token", "the stop string is a token of its own", [[1, 4, 2]], ["END"], 99, 99),
    ("stop_across_tokens", "EN and D", [[1, 9, 10, 2]], ["END"], 99, 99),
    ("stop_across_rounds", "EN is held back until the next round", [[1, 9], [10, 2]], ["END"], 99, 99),
    ("stop_false_alarm", "EN was held back and is released", [[1, 9], [2]], ["END"], 99, 99),
    ("stop_false_alarm_at_end", "EN is released by the end token", [[1, 9], [EOS]], ["END"], 99, 99),
    ("stop_false_alarm_at_length", "EN is released by the limit", [[1, 9]], ["END"], 2, 99),
    ("stop_inside_token", "the bytes of the token before the stop string are text",
     [[1, 11, 3]], ["b"], 99, 99),
    ("stop_at_start", "an empty text", [[4, 1]], ["END"], 99, 99),
    ("stop_first_of_two", "the stop string whose last byte comes first", [[1, 2, 3]], ["bc", "ab"], 99, 99),
    ("stop_longest_of_two", "all end with the same byte: the longest", [[1, 2, 3]], ["c", "abc", "bc"], 99,
     99),
    ("stop_shorter_is_sooner", "the shorter ends before the longer can", [[6, 7]], ["\nUser:", "\n"], 99, 99),
    ("stop_inside_character", "bytes of 日 over two tokens", [[1, 15], [16, 2]], ["日"], 99, 99),
    ("stop_emoji", "a stop string of four bytes in two tokens", [[1, 17, 18]], ["😀"], 99, 99),
    ("stop_half_kept_text", "日 begins the stop string, which is not completed",
     [[8, 15], [16]], ["日x"], 99, 99),
    ("stop_repeated_start", "aab in a, a, a, b: the match moves by one", [[1, 1], [1, 2]], ["aab"], 99, 99),
    ("stop_and_length", "the same token reaches both: the reason is stop", [[1, 4]], ["END"], 2, 99),
    ("stop_before_eos", "the stop string comes first", [[4, EOS]], ["END"], 99, 99),
    ("stop_not_over_eos", "the end token ends the text before the rest of the stop string", [[9, EOS, 10]],
     ["END"], 99, 99),
    ("stop_newline_user", "a stop string that begins with a newline, over several tokens",
     [[1, 5], [12, 6, 7]], ["\nUser:"], 99, 99),
    ("stop_control_text", "control strings written as text are text", [[1, 13], [14]], ["</s>"], 99, 99),
    ("stop_silent_token", "a token without bytes inside the stop string", [[9, 19], [10]], ["END"], 99, 99),
    ("half_then_whole", "half a character at the end of a round", [[15], [16, 1], [EOS]], [], 99, 99),
    ("half_at_eos", "a half character before the end token: U+FFFD", [[1, 17], [EOS]], [], 99, 99),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    vectors = []
    for name, why, chunks in CHUNKS:
        pieces, rest = stream([bytes.fromhex(c) for c in chunks])
        vectors.append(vector(name, why, {"chunks": chunks}, {"pieces": pieces, "rest": rest}))
    writer.vectors("utf8", "stream", vectors)
    table = [text.encode() for text in TOKENS]
    table += [bytes.fromhex(half) for half in HALVES.values()] + [b""]
    writer.vectors("stop", "endings", [_stop(case, table) for case in STOPS])
    written = ("eos_written", "the bytes of an end token are not text", [[1, 4, 2]], ["END", "b"], 99, 99)
    refused = {
        "bytes": {},
        "rounds": [],
        "eos_ids": [EOS],
        "stop": ["END", ""],
        "max_new_tokens": 99,
        "room": 99,
    }
    writer.vectors("stop", "others", [
        _stop(written, table, [4]),
        vector("empty_stop_string", "an empty stop string is refused", refused, {"refused": True}),
    ])  # fmt: skip


def _stop(case: Case, table: list[bytes], eos_ids: Sequence[int] = (EOS,)) -> dict[str, Any]:
    name, why, rounds, stops, most, room = case
    used = sorted({t for tokens in rounds for t in tokens})
    given = {
        "bytes": {str(t): table[t].hex() for t in used},
        "rounds": rounds,
        "eos_ids": list(eos_ids),
        "stop": stops,
        "max_new_tokens": most,
        "room": room,
    }
    ending = end_of(rounds, table, Limits(stops, list(eos_ids), most, room))
    expect = {
        "emitted": ending.emitted,
        "pieces": ending.pieces,
        "text": "".join(ending.pieces),
        "reason": ending.reason,
        "stop_string": ending.stop_string,
        "stop_start": ending.stop_start,
    }
    return vector(name, why, given, expect)
