"""Give an sdist the date in SOURCE_DATE_EPOCH: ``python tests/programs/dated_sdist.py FILE.tar.gz``. Setuptools takes
that date for wheels alone: in an sdist, what it writes itself and gzip's header bear the time of the build."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def redate(file: Path, date: int) -> None:
    """Rewrite the archive: sorted names, one date, no owner."""
    plain = io.BytesIO()
    with tarfile.open(file) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for each in sorted(old, key=lambda member: member.name):
            each.mtime, each.uid, each.gid, each.uname, each.gname = date, 0, 0, "", ""
            each.pax_headers = {}
            new.addfile(each, old.extractfile(each) if each.isfile() else None)
    with file.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=date) as packed:
        packed.write(plain.getvalue())


if __name__ == "__main__":
    redate(Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"]))
