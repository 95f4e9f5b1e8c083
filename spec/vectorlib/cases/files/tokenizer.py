"""Vectors of `tokenizer`: compiled files with the ids that they give. Faults: compiled/invalid.py."""

from typing import Any

from vectorlib.compiled.file import Compiled, fingerprint_of
from vectorlib.compiled.file import write as file_of
from vectorlib.compiled.invalid import write_invalid
from vectorlib.compiled.kinds import kinds, of_tokenize, special_kinds
from vectorlib.compiled.oracle import Oracle
from vectorlib.compiled.work import LITERAL
from vectorlib.reference.tokenizer import SPACE
from vectorlib.writer import VectorWriter, vector

# name, why, text
TEXTS: list[tuple[str, str, str]] = [
    ("words", "words, each with the space before it", "hello world hello"),
    ("empty", "no text has no ids, not even a dummy prefix", ""),
    ("space", "one space", " "),
    ("spaces", "the last of several spaces belongs to the word", "a   hello    "),
    ("contractions", "contractions in both cases, and U+017F where case is ignored",
     "don't DON'T he's HE'S o'\u017f I'Ll"),
    ("digits", "one, three or all digits together", "100 1000 12345 7"),
    ("other_digits", "digits that are not ASCII", "1\u06632 \u2167 \u00bd \u00b2\u00b3 x\u00b9"),
    ("line_ends", "\\r\\n is one run of white space", "a\r\n\r\nb \r\n  c\n"),
    ("tabs", "tabs and line ends of other kinds", "\thello\x0b\x0c\x85 x\u2028y"),
    ("no_break_space", "U+00A0 is white space", "hello\u00a0world\u00a0\u00a0snow \u00a0"),
    ("wide_spaces", "U+2003, U+3000 and U+1680 are white space, U+200B and U+FEFF are not",
     "a\u2003\u3000b\u1680c\u200bd\ufeffhello \ufeff"),
    ("not_white", "U+001C to U+001F are not white space", "a\x1c\x1d b\x1e\x1f"),
    ("marks", "combining marks: composed and ordered where the tokenizer has NFC",
     "he\u0301llo a\u0323\u0301 a\u0301\u0323 \u212b \u0301x"),
    ("hangul", "jamo compose to a syllable where the tokenizer has NFC", "\u1100\u1161 \uac00"),
    ("cjk", "CJK without spaces", "你好你 好\u3072\u30abhello"),
    ("astral", "code points above U+FFFF", "\U0001f600\U0001d11e \U00020000x"),
    ("signs", "signs, and line ends behind them", "!!! hello!!\n\n(100) a-b_c \u2014\u2019s"),
    ("controls", "control strings in a text are text", "<|end|> <s>hello</s> <unk>"),
    ("block", "U+2581 in a text", f"a{SPACE}b {SPACE} {SPACE}{SPACE}"),
    ("merges", "of two pairs with a rank the lower rank is joined first, of equal ranks the leftmost",
     "hhelloo snowworld 100100 ooooo lllll"),
    ("no_pieces", "characters that no piece has", "\x00\u00ff\u0100 zq\u00e9"),
    ("added", "added tokens: longest first, single words, white space around them",
     "snowmansnow X XX aX  Q  Qq Q"),
]  # fmt: skip
SPELL: list[tuple[str, str, bytes]] = [
    ("fragment", "a fragment has no dummy prefix", b"hello"),
    ("spaces", "spaces of a fragment", b"  hello "),
    ("stray", "bytes that are not UTF-8", b"\xc3hello\xff\xfe"),
    ("cut", "stray bytes that stand together are one word", b"\xa5\xbdhello\xe4\xbd"),
    ("between", "spaces between words; with a prefix space the fragment is one word", b"a  hello"),
    ("block", "U+2581 is written with its bytes", f"a{SPACE}b".encode()),
    ("not_normalised", "a fragment is not normalised", "e\u0301".encode()),
    ("added", "added tokens are not read in a fragment", b"snowman X"),
    ("unwritable", "bytes that some vocabularies cannot write", "hello \u4f60!\u00e9".encode()),
]


