"""From options and the file of `--config` to a GenerationConfig, and from a setting back to its option."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, cast

from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.draft_length import MAX_DRAFT_TOKENS
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Mode, Verification, check_mode

_DRAFTED = ("trie", "match", "direct", "paper")  # modes that need the drafter


@dataclass(frozen=True)
class GenerationOptions:
    """What options of the command line said about a generation; None for an option that was not given.

    Attributes:
        num_draft_tokens: a number or "auto".
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    mode: str | None = None
    num_draft_tokens: str | None = None


def generation_config(
    file: SettingsFile, given: GenerationOptions, usual: GenerationConfig | None = None
) -> GenerationConfig:
    """The settings of a generation: those of the options, else those of the file, else the usual ones.

    Raises:
        SettingError: a value is outside its range, or two options contradict each other.
    """
    drafts = given.num_draft_tokens
    if given.mode == "plain" and drafts not in (None, "0", "auto"):
        raise SettingError(f"--mode plain and -k {drafts} contradict each other", "give one of them")
    if given.mode is not None:
        check_mode(given.mode)
    named: dict[str, Any] = {name: value for name, value in asdict(given).items() if value is not None}
    if drafts is not None:
        named["num_draft_tokens"] = number_of_drafts(drafts)
    config = replace(config_in_file(file, usual or GenerationConfig()), **named)
    config.check()
    return config


def config_in_file(file: SettingsFile, usual: GenerationConfig) -> GenerationConfig:
    """The settings of a generation in a file.

    Raises:
        SettingError: a value of the file is outside its range or of another type.
    """
    drafts = file.number_or_auto("num_draft_tokens", usual.num_draft_tokens)
    config = GenerationConfig(
        max_new_tokens=file.integer("max_new_tokens", usual.max_new_tokens),
        temperature=file.number("temperature", usual.temperature),
        seed=file.integer("seed", usual.seed),
        mode=cast(Mode, file.text("mode", usual.mode)),
        num_draft_tokens=cast(int | Literal["auto"], drafts),
        stop=file.texts("stop"),
        ignore_eos=file.switch("ignore_eos", usual.ignore_eos),
        top_k=file.integer("top_k", usual.top_k),
        top_p=file.number("top_p", usual.top_p),
        min_p=file.number("min_p", usual.min_p),
        repetition_penalty=file.number("repetition_penalty", usual.repetition_penalty),
        verification=cast(Verification, file.text("verification", usual.verification)),
        logprobs=file.switch("logprobs", usual.logprobs),
    )
    with file.named():
        config.check()
    return config


def number_of_drafts(text: str) -> int | Literal["auto"]:
    """The number of draft tokens, or "auto".

    Raises:
        SettingError: the text is neither, or the number is out of range.
    """
    if text == "auto":
        return "auto"
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


def notices(config: GenerationConfig, given: GenerationOptions, *, drafter: bool) -> Iterator[str]:
    """Sentences about options that have no effect, or less than they promise.

    Args:
        drafter: whether the drafter is to be loaded.

    Raises:
        SettingError: a mode that needs the drafter, which is left out.
    """
    if not drafter and given.mode in _DRAFTED:
        raise SettingError(
            f"--mode {given.mode} needs the drafter, which drafter = false leaves out", "give one of them"
        )
    if config.temperature == 0.0:
        sampled = {"--seed": given.seed, "--top-k": given.top_k, "--top-p": given.top_p}
        yield from (
            f"{option} does nothing at temperature 0" for option, v in sampled.items() if v is not None
        )
    elif config.mode == "paper":
        yield (
            "mode paper is approximate above temperature 0: its output does not have the target's "
            "distribution"
        )


def as_option(error: SettingError) -> str:
    """A refusal as one sentence, with the name of the option in place of the setting's name in Python."""
    if error.setting not in _OPTIONS:
        return str(error)
    message = f"--{error.setting.replace('_', '-')}{error.message.removeprefix(error.setting)}"
    return f"{message}; {error.remedy}" if error.remedy else message


_OPTIONS = {"threads", *(each.name for each in fields(GenerationOptions))}
