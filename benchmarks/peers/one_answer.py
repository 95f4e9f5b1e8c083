"""One plain answer of one runtime in this process, whose peak of memory `benchmarks.peers.plain` reads.

    python -m benchmarks.peers.one_answer ours|genai DIRECTORY THREADS TOKENS

It imports the runtime and nothing else.
"""

import importlib
import sys
from typing import Any

PROMPT = list(range(100, 132))


def ours(bundle: str, threads: int, tokens: int) -> None:
    """This runtime, without a drafter."""
    from omnidraft.runtime.session.api import GenerationConfig, load

    session = load(bundle, threads=threads, drafter=False)
    session.generate(PROMPT, GenerationConfig(mode="plain"), max_new_tokens=tokens).finish()


def genai(folder: str, tokens: int) -> None:
    """onnxruntime-genai; the folder says how many threads it takes."""
    module: Any = importlib.import_module("onnxruntime_genai")
    model = module.Model(folder)
    options = module.GeneratorParams(model)
    options.set_search_options(max_length=len(PROMPT) + tokens, do_sample=False)
    generator = module.Generator(model, options)
    generator.append_tokens(PROMPT)
    while not generator.is_done():
        generator.generate_next_token()


if __name__ == "__main__":
    runtime, directory, threads, tokens = sys.argv[1:]
    if runtime == "ours":
        ours(directory, int(threads), int(tokens))
    else:
        genai(directory, int(tokens))