# name, why, prefix, suffix; the text between is "hello", with a space on both sides
CONTROLS: list[tuple[str, str, str, str]] = [
    ("longest", "of two control tokens the longer one", "<a><b><a>", "<a><a><b>"),
    ("left", "a control token that removes white space before it, of all kinds", "x \u00a0\n<l>",
     "\u2003<l> y"),
    ("right", "a control token that removes white space behind it, of all kinds", "<r>",
     "z<r> \u00a0\u3000y"),
    ("not_white", "U+001C and U+200B are not white space", "x\x1c<l>", "<r>\x1c y<r>\u200b <r>"),
    ("byte_order_mark", "U+FEFF is not white space", "x\ufeff<l>", "<r>\ufeffy"),
    ("both", "between two of them nothing is left", "<r> \t <l>", "<r>\u1680<l>"),
    ("form", "an added token of the form [...] is text unless its flag says otherwise", "[F]", "[F][F"),
    ("cut", "the beginning of a control token is text", "<a", "<a><b <l"),
]  # fmt: skip
# kind, name, why, text
SPECIAL: list[tuple[str, str, str, str]] = [
    ("lookbehind", "inside", "a code point before the match", "hello llo lw oo"),
    ("lookbehind", "start", "at the beginning nothing is before; the word before is not seen",
     "100 world 10 w1 1100"),
    ("contiguous", "inverted", "neighbours that are text are joined as well", "hello100world12 1ab12c"),
    ("contiguous", "digits", "digits alone", "100"),
    ("flagged", "single_word", "a letter on either side, or on both",
     "tok atok toka atoka tok1 _tok tok. \u00e9tok"),
    ("flagged", "right", "white space behind the token goes, also of other kinds",
     "Qr  hello Qr\u00a0\u3000\nhello Qr"),
    ("flagged", "left", "white space before the token goes", "hello  Ql Ql \u2003Ql"),
    ("flagged", "between", "white space between the two goes once", "Qr   Qlhello"),
    ("flagged", "not_white", "U+FEFF and U+200B stay", "Qr\ufeffhello\u200bQl"),
    ("flagged", "search_goes_on", "the search goes on behind the content, in the white space that went",
     "Qr\n\n\nhello"),
    ("flagged", "normalised", "the content after the normaliser is looked for in the normalised text",
     "~q Qq ~hello~q"),
    ("flagged", "raw", "a token that is not normalised is looked for before the normaliser", "~~ QQ ~~~ ~Q"),
    ("first", "behind_token", "no prefix behind an added token", "hellosnowmanhello snowman hello"),
    ("first", "token_first", "the text begins with an added token", "snowmanhello"),
    ("first", "behind_normalised", "no prefix behind a token that is looked for after the normaliser",
     "helloQqhello Qq hello"),
    ("first", "normalised_first", "the text begins with such a token", "Qqhello"),
    ("first", "both", "such a token behind the other one", "snowmanQqhelloQqhello"),
    ("html", "tags", "added tokens of the form <...> and [...] that are not special",
     "<h1>hello</h1> <td>world</td>"),
    ("html", "lines", "line feeds of an added token, the longest first", "\n\n\nhello\n<b>\n\n[multimodal]"),
    ("html", "control", "the control token beside them is text in a text", "<turn>hello<td"),
    ("partial", "missing", "a character whose last byte has no token is unknown",
     "hello\u00fcworld\u00fc\u00fc"),
    ("partial", "first_missing", "a character with other bytes is written", "\u00e3\u00fc\u00e3 \u00bc"),
    ("first_split", "words", "of several words only the first has the prefix", "hello world o"),
    ("letters", "soft_hyphen", "byte AD has the letter U+0143, which a later step sees",
     "h\u00edhello\u00ad\u00ae\u00ac"),
    ("emptied", "nothing", "a text that a step has emptied gets nothing put before it", "qq"),
    ("emptied", "something", "what is left does", "qhelloq"),
    ("nested", "match", "a program that repeats a repetition", "hello lllo lo o"),
    ("nested", "no_match", "no state is visited twice: 2^60 ways to fail take a few hundred steps",
     "l" * 60 + " " + "l" * 60 + "e"),
    ("no_fallback", "off", "byte tokens are only pieces where the model has no byte fallback",
     "hello\u00e3 <0xE3> q"),
    ("bounds", "both", "steps at the bounds of growth and work",
     "hello b world " + "b" * 127 + LITERAL + "snow"),
    ("spaces", "twice", "tokens of white space, found in the white space that went",
     "a      \t\t  \t\t\t   b"),
    ("spaces", "end", "the same at the end of the text", "a    \t\t    \t\t "),
]  # fmt: skip


