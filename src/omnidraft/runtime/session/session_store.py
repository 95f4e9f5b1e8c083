"""Sessions between memory and disk: gather a session's state, check a file against a bundle, put it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import CacheFileError, SessionFileError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.decoding.drafter import DrafterState, common_length
from omnidraft.runtime.decoding.prefill import flags_of, runs_of
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.disk.atomic_write import place_of, write_atomically
from omnidraft.runtime.session.loaded_bundle import draft_length_for, drafts
from omnidraft.runtime.session.session_file import (
    MAGIC,
    Answer,
    DrafterContext,
    Identity,
    State,
    decode_session,
    encode_session,
)
from omnidraft.runtime.session.start_generation import replayed
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_store import new_replica
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.version import __version__

if TYPE_CHECKING:
    from omnidraft.runtime.session.session import Session

_REMEDY = "begin a new session, or give the file that was saved"
_ADAPTER = ".adapter"  # `identity.graphs` names the adapters too: "drafter.adapter", "target.adapter"


def write_session(path: str | Path, state: State, cache: bytes, *, overwrite: bool = False) -> None:
    """Write a session file; killed at any moment, it leaves the old or the new one, whole.

    Raises:
        SessionFileError: the place cannot be written, or has a file that is no session (unless `overwrite`).
    """
    try:
        place = place_of(path)
        if not overwrite and not _may_replace(place):
            raise SessionFileError(
                f"{path} is no session file, so it is not replaced", "choose another name", fault="unwritable"
            )
        write_atomically(place, encode_session(state, cache))
    except OSError as error:
        raise SessionFileError(
            f"the session cannot be saved as {path} ({error.strerror})",
            "choose another place",
            fault="unwritable",
        ) from None


def _may_replace(place: Path) -> bool:
    """Whether there is no file, an empty one or a session, be it damaged."""
    if not place.exists():
        return True
    with place.open("rb") as file:
        return file.read(len(MAGIC)) in (b"", MAGIC)


def read_session(path: str | Path) -> tuple[State, bytes]:
    """The state and the cache of a session file.

    Raises:
        SessionFileError: it cannot be read, or is refused.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise SessionFileError(
                f"{path} is no file", _REMEDY, fault="unreadable"
            )  # a pipe would be waited for
        data = path.read_bytes()
    except OSError as error:
        raise SessionFileError(
            f"{path} cannot be read ({error.strerror})", _REMEDY, fault="unreadable"
        ) from None
    try:
        return decode_session(data)
    except SessionFileError as error:
        raise SessionFileError(f"{path} is refused: {error}", _REMEDY, fault=error.fault) from None


def identity_of(bundle: Bundle, adapters: Mapping[str, str] = {}) -> Identity:
    """What sessions of a bundle belong to.

    Args:
        bundle: the bundle.
        adapters: digests of the adapters in use, by the model that each is of.
    """
    files = bundle.manifest["files"]
    graphs = {
        name: str(record["sha256"])
        for name, record in sorted(files.items())
        if bundle.target.reads(name) or bundle.drafter.reads(name)
    }
    graphs |= {f"{role}{_ADAPTER}": digest for role, digest in sorted(adapters.items())}
    drafter, target = (str(bundle.manifest[role]["tokenizer_fingerprint"]) for role in ("drafter", "target"))
    return Identity(drafter, target, graphs)


def capture(session: Session) -> tuple[State, bytes]:
    """What a session is now."""
    answer, found = session.answer, None
    if answer is not None:
        drafter, text = session.drafter.state(), [*answer.prompt_ids, *answer.token_ids]
        same = min(common_length(session.pair.read, text), len(session.pair.alone))
        found = Answer(
            request=answer.request,
            prompt=answer.prompt_ids,
            output=tuple(answer.token_ids),
            context=None if session.weights.drafter is None else tuple(session.pair.context),
            passes=tuple(runs_of(session.pair.alone[:same])),
            drafter=DrafterContext(tuple(drafter.held), tuple(runs_of(drafter.alone)), drafter.window),
            draft_length=session.draft_length.state(),
            random=session.random.state,
            logprobs=tuple(answer.logprobs),
            stop_reason=answer.stop_reason,
        )
    state = State(
        omnidraft=__version__,
        identity=identity_of(session.bundle, {r: a.digest for r, a in session.adapters.items()}),
        costs=session.costs,
        turns=tuple(session.turns),
        message=session.message,
        answer=found,
    )
    session.cache.replica = session.cache.replica or new_replica()  # who counted, as in a file of its own
    return state, encode(session.cache.table())


