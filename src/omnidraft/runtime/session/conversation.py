"""A conversation as target ids, and as the draft ids of the first context (spec/04-speculation.md).

An answer is never encoded again: other ids would change what the target is conditioned on (method section 2).
A message is always plain text; nothing in it is read as a control token.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from omnidraft.runtime.chat.messages import MessageList
from omnidraft.runtime.chat.prompt_template import PromptTemplate, Template, trimmed
from omnidraft.runtime.chat.thinking import given_answer
from omnidraft.runtime.chat.tool_form import ToolForm
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import whole_tokens
from omnidraft.runtime.grammar.tool_calls import ToolCall
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.language_model import LanguageModel, draft_text
from omnidraft.runtime.vocab.tokenizer import Tokenizer


@dataclass(frozen=True)
class Turn:
    """A message and the target ids of its answer, without the token or string that ended it.

    Attributes:
        results: of the tools that the answer before called; they take the place of the message.
    """

    message: str
    answer: tuple[int, ...] = ()
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolText:
    """The tools of a conversation as its template lists them.

    Attributes:
        begin: of the template, before an answer that is to be written.
        text_of: the text of an answer, with the tags around calls.
    """

    form: ToolForm
    listing: str
    begin: str
    text_of: Callable[[Sequence[int]], bytes]


def conversation_ids(
    tokenizer: Tokenizer,
    template: Template,
    turns: Sequence[Turn],
    asked: Turn | str,
    system: str | None = None,
    tools: ToolText | None = None,
) -> list[int]:
    """The target ids of a conversation, up to the position at which the answer to `asked` begins.

    Args:
        asked: the last message, or a turn without an answer.
        tools: that are listed before the first message or the last; needed where turns have results.
    """
    all_turns = [*turns, Turn(asked) if isinstance(asked, str) else asked]
    parts = template.parts(len(turns) + 1, system=system is not None)
    ends = template.trimmed(len(turns) + 1, system=system is not None)
    before = [parts.pop(0)]
    if system is not None:
        system = trimmed(system, ends.pop(0))
        before += [system, parts.pop(0)]
    listed = None
    if tools is not None and tools.listing:
        moves = tools.form.later is not None
        listed = max(i for i, turn in enumerate(all_turns) if not turn.results) if moves else 0
    ids: list[int] = []
    for number, turn in enumerate(all_turns):
        if turn.results:
            assert tools is not None, "a session knows the form of results"
            called = tools.text_of(turns[number - 1].answer).decode("utf-8", "replace")
            begin = tools.begin if number == len(turns) else ""
            results = tools.form.answered(turn.results, begin, called)
            ids += tokenizer.encode_prompt(*results, goes_on=True)
        else:
            before = [parts[2 * number - 1]] if number else before
            if tools is not None and number == listed:
                form = tools.form
                before = form.opening(tools.listing, system) if number == 0 else form.moved(tools.listing)
            text = trimmed(turn.message, ends[number])
            ids += tokenizer.encode_prompt(*before, text, parts[2 * number], goes_on=number > 0)
        ids += turn.answer
    return ids


def first_kept(size: Callable[[int], int], count: int, limit: int, new: int) -> int:
    """How many of the oldest turns are left out of a conversation so that an answer has room.

    0 if all fit. Else enough that half of the context is free, so the conversation is seldom read again.

    Args:
        size: tokens of the conversation up to the answer without its first turns, by their number. It falls
            with the number, and is asked for few of them.
        count: of these numbers, which begin at 0.
        limit: positions of the context.
        new: tokens of the answer, at most; a quarter of the context is the most that is kept free for it.
    """
    room = min(new, limit // 4)
    if size(0) + room <= limit:
        return 0
    return bisect_left(range(count - 1), True, key=lambda number: size(number) + room <= limit // 2)


def fitting(
    ids_of: Callable[[Sequence[Turn]], list[int]], turns: list[Turn], last: Turn, limit: int, new: int
) -> tuple[list[Turn], list[int]]:
    """The turns of a conversation that fit in the context, and its target ids up to the answer.

    Args:
        ids_of: gives the ids of some turns and the last one.
        limit, new: as for `first_kept`.
    """

    @cache
    def ids_from(first: int) -> list[int]:
        return ids_of(turns[first:])

    if len(ids_from(0)) + new <= limit:
        return turns, ids_from(0)
    # Results stay with the calls that they belong to.
    starts = [i for i, turn in enumerate((*turns, last)) if not turn.results]
    first = starts[first_kept(lambda number: len(ids_from(starts[number])), len(starts), limit, new)]
    return turns[first:], ids_from(first)


def given_turn(
    tokenizer: Tokenizer, prompt: PromptTemplate, asked: Turn | str, text: str, calls: Sequence[ToolCall] = ()
) -> Turn:
    """A turn whose answer a program gives: a text, and calls of tools.

    The answer is encoded after the white space that the model would have begun it with. Its thought is left
    out, and the white space at those of its ends where the template leaves it out. Control tokens are read in
    the text around calls only.
    """
    asked = Turn(asked) if isinstance(asked, str) else asked
    parts = _given_parts(prompt, text, calls)
    return replace(asked, answer=tuple(tokenizer.encode_prompt(*parts, goes_on=True)))


def _given_parts(prompt: PromptTemplate, text: str, calls: Sequence[ToolCall]) -> list[str]:
    """The text of an answer that a program gives, as `Tokenizer.encode_prompt` takes it."""
    answer = given_answer(text, prompt.think, prompt.trimmed_answer)
    if not calls:
        return ["", prompt.lead + answer, ""]
    assert prompt.tool_form is not None, "calls are refused where the model has no form of them"
    form = prompt.tool_form.calls
    parts = ["", answer, ("\n" if answer else "") + form.open]
    for number, call in enumerate(calls):
        parts += [form.object(call, number), form.between or ""]
    return [*parts[:-1], form.close]


def listed_turns(loaded: LanguageModel, messages: MessageList, known: Sequence[Turn]) -> list[Turn]:
    """The earlier turns of a list of messages; an answer that this session generated keeps its ids.

    Args:
        known: the turns of the session's own conversation.
    """
    prompt, turns, is_own = loaded.bundle.prompt, list[Turn](), True
    for number, spoken in enumerate(messages.turns):
        asked = Turn(spoken.message, results=spoken.results)
        is_own = is_own and number < len(known) and replace(known[number], answer=()) == asked
        if is_own:
            written = loaded.output_text.text(known[number].answer).decode("utf-8", "replace")
            text = "".join(_given_parts(prompt, spoken.answer, spoken.calls))
            is_own = given_answer(written, prompt.think) == given_answer(text, prompt.think)
        given = given_turn(loaded.target_tokenizer, prompt, asked, spoken.answer, spoken.calls)
        turns.append(known[number] if is_own else given)
    return turns


def answer_ids(loaded: LanguageModel, answer: Generation) -> tuple[int, ...]:
    """The ids of an answer as a conversation keeps them: they spell `answer.text`, or the end of it.

    The end token is left out, because the template has its own. A thought is left out where the template
    leaves it out (`ThinkTags.earlier`). Where a stop string begins inside a token, the bytes of that token
    before it are spelled again; all other ids stay as they were generated.
    """
    ids = answer.token_ids
    if answer.stop_start is not None:
        data = [loaded.output_text.bytes_of(t) for t in ids]
        whole, head = whole_tokens([len(d) for d in data], answer.stop_start)
        rest = loaded.target_tokenizer.spell(data[whole][:head]) if head else None
        ids = [*ids[:whole], *(rest or [])]
    elif ids and ids[-1] in loaded.bundle.target.eos_ids:
        ids = ids[:-1]
    return loaded.output_text.kept(ids, inside=answer.begins_inside)


def draft_context(
    target: Tokenizer, drafter: Tokenizer, ids: Sequence[int], before: DecoderState | None
) -> list[int]:
    """A prompt in draft ids; where it continues the text before, only the new part is encoded.

    Args:
        before: the text of the generation before, which drafted; None where there is none.
    """
    known = 0 if before is None or not before.context else len(before.tokens)
    if before is None or not known or list(ids[:known]) != list(before.tokens):
        return draft_text(target, drafter, ids)
    spelled = drafter.spell(target.text_of(ids[known:]))
    return [*before.context, *(draft_text(target, drafter, ids[known:]) if spelled is None else spelled)]
