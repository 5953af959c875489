"""The folders of documents' files, which may be another machine's."""

import os
import re
from collections.abc import Iterable
from pathlib import Path


def find_folder(paths: Iterable[str]) -> str:
    """Return the folder in which all files lie, with the separator at its end; "" if there is none but the root."""
    parents = {os.path.dirname(path) for path in paths if path}  # noqa: PTH120 - not this machine's
    try:
        folder = os.path.commonpath(parents).rstrip(os.sep) if parents else ""
    except ValueError:  # on several drives
        return ""
    return f"{folder}{os.sep}" if folder else ""


def read_path(text: str) -> Path:
    """Return the path that ``printable_path`` of loading wrote."""
    data = re.sub(rb"\\x([89a-f][0-9a-f])", lambda byte: bytes.fromhex(byte[1].decode()), text.encode())
    return Path(os.fsdecode(data))
