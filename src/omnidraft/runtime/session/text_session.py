"""A session: one text or conversation on a loaded bundle, with the cache that learns from it.

Threads: one generation at a time in a session; a second one at the same moment is refused. Different
sessions may run in different threads at once, also on the same `LanguageModel`. `Generation.cancel` may be
called from any thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnidraft.errors import PromptError, SessionError, counted
from omnidraft.grammar.response_format import Format, response_format
from omnidraft.runtime.chat.messages import checked_text, read_messages
from omnidraft.runtime.chat.tool_form import ToolForm
from omnidraft.runtime.chat.tools import Choice, ToolLike, read_tools, result_text
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.session.conversation import (
    ToolText,
    Turn,
    answer_ids,
    conversation_ids,
    fitting,
    listed_turns,
)
from omnidraft.runtime.session.generation import Emitted, Generation
from omnidraft.runtime.session.generation_config import TOO_LONG, GenerationConfig, overridden, prompt_ids
from omnidraft.runtime.session.session_resources import SessionResources
from omnidraft.runtime.session.session_store import capture, restore
from omnidraft.runtime.session.start_generation import generate_from_prompt, generate_from_state
from omnidraft.runtime.session.text_state import Asked, Wanted, format_of

DEFAULTS = GenerationConfig()
_UNDO = (
    "shorten the message, or make room: undo() takes the last one back, reset() begins a new conversation, "
    "and with drops_oldest the oldest ones are left out"
)
_LEAVE_OUT = "shorten the message, or leave out earlier ones"


class TextSession(SessionResources):
    """A conversation on a loaded bundle, with its KV caches and n-gram cache.

    What uses its models raises `SessionError` while another thread is using the session.
    """

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
            BundleError: a file of the bundle was written since it was loaded.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            ids = (
                self.encode(checked_text(prompt), raw=raw) if isinstance(prompt, str) else prompt_ids(prompt)
            )
            generation = generate_from_prompt(
                self.models, self.text, ids, config, self.trace, format_=response_format(grammar)
            )
            self.text.turns, self.text.asked = [], None
            return generation

    def chat(
        self,
        message: str | Sequence[Mapping[str, Any]],
        config: GenerationConfig = DEFAULTS,
        *,
        grammar: Format | None = None,
        tools: Sequence[ToolLike] | None = None,
        tool_choice: Choice = "auto",
        most_calls: int | None = None,
        **overrides: Any,
    ) -> Generation:
        """Answer the next message of a conversation; the target reads only what is new in it.

        A list of messages is the whole conversation, with or without a system prompt, and takes the place of
        the session's own. Answers that the session itself gave keep the ids that were generated.

        Args:
            message: text; or a list of messages, each with `role` (system, user, assistant or tool) and
                `content`, an assistant's with `tool_calls` as OpenAI has them.
            config: settings of the answer.
            grammar: what the answer must be, as for `generate`; then it calls no tools, but those that the
                grammar lists (`omnidraft grammar --tools`).
            tools: that the answer may call: functions with type hints, or dicts in OpenAI's form. None: those
                of the message before, and none for a list of messages.
            tool_choice: "auto" for text or calls, "none", "required", or the name of the tool to call. See
                `calls` of the generation.
            most_calls: in this answer; None for any number.
            overrides: fields of the config by name: `chat("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, too long a conversation for the context (ContextError), a list that is not a
                conversation, tools that are refused, or a template without a place for them or for the
                system prompt; nothing changes.
            GrammarError: as for `generate`, of a tool's schema too.
            SettingError: a setting or choice outside its range.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            if isinstance(grammar, Grammar) and grammar.tools:
                tools = self._tool_form().tools_in(grammar)
            turns, given = self._finished_turns(), None if tools is None else read_tools(tools)
            wanted = Wanted(grammar, tool_choice, most_calls)
            if isinstance(message, str):
                listed = self.text.tools if given is None else given
                asked = Asked(turns, Turn(checked_text(message)), self.system, listed, wanted)
                return self._answer(asked, config)
            whole = read_messages(message)
            if any(turn.calls or turn.results for turn in (*whole.turns, whole.asked)):
                self._tool_form()
            last = Turn(whole.asked.message, results=whole.asked.results)
            earlier = listed_turns(self.loaded, whole, turns)
            asked = Asked(earlier, last, whole.system, given or (), wanted)
            return self._answer(asked, config, _LEAVE_OUT)

    def tool_result(
        self,
        *results: Any,
        config: GenerationConfig = DEFAULTS,
        tool_choice: Choice = "auto",
        **overrides: Any,
    ) -> Generation:
        """Answer the results of the tools that the last answer called.

        Args:
            results: one for each call, in the order of the calls; what is not text is written as JSON.
            config: settings of the answer.
            tool_choice: as for `chat`.
            overrides: fields of the config by name.

        Raises:
            SessionError: there are not as many results as calls.
            PromptError: a result is no JSON value, or the conversation is too long (ContextError).
            SettingError: a setting or choice outside its range.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            calls = () if self.answer is None or self.text.asked is None else self.answer.calls
            if not calls or len(calls) != len(results):
                raise SessionError(
                    f"there are {counted(len(results), 'result')} of {counted(len(calls), 'call')}",
                    "give one result for each call of the last answer",
                )
            asked_results = Turn("", results=tuple(map(result_text, results)))
            wanted = Wanted(tool_choice=tool_choice)
            asked = Asked(self._finished_turns(), asked_results, self.system, self.text.tools, wanted)
            return self._answer(asked, config)

    def regenerate(self, config: GenerationConfig = DEFAULTS, **overrides: Any) -> Generation:
        """Answer the last message once more, in place of its answer, as it was asked for.

        The tools are those of the conversation; grammar, `tool_choice` and `most_calls` those of the answer.
        A loaded session, or one whose last message was taken back, does not know the latter: the answer is
        text or calls then.
        The random numbers are those of the config's seed, or of a new one: another seed, another sample.
        Greedy text is the same again.

        Raises:
            SessionError: there is no message that was answered.
            GrammarError: no text of the grammar has room.
            SettingError: a setting outside its range.
        """
        config = overridden(config, overrides)
        with self.exclusive(generates=True):
            turns = self._finished_turns()
            if not turns:
                raise SessionError("there is no answer to generate again", "begin with a message")
            last = replace(turns[-1], answer=())
            wanted = Wanted() if self.text.asked is None else self.text.wanted
            return self._answer(Asked(turns[:-1], last, self.system, self.text.tools, wanted), config)

    def undo(self) -> str:
        """Take back the last message and all answers to it, those to results of tools too.

        What was learned stays.

        The KV caches keep the text until the next message, which rewinds them to what both texts share.

        Returns:
            the message.

        Raises:
            SessionError: there is no message to take back.
        """
        with self.exclusive():
            turns = self._finished_turns()
            if not turns:
                raise SessionError("there is no message to take back", "begin with one")
            while turns[-1].results:
                turns.pop()
            message = turns.pop().message
            self.text.turns, self.text.asked = turns, None
            self.text.begin(None)
            return message

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

    def copy(self) -> "TextSession":
        """Another session that goes on from here, also between the pieces of a generation.

        It has the text, n-grams, settings and adapters of this one, and contexts of its own, so its models
        read the text again. It records nothing. Its random numbers are the same: with a fixed number of draft
        tokens both sessions go on alike, and in float32 so does greedy text.
        """
        with self.exclusive():
            saved, cache = capture(self.models, self.text)
            adapters, wanted = self.adapters, self.text.wanted
        other = TextSession(self.loaded, bitwise=self.models.target is not self.models.all[0])
        other.template, other.drops_oldest = self.template, self.drops_oldest
        for role, adapter in adapters.items():
            other.use_adapter(adapter, role)
        other.text, _ = restore(other.models, other.text, "the session", saved, cache)
        other.text.wanted = wanted
        return other

    def _answer(self, asked: Asked, config: GenerationConfig, too_long: str = _UNDO) -> Generation:
        """Begin the answer to a message; nothing changes where it is refused."""
        format_ = format_of(asked, self._tool_form)
        turns, ids = self._fitting(asked, config)
        remedy = too_long if turns else TOO_LONG
        generation = generate_from_prompt(self.models, self.text, ids, config, self.trace, remedy, format_)
        generation.dropped_turns = len(asked.turns) - len(turns)
        self.text.turns, self.text.asked = turns, asked.last
        self.text.system, self.text.tools, self.text.wanted = asked.system, asked.tools, asked.wanted
        return generation

    def _fitting(self, asked: Asked, config: GenerationConfig) -> tuple[list[Turn], list[int]]:
        """The turns that fit in the context, where old ones may be left out, and the ids of the prompt."""
        text = None
        if asked.tools or asked.last.results or any(turn.results for turn in asked.turns):
            form = self._tool_form()
            listing = form.listing([tool.value for tool in asked.tools])
            text = ToolText(form, listing, self.bundle.prompt.begin, self.loaded.output_text.text)

        def ids_of(turns: Sequence[Turn]) -> list[int]:
            return conversation_ids(
                self.target_tokenizer, self.template, turns, asked.last, asked.system, text
            )

        if not self.drops_oldest:
            return asked.turns, ids_of(asked.turns)
        return fitting(ids_of, asked.turns, asked.last, self.context_size, config.max_new_tokens)

    def _tool_form(self) -> ToolForm:
        form = self.bundle.prompt.tool_form
        if form is None or self.template is not self.bundle.prompt:
            raise PromptError(
                "this model has no chat template that tools could be listed in",
                "use another model, or describe the call in the message and give a grammar",
            )
        return form

    def _finished_turns(self) -> list[Turn]:
        if self.text.asked is None or self.answer is None:
            return list(self.turns)
        return [*self.turns, replace(self.text.asked, answer=answer_ids(self.loaded, self.answer))]
