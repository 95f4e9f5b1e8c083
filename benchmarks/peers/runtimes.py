"""One way to call each runtime: a prompt in ids; tokens, passes and seconds after it was read."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from omnidraft.runtime.device.machine import this_machine
from omnidraft.runtime.session.api import GenerationConfig, TextSession
from omnidraft.runtime.session.modes import Mode

CONTEXT = 2048  # positions of llama.cpp
_SILENT = -1  # llama.cpp's verbosity


@dataclass(frozen=True)
class Answer:
    """What a decoder wrote after it had read the prompt.

    Attributes:
        tokens: those that came with the reading of the prompt are not counted.
        passes: of the target that gave them.
        seconds: of decoding.
    """

    tokens: int
    passes: int
    seconds: float


@dataclass(frozen=True)
class Request:
    """A prompt in target ids, and how to answer it."""

    prompt: Sequence[int]
    temperature: float
    top_p: float
    seed: int
    tokens: int


class Decoder(Protocol):
    """Answers prompts."""

    def answer(self, request: Request) -> Answer:
        """Write at most as many tokens as are asked for."""


class Omnidraft:
    """A session of omnidraft in one mode."""

    def __init__(self, session: TextSession, mode: Mode, count: int | Literal["auto"]) -> None:
        """`count` is the number of draft tokens of a round."""
        self._session, self._mode, self._count = session, mode, count

    def answer(self, request: Request) -> Answer:
        """As `Decoder.answer`; the last token of the prompt is read by the first pass that is counted."""
        self._session.forget_context()
        config = GenerationConfig(
            max_new_tokens=request.tokens, temperature=request.temperature, top_p=request.top_p,
            seed=request.seed, mode=self._mode, num_draft_tokens=self._count,
        )  # fmt: skip
        done = self._session.generate(request.prompt, config).finish().statistics
        return Answer(done.emitted, done.rounds, done.total_seconds)


class Clock:
    """A streamer of transformers: when which tokens came."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, int]] = []

    def put(self, tokens: Any) -> None:
        """Called with the prompt, and then with the tokens of each pass."""
        self.arrivals.append((time.perf_counter(), tokens.numel()))

    def end(self) -> None:
        """Called after the last token."""

    def answer(self) -> Answer:
        """The first arrival is the prompt; what comes with the second one belongs to its reading."""
        (start, _), *rest = self.arrivals[1:]
        return Answer(sum(count for _, count in rest), len(rest), self.arrivals[-1][0] - start)


class Transformers:
    """`generate` of transformers in float32 on the CPU, with an aid or alone."""

    def __init__(self, model: Any, eos_ids: Sequence[int], **aid: Any) -> None:
        """`aid` are arguments of `generate`."""
        self._model, self._aid, self._eos_ids = model, aid, list(eos_ids)

    def answer(self, request: Request) -> Answer:
        """As `Decoder.answer`."""
        torch = importlib.import_module("torch")
        torch.manual_seed(request.seed)
        ids, clock = torch.tensor([list(request.prompt)]), Clock()
        sampling: dict[str, Any] = {"do_sample": request.temperature > 0.0}
        if request.temperature:  # the defaults of generate would cut the distribution at 50 tokens
            sampling |= {"temperature": request.temperature, "top_p": request.top_p, "top_k": 0}
        with torch.inference_mode():
            self._model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=request.tokens, streamer=clock,
                eos_token_id=self._eos_ids, pad_token_id=self._eos_ids[0], **sampling, **self._aid,
            )  # fmt: skip
        return clock.answer()


def assistant(drafter: Path, target: Path, count: int) -> dict[str, Any]:
    """The arguments of `generate` for a drafter of another vocabulary: UAG when greedy, TLI when it samples.

    TLI keeps rows of the drafter's head in the order of `get_vocab`, which is none, and reads the logits in
    the order of ids, so that tokens get one another's probabilities and the text is not the target's. Here
    it gets the vocabulary in the order of ids.

    Args:
        drafter, target: checkpoints; the model is loaded again for each call, since TLI rewrites it.
        count: draft tokens a round.
    """
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(drafter, dtype=torch.float32)
    model.generation_config.num_assistant_tokens = count
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(drafter)
    vocabulary = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: int(item[1])))
    tokenizer.get_vocab = lambda: dict(vocabulary)
    of_target = transformers.PreTrainedTokenizerFast.from_pretrained(target)
    return {"assistant_model": model, "tokenizer": of_target, "assistant_tokenizer": tokenizer}


