"""Every refusal that a user can meet, as one family of exceptions.

The command line prints `str(error)` alone, so each message is one clear sentence that carries the
offending value and the remedy. Broken invariants are assertions, not members of this family.
"""


class OmnidraftError(Exception):
    """Base of all refusals; catching it catches every one, and nothing that is a bug."""


class CheckpointError(OmnidraftError):
    """A Hugging Face directory that is missing, incomplete or of an unsupported architecture."""


class ExportError(OmnidraftError):
    """An export that would not give a usable bundle (collapse of acceptance, disk full)."""


class BundleError(OmnidraftError):
    """A bundle whose manifest, files or hashes are not what they must be.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/bundle.md lists them.
    """

    def __init__(self, sentence: str, fault: str = "graph") -> None:
        super().__init__(sentence)
        self.fault = fault


class SignatureError(BundleError):
    """A bundle that is not signed with the key that was given.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/signing.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class CacheFileError(OmnidraftError):
    """An n-gram cache file that is refused.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/ngram-cache.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class TraceFileError(OmnidraftError):
    """A trace that is refused, or a place where none can be recorded.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/trace.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class AdapterError(OmnidraftError):
    """A LoRA adapter that is refused, or cannot be written.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/adapter.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class SyncError(OmnidraftError):
    """A store that is not what it must be or cannot be reached, or a release that is refused.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/sync.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class TokenizerError(OmnidraftError):
    """A tokenizer that is absent or of a kind whose bytes cannot be read."""


class VocabMapError(OmnidraftError):
    """A vocabulary map that does not fit the two models it is used with."""


class PromptError(OmnidraftError):
    """A prompt that is empty or longer than the context."""


class ContextError(PromptError):
    """A prompt or a conversation that is longer than the context."""


class SessionError(OmnidraftError):
    """A session that is asked for what it cannot do now: two generations at once, or going on with none."""


class SessionFileError(OmnidraftError):
    """A session file that is refused, or cannot be written.

    Attributes:
        fault: the name of what is wrong, the same in every language; spec/session.md lists them.
    """

    def __init__(self, fault: str, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


class SettingError(OmnidraftError):
    """A generation setting outside its range."""