def install(session: Session, path: str | Path, state: State, cache_bytes: bytes) -> None:
    """Make a session what a file says; everything is checked before anything is changed.

    Raises:
        SessionFileError: the state is of another bundle, or cannot be one of this bundle.
    """
    notice = _check_identity(session, path, state.identity)
    try:
        _check(state, session.bundle)
        cache = _cache(cache_bytes, session.cache)
        answer = state.answer
        length = session.draft_length
        if answer is not None:
            length = draft_length_for(answer.request, session.weights, state.costs)
            drafted = answer.context is not None or answer.request.mode == "lookup"
            if drafted and drafts(answer.request, session.weights):  # else every length was 0, or will be
                length.restore(answer.draft_length)
        generation = None if answer is None else replayed(session, answer)
    except (SessionFileError, ValueError) as error:
        fault = error.fault if isinstance(error, SessionFileError) else "state"
        raise SessionFileError(f"{path} is refused: {error}", _REMEDY, fault=fault) from None
    session.turns, session.message, session.answer = list(state.turns), state.message, generation
    session.costs, session.draft_length = state.costs, length
    session.draft_lengths = {} if answer is None else {answer.request.mode: length}
    pair = session.pair
    pair.cache, pair.held, pair.tokens, pair.context, pair.alone = cache, 0, [], [], []
    if answer is not None:
        pair.tokens = [*answer.prompt, *answer.output]
        pair.context = _context(session, answer)
        pair.alone, session.random = flags_of(answer.passes), SplitMix64(answer.random)
        drafter = answer.drafter
        session.drafter.restore(DrafterState(list(drafter.held), flags_of(drafter.passes), drafter.window))
    session.adapter_notice = notice
    pair.read = pair.tokens[: len(pair.alone)]


def _context(session: Session, answer: Answer) -> list[int]:
    """The text in draft ids; encoded anew where it was saved by a session without a drafter."""
    if answer.context is None and answer.request.asks_drafter:
        return session.draft_prompt([*answer.prompt, *answer.output])
    return list(answer.context or ())


def _check_identity(session: Session, path: str | Path, saved: Identity) -> str | None:
    """Refuse a state of other weights; say so where only the drafter's adapter is another.

    Another adapter of the target would go on in another distribution. One of the drafter changes what is drafted, and
    with it which text a seed gives above temperature 0, but no distribution: that is no reason to lose a conversation.

    Raises:
        SessionFileError: `foreign_bundle` or `foreign_adapter`.
    """
    plain = {name: found for name, found in saved.graphs.items() if not name.endswith(_ADAPTER)}
    if replace(saved, graphs=plain) != identity_of(session.bundle):
        raise SessionFileError(
            f"{path} was saved with another bundle, or other graphs of it, than {session.bundle.path.name}",
            _REMEDY,
            fault="foreign_bundle",
        )
    for role in ("target", "drafter"):
        then, adapter = saved.graphs.get(f"{role}{_ADAPTER}"), session.adapters.get(role)
        now = None if adapter is None else adapter.digest
        if then == now:
            continue
        found = f"{path} was saved with {_named(then)} of the {role} and this session uses {_named(now)}"
        if role == "target":
            raise SessionFileError(found, "use the adapter that it was saved with", fault="foreign_adapter")
        return f"{found}: sampled text can go on otherwise than it would have, in the same distribution"
    return None


def _named(digest: str | None) -> str:
    return "no adapter" if digest is None else f"adapter {digest[:12]}"


def _cache(data: bytes, old: NgramCache) -> NgramCache:
    """The cache in some bytes, with the room and policy of the one that it replaces, but room for them all.

    Raises:
        SessionFileError: `cache`, with the sentence of the fault.
    """
    try:
        table = decode(data)
        check_against(table, old.map)
    except CacheFileError as error:
        raise SessionFileError(f"its n-gram cache is refused: {error}", fault="cache") from None
    capacity = max(old.capacity, len(table))  # nothing is evicted that the saved session had
    return NgramCache.of_table(table, old.map, capacity=capacity, policy=old.policy)


def _check(state: State, bundle: Bundle) -> None:
    """Refuse ids outside the vocabularies and a text that no context of this bundle holds."""
    answer, limit = state.answer, bundle.target.kv.max_length
    ids = [i for turn in state.turns for i in turn.answer]
    drafted: tuple[int, ...] = ()
    if answer is not None:
        ids += [*answer.prompt, *answer.output]
        drafted = (*(answer.context or ()), *answer.drafter.held)
        if len(answer.drafter.held) > bundle.drafter.kv.max_length:
            raise SessionFileError(
                "its drafter's context is longer than the drafter can hold", fault="context"
            )
        used = len(answer.prompt) + max(0, len(answer.output) - (answer.stop_reason is not None))
        if used > limit:
            raise SessionFileError(
                f"its text has {used} tokens and the context holds {limit}", fault="context"
            )
    if (state.message is None and state.turns) or (state.message is not None and answer is None):
        raise SessionFileError("its conversation has no last message or no answer", fault="state")
    for name, found, size in (
        ("target", ids, bundle.target.vocab_size),
        ("draft", drafted, bundle.drafter.vocab_size),
    ):
        if max(found, default=0) >= size:
            raise SessionFileError(
                f"it holds {name} id {max(found)}, outside 0..{size - 1}", fault="id_range"
            )