class Genai:
    """onnxruntime-genai on a folder of `benchmarks.peers.genai_folder`."""

    def __init__(self, folder: Path, **drafting: int) -> None:
        """`drafting` are its options of speculation, such as ngram_size; none is plain."""
        self._genai: Any = importlib.import_module("onnxruntime_genai")
        self._model, self._drafting = self._genai.Model(str(folder)), drafting

    def answer(self, request: Request) -> Answer:
        """As `Decoder.answer`."""
        options = self._genai.GeneratorParams(self._model)
        options.set_search_options(
            max_length=len(request.prompt) + request.tokens, do_sample=request.temperature > 0.0,
            temperature=request.temperature or 1.0, top_k=0, top_p=request.top_p, random_seed=request.seed,
        )  # fmt: skip
        if self._drafting:
            options.set_speculative_options(**self._drafting)
        generator = self._genai.Generator(self._model, options)
        generator.append_tokens(list(request.prompt))
        first, start, tokens = 0, 0.0, 0
        while tokens < request.tokens and not generator.is_done():
            generator.generate_next_token()
            tokens += len(generator.get_next_tokens())
            if not first:
                first, start = tokens, time.perf_counter()
        seconds, counted = time.perf_counter() - start, generator.get_speculative_stats()
        # After a refused draft it runs the target once more, on the token that took its place.
        passes = counted["target_forward_passes"] + counted["standard_fallback_steps"] or tokens
        return Answer(tokens - first, max(1, passes - 1), seconds)


class LlamaCpp:
    """A GGUF file in the server of llama.cpp, in this process, with a kind of self-speculation."""

    def __init__(self, file: Path, kind: str, threads: int) -> None:
        """`kind` is the ending of a name in `xllamacpp.common_speculative_type`; NONE is plain."""
        module: Any = importlib.import_module("xllamacpp")
        given = module.CommonParams()
        given.model.path, given.n_ctx, given.n_parallel, given.verbosity = str(file), CONTEXT, 1, _SILENT
        given.cpuparams.n_threads = given.cpuparams_batch.n_threads = threads
        given.cache_prompt, given.cache_ram_mib = False, 0
        given.speculative.types = [getattr(module.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{kind}")]
        self._server = module.Server(given)

    def answer(self, request: Request) -> Answer:
        """As `Decoder.answer`; times and counts are the server's own."""
        done = self._server.handle_completions({
            "prompt": list(request.prompt), "n_predict": request.tokens, "temperature": request.temperature,
            "top_p": request.top_p, "top_k": 0, "min_p": 0.0, "samplers": ["temperature", "top_p"],
            "seed": request.seed, "cache_prompt": False,
        })  # fmt: skip
        if "timings" not in done:
            raise RuntimeError(f"llama.cpp answered {done}")
        times = done["timings"]
        tokens = times["predicted_n"] - 1  # the first one is of the pass that read the prompt
        return Answer(tokens, tokens - times.get("draft_n_accepted", 0), times["predicted_ms"] / 1000)


def builds() -> dict[str, str]:
    """The version of each runtime that is there, and the vector instructions that it says it uses."""
    told = {"cpu": this_machine("", 1, "", "").cpu}
    for package in ("onnxruntime", "onnxruntime-genai", "transformers", "torch", "xllamacpp"):
        try:
            told[package] = version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "torch" in told:
        told["torch"] += f" ({importlib.import_module('torch').backends.cpu.get_cpu_capability()})"
    if "xllamacpp" in told:
        told["xllamacpp"] += f" ({importlib.import_module('xllamacpp').get_system_info().strip(' |')})"
    return told
