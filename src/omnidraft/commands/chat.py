"""`omnidraft chat`: a conversation in the terminal. Ctrl-C cancels an answer, not the program."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TextIO

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.generation_options import generation_config, notices
from omnidraft.commands.terminal.open_session import (
    SessionOptions,
    adapter_file,
    idle_head,
    open_session,
    saved_on_exit,
    tell,
)
from omnidraft.errors import ContextError, OmnidraftError, counted
from omnidraft.runtime.session.api import Generation, GenerationConfig, Session, Statistics

HELP = """\
/stats        count answers and tokens, and show the speed
/save FILE    save this conversation to a file, with what was learned
/load FILE    load a saved conversation; an unfinished answer goes on
/adapter FILE use a LoRA adapter from the next round on; /adapter none removes it
/reset        begin a new conversation
/help         show this list
/quit         leave (also Ctrl-D); Ctrl-C cancels an answer"""


def chat(
    context: typer.Context,
    bundle: options.BundlePath,
    max_new_tokens: options.MaxNewTokens = 512,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Penalty = 1.0,
    stop: options.Stop = None,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    head_threshold: options.HeadThreshold = "1",
    verification: options.Verification = "auto",
    no_drafter: options.NoDrafter = False,
    cache: options.CachePath = None,
    adapter: options.AdapterPath = None,
    profile: options.ProfilePath = None,
    trace: options.TracePath = None,
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    public_key: options.PublicKey = None,
) -> None:
    """Talk to a bundle in the terminal. Ctrl-C cancels an answer; /help lists the commands."""
    config = generation_config(context)
    tell(notices(context))
    session = open_session(
        SessionOptions(
            bundle,
            threads=threads,
            drafter=not no_drafter,
            cache=cache,
            target_on=target_on,
            drafter_on=drafter_on,
            public_key=public_key,
            adapter=adapter,
            trace=trace,
            profile=profile,
        )
    )
    tell(idle_head(session, config))
    with saved_on_exit(session, cache):
        Chat(session, config, sys.stdin, sys.stdout).run()


class Chat:
    """A conversation in a terminal or through a pipe, one message a line."""

    def __init__(self, session: Session, config: GenerationConfig, source: TextIO, out: TextIO) -> None:
        self._session, self._config, self._source, self._out = session, config, source, out
        self._totals = Statistics()
        self._answers = 0

    def run(self) -> None:
        """Read messages and answer them until the input ends."""
        while True:
            try:
                line = self._read()
                if line is None or not self._take(line.strip()):
                    return
            except KeyboardInterrupt:
                self._say("\n/quit leaves")
            except ContextError as error:
                self._say(f"{error}, or /reset")
            except OmnidraftError as error:
                self._say(f"{error}")

    def _read(self) -> str | None:
        """The next line; None at the end."""
        if self._source is not sys.stdin or not self._source.isatty():
            return self._source.readline() or None
        with suppress(ImportError):  # line editing and history, where Python has them
            import readline  # noqa: F401
        try:
            return input("> ")
        except EOFError:
            self._say("")
            return None

    def _take(self, line: str) -> bool:
        """Act on one line: a command or a message. False ends the chat."""
        command, _, argument = line.partition(" ")
        match command:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/help":
                self._say(HELP)
            case "/stats":
                self._say(self._stats())
            case "/reset":
                self._session.reset()
                self._totals, self._answers = Statistics(), 0
                self._say("a new conversation")
            case "/save" | "/load" | "/adapter" if not argument.strip():
                self._say(f"{command} needs a file: {command} FILE")
            case "/save":
                file = _path(argument)
                self._session.save(file)
                self._say(f"saved as {file}")
            case "/load":
                self._load(_path(argument))
            case "/adapter":
                self._use_adapter(argument.strip())
            case _ if command.startswith("/"):
                self._say(f"{command} is not a command; /help lists them")
            case _:
                self._answer(line)
        return True

    def _answer(self, message: str) -> None:
        config, seed = self._config, self._config.seed
        if seed is not None:  # one seed for all answers would give each the same random numbers
            config = replace(config, seed=(seed + self._answers) % 2**64)
        self._stream(self._session.chat(message, config))
        self._answers += 1

    def _use_adapter(self, file: str) -> None:
        self._session.use_adapter(None if file == "none" else adapter_file(_path(file)))
        used = [f"rank {a.rank} for the {role}" for role, a in self._session.adapters.items()]
        self._say(f"adapters: {', '.join(used) or 'none'}")

    def _load(self, file: Path) -> None:
        self._session.load(file)
        if self._session.adapter_notice:
            self._say(self._session.adapter_notice)
        answer = self._session.answer
        count = len(self._session.turns) + (answer is not None)
        self._say(f"{counted(count, 'turn')} from {file}")
        if answer is None:
            return
        self._out.write("" if self._session.message is None else f"> {self._session.message}\n")
        self._out.write(answer.text)
        if answer.stop_reason is None:
            self._stream(self._session.resume())
        else:
            self._say("")

    def _stream(self, answer: Generation) -> None:
        with _interrupts_cancel(answer):
            for piece in answer:
                self._out.write(piece.text)
                self._out.flush()
                if piece.round:
                    self._totals.add(piece.round)
        self._say(
            {"cancelled": " [cancelled]", "context": " [the context is full; /reset]"}.get(
                str(answer.stop_reason), ""
            )
        )

    def _stats(self) -> str:
        s, session, answer = self._totals, self._session, self._session.answer
        used = 0 if answer is None else len(answer.prompt_ids) + len(answer.token_ids)
        seconds = max(s.total_seconds, 1e-9)
        drafted = f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted"
        if not s.drafted:
            drafted = "nothing drafted"
        if s.copied:
            drafted += f", {s.accepted_copies} of {s.copied} copied tokens accepted"
        return (
            f"{counted(self._answers, 'answer')}, {counted(s.emitted, 'token')}, "
            f"{s.emitted / seconds:.0f} a second, {s.tokens_per_target_pass:.2f} per target pass\n"
            f"{drafted}, {counted(len(session.cache), 'n-gram')} learned\n"
            f"{used} of {session.bundle.target.kv.max_length} positions used"
        )

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def _path(text: str) -> Path:
    """A path as typed: quotes around it are removed, ~ is the home directory."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return Path(os.path.expanduser(text))


@contextmanager
def _interrupts_cancel(answer: Generation) -> Iterator[None]:
    """While an answer streams, Ctrl-C cancels it instead of raising KeyboardInterrupt."""

    def cancel(number: int, frame: FrameType | None) -> None:
        answer.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
