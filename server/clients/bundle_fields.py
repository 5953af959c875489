"""The fields that a bundle's host shows to its user, and the variable that each of them fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leanrag_engine.core.config import Settings, variable_of

if TYPE_CHECKING:
    from leanrag_engine.core.model import Json


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form. ``variable`` is empty for the folders, which become arguments."""

    key: str
    kind: str
    title: str
    description: str
    variable: str = ""
    secret: bool = False
    default: str | bool | None = None

    def schema(self) -> dict[str, Json]:
        """Return the field as the bundle's manifest declares it."""
        schema: dict[str, Json] = {"type": self.kind, "title": self.title, "description": self.description}
        if self.kind == "directory":
            schema["multiple"] = not self.variable
        if self.secret:
            schema["sensitive"] = True
        if self.default is not None:
            schema["default"] = self.default
        return schema | {"required": False}


def of_setting(name: str, title: str, kind: str = "string", *, default: str | bool | None = "") -> Field:
    """Return a field for one setting, with the setting's own description."""
    description = Settings.model_fields[name].description or ""
    return Field(name, kind, title, description, variable=variable_of(name), default=default)


def key_of(service: str, variable: str) -> Field:
    description = f"Only needed for a model of {service}. Without one everything works offline."
    return Field(variable.lower(), "string", f"{service} API key", description, variable, secret=True)


DOCUMENTS = Field(
    "documents",
    "directory",
    "Folders with your documents",
    "The server reads files beneath these folders and nowhere else. Without one it accepts texts only.",
)

FIELDS = (
    DOCUMENTS,
    of_setting("collection", "Collection", default="default"),
    of_setting("data_dir", "Where the index is kept", "directory", default=None),
    of_setting("read_only", "Read only", "boolean", default=False),
    of_setting("embedder", "Embedder", default="auto"),
    of_setting("llm_model", "Chat model"),
    key_of("OpenAI", "OPENAI_API_KEY"),
    key_of("Anthropic", "ANTHROPIC_API_KEY"),
    key_of("Gemini", "GEMINI_API_KEY"),
)

VARIABLES = tuple(field.variable for field in FIELDS if field.variable)
