"""Make the README's pictures from the demo's real output: ``python tests/programs/picture.py .docs/demo.svg``.

Runs ``leanrag demo`` of this installation twice, as at a terminal of 80 columns with colours, and draws the second run. Beside
it, ``answer.svg`` is its question drawn by ``leanrag query --svg``.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from leanrag_mcp.cli.demo.run import QUESTION, TOKEN_BUDGET

COLUMNS = 80
TITLE = "leanrag demo"


def run_demo(folder: str) -> str:
    """Return what the demo prints at a terminal; its data folder is shown as the usual one on Linux."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEANRAG_")}
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "COLORTERM": "truecolor"}
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "leanrag_mcp", "demo"],
        env=kept | terminal | {"XDG_DATA_HOME": folder},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return f"$ {TITLE}\n{ran.stdout}".replace(folder, "~/.local/share")


def draw_answer(folder: str, path: Path) -> None:
    """Draw the demo's question on the demo's corpus."""
    asked = ["query", QUESTION, "--token-budget", str(TOKEN_BUDGET), "--svg", str(path)]
    subprocess.run(
        [sys.executable, "-P", "-m", "leanrag_mcp", *asked, "--collection", "python-reference"],
        env=os.environ | {"XDG_DATA_HOME": folder},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def draw(printed: str) -> str:
    """Return the output as an SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed.rstrip()))
    svg = console.export_svg(title=TITLE)
    return re.sub(r"\s*@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data_home:
        run_demo(data_home)
        # The second run has no time in it, which would be that of this machine.
        out.write_text(draw(run_demo(data_home)), encoding="utf-8")
        draw_answer(data_home, out.with_name("answer.svg"))
