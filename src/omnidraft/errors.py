"""Every refusal that a user can meet, as one family of exceptions, and words that refusals share.

The command line prints `str(error)` alone: one sentence with the offending value, then the remedy. Broken
invariants are assertions, not members of this family.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class OmnidraftError(Exception):
    """Base class of all refusals; a bug never raises it.

    Attributes:
        message: what is wrong, with the offending value; no full stop at the end.
        remedy: what to do about it; empty where the message says it.
        fault: the name of what is wrong with a file, the same in every language; the chapter of the file's
            format in spec/ lists the names. Empty for refusals of other things.
    """

    def __init__(self, message: str, remedy: str = "", fault: str = "") -> None:
        message, remedy = shown(message), shown(remedy)
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message, self.remedy, self.fault = message, remedy, fault


class CheckpointError(OmnidraftError):
    """A Hugging Face directory that is missing, incomplete or of an unsupported architecture."""


class ExportError(OmnidraftError):
    """An export that would not give a usable bundle (collapse of acceptance, disk full)."""


class BundleError(OmnidraftError):
    """A bundle whose manifest, files or hashes are not what they must be (spec/03-bundle.md)."""


class SignatureError(BundleError):
    """A bundle that is not signed with the key that was given (spec/10-signing.md)."""


class ArchiveError(BundleError):
    """An archive of a bundle that is refused, or cannot be unpacked (spec/16-archive.md)."""


class CacheFileError(OmnidraftError):
    """An n-gram cache file that is refused (spec/06-ngram-cache.md)."""


class TraceFileError(OmnidraftError):
    """A trace that is refused, or a place where none can be recorded (spec/12-trace.md)."""


class AdapterError(OmnidraftError):
    """A LoRA adapter that is refused, or cannot be written (spec/11-adapter.md)."""


class ClaimError(OmnidraftError):
    """A directory that another process has claimed."""


class SyncError(OmnidraftError):
    """A store that cannot be used, or a release that is refused (spec/15-sync.md)."""


class TokenizerError(OmnidraftError):
    """A tokenizer that is absent or of a kind whose bytes cannot be read."""


class VocabMapError(OmnidraftError):
    """A vocabulary map that does not fit the two models it is used with."""


class PromptError(OmnidraftError):
    """A prompt that is empty or longer than the context."""


class ContextError(PromptError):
    """A prompt or a conversation that is longer than the context."""


class SessionError(OmnidraftError):
    """A session that cannot do what was asked now: it generates already, or there is nothing to resume."""


class SessionFileError(OmnidraftError):
    """A session file that is refused, or cannot be written (spec/09-session.md)."""


class GrammarError(OmnidraftError):
    """A schema, pattern or grammar file that is refused (spec/17-grammar.md)."""


class SettingError(OmnidraftError):
    """A setting outside its range.

    Attributes:
        setting: its name in Python, with which the message begins; empty where the message is of several.
    """

    def __init__(self, message: str, remedy: str = "", fault: str = "", *, setting: str = "") -> None:
        super().__init__(message, remedy, fault)
        self.setting = setting


def check_whole(name: str, value: object) -> None:
    """Refuse a setting that is no whole number.

    Raises:
        SettingError: naming it.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingError(
            f"{name} {value!r:.40} is of type {type(value).__name__}", "give a whole number", setting=name
        )


def reason(error: BaseException) -> str:
    """The first line of what an exception says, at most 200 characters, without a full stop at its end."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines:
        return lines[0][:200].rstrip(". ")
    # By name too: asyncio has a class of its own before Python 3.11, and takes long to import.
    if isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError":
        return "no answer in time"
    return "no reason given"


@contextmanager
def refusing(kind: type[OmnidraftError], what: str, remedy: str = "", fault: str = "") -> Iterator[None]:
    """Inside, an `OSError` becomes a refusal of a kind: what is wrong, the reason in brackets, the remedy."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what} ({reason(error)})", remedy, fault) from None


def shown(text: object) -> str:
    """Text of any origin for a terminal or a log: what is not printable is written as its escape.

    So a name in a file or a store cannot move the cursor, change colours or titles, or begin a new line.
    """
    value = str(text)
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


def counted(number: int, what: str) -> str:
    """A number before its noun, as `1 step`, `2 steps` or `1,024 steps`; `what` is the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def install(extras: str) -> str:
    """The remedy where packages are missing; no registry has this package, so it comes from a checkout."""
    return f"run `pip install -c constraints.txt '.[{extras}]'` in a checkout of omnidraft"
