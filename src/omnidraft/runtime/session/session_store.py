"""Sessions between memory and disk: gather a session's state, check a file against a bundle, restore it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from omnidraft.errors import CacheFileError, PromptError, SessionFileError, refusing
from omnidraft.grammar.response_format import ResponseFormat
from omnidraft.notice import Notice
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.chat.tool_form import ToolForm
from omnidraft.runtime.chat.tools import read_tools
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.disk.atomic_write import place_of, write_atomically
from omnidraft.runtime.disk.read_file import read_file, read_whole
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation import Emitted, Generation
from omnidraft.runtime.session.session_file import MAGIC, MAX_FILE_BYTES, decode_session, encode_session
from omnidraft.runtime.session.session_models import SessionModels
from omnidraft.runtime.session.start_generation import generate_from_state
from omnidraft.runtime.session.text_state import Identity, SavedAnswer, SavedSession, TextState
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.version import __version__

_REMEDY = "begin a new session, or give the file that was saved"


def write_session(path: str | Path, saved: SavedSession, cache: bytes, *, overwrite: bool = False) -> None:
    """Write a session file; see `SessionResources.save`."""
    with refusing(
        SessionFileError, f"the session cannot be saved as {path}", "choose another place", "unwritable"
    ):
        place = place_of(path)
        if not overwrite and place.exists() and read_file(place, len(MAGIC)) not in (b"", MAGIC):
            raise SessionFileError(
                f"{path} is not a session file, so it is not replaced",
                "choose another name",
                fault="unwritable",
            )
        write_atomically(place, encode_session(saved, cache))


def read_session(path: str | Path) -> tuple[SavedSession, bytes]:
    """The saved session and the bytes of the cache in a session file.

    Raises:
        SessionFileError: it cannot be read, or is refused.
    """
    path = Path(path)
    with refusing(SessionFileError, f"{path} cannot be read", _REMEDY, "unreadable"):
        data = read_whole(path, MAX_FILE_BYTES)
    try:
        return decode_session(data)
    except SessionFileError as error:
        raise SessionFileError(f"{path} is refused: {error}", _REMEDY, fault=error.fault) from None


def identity_of(bundle: Bundle, adapters: Mapping[str, str] = {}) -> Identity:
    """What sessions of a bundle belong to."""
    files = bundle.manifest["files"]
    graphs = {
        name: str(record["sha256"])
        for name, record in sorted(files.items())
        if bundle.target.reads(name) or bundle.drafter.reads(name)
    }
    return Identity(
        bundle.drafter.tokenizer_fingerprint, bundle.target.tokenizer_fingerprint, graphs, dict(adapters)
    )


def capture(models: SessionModels, text: TextState) -> tuple[SavedSession, bytes]:
    """The state of a session as its file holds it, and the bytes of its cache."""
    answer, loaded, saved_answer = text.answer, models.loaded, None
    if answer is not None:
        reason = answer.stop_reason
        if answer.has_grammar and reason in (None, "complete"):
            reason = answer.limit() or "cancelled"  # the file has no grammar, so nobody can go on with it
        saved_answer = SavedAnswer(
            config=answer.config,
            prompt=answer.prompt_ids,
            output=tuple(answer.token_ids),
            context=None if loaded.drafter is None else tuple(text.decoder.context),
            random=text.random.state,
            stop_reason=reason,
            logprobs=tuple(answer.logprobs),
        )
    saved = SavedSession(
        omnidraft=__version__,
        identity=identity_of(loaded.bundle, {r: a.digest for r, a in models.adapters.items()}),
        costs=text.costs,
        lengths=text.lengths.copy(),
        turns=tuple(text.turns),
        message=None if text.asked is None else text.asked.message,
        answer=saved_answer,
        system=text.system,
        tools=_form(loaded.bundle).listing([tool.value for tool in text.tools]) if text.tools else None,
        results=() if text.asked is None else text.asked.results,
    )
    return saved, encode(text.cache.table())


def restore(
    models: SessionModels, text: TextState, path: str | Path, saved: SavedSession, cache_bytes: bytes
) -> tuple[TextState, Notice | None]:
    """The state of a text that a file holds; everything is checked before it is returned.

    The models read the text again: the KV caches are not part of the file.

    Args:
        text: its present state, whose cache gives the capacity.

    Returns:
        the state, and a notice where the session was saved with another adapter of the drafter.

    Raises:
        SessionFileError: the file is of another bundle, or holds values that this bundle cannot have.
    """
    notice = _check_identity(models, path, saved.identity)
    try:
        _check(saved, models.loaded.bundle)
        restored = TextState(_cache(cache_bytes, text.cache), saved.costs, text.decoder)
        restored.lengths = saved.lengths.copy()
        restored.turns, restored.system = list(saved.turns), saved.system
        restored.asked = None if saved.message is None else Turn(saved.message, results=saved.results)
        if saved.tools is not None:
            restored.tools = read_tools(_form(models.loaded.bundle).listed(saved.tools))
        if saved.answer is not None:
            restored.answer = _replay(models, restored, saved.answer)
    except (PromptError, RecursionError, SessionFileError, ValueError) as error:
        fault = error.fault if isinstance(error, SessionFileError) else "state"
        raise SessionFileError(f"{path} is refused: {error}", _REMEDY, fault=fault) from None
    return restored, notice


def _form(bundle: Bundle) -> ToolForm:
    if bundle.prompt.tool_form is None:
        raise ValueError("it has tools, and the model has no chat template that lists any")
    return bundle.prompt.tool_form


def _replay(models: SessionModels, text: TextState, saved: SavedAnswer) -> Generation:
    loaded, tokens = models.loaded, [*saved.prompt, *saved.output]
    context = list(saved.context or ())
    if saved.context is None and saved.config.asks_drafter:  # saved by a session without a drafter
        context = loaded.draft_prompt(tokens)
    text.random = SplitMix64(saved.random)
    decoder = replace(text.decoder, tokens=tokens, context=context, cached=[])
    text.decoder = decoder
    emitted = Emitted(saved.output, saved.logprobs, saved.stop_reason)
    generation = generate_from_state(models, text, saved.config, saved.prompt, emitted)
    if generation.end() != (None if saved.stop_reason == "cancelled" else saved.stop_reason):
        raise ValueError("its output ended in another way than it says")
    if text.tools and saved.stop_reason is not None:
        generation.read_as(ResponseFormat(None, calls=_form(loaded.bundle).calls))
    return generation


def _check_identity(models: SessionModels, path: str | Path, saved: Identity) -> Notice | None:
    """Refuse a state of other weights; return a notice where only the drafter's adapter differs.

    With another adapter of the target the text would continue with another distribution. Another adapter of
    the drafter changes the drafts, and so which text a seed gives above temperature 0, but no distribution:
    this is not a reason to lose a conversation.
    """
    bundle = models.loaded.bundle
    if replace(saved, adapters={}) != identity_of(bundle):
        raise SessionFileError(
            f"{path} was saved with another bundle, or other graphs of it, than {bundle.path.name}",
            _REMEDY,
            fault="foreign_bundle",
        )
    for role in ("target", "drafter"):
        before, adapter = saved.adapters.get(role), models.adapters.get(role)
        now = None if adapter is None else adapter.digest
        if before == now:
            continue
        message = f"{path} was saved with {_named(before)} of the {role} and this session uses {_named(now)}"
        remedy = "use the adapter that it was saved with"
        if role == "target":
            raise SessionFileError(message, remedy, fault="foreign_adapter")
        effect = "sampled text may differ from what it would have been, its distribution does not"
        return Notice("other_adapter", f"{message}: {effect}; for the same text {remedy}")
    return None


def _named(digest: str | None) -> str:
    return "no adapter" if digest is None else f"adapter {digest[:12]}"


def _cache(data: bytes, old: NgramCache) -> NgramCache:
    """The cache in some bytes, with the capacity of the cache that it replaces, and room for all entries."""
    try:
        table = decode(data)
        check_against(table, old.map)
    except CacheFileError as error:
        raise SessionFileError(f"its n-gram cache is refused: {error}", fault="cache") from None
    capacity = max(old.capacity, len(table))  # nothing is evicted that the saved session had
    return NgramCache.of_table(table, old.map, capacity=capacity)


def _check(saved: SavedSession, bundle: Bundle) -> None:
    answer, limit = saved.answer, bundle.target.kv.max_length
    target_ids = [i for turn in saved.turns for i in turn.answer]
    draft_ids: tuple[int, ...] = ()
    if answer is not None:
        target_ids += [*answer.prompt, *answer.output]
        draft_ids = answer.context or ()
    for name, values, size in (
        ("target", target_ids, bundle.target.vocab_size),
        ("draft", draft_ids, bundle.drafter.vocab_size),
    ):
        if max(values, default=0) >= size:
            raise SessionFileError(
                f"it holds {name} id {max(values)}, outside 0..{size - 1}", fault="id_range"
            )
    used = (
        0
        if answer is None
        else len(answer.prompt) + max(0, len(answer.output) - (answer.stop_reason is not None))
    )
    if used > limit:
        raise SessionFileError(f"its text has {used} tokens and the context holds {limit}", fault="context")
