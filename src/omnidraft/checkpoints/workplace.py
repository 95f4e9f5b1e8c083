"""Make a directory beside its final place for an export; a failure leaves nothing and is told in one line."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from safetensors import SafetensorError

from omnidraft.errors import ExportError, reason, refusing
from omnidraft.runtime.bundle.replaceable import refusal_to_replace
from omnidraft.runtime.disk.whole_directory import new_directory, recover
from omnidraft.runtime.disk.whole_directory import take_name as take_name

_REFUSED = (errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST)


def refuse_existing(out: Path, overwrite: bool) -> None:
    """Refuse a place that exists, before any work is done; what a killed process left is put right first."""
    with refusing(ExportError, f"{out} cannot be made", "choose another place"):
        recover(out)
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise ExportError(f"{out} exists already", "choose another place or add --overwrite")
    if refusal := refusal_to_replace(out):
        raise ExportError(*refusal)


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A temporary directory beside `out`, removed at the end unless it was renamed."""
    with ExitStack() as stack:
        try:
            work = stack.enter_context(new_directory(out))
        except OSError as error:  # of many kinds: /proc has no directory either
            raise ExportError(f"{out} cannot be made ({reason(error)})", "choose another place") from error
        try:
            yield work
        except (OSError, SafetensorError) as error:
            # safetensors reports a full disk only in its message.
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
                raise ExportError(
                    f"the disk is full while writing {out}", "free some space or choose another place"
                ) from error
            if isinstance(error, OSError) and error.errno in _REFUSED:
                raise ExportError(f"cannot write {out} ({error.strerror})", "choose another place") from error
            raise
