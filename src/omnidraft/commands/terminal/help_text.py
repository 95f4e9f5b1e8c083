"""Help texts of commands: the terminal, not the source, breaks the lines of a paragraph."""

from inspect import getdoc

import typer


def join_lines(group: typer.Typer) -> None:
    """Give every command of a group, and of the groups in it, its docstring with one line a paragraph."""
    for command in group.registered_commands:
        paragraphs = (getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            join_lines(inner.typer_instance)
