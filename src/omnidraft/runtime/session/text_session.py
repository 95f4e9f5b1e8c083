"""A session: one text or conversation on a loaded bundle, with the cache that learns from it.

Threads: one generation at a time in a session; a second one at the same moment is refused. Different
sessions may run in different threads at once, also on the same `LanguageModel`. `Generation.cancel` may be
called from any thread.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnidraft.errors import SessionError
from omnidraft.grammar.response_format import Format, ResponseFormat, response_format
from omnidraft.runtime.chat.messages import checked_text, read_messages
from omnidraft.runtime.session.conversation import (
    Turn,
    answer_ids,
    conversation_ids,
    first_kept,
    listed_turns,
)
from omnidraft.runtime.session.generation import Emitted, Generation
from omnidraft.runtime.session.generation_config import TOO_LONG, GenerationConfig, overridden, prompt_ids
from omnidraft.runtime.session.session_resources import SessionResources
from omnidraft.runtime.session.session_store import capture, read_session, restore, write_session
from omnidraft.runtime.session.start_generation import generate_from_prompt, generate_from_state

DEFAULTS = GenerationConfig()
_UNDO = (
    "shorten the message, or make room: undo() takes the last one back, reset() begins a new conversation, "
    "and with drops_oldest the oldest ones are left out"
)
_LEAVE_OUT = "shorten the message, or leave out earlier ones"


class TextSession(SessionResources):
    """A conversation on a loaded bundle, with its KV caches and n-gram cache."""

    def reset(self) -> None:
        """Forget the conversation and its counts, not the system prompt and not what was learned."""
        with self.exclusive():
            self.text.forget_text()

    def generate(
        self,
        prompt: str | Sequence[int],
        config: GenerationConfig = DEFAULTS,
        *,
        raw: bool = False,
        grammar: Format | None = None,
        **overrides: Any,
    ) -> Generation:
        """Start a text and forget the last one. It has the target's distribution in every mode but `paper`.

        Args:
            prompt: text, or target ids.
            config: settings of the generation.
            raw: leave the prompt template out.
            grammar: what the output must be: a grammar, a JSON Schema, or a pydantic model; see `parsed` of
                the generation.
            overrides: fields of the config by name: `generate("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, or too long for the context (ContextError); or the template has no place for
                the session's system prompt.
            GrammarError: the schema is not supported, or no text of the grammar has room.
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
            BundleError: a file of the bundle was written since it was loaded.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            config.check()
            ids = (
                self.encode(checked_text(prompt), raw=raw) if isinstance(prompt, str) else prompt_ids(prompt)
            )
            generation = generate_from_prompt(
                self.models, self.text, ids, config, self.trace, format_=response_format(grammar)
            )
            self.text.turns, self.text.message = [], None
            return generation

    def chat(
        self,
        message: str | Sequence[Mapping[str, str]],
        config: GenerationConfig = DEFAULTS,
        *,
        grammar: Format | None = None,
        **overrides: Any,
    ) -> Generation:
        """Answer the next message of a conversation; the target reads only what is new in it.

        A list of messages is the whole conversation, with or without a system prompt, and takes the place of
        the session's own. Answers that the session itself gave keep the ids that were generated.

        Args:
            message: text; or a list of messages, each with `role` (system, user or assistant) and `content`.
            config: settings of the answer.
            grammar: what the answer must be, as for `generate`.
            overrides: fields of the config by name: `chat("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, too long a conversation for the context (ContextError), a list that is not a
                conversation, or a template without a place for the system prompt; nothing changes.
            GrammarError: as for `generate`.
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            config.check()
            turns, format_ = self._finished_turns(), response_format(grammar)
            if isinstance(message, str):
                return self._answer(turns, checked_text(message), self.system, config, format_=format_)
            listed = read_messages(message)
            turns = listed_turns(self.loaded, listed, turns)
            return self._answer(turns, listed.message, listed.system, config, _LEAVE_OUT, format_)

    def regenerate(self, config: GenerationConfig = DEFAULTS, **overrides: Any) -> Generation:
        """Answer the last message once more, in place of its answer.

        The random numbers are those of the config's seed, or of a new one: another seed, another sample.
        Greedy text is the same again.

        Raises:
            SessionError: there is no message that was answered, or another thread is using this session.
            SettingError: a setting outside its range.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            config.check()
            turns = self._finished_turns()
            if not turns:
                raise SessionError("there is no answer to generate again", "begin with a message")
            return self._answer(turns[:-1], turns[-1].message, self.system, config)

    def undo(self) -> str:
        """Take back the last message and its answer; what was learned stays.

        The KV caches keep the text until the next message, which rewinds them to what both texts share.

        Returns:
            the message.

        Raises:
            SessionError: there is no message to take back, or another thread is using this session.
        """
        with self.exclusive():
            turns = self._finished_turns()
            if not turns:
                raise SessionError("there is no message to take back", "begin with one")
            self.text.turns, self.text.message = turns[:-1], None
            self.text.begin(None)
            return turns[-1].message

    def resume(self) -> Generation:
        """Continue the generation that a session was saved in.

        Its `text` and `token_ids` begin with the earlier output; the statistics count from here.

        Raises:
            SessionError: there is none, or it had ended.
        """
        with self.exclusive(generates=True):
            before = self.answer
            if before is None or before.stop_reason is not None:
                raise SessionError("there is no unfinished generation to resume", "start one")
            if before.has_grammar:
                raise SessionError("an output in a grammar is resumed by its own iterator", "iterate over it")
            self.text.decoder.tokens = [*before.prompt_ids, *before.token_ids]
            emitted = Emitted(before.token_ids, before.logprobs)
            generation = generate_from_state(
                self.models, self.text, before.config, before.prompt_ids, emitted, self.trace
            )
            self.text.begin(generation)
            return generation

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write this session to a file, also between the pieces of a generation (spec/09-session.md).

        A kill at any moment leaves a whole file, the old or the new one.

        Raises:
            SessionFileError: the place cannot be written, or holds a file that is not a session (unless
                `overwrite`).
        """
        with self.exclusive():
            write_session(path, *capture(self.models, self.text), overwrite=overwrite)

    def load(self, path: str | Path) -> None:
        """Take over a saved session of the same bundle. The models read its text again.

        What follows has the distribution that it would have had; at temperature 0 in float32 it is the same
        text.

        Raises:
            SessionFileError: the file is refused; this session stays as it was.
        """
        with self.exclusive():
            self.text, self.adapter_notice = restore(self.models, self.text, path, *read_session(path))

    def _answer(
        self,
        turns: list[Turn],
        message: str,
        system: str | None,
        config: GenerationConfig,
        too_long: str = _UNDO,
        format_: ResponseFormat | None = None,
    ) -> Generation:
        """Begin the answer to a message; nothing changes where it is refused."""

        def ids_of(kept: list[Turn]) -> list[int]:
            return conversation_ids(self.target_tokenizer, self.template, kept, message, system)

        dropped, ids = 0, ids_of(turns)
        if self.drops_oldest and len(ids) + config.max_new_tokens > self.context_size:
            sizes = [len(ids), *(len(ids_of(turns[i:])) for i in range(1, len(turns) + 1))]
            dropped = first_kept(sizes, self.context_size, config.max_new_tokens)
            turns, ids = turns[dropped:], ids_of(turns[dropped:]) if dropped else ids
        remedy = too_long if turns else TOO_LONG
        generation = generate_from_prompt(self.models, self.text, ids, config, self.trace, remedy, format_)
        generation.dropped_turns = dropped
        self.text.turns, self.text.message, self.text.system = turns, message, system
        return generation

    def _finished_turns(self) -> list[Turn]:
        if self.message is None or self.answer is None:
            return list(self.turns)
        return [*self.turns, Turn(self.message, answer_ids(self.loaded, self.answer))]
