"""Text from bytes that arrive in pieces: half characters wait, nothing is lost."""

import codecs


class Utf8Stream:
    """Decodes UTF-8 as it arrives; bytes that can never become a character turn into U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, data: bytes) -> str:
        """The text that is certain so far; an incomplete character is held back."""
        text = self._decoder.decode(data)
        # Python waits for the rest of a surrogate, which UTF-8 does not have: nothing can come of it.
        half_surrogate = len(self._decoder.getstate()[0]) == 2 and self._decoder.getstate()[0][0] == 0xED
        if half_surrogate and self._decoder.getstate()[0][1] >= 0xA0:
            text += self._decoder.decode(b"", final=True)
        return text

    def flush(self) -> str:
        """What was held back, at the end of the text."""
        return self._decoder.decode(b"", final=True)
