"""Text from bytes that arrive in pieces: half characters wait, nothing is lost."""

import codecs


class Utf8Stream:
    """Decodes UTF-8 as it arrives; bytes that can never become a character turn into U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, data: bytes) -> str:
        """The text that is certain so far; an incomplete character is held back."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        return self._decoder.decode(b"", final=True)
