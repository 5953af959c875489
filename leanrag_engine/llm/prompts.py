"""Reads the prompts of the package ``leanrag_prompts``, Markdown with ``$name`` placeholders; a user's folder takes precedence."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Self

from leanrag_engine.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Prompts:
    """The built-in prompts, with those of ``folder`` in place of the built-in ones of the same name."""

    folder: Path | None = None

    @classmethod
    def open(cls, folder: Path | None) -> Self:
        """Check the folder and return its prompts. Raises ``InvalidInput`` if it is missing, or has an unknown file or placeholder."""
        if folder is not None:
            if not folder.is_dir():
                raise InvalidInput(
                    f"The folder of prompts {folder} does not exist.", "Give one that does, or none."
                )
            for path in sorted(folder.glob("*.md")):
                _check(path)
        return cls(folder)

    def fill(self, name: str, **values: str) -> str:
        """Return the prompt ``name`` with every placeholder filled. Raises ``KeyError`` for one without a value."""
        own = self.folder / f"{name}.md" if self.folder else None
        path = own if own and own.is_file() else files("leanrag_prompts") / f"{name}.md"
        return Template(path.read_text(encoding="utf-8")).substitute(values).strip()


BUILT_IN = Prompts()


def _check(path: Path) -> None:
    built_in = files("leanrag_prompts").joinpath(path.name)
    if not built_in.is_file():
        raise InvalidInput(f"No prompt is called {path.stem}: {path}.", "Rename the file, or remove it.")
    wanted = set(Template(built_in.read_text(encoding="utf-8")).get_identifiers())
    given = Template(path.read_text(encoding="utf-8"))
    if not given.is_valid() or set(given.get_identifiers()) != wanted:
        listed = ", ".join(f"${each}" for each in sorted(wanted)) or "none"
        raise InvalidInput(
            f"The prompt {path} does not have the placeholders of the prompt that it replaces: {listed}.",
            "Use each of them, and write any other dollar sign twice.",
        )