# kind, name, why, prefix, text, suffix, the prompt follows earlier ids
PROMPTS: list[tuple[str, str, str, str, str, str, bool]] = [
    ("html", "turn", "tags of HTML are text of a message, the marker of turns is not read there",
     "<turn>hello\n", "<h1>hello</h1>\n\n\n<turn><td>world</td>", "<turn>\n", False),
    ("html", "later", "text behind an answer has no dummy prefix, and its added tokens", "",
     "<td> hello</td>\n\n[multimodal]\n\n\nworld", "<turn>hello<b>", True),
    ("flagged", "later", "also those that take white space; neither single words nor normalised ones", "",
     "tok Qr  hello  Ql~q~~\n\n\nQq", "", True),
    ("first", "later", "the text between them is spelled, without a dummy prefix", "",
     "hellosnowman hello Qqsnowmanhello", "", True),
    ("partial", "later", "where a part cannot be spelled, all of it is encoded as a whole text", "",
     "hello\u00fcworld", "", True),
]  # fmt: skip


def write_file(writer: VectorWriter, name: str, compiled: Compiled) -> None:
    writer.file(f"tokenizer/{name}.bin", file_of(compiled))


def write_vectors(writer: VectorWriter, name: str, compiled: Compiled) -> None:
    oracle, given = Oracle(compiled), {"file": f"{name}.bin"}
    tokens = [None if data is None else data.hex() for data in oracle.tokens]
    expect: dict[str, Any] = {"bytes": tokens, "fingerprint": fingerprint_of(compiled)}
    vectors = [vector(f"{name}_bytes", "the bytes of each id", given, expect)]
    for case, why, text in TEXTS:
        vectors.append(vector(f"{name}_{case}", why, {**given, "text": text}, {"ids": oracle.encode(text)}))
    for case, why, data in SPELL:
        ids = oracle.spell(data)
        vectors.append(vector(f"{name}_spell_{case}", why, {**given, "spell": data.hex()}, {"ids": ids}))
    mark = "<s>" if compiled.kind else "<|end|>"
    for goes_on, why in (
        (False, "the first text has the dummy prefix"),
        (True, "text behind an answer has none"),
    ):
        parts = {
            "prefix": f"he{mark}hello",
            "text": f" world{mark}",
            "suffix": f" {mark}\r\n",
            "goes_on": goes_on,
        }
        ids = oracle.prompt(parts["prefix"], parts["text"], parts["suffix"], goes_on=goes_on)  # type: ignore[arg-type]
        vectors.append(
            vector(f"{name}_prompt_{'later' if goes_on else 'first'}", why, {**given, **parts}, {"ids": ids})
        )
    if name == "qwen":
        text = "hello\u2126\u0374"
        ids = Oracle(Compiled({**compiled.spec, "normalizer": None}, 0)).encode(text)
        why = "code points that NFC changes stay where they are not in its class"
        vectors.append(vector(f"{name}_nfc_outside", why, {**given, "text": text}, {"ids": ids}))
    if name == "controls":
        for case, why, prefix, suffix in CONTROLS:
            ids = oracle.with_controls(f"{prefix} hello {suffix}")
            parts = {"prefix": prefix, "text": " hello ", "suffix": suffix, "goes_on": False}
            vectors.append(vector(f"{name}_template_{case}", why, {**given, **parts}, {"ids": ids}))
    writer.vectors("tokenizer", name, vectors)


def write(writer: VectorWriter) -> None:
    every = kinds()
    for name, compiled in of_tokenize().items():
        writer.file(f"tokenize/{name}.tokenizer.bin", file_of(compiled))
    for name, compiled in every.items():
        write_file(writer, name, compiled)
        write_vectors(writer, name, compiled)
    for name, compiled in special_kinds().items():
        write_file(writer, name, compiled)
        _write_special(writer, name, compiled)
    write_invalid(writer, file_of(every["gpt2"]), file_of(every["added"]))


def _write_special(writer: VectorWriter, name: str, compiled: Compiled) -> None:
    oracle, given = Oracle(compiled), {"file": f"{name}.bin"}
    tokens = [None if data is None else data.hex() for data in oracle.tokens]
    expect: dict[str, Any] = {"bytes": tokens, "fingerprint": fingerprint_of(compiled)}
    vectors = [vector(f"{name}_bytes", "the bytes of each id", given, expect)]
    for kind, case, why, text in SPECIAL:
        if kind == name:
            ids = oracle.encode(text)
            vectors.append(vector(f"{name}_{case}", why, {**given, "text": text}, {"ids": ids}))
    for kind, case, why, prefix, text, suffix, goes_on in PROMPTS:
        if kind == name:
            parts = {"prefix": prefix, "text": text, "suffix": suffix, "goes_on": goes_on}
            ids = oracle.prompt(prefix, text, suffix, goes_on=goes_on)
            vectors.append(vector(f"{name}_prompt_{case}", why, {**given, **parts}, {"ids": ids}))
    writer.vectors("tokenizer", name, vectors)
