"""The state of a session's text, in memory and as the values that a session file holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from omnidraft.errors import SettingError, check_whole
from omnidraft.grammar.response_format import Format, ResponseFormat, call_format, response_format
from omnidraft.runtime.chat.tool_form import ToolForm
from omnidraft.runtime.chat.tools import CHOICES, Choice, Tool
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import StopReason
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.ngram_cache import NgramCache


@dataclass(frozen=True)
class Wanted:
    """What an answer must be; for the attributes see `TextSession.chat`."""

    grammar: Format | None = None
    tool_choice: Choice = "auto"
    most_calls: int | None = None


@dataclass(frozen=True)
class Asked:
    """What is to be answered: the turns of a conversation, of which the last has no answer, and its tools.

    Attributes:
        wanted: what the answer must be.
    """

    turns: list[Turn]
    last: Turn
    system: str | None
    tools: tuple[Tool, ...]
    wanted: Wanted


def format_of(asked: Asked, form: Callable[[], ToolForm]) -> ResponseFormat | None:
    """What an answer must be, by a grammar or by the tools and the choice among them.

    Args:
        form: gives the text around tools; called only where it is needed.

    Raises:
        GrammarError: the grammar or a tool's schema is not supported.
        SettingError: a choice or `most_calls` outside its range.
    """
    wanted = asked.wanted
    grammar, choice, most_calls = wanted.grammar, wanted.tool_choice, wanted.most_calls
    names = [tool.name for tool in asked.tools]
    if choice not in (*CHOICES, *names) or (choice == "required" and not names):
        raise SettingError(
            f"tool_choice is {choice!r:.60}, and the tools are {', '.join(names) or 'none'}",
            "choose auto, none, required or the name of a tool",
        )
    if most_calls is not None:
        check_whole("most_calls", most_calls)
        if most_calls < 1:
            raise SettingError(f"most_calls {most_calls} is less than 1", 'choose "none" for no call')
    if grammar is not None and choice not in ("auto", "none"):
        raise SettingError("the answer has a grammar and must call a tool", "leave one of them out")
    if grammar is not None or not names or choice == "none":
        calls = isinstance(grammar, Grammar) and grammar.tools
        return response_format(grammar, form().calls if calls else None)
    chosen = {t.name: t.arguments for t in asked.tools if choice in (*CHOICES, t.name)}
    most = most_calls if choice in CHOICES else 1
    return call_format(chosen, form().calls, free=choice == "auto", most=most)


@dataclass
class TextState:
    """The state of a session's text.

    Attributes:
        random: the source of randomness of the last generation.
        lengths: what the draft length "auto" learned of the texts so far.
        asked: the turn that is being answered; None where every message has its answer.
        wanted: what the answer to it must be; no session file holds this.
        tools: that the model may call.
        answer: the last generation; None where it was taken back.
        totals: counts of the generations before `answer`, since the conversation began.
        answers: number of generations since then.
    """

    cache: NgramCache
    costs: Costs
    decoder: DecoderState = field(default_factory=DecoderState)
    random: SplitMix64 = field(default_factory=lambda: SplitMix64(0))
    lengths: LengthState = field(default_factory=LengthState)
    turns: list[Turn] = field(default_factory=list)
    asked: Turn | None = None
    wanted: Wanted = Wanted()
    answer: Generation | None = None
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    totals: Statistics = field(default_factory=Statistics)
    answers: int = 0

    def begin(self, answer: Generation | None) -> None:
        """Put a generation, or none, in the place of the last one, whose counts stay."""
        if self.answer is not None:
            self.totals.merge(self.answer.statistics)
        self.answer = answer
        self.answers += answer is not None

    def forget_text(self) -> None:
        """Forget the conversation and its counts, not system prompt, tools and what was learned."""
        self.turns, self.asked, self.answer = [], None, None
        self.totals, self.answers = Statistics(), 0


@dataclass(frozen=True)
class Identity:
    """What a session belongs to.

    Attributes:
        draft_fingerprint, target_fingerprint: of both vocabularies.
        graphs: the SHA-256 of each file of the graphs, by path.
        adapters: digest of the adapter in use by role, `drafter` and `target`; a role without one is absent.
    """

    draft_fingerprint: str
    target_fingerprint: str
    graphs: dict[str, str]
    adapters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedAnswer:
    """The last generation of a session.

    Attributes:
        context: the same text in draft ids; None where no drafter was loaded.
    """

    config: GenerationConfig
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    context: tuple[int, ...] | None
    random: int
    stop_reason: StopReason | None
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class SavedSession:
    """All of a session but its cache.

    Attributes:
        omnidraft: version of the package that wrote it.
        answer: the last generation; None before the first, and where it was taken back.
        tools: as the prompt lists them; None without any.
        results: that are being answered, in the place of the message.
    """

    omnidraft: str
    identity: Identity
    costs: Costs
    lengths: LengthState
    turns: tuple[Turn, ...]
    message: str | None
    answer: SavedAnswer | None
    system: str | None = None
    tools: str | None = None
    results: tuple[str, ...] = ()
