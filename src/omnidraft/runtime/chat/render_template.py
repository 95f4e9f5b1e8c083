"""Render a chat template with jinja2, in a process of its own that is bounded in time and memory.

The process runs this file and nothing else of the package. jinja2's sandbox keeps a template away from
Python, but not from using time and memory: `{{ 'a' * 10**10 }}` is a valid template. Input is one JSON
object, output is another one.
"""

import contextlib
import json
import sys
from typing import Any

CPU_SECONDS = 4
MEMORY_BYTES = 400 << 20  # of addresses; Python and jinja2 take some 60 MB
MOST_TEXT = 1 << 20  # characters of a rendered conversation


def main() -> None:
    """Read the request on standard input, write the text or the reason of the failure on standard output."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    environment.filters["tojson"] = _to_json
    _limit()
    answers = [_answer(environment, request, asked) for asked in request["conversations"]]
    json.dump(answers, sys.stdout)


def _answer(environment: Any, request: dict[str, Any], asked: dict[str, Any]) -> dict[str, str]:
    """The text of one conversation, or why there is none."""
    try:
        return {"text": _rendered(environment, request, asked)}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # a template can raise anything, also by dividing by zero
        return {"error": str(error)[:500] or type(error).__name__}


def _rendered(environment: Any, request: dict[str, Any], asked: dict[str, Any]) -> str:
    template = environment.from_string(request["source"])
    # Templates compare `tools` and `documents` with none; transformers gives them always.
    names = {**request["names"], "add_generation_prompt": True, "documents": None, **asked}
    pieces, size = [], 0
    for piece in template.generate(names):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_TEXT:
            raise ValueError(f"it writes more than {MOST_TEXT} characters")
    return "".join(pieces)


def _limit() -> None:
    """Bound this process where the system can; the parent bounds its time anyway."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY_BYTES)):
        with contextlib.suppress(OSError, ValueError):  # macOS does not limit addresses
            resource.setrlimit(kind, (most, most))


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise ValueError(message)


if __name__ == "__main__":
    main()
