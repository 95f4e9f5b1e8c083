"""The state of a session's text, in memory and as the values that a session file holds."""

from dataclasses import dataclass, field

from omnidraft.grammar.response_format import Format
from omnidraft.runtime.chat.tools import Choice, Tool
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import StopReason
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
