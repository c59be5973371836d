"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from seq2seq.errors import UserError


def write_whole(content: bytes, path: Path) -> None:
    """Write a file, all of it or nothing.

    Raises:
        UserError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)
