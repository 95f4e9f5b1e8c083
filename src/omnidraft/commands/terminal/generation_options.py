"""The one way from a command's options to a GenerationConfig, and back from a setting to its option."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import typer

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import MAX_DRAFT_TOKENS
from omnidraft.runtime.session.generation_config import GenerationConfig

# Options whose names differ from those of their settings; an entry may stand for several.
_OPTIONS: Mapping[str, Sequence[str]] = {
    "max_new_tokens": ("-n",),
    "temperature": ("-t",),
    "num_draft_tokens": ("-k",),
    "learning_rate": ("--rate",),
}
_SAMPLED = ("seed", "top_k", "top_p", "min_p", "verification")  # without effect at temperature 0
_WITH_DRAFTER = ("trie", "match", "direct", "paper")


def generation_config(context: typer.Context) -> GenerationConfig:
    """The settings of a generation that a command was asked for.

    A parameter of the command sets the field that has its name; the other fields keep their defaults.

    Raises:
        SettingError: a value is outside its range.
    """
    _refuse_repeated(sys.argv)
    names = {field.name for field in fields(GenerationConfig)}
    values: dict[str, Any] = {name: v for name, v in context.params.items() if name in names}
    if "stop" in values:
        values["stop"] = tuple(values["stop"] or ())
    if "num_draft_tokens" in values:
        values["num_draft_tokens"] = lengths(values["num_draft_tokens"])
    if context.params.get("plain"):
        values["mode"] = "plain"
    config = GenerationConfig(**values)
    config.check()
    return config


def _refuse_repeated(arguments: Sequence[str]) -> None:
    """Refuse an option that names a file and was given twice: the last one would silently win."""
    for option in ("--adapter", "--cache", "--profile", "--trace"):
        if sum(_sets(argument, option) for argument in arguments) > 1:
            raise SettingError(f"{option} is given twice, and only one can be used", "give it once")


def lengths(text: str) -> Any:
    """The number of draft tokens, or "auto".

    Raises:
        SettingError: the text is neither.
    """
    if text == "auto":
        return text
    try:
        number = int(text)
    except ValueError:
        raise SettingError(
            f'--num-draft-tokens "{text}" is neither a number nor auto', "4 is usual"
        ) from None
    if not 0 <= number <= MAX_DRAFT_TOKENS:
        raise SettingError(
            f"num_draft_tokens {number} is outside 0..{MAX_DRAFT_TOKENS}",
            "auto takes as many as pay here, and 4 is usual",
            setting="num_draft_tokens",
        )
    return number


def notices(context: typer.Context) -> list[str]:
    """Sentences about options that have no effect, or less than they promise.

    Raises:
        SettingError: options that contradict each other.
    """
    values = context.params
    typed = {n for n in values if getattr(context.get_parameter_source(n), "name", "") == "COMMANDLINE"}
    mode, greedy = values["mode"], values["temperature"] == 0.0
    if values.get("logprobs") and not values["as_json"]:
        raise SettingError("--logprobs shows nothing without --json", "add --json")
    if values.get("plain") and "mode" in typed and mode != "plain":
        raise SettingError(f"--plain and --mode {mode} contradict each other", "give one of them")
    plain = "--plain" if values.get("plain") else "--mode plain" if mode == "plain" else ""
    if plain and "num_draft_tokens" in typed and values["num_draft_tokens"] not in ("0", "auto"):
        raise SettingError(
            f"{plain} and -k {values['num_draft_tokens']} contradict each other", "give one of them"
        )
    if values["no_drafter"] and "mode" in typed and mode in _WITH_DRAFTER:
        raise SettingError(
            f"--mode {mode} needs the drafter, which --no-drafter leaves out", "give one of them"
        )
    idle = [f"{_option(n)} does nothing at temperature 0" for n in _SAMPLED if greedy and n in typed]
    if mode == "paper" and not greedy:
        idle.append(
            "mode paper is approximate above temperature 0: its output does not have the target's "
            "distribution"
        )
    return idle


def as_typed(error: SettingError, arguments: Sequence[str]) -> str:
    """A refusal as one sentence, with the option that was typed in place of the setting's name in Python.

    Args:
        error: its message begins with `error.setting`.
        arguments: of the command line.
    """
    option = _typed_option(error.setting, arguments)
    if option is None:
        return str(error)
    message = option + error.message.removeprefix(error.setting)
    return f"{message}; {error.remedy}" if error.remedy else message


def _typed_option(setting: str, arguments: Sequence[str]) -> str | None:
    """The option that set a setting; None where no option did."""
    for option in (_option(setting), *_OPTIONS.get(setting, ())):
        if any(_sets(argument, option) for argument in arguments):
            return option
    return _option(setting) if setting in {field.name for field in fields(GenerationConfig)} else None


def _sets(argument: str, option: str) -> bool:
    """Whether an argument is an option, or an option with its value in it: `--rate=1`, `-k4`."""
    if option.startswith("--"):
        return argument == option or argument.startswith(f"{option}=")
    return argument.startswith(option) and not argument.startswith("--")


def _option(setting: str) -> str:
    return "--" + setting.replace("_", "-")
