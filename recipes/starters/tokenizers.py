"""Tokenizers of the starter models, each in the style of a common family.

`drafter` splits like Llama-2 (SentencePiece BPE with byte fallback), `a` like Qwen2 and `b` like Llama-3
(byte-level BPE, with single digits and with up to three digits). So the three vocabularies differ as those of
real models do.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{%- if bos_token %}{{ bos_token }}{% endif -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{{ 'Question: ' + message['content'] + '\\nAnswer:' }}"
    "{%- elif message['role'] == 'assistant' -%}{{ ' ' + message['content'] + eos_token }}"
    "{%- elif message['role'] == 'system' and loop.first -%}{{ message['content'] + '\\n\\n' }}"
    "{%- else -%}"
    "{{ raise_exception('The roles of this model are system (the first message), user and assistant.') }}"
    "{%- endif -%}"
    "{%- endfor -%}"
)

_SPACE = "▁"  # SentencePiece's mark of a space
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_DRAFTER_SPECIALS = ["<unk>", "<s>", "</s>"]
_DRAFTER_PIECES = 3500
_DRAFTER_MIN_COUNT = 20  # rarer characters are written by byte tokens
# A piece is a run of letters or of signs with the space before it, one digit, or a run of spaces. No merge
# joins two pieces, so the final file needs no pattern: its merges cannot join them either.
_DRAFTER_WORDS = (
    rf"{_SPACE}?\p{{L}}+|{_SPACE}?[^\s\p{{L}}\p{{N}}{_SPACE}]+|\p{{N}}|{_SPACE}+(?={_SPACE})|{_SPACE}"
)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2_WORDS = rf"{_CONTRACTIONS}|\p{{N}}|{_REST}"
_LLAMA3_WORDS = rf"{_CONTRACTIONS}|\p{{N}}{{1,3}}|{_REST}"


def build_drafter(texts: list[str]) -> PreTrainedTokenizerFast:
    """SentencePiece-like BPE: ids 0..2 special tokens, 3..258 bytes, then merged pieces, then characters."""
    normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)])
    counts = Counter(normalizer.normalize_str(" ".join(texts)))
    alphabet = sorted(
        char for char, count in counts.items() if count >= _DRAFTER_MIN_COUNT and char not in "\r\n\t"
    )
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\r\n\t]"), "removed"),
            pre_tokenizers.Split(Regex(_DRAFTER_WORDS), "isolated"),
        ]
    )
    room = _DRAFTER_PIECES - len(_DRAFTER_SPECIALS) - len(_BYTES)
    trainer = trainers.BpeTrainer(
        vocab_size=room, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    learned = json.loads(learner.to_str())["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    ordered = [piece for piece in pieces if len(piece) > 1] + [piece for piece in pieces if len(piece) == 1]
    vocab = {piece: index for index, piece in enumerate(_DRAFTER_SPECIALS + _BYTES + ordered)}
    merges = [(left, right) for left, right in learned["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([_special(token) for token in _DRAFTER_SPECIALS])
    tokenizer.post_processor = _bos_first("<s>", vocab["<s>"])
    return _wrap(tokenizer, bos="<s>", eos="</s>", pad="</s>", unk="<unk>")


def build_a(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of 8,192 ids in the style of Qwen2: NFC, single digits, no bos."""
    tokenizer = _byte_level(
        texts, _QWEN2_WORDS, size=8192, specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True
    )
    return _wrap(tokenizer, bos=None, eos="<|endoftext|>", pad="<|endoftext|>", unk=None)


def build_b(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of 12,288 ids in the style of Llama-3: up to three digits a piece, bos first."""
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer = _byte_level(texts, _LLAMA3_WORDS, size=12288, specials=specials, nfc=False)
    tokenizer.post_processor = _bos_first(specials[0], 12288 - len(specials))
    return _wrap(tokenizer, bos=specials[0], eos=specials[1], pad=specials[1], unk=None)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the tokenizer's files; tokenizer.json has no indentation."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    compact = json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False, separators=(",", ":"))
    path.write_text(compact + "\n", "utf-8")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # a name that transformers 4 knows as well
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _byte_level(texts: Iterable[str], words: str, *, size: int, specials: list[str], nfc: bool) -> Tokenizer:
    """Learn a byte-level BPE of `size` ids; special tokens have the last ones."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=not nfc))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([_special(token) for token in specials])
    return tokenizer


def _special(token: str) -> AddedToken:
    return AddedToken(token, special=True, normalized=False)


def _bos_first(bos: str, bos_id: int) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, bos_id)]
    )


def _wrap(
    tokenizer: Tokenizer, *, bos: str | None, eos: str, pad: str, unk: str | None
) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=bos,
        eos_token=eos,
        pad_token=pad,
        unk_token=unk,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
