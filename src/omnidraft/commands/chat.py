"""`omnidraft chat`: a small terminal chat; Ctrl-C cancels an answer, not the program."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, TextIO

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.open_session import SessionOptions, kept, opened, tell
from omnidraft.errors import ContextError, OmnidraftError, counted
from omnidraft.runtime.session.api import Generation, GenerationConfig, Session, Statistics

HELP = """\
/stats        what was said and how fast
/save FILE    write this conversation to a file, with all that was learned
/load FILE    take over a saved one; an answer that was cut short goes on
/adapter FILE use a LoRA adapter from the next round on; /adapter none takes it away
/reset        begin a new conversation
/help         this list
/quit         leave (so does Ctrl-D); Ctrl-C cancels an answer"""


def chat(
    context: typer.Context,
    bundle: options.BundlePath,
    max_new_tokens: options.MaxNewTokens = 512,
    temperature: options.Temperature = 0.0,
    seed: Annotated[int | None, typer.Option(help="Repeats sampled answers (default: drawn anew).")] = None,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    head_threshold: options.HeadThreshold = "1",
    stop: options.Stop = None,
    no_drafter: options.NoDrafter = False,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Penalty = 1.0,
    verification: options.Verification = "auto",
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    cache: options.CachePath = None,
    public_key: options.PublicKey = None,
    adapter: options.AdapterPath = None,
    profile: options.ProfilePath = None,
    trace: options.TracePath = None,
) -> None:
    """Talk to a bundle in the terminal; Ctrl-C cancels an answer, /help lists commands."""
    request = GenerationConfig(
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        mode=mode,  # type: ignore[arg-type] # any text; a wrong one is refused by `check`
        num_draft_tokens=options.lengths(num_draft_tokens),
        head_threshold=options.threshold(head_threshold),
        stop=tuple(stop or ()),
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        verification=verification,  # type: ignore[arg-type] # likewise
    )
    request.check()
    tell(options.notices(context))
    wanted = SessionOptions(
        bundle, threads, not no_drafter, cache, target_on, drafter_on, public_key, adapter,
        trace=trace, profile=profile,
    )  # fmt: skip
    session = opened(wanted)
    with kept(session, cache):
        Chat(session, request, sys.stdin, sys.stdout).run()


class Chat:
    """A conversation in a terminal, or through a pipe: one message a line."""

    def __init__(self, session: Session, request: GenerationConfig, source: TextIO, out: TextIO) -> None:
        self._session, self._request, self._source, self._out = session, request, source, out
        self._totals = Statistics()
        self._answers = 0

    def run(self) -> None:
        """Read and answer until the end."""
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
        """Act on one line; False ends the chat."""
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
                self._say(f"{command} is no command; /help lists them")
            case _:
                self._answer(line)
        return True

    def _answer(self, message: str) -> None:
        seed = self._request.seed
        # With one seed for all, the same draws would meet every answer.
        request = (
            self._request if seed is None else replace(self._request, seed=(seed + self._answers) % 2**64)
        )
        self._stream(self._session.chat(message, request))
        self._answers += 1

    def _use_adapter(self, file: str) -> None:
        self._session.use_adapter(None if file == "none" else _path(file))
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
    """A file's name as people type it: perhaps in quotes, perhaps from their home directory."""
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
