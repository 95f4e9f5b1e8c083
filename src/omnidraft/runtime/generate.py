"""Text in, text out: load a bundle, stream what the target says."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from omnidraft.errors import PromptError, SettingError
from omnidraft.runtime.block_verifier import block_pays
from omnidraft.runtime.bundle import Bundle, ModelEntry, open_bundle
from omnidraft.runtime.cache_store import open_cache, write_cache
from omnidraft.runtime.draft_length import Costs, DraftLength, FixedLength, MeasuredLength
from omnidraft.runtime.drafter import Drafter
from omnidraft.runtime.measure import measure_costs
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.ort_model import OrtModel
from omnidraft.runtime.rng import SplitMix64, fresh_seed
from omnidraft.runtime.round import (
    Mode,
    Pair,
    Round,
    Seconds,
    Settings,
    Verification,
    rule_for,
    speculate,
)
from omnidraft.runtime.sampler import Sampling
from omnidraft.runtime.tokenizer import Tokenizer
from omnidraft.runtime.utf8_stream import Utf8Stream
from omnidraft.runtime.vocab_map import VocabMap, load_vocab_map

_USUAL_DRAFT = 4  # draft tokens of the round that the choice of a verification goes by
StopReason = Literal["eos", "length", "context"]


@dataclass(frozen=True)
class Piece:
    """Text that one round made certain; half characters wait for the next piece."""

    text: str
    token_ids: tuple[int, ...]
    round: Round

    def __str__(self) -> str:
        return self.text


@dataclass
class Statistics:
    """Counts of a generation; everything else is computed from them.

    Attributes:
        rounds: target passes after the prompt.
        drafted: draft tokens drawn. tested, passed: those judged, those accepted.
        proposed, accepted: target tokens proposed, and accepted into the output.
        emitted: target tokens of the output.
        learned: n-grams new in the cache.
        lengths: how many rounds had so many draft tokens.
    """

    rounds: int = 0
    drafted: int = 0
    tested: int = 0
    passed: int = 0
    proposed: int = 0
    accepted: int = 0
    emitted: int = 0
    learned: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(asdict(Seconds()), 0.0))

    def add(self, r: Round) -> None:
        """Count one round."""
        self.rounds += 1
        self.drafted += len(r.draft)
        self.tested += r.tested
        self.passed += r.passed
        self.proposed += len(r.proposed)
        self.accepted += r.accepted
        self.emitted += len(r.emitted)
        self.learned += r.learned
        self.lengths[len(r.draft)] = self.lengths.get(len(r.draft), 0) + 1
        for name, value in asdict(r.seconds).items():
            self.seconds[name] += value

    @property
    def tokens_per_target_pass(self) -> float:
        """Output tokens for each target pass; 1 is plain decoding."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def acceptance_of_drafted(self) -> float:
        """Share of drawn draft tokens that were accepted."""
        return self.passed / self.drafted if self.drafted else 0.0

    @property
    def acceptance_of_tested(self) -> float:
        """Share of judged draft tokens that were accepted."""
        return self.passed / self.tested if self.tested else 0.0

    @property
    def total_seconds(self) -> float:
        """Seconds of all rounds."""
        return sum(self.seconds.values())


class Generation:
    """One answer: iterate over it for pieces of text, read its fields during and after.

    Attributes:
        text, token_ids: the output so far. statistics: counts so far.
        logprobs: of the token ids, natural, under the law they were drawn from; empty unless asked for.
        seed: that repeats this generation. stop_reason: why it ended, None before.
    """

    def __init__(
        self,
        rounds: Iterator[Round],
        vocab_map: VocabMap,
        settings: Settings,
        seed: int,
        prompt_ids: Sequence[int],
    ) -> None:
        self._rounds, self._map, self._settings = rounds, vocab_map, settings
        self.seed = seed
        self.prompt_ids = tuple(prompt_ids)
        self.text = ""
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.statistics = Statistics()
        self.stop_reason: StopReason | None = None
        self._stream = Utf8Stream()

    def __iter__(self) -> Iterator[Piece]:
        for found in self._rounds:
            self.token_ids += found.emitted
            self.logprobs += found.logprobs
            self.statistics.add(found)
            text = self._stream.push(b"".join(self._map.bytes_of(t) for t in found.emitted))
            if found.emitted[-1] in self._settings.eos_ids:
                self.stop_reason = "eos"
                text += self._stream.flush()
            elif len(self.token_ids) >= self._settings.max_new_tokens:
                self.stop_reason = "length"
                text += self._stream.flush()
            self.text += text
            yield Piece(text, found.emitted, found)
        self.stop_reason = self.stop_reason or "context"
        self.text += self._stream.flush()

    def finish(self) -> "Generation":
        """Run to the end."""
        for _ in self:
            pass
        return self


