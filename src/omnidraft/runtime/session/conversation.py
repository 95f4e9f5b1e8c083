"""A conversation as target ids: messages inside a template, answers as the ids that were generated.

Also the same text in draft ids, which the drafter begins with (spec/04-speculation.md, the first context).

An answer is never encoded again: other ids would change what the target is conditioned on (method section 2).
A message is always plain text; nothing in it is read as a control token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from omnidraft.runtime.decoding.baselines import Mode
from omnidraft.runtime.decoding.stop import whole_tokens
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.vocab.tokenizer import Tokenizer


class Template(Protocol):
    """The text around messages; control tokens are read here and only here."""

    def parts(self, turns: int) -> list[str]:
        """The strings before and after the message of each turn, shape [2 * turns].

        The string before a later message begins right after the answer to the message before it.

        Args:
            turns: number of messages by the user.

        Raises:
            PromptError: the template cannot render a conversation of this length.
        """


@dataclass(frozen=True)
class Turn:
    """A message and the target ids of its answer, without the token or string that ended it."""

    message: str
    answer: tuple[int, ...]


def conversation_ids(
    tokenizer: Tokenizer, template: Template, turns: Sequence[Turn], message: str
) -> list[int]:
    """The target ids of a conversation, up to the position at which the answer to `message` begins.

    Args:
        tokenizer: the target's.
        template: the text around messages.
        turns: earlier turns.
        message: the new message.
    """
    parts = template.parts(len(turns) + 1)
    ids: list[int] = []
    for i, turn in enumerate(turns):
        ids += tokenizer.encode_prompt(parts[2 * i], turn.message, parts[2 * i + 1], goes_on=i > 0)
        ids += turn.answer
    return ids + tokenizer.encode_prompt(parts[-2], message, parts[-1], goes_on=bool(turns))


def answer_ids(tokenizer: Tokenizer, answer: Generation, eos_ids: Sequence[int]) -> tuple[int, ...]:
    """The ids of an answer as a conversation keeps them: they spell `answer.text` and nothing else.

    The end token is left out, because the template has its own. Where a stop string begins inside a token,
    the bytes of that token before it are spelled again; all other ids stay as they were generated.

    Args:
        tokenizer: the target's.
        answer: the generation.
        eos_ids: the target's end tokens.
    """
    ids = answer.token_ids
    if answer.stop_start is None:
        return tuple(ids[:-1] if ids and ids[-1] in eos_ids else ids)
    data = [tokenizer.text_of([t]) for t in ids]
    whole, head = whole_tokens([len(d) for d in data], answer.stop_start)
    rest = tokenizer.spell(data[whole][:head]) if head else None
    return (*ids[:whole], *(rest or []))


@dataclass(frozen=True)
class EarlierText:
    """The text of the generation before, in both vocabularies.

    Attributes:
        mode: of that generation.
        tokens: target ids of its prompt and output.
        context: the same text in draft ids.
    """

    mode: Mode
    tokens: Sequence[int]
    context: Sequence[int]


def draft_text(target: Tokenizer, drafter: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The visible text of target ids, encoded by the drafter's tokenizer; control tokens have no text.

    Args:
        target, drafter: the tokenizers.
        ids: target ids.
    """
    return drafter.encode(target.text_of(ids).decode("utf-8", "replace"))


def draft_context(
    target: Tokenizer, drafter: Tokenizer, ids: Sequence[int], before: EarlierText | None
) -> list[int]:
    """A prompt in draft ids; where it continues the text before, only the new part is encoded.

    Args:
        target, drafter: the tokenizers.
        ids: target ids of the whole prompt.
        before: the text before; None where there is none.
    """
    # After an answer without the drafter the context is empty, or lacks the prompt.
    if before is None or before.mode in ("plain", "lookup") or not before.context:
        return draft_text(target, drafter, ids)
    known = len(before.tokens)
    if list(ids[:known]) != list(before.tokens):
        return draft_text(target, drafter, ids)
    spelled = drafter.spell(target.text_of(ids[known:]))
    return [*before.context, *(draft_text(target, drafter, ids[known:]) if spelled is None else spelled)]
