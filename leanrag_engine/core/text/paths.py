"""The folders of documents' files, which may be another machine's."""

import os
from collections.abc import Iterable


def find_folder(paths: Iterable[str]) -> str:
    """Return the folder in which all files lie, with the separator at its end; "" if there is none but the root."""
    parents = {os.path.dirname(path) for path in paths if path}  # noqa: PTH120 - not this machine's
    try:
        folder = os.path.commonpath(parents).rstrip(os.sep) if parents else ""
    except ValueError:  # on several drives
        return ""
    return f"{folder}{os.sep}" if folder else ""
