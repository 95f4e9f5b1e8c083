"""How a generation begins, on a prompt or on a saved state, and runs one round at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal
from weakref import ref

from omnidraft import defaults
from omnidraft.errors import GrammarError, SessionError
from omnidraft.grammar.response_format import ResponseFormat
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.decoding.draft_length import DraftLength, FixedLength, MeasuredLength
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.prefill import common_length
from omnidraft.runtime.decoding.rng import SplitMix64, fresh_seed
from omnidraft.runtime.decoding.speculate import DecoderState, Round
from omnidraft.runtime.decoding.stop import StopText, cut_at_stop
from omnidraft.runtime.decoding.verifier import block_pays
from omnidraft.runtime.device.device_costs import DeviceCosts, forget_costs
from omnidraft.runtime.grammar.grammar import START, Grammar
from omnidraft.runtime.session.conversation import draft_context
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.generation import Emitted, Generation, Limits, Thoughts
from omnidraft.runtime.session.generation_config import TOO_LONG, GenerationConfig, check_prompt
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.measure import CostsWatch
from omnidraft.runtime.session.modes import Verification
from omnidraft.runtime.session.session_models import SessionModels
from omnidraft.runtime.session.text_state import TextState
from omnidraft.runtime.traces.recorder import Recorder, Store
from omnidraft.runtime.traces.trace import Start

USUAL_DRAFT = defaults.BLOCK_USUAL_DRAFT  # draft tokens of the round by which a verification is chosen


def generate_from_prompt(
    models: SessionModels,
    text: TextState,
    ids: list[int],
    config: GenerationConfig,
    trace: Store | None,
    too_long: str = TOO_LONG,
    format_: ResponseFormat | None = None,
) -> Generation:
    """Begin a generation after a prompt in target ids; it becomes `text.answer`.

    Args:
        text: its state; the generation before ends here.
        trace: where to record the generation; None for nowhere.
        too_long: the remedy where the prompt is longer than the context.
        format_: what the output must be; such a generation is recorded nowhere.

    Raises:
        GrammarError: no text of the grammar has room, or the output begins inside a thought; nothing changes.
        PromptError: the target cannot read the prompt, or not all of it (ContextError); nothing changes.
    """
    loaded, context = models.loaded, list[int]()
    if config.asks_drafter and loaded.drafter_tokenizer is not None:
        earlier = text.decoder if text.answer is not None and text.answer.config.asks_drafter else None
        context = draft_context(loaded.target_tokenizer, loaded.drafter_tokenizer, ids, earlier)
    check_prompt(ids, loaded.bundle.target, too_long)
    grammar = None if format_ is None else format_.grammar
    if grammar is not None:
        _check_grammar(models, config, grammar, ids)
    # Above temperature 0 the drafts decide which text a seed gives. A seed that the caller gives repeats its
    # text where the n-grams are the same, so its draft length learns nothing from earlier texts. A seed that
    # is drawn here need not repeat anything, and the draft length uses all counts so far.
    repeatable = config.seed is not None and config.temperature > 0.0
    config = replace(config, seed=fresh_seed() if config.seed is None else config.seed)
    if repeatable:
        text.lengths = LengthState()
    shared = 0 if repeatable else common_length(text.decoder.context, context)
    text.lengths.begin_text(len(context), shared)
    assert config.seed is not None
    text.random = SplitMix64(config.seed)
    text.decoder.tokens, text.decoder.context = list(ids), context
    generation = generate_from_state(models, text, config, ids, Emitted(), trace, grammar)
    if format_ is not None:
        generation.read_as(format_)
    text.begin(generation)
    return generation


def generate_from_state(
    models: SessionModels,
    text: TextState,
    config: GenerationConfig,
    prompt: Sequence[int],
    emitted: Emitted,
    trace: Store | None = None,
    grammar: Grammar | None = None,
) -> Generation:
    """A generation that continues from `text.decoder.tokens`.

    Args:
        text: its state; what the draft length learned and the random source are set already.
        emitted: output so far, which is the end of `text.decoder.tokens`.

    Raises:
        ValueError: an end token or a stop string comes before the last emitted token.
    """
    loaded, decoder = models.loaded, text.decoder
    eos_ids = () if config.ignore_eos else loaded.bundle.target.eos_ids
    stop_text = StopText(config.stop)
    cut = partial(cut_at_stop, eos_ids=eos_ids, text=stop_text, bytes_of=loaded.output_text.bytes_of)
    if len(cut(list(emitted.token_ids))[0]) < len(emitted.token_ids):
        raise ValueError("its output continues after an end token or a stop string")
    constraint = None
    if grammar is not None:
        trace = None  # its distributions are not the target's own
        constraint = models.grammars.constraint(grammar, eos_ids, proposes=config.mode != "plain")
    room = min(config.max_new_tokens, models.target.max_length - len(prompt) + 1) - len(emitted.token_ids)
    decoder.restart(decoder.tokens, decoder.context, room, cut, constraint)
    rounds = decode(
        DecoderModels(models.target, models.drafter, text.cache, models.clock),
        decoder,
        replace(config, verification=verification_for(config, loaded)),
        draft_length_for(config, loaded, text.costs, text.lengths),
        text.random,
        None if trace is None else _recorder(models, text, config, trace, continues=bool(emitted.token_ids)),
    )
    if loaded.device is not None and loaded.device.source == "kept":
        rounds = _watched(rounds, loaded.device, loaded.bundle, decoder)
    if trace is not None:
        rounds = _flushed(rounds, trace)
    limits = Limits(eos_ids, models.target.max_length, constraint)
    thoughts = Thoughts(loaded.bundle.prompt.think, loaded.output_text.ends_in_thought(prompt))
    step = partial(_step, models, decoder, ref(text))  # the text holds its newest generation
    generation = Generation(rounds, config, prompt, stop_text, limits, step, thoughts, models.clock)
    generation.interrupt = models.interrupt
    generation.replay(emitted)
    return generation


def _check_grammar(
    models: SessionModels, config: GenerationConfig, grammar: Grammar, ids: Sequence[int]
) -> None:
    """Refuse a grammar that no output can belong to."""
    if models.loaded.output_text.ends_in_thought(ids) and not grammar.is_free(START):
        raise GrammarError(
            "the prompt ends inside a thought, and a grammar is for a whole output", "use another template"
        )
    eos_ids = () if config.ignore_eos else models.loaded.bundle.target.eos_ids
    constraint = models.grammars.constraint(grammar, eos_ids, proposes=False)
    constraint.check_room(min(config.max_new_tokens, models.target.max_length - len(ids) + 1))


@contextmanager
def _step(
    models: SessionModels, decoder: DecoderState, text: "ref[TextState]", generation: Generation
) -> Iterator[None]:
    """Wrap a round: only the newest generation may run, and it can be cancelled during each pass.

    The text is held weakly, so that a session that nobody holds gives its buffers back at once: no cycle has
    to be found first. Where it is gone, no newer generation can begin.
    """
    with models.exclusive(lambda: generation.is_cancelled) as target_changed:
        if target_changed:
            decoder.cached.clear()
        owner = text()
        if owner is not None and generation is not owner.answer:
            raise SessionError(
                "a newer generation of this session took over", "start another one to continue"
            )
        yield


def _recorder(
    models: SessionModels, text: TextState, config: GenerationConfig, trace: Store, *, continues: bool
) -> Recorder:
    loaded, tokens, context = models.loaded, list(text.decoder.tokens), text.decoder.context

    def draft_text() -> Sequence[int]:
        if config.asks_drafter and loaded.drafter_tokenizer is not None:
            return context
        # Without a drafter the decoder keeps no draft ids of the text.
        return loaded.draft_prompt(tokens) or [d for t in tokens for d in loaded.vocab_map.spell(t)]

    start = Start(None, None, config.mode, continues, 0, ())
    return Recorder(trace, loaded.vocab_map, start, draft_text, lambda: models.digests)


def _watched(
    rounds: Iterator[Round], device: DeviceCosts, bundle: Bundle, text: DecoderState
) -> Iterator[Round]:
    """The rounds; costs that were kept are forgotten where the passes are twice as slow."""
    watch = CostsWatch(device.costs)
    for each in rounds:
        length = len(text.tokens) - len(each.emitted)
        if watch.are_outdated(len(each.proposed) + 1, each.seconds.target, length):
            forget_costs(bundle.manifest["seal"], device.machine)
        yield each


def _flushed(rounds: Iterator[Round], trace: Store) -> Iterator[Round]:
    """The rounds; the trace is on the disk when they end."""
    try:
        yield from rounds
    finally:
        trace.sync()


def draft_length_for(
    config: GenerationConfig, loaded: LanguageModel, costs: Costs, state: LengthState
) -> DraftLength:
    """The draft length of a generation; without a drafter it can only copy.

    Args:
        state: what earlier texts taught; "auto" changes it.
    """
    asked = config.asks_drafter and loaded.drafter is not None
    if not asked and not config.copies:
        return FixedLength(0)
    if config.num_draft_tokens == "auto":
        return MeasuredLength(costs, state, drafts=asked, copies=config.copies)
    source: Literal["draft", "copy"] = "copy" if config.mode == "lookup" else "draft"
    return FixedLength(config.num_draft_tokens, source)


def verification_for(config: GenerationConfig, loaded: LanguageModel) -> Verification:
    """How a generation's drafts are verified; "auto" decides by the length of a usual round.

    The decision decides what a seed draws. It uses the bundle's costs, not those measured here, so it is the
    same on every device.
    """
    if config.verification != "auto":
        return config.verification
    seconds = loaded.bundle.costs.round_seconds(USUAL_DRAFT)
    return "block" if block_pays(seconds, loaded.bundle.target.vocab_size) else "token"
