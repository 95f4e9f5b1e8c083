"""The loop of `omnidraft chat`: messages are answered, commands act on the session."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

from omnidraft.commands.chat.chat_input import ChatInput
from omnidraft.commands.terminal.generation_summary import session_summary
from omnidraft.commands.terminal.open_session import adapter_file
from omnidraft.commands.terminal.output import AnswerWriter
from omnidraft.errors import ContextError, OmnidraftError, counted, shown
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.session.api import Generation, GenerationConfig, TextSession

HELP = """\
/system TEXT  the system prompt of all answers from now on; /system none removes it, /system shows it
/undo         take back the last message and its answer
/regenerate   answer the last message again
/stats        count answers and tokens, and show speed and memory
/save FILE    save this conversation and its learned n-grams to a file
/load FILE    load a saved conversation; an unfinished answer continues
/adapter FILE use a LoRA adapter from the next round on; /adapter none removes it
/reset        begin a new conversation; the system prompt stays
/help         show this list
/quit         leave (also Ctrl-D); Ctrl-C cancels an answer
A text of several lines: paste it, or end each line but the last with \\."""
NEED_FILE = ("/save", "/load", "/adapter")
LONGEST = 60  # characters of a message that is shown again


class Chat:
    """A conversation in a terminal or through a pipe.

    Args:
        session: holds the conversation.
        config: the settings of every answer.
        source: of messages and commands.
        out: where answers go.
    """

    def __init__(self, session: TextSession, config: GenerationConfig, source: TextIO, out: TextIO) -> None:
        self._session, self._config, self._out = session, config, out
        session.drops_oldest = True  # a conversation has no end
        self._answers = 0  # since the program began: each has a seed of its own
        self._loaded = 0  # turns that a file held
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/help": lambda _: self._say(HELP),
            "/system": self._system,
            "/undo": self._undo,
            "/regenerate": self._regenerate,
            "/stats": lambda _: self._say(session_summary(self._session, self._loaded)),
            "/save": self._save,
            "/load": lambda argument: self._load(_path(argument)),
            "/adapter": self._use_adapter,
            "/reset": self._reset,
        }
        self._input = ChatInput(source)

    def run(self) -> None:
        """Read messages and answer them until the input ends."""
        if self._input.is_terminal:
            bundle, drafts = self._session.bundle, self._session.loaded.drafter is not None
            drafter = f"drafter: {shown(bundle.drafter.source)}" if drafts else "no drafter"
            self._say(f"target: {shown(bundle.target.source)}, {drafter}; /help lists the commands")
        while True:
            try:
                read = self._input.read()
            except KeyboardInterrupt:
                self._say("\n/quit leaves")
                continue
            if read is None:
                self._say("" if self._input.is_terminal else None)
                return
            text, is_command = read
            if is_command and text.partition(" ")[0] in ("/quit", "/exit"):
                return
            self._guarded(partial(self._take, text, is_command))

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do something; a refusal is one line, and Ctrl-C ends nothing but what goes on."""
        try:
            act()
        except KeyboardInterrupt:
            self._say("\n/quit leaves")
        except ContextError as error:  # without any earlier turn
            self._say(f"{error.message}; shorten the message, or the system prompt (/system)")
        except OmnidraftError as error:
            self._say(f"{error}")

    def _take(self, text: str, is_command: bool) -> None:
        command, _, argument = text.partition(" ")
        if not text:
            return
        if not is_command or not command.startswith("/"):
            self._stream(self._session.chat(text, self._seeded()))
        elif command not in self._commands:
            self._say(f"{command} is not a command; /help lists them")
        elif command in NEED_FILE and not argument.strip():
            self._say(f"{command} needs a file: {command} FILE")
        else:
            self._commands[command](argument.strip())

    def _seeded(self) -> GenerationConfig:
        seed = self._config.seed
        number, self._answers = self._answers, self._answers + 1
        if seed is None:
            return self._config
        # One seed for all answers would give each the same random numbers.
        return replace(self._config, seed=(seed + number) % 2**64)

    def _system(self, text: str) -> None:
        if text:
            self._session.system = None if text == "none" else text
        told = _told(self._session.system, self._session.bundle.prompt)
        self._say(f"{told}{'' if not text else ' (from the next answer on)'}")

    def _undo(self, _: str) -> None:
        message = self._session.undo()
        self._say(f"taken back: {message[:LONGEST]}{'...' if len(message) > LONGEST else ''}")

    def _regenerate(self, _: str) -> None:
        answer = self._session.regenerate(self._seeded())
        if self._config.temperature == 0.0:
            self._say("(at temperature 0 the answer is the same again; -t 0.8 samples)")
        self._stream(answer)

    def _reset(self, _: str) -> None:
        self._session.reset()
        self._loaded = 0
        self._say("a new conversation")

    def _save(self, argument: str) -> None:
        file = _path(argument)
        self._session.save(file)
        self._say(f"saved as {file}")

    def _use_adapter(self, file: str) -> None:
        self._session.use_adapter(None if file == "none" else adapter_file(_path(file)))
        used = [f"rank {a.rank} for the {role}" for role, a in self._session.adapters.items()]
        self._say(f"adapters: {', '.join(used) or 'none'}")

    def _load(self, file: Path) -> None:
        self._session.load(file)
        for notice in self._session.notices:
            if notice.kind == "other_adapter":
                self._say(notice.message)
        answer = self._session.answer
        self._loaded = len(self._session.turns) + (self._session.message is not None)
        self._say(f"{counted(self._loaded, 'turn')} from {file}")
        if answer is None:
            return
        self._out.write("" if self._session.message is None else f"> {self._session.message}\n")
        self._out.write(answer.text)
        if answer.stop_reason is None:
            self._stream(self._session.resume())
        else:
            self._say(_mark(answer))

    def _stream(self, answer: Generation) -> None:
        if answer.dropped_turns:
            left_out = counted(answer.dropped_turns, "oldest message")
            self._say(f"[the context is nearly full: {left_out} left out, with the answers]")
        with _interrupts_cancel(answer):
            writer = AnswerWriter(self._out)
            for piece in answer:
                writer.write(piece.text)
        self._say(_mark(answer))

    def _say(self, text: str | None) -> None:
        if text is not None:
            self._out.write(f"{text}\n")
            self._out.flush()


def _told(system: str | None, prompt: PromptTemplate) -> str:
    if system is not None:
        return f"system prompt: {system}"
    if prompt.default_system is not None:
        own = shown(prompt.default_system)
        return f"there is no system prompt of yours, and the chat template writes its own: {own}"
    if prompt.is_bare:
        return "there is no system prompt, and no chat template that has a place for one"
    if prompt.system is None:
        return "there is no system prompt, and the chat template has no place for one"
    return "there is no system prompt"


def _mark(answer: Generation) -> str:
    match answer.stop_reason:
        case "cancelled":
            return " [cancelled]"
        case "length":
            return f" [cut at {counted(len(answer.token_ids), 'token')}; -n sets the limit]"
        case "context":
            return " [the context is full; /undo or /reset]"
    return ""


def _path(text: str) -> Path:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return Path(os.path.expanduser(text))


@contextmanager
def _interrupts_cancel(answer: Generation) -> Iterator[None]:
    def cancel(number: int, frame: FrameType | None) -> None:
        answer.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
