"""How the text of an answer is written: exact in a pipe, without the blank in front of it in a terminal."""

from __future__ import annotations

import io

import pytest

from omnidraft.commands.terminal.output import AnswerWriter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" Let x be 3.", "Let x be 3."),
        ("\n\nLet x", "Let x"),
        (" \n  x", "x"),
        (" ", "\n"),
        ("", "\n"),
        ("x \n y", "x \n y"),
    ],
)
def test_an_answer_begins_with_its_first_character_in_a_terminal(text: str, shown: str) -> None:
    for out, expected in ((Terminal(), shown), (io.StringIO(), text)):
        for pieces in ([text], list(text)):
            out.seek(0)
            out.truncate()
            writer = AnswerWriter(out)
            for piece in pieces:
                writer.write(piece)
            writer.end_line()
            assert out.getvalue() == expected.removesuffix("\n") + "\n"
