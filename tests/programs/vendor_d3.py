"""Fetch the parts of d3 that the explorer draws with: ``python tests/programs/vendor_d3.py``.

Joins the minified files that their authors published on npm, each after those that it needs, and their licence. Of all
of d3 (280 kB) these are 78 kB. To take a newer version, change it here, run this, and write the new digest into
tests/server/explorer/test_page.py.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

PARTS = {
    "d3-color": "3.1.0",
    "d3-dispatch": "3.0.1",
    "d3-ease": "3.0.1",
    "d3-timer": "3.0.1",
    "d3-interpolate": "3.0.1",
    "d3-selection": "3.0.0",
    "d3-transition": "3.0.1",
    "d3-drag": "3.0.0",
    "d3-zoom": "3.0.0",
    "d3-hierarchy": "3.1.2",
}
PAGE = Path(__file__).parents[2] / "server" / "explorer" / "assets"


def fetch(part: str, version: str) -> tuple[str, str]:
    """Return the minified file of a part and its licence."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{part}@{version}"], cwd=folder, check=True)  # noqa: S607
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
            texts = []
            for name in (f"package/dist/{part}.min.js", "package/LICENSE"):
                held = archive.extractfile(name)
                assert held is not None
                texts.append(held.read().decode())
            return texts[0], texts[1]


if __name__ == "__main__":
    found = {part: fetch(part, version) for part, version in PARTS.items()}
    (PAGE / "d3.js").write_text(
        "\n".join(text.strip() for text, _ in found.values()) + "\n", encoding="utf-8"
    )
    licences = [f"{part} {PARTS[part]}\n\n{licence.strip()}\n" for part, (_, licence) in found.items()]
    (PAGE / "LICENSE-d3").write_text("\n".join(licences), encoding="utf-8")
