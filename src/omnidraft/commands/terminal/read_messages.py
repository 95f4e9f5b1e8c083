"""A conversation from a file: a JSON list of messages, each with `role` and `content`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from omnidraft.errors import PromptError, SettingError, reason
from omnidraft.runtime.chat.messages import read_messages
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.strict_json import parse

MAX_FILE_BYTES = 1 << 25
Messages = Sequence[Mapping[str, str]]


def read_message_file(file: Path) -> Messages:
    """The messages in a file.

    Raises:
        SettingError: the file cannot be read, is too large, or is not a conversation.
    """
    try:
        value = parse(read_whole(file, MAX_FILE_BYTES))
        read_messages(value)
    except OSError as error:
        raise SettingError(f"{file} cannot be read ({reason(error)})", "give a JSON file") from None
    except ValueError as error:
        raise SettingError(
            f"{file} is not JSON ({error!s:.80})", 'give a list such as [{"role": "user", "content": "Hi"}]'
        ) from None
    except PromptError as error:
        raise SettingError(f"{file}: {error.message}", error.remedy) from None
    messages: Messages = value
    return messages


def with_system(messages: Messages, system: str | None) -> Messages:
    """The messages with a system prompt in front.

    Args:
        messages: from `read_message_file`.
        system: of the option `--system`; None for none.

    Raises:
        SettingError: the messages have one already.
    """
    if system is None:
        return messages
    if messages[0]["role"] == "system":
        raise SettingError("--system and the system prompt of --messages contradict each other", "give one")
    return [{"role": "system", "content": system}, *messages]
