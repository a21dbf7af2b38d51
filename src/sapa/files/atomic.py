"""Files that are there whole or not at all, whatever happens to the process that writes them."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ModuleNotFoundError:  # on Windows, where a file that is open cannot be removed anyway
    fcntl = None

PART = ".sapa-part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to; what is written there takes the place of `path` at the end, or vanishes on an error."""
    path = path.resolve()  # a link stays one
    part, file = _create(path)
    try:
        with file:
            yield part
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(part, path)
        if fcntl is None:  # Windows replaces no open file
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def clean(folders: Iterable[Path]) -> None:
    """Remove what writers left behind that were killed. Those at work hold a lock, which ends with them."""
    for folder in folders:
        for part in folder.glob(f".*{PART}"):
            # another run may have removed it, or hold it
            with suppress(OSError):
                if fcntl is None:
                    part.unlink()
                    continue
                with part.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()


def _create(path: Path) -> tuple[Path, BinaryIO]:
    while True:
        # hidden, and with no suffix that is read; the name is cut because file systems limit its length
        part = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}{PART}")
        # the permissions are those of any new file, unlike those of tempfile
        file = os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), "r+b")
        if fcntl is None:
            return part, file
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # removed by a cleaner in the moment before the lock


def _sync(folder: Path) -> None:
    """Make the new name in a folder outlast a power cut, where that can be asked for."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
