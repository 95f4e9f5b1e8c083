"""Messages as they are typed, pasted or piped: a text of several lines is one message."""

import os
import sys
from typing import TextIO

MOST_LINES = 1 << 16  # of one message
_PASTED_WITHIN = 0.02  # seconds; what is there by then was pasted with the line before


class ChatInput:
    """Reads one message at a time.

    A message is one line. A line that ends with a backslash goes on in the next one. In a terminal, lines
    that are pasted together are one message, too.
    """

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self.is_terminal = source is sys.stdin and source.isatty()
        if self.is_terminal:
            self._edit_lines()

    def read(self) -> tuple[str, bool] | None:
        """The next message, and whether it can be a command; None at the end of the input.

        Raises:
            KeyboardInterrupt: Ctrl-C, in a terminal.
        """
        line = self._line("> ")
        if line is None:
            return None
        lines = [line]
        while lines[-1].endswith("\\") and len(lines) < MOST_LINES:
            lines[-1] = lines[-1][:-1]
            following = self._line(". ")
            if following is None:
                break
            lines.append(following)
        while not line.startswith("/") and self._was_pasted() and len(lines) < MOST_LINES:
            following = self._line("")
            if following is None:
                break
            lines.append(following)
        text = "\n".join(lines).strip()
        return text, "\n" not in text

    def _line(self, prompt: str) -> str | None:
        """The next line without its end; None at the end of the input."""
        if not self.is_terminal:
            line = self._source.readline()
            return line.removesuffix("\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            return None

    def _was_pasted(self) -> bool:
        """Whether more input is there already, which no one can have typed since the last line."""
        if not self.is_terminal or os.name == "nt":  # Windows waits for files other than sockets in no way
            return False
        import select

        return bool(select.select([self._source], [], [], _PASTED_WITHIN)[0])

    def _edit_lines(self) -> None:
        try:
            import readline
        except ImportError:  # Windows
            return
        if "libedit" not in (readline.__doc__ or "") and os.environ.get("TERM", "dumb") != "dumb":
            # A bracketed paste is one line with line feeds in it, also where the terminal sends it slowly.
            readline.parse_and_bind("set enable-bracketed-paste on")