class Session:
    """A loaded bundle: two models, their vocabulary map, and the n-gram cache that learns across calls.

    One generation at a time: a new one takes over the models' contexts.

    Attributes:
        cache_notice: why the cache is empty though a file was given, in one sentence; else None.
    """

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, cache: str | Path | None = None
    ) -> None:
        """
        Args:
            bundle: from `open_bundle`.
            threads: of a target pass; by the target's size when None. The drafter always runs on one.
            cache: a file of learned n-grams; one that is absent or refused gives an empty cache.
        """
        threads = _threads_for(bundle.target.parameters) if threads is None else threads
        self.bundle = bundle
        self.target_tokenizer = Tokenizer.from_file(bundle.file(bundle.target.tokenizer))
        self.drafter_tokenizer = Tokenizer.from_file(bundle.file(bundle.drafter.tokenizer))
        self.vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
        self.vocab_map.check_fits(
            self.drafter_tokenizer.fingerprint,
            self.target_tokenizer.fingerprint,
            bundle.drafter.vocab_size,
            bundle.target.vocab_size,
        )
        start = [] if bundle.drafter.bos_id is None else [bundle.drafter.bos_id]
        target = self._model(bundle.target, threads)
        learned, self.cache_notice = (
            (NgramCache(self.vocab_map), None) if cache is None else open_cache(cache, self.vocab_map)
        )
        self.pair = Pair(target, Drafter(self._model(bundle.drafter, 1), start), learned)
        self.costs: Costs = bundle.costs

    def _model(self, entry: ModelEntry, threads: int) -> OrtModel:
        return OrtModel(self.bundle.file(entry.graph), entry.kv, entry.vocab_size, threads=threads)

    @property
    def cache(self) -> NgramCache:
        """N-grams learned so far."""
        return self.pair.cache

    def save_cache(self, path: str | Path) -> None:
        """Write the n-grams learned so far, so that no crash can spoil the file.

        Raises:
            CacheFileError: the file cannot be written.
        """
        write_cache(path, self.cache)

    def reset_cache(self) -> None:
        """Forget every n-gram that was learned."""
        self.pair.cache = NgramCache(self.vocab_map)

    def measure(self, prompt: str) -> Costs:
        """Time this machine, and let "auto" go by that instead of the figures in the bundle.

        A draft length that was measured anew can change which sampled text a seed gives.
        """
        ids = self.encode(prompt)
        self.costs = measure_costs(self.pair, ids, self.draft_prompt(ids))
        return self.costs

    def encode(self, prompt: str, *, raw: bool = False) -> list[int]:
        """Target ids of a prompt, inside the bundle's template unless `raw`."""
        template = self.bundle.prompt
        prefix, suffix = ("", "") if raw else (template.prefix, template.suffix)
        return self.target_tokenizer.encode_prompt(prefix, prompt, suffix)

    def draft_prompt(self, prompt_ids: Sequence[int]) -> list[int]:
        """The visible text of a prompt in draft ids."""
        text = self.target_tokenizer.text_of(prompt_ids).decode("utf-8", "replace")
        return self.drafter_tokenizer.encode(text)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        seed: int | None = None,
        mode: Mode = "trie",
        num_draft_tokens: int | Literal["auto"] = "auto",
        raw: bool = False,
        ignore_eos: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        verification: Verification | Literal["auto"] = "auto",
        logprobs: bool = False,
    ) -> Generation:
        """Start an answer. Its law is the target's own in every mode but `paper`.

        Args:
            prompt: text, or target ids as they are.
            max_new_tokens: output tokens at most.
            temperature: 0 for greedy.
            seed: repeats a generation; drawn from the system when None.
            mode: trie (default), match, direct, paper (approximate above temperature 0), lookup (copies from
                the context, without the drafter), plain.
            num_draft_tokens: in each round; "auto" drafts as many as pay by the bundle's measured costs.
            raw: leave the bundle's prompt template out.
            ignore_eos: go on after the end of the text (for benchmarks).
            top_k, top_p, min_p, repetition_penalty: as in `Sampling`; the target's law is the one after them.
            verification: of mode trie above temperature 0: token, block, or auto: block where a round takes
                long enough by the bundle's costs.
            logprobs: also give each token's natural log-probability under that law.

        Raises:
            PromptError: empty, or too long for the context.
            SettingError: a setting outside its range.
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        if max_new_tokens < 1:
            raise SettingError(f"max_new_tokens {max_new_tokens} is less than 1; ask for at least one token")
        ids = self._prompt_ids(prompt, raw)
        eos_ids = () if ignore_eos else self.bundle.target.eos_ids
        rule = rule_for(mode, temperature, self._verification() if verification == "auto" else verification)
        settings = Settings(rule, sampling, max_new_tokens, eos_ids, logprobs)
        seed = fresh_seed() if seed is None else seed
        costs = replace(self.costs, draft=0.0) if mode == "lookup" else self.costs
        length = FixedLength(0) if mode == "plain" else _draft_length(num_draft_tokens, costs)
        draft_prompt = [] if mode in ("plain", "lookup") else self.draft_prompt(ids)
        rounds = speculate(self.pair, ids, draft_prompt, settings, length, SplitMix64(seed))
        return Generation(rounds, self.vocab_map, settings, seed, ids)

    def _verification(self) -> Verification:
        # The bundle's costs, not those measured here: a seed then repeats a text wherever the bundle runs.
        seconds = self.bundle.costs.round_seconds(_USUAL_DRAFT)
        return "block" if block_pays(seconds, self.bundle.target.vocab_size) else "token"

    def _prompt_ids(self, prompt: str | Sequence[int], raw: bool) -> list[int]:
        if isinstance(prompt, str) and not prompt.strip():
            raise PromptError("the prompt is empty; give some text")
        ids = self.encode(prompt, raw=raw) if isinstance(prompt, str) else [int(i) for i in prompt]
        if not ids:
            raise PromptError("the prompt has no tokens; give at least one")
        wrong = next((i for i in ids if not 0 <= i < self.bundle.target.vocab_size), None)
        if wrong is not None:
            raise PromptError(
                f"token id {wrong} is outside the target's 0..{self.bundle.target.vocab_size - 1}"
            )
        limit = self.bundle.target.kv.max_length
        if len(ids) > limit:
            raise PromptError(
                f"the prompt has {len(ids)} tokens and the context holds {limit}; "
                "shorten it or export with a larger --max-length"
            )
        return ids


def _draft_length(wanted: int | Literal["auto"], costs: Costs) -> DraftLength:
    return MeasuredLength(costs) if wanted == "auto" else FixedLength(wanted)


def _threads_for(parameters: int) -> int:
    """Threads of a target pass: a small model loses more to waking them than it gains."""
    return 1 if parameters < 50_000_000 else min(8, os.cpu_count() or 1)


def load(path: str | Path, *, threads: int | None = None, cache: str | Path | None = None) -> Session:
    """Open a bundle for generation: verify its hashes, load both graphs and what was learned.

    Args:
        path: the bundle. threads: see `Session`.
        cache: a file of learned n-grams; the session starts with none where it is absent or refused, and says
            in `cache_notice` why it was refused.

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is not what it must be.
    """
    return Session(open_bundle(path), threads=threads, cache=cache)
