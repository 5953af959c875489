"""Read a schema of extraction from YAML: a file, or one of those that come with the package. Each of the sections
``entities``, ``relations`` and ``attributes`` is a mapping of types to descriptions, or a list of types; what is left out is
open. The YAML is read as nodes and never as values, so that every fault names its line, and no tag can make an object."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import TYPE_KINDS, ExtractionSchema
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.core.text.shortening import cut_end, one_line

SECTIONS = ("entities", "relations", "attributes")


# How large a schema may be.
_TYPES = 60  # Types of one kind: each stands in every request to the model
_NAME_CHARACTERS = 40
_DESCRIPTION_CHARACTERS = 200
_FILE_BYTES = 100_000

_READY = files(__package__).joinpath("ready")
_Fault = Callable[[Any, str], InvalidInput]


def ready_schemas() -> dict[str, ExtractionSchema]:
    """Return the schemas of the package by their names."""
    return {
        name.removesuffix(".yaml"): parse_schema(
            _READY.joinpath(name).read_text(encoding="utf-8"), name.removesuffix(".yaml"), name
        )
        for name in sorted(each.name for each in _READY.iterdir() if each.name.endswith(".yaml"))
    }


def load_schema(source: str) -> ExtractionSchema:
    """Return the package's schema that is called ``source``, else the file's. Raises ``InvalidInput`` with the line or key."""
    ready = ready_schemas()
    if source in ready:
        return ready[source]
    path = Path(source).expanduser()
    if not path.is_file():
        near = find_nearest(source, ready, 1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise InvalidInput(
            f"There is no schema and no file {source!r}.",
            f"{hint}Give a YAML file, or one of {', '.join(ready)}.",
        )
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise InvalidInput(
                f"The file {path} has {path.stat().st_size:,} bytes; expected at most {_FILE_BYTES:,}.",
                f"Give a schema with at most {_TYPES} types of each kind.",
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"The file {path} is not UTF-8 text.", "Save it as UTF-8.") from None
    except OSError as problem:
        raise InvalidInput(
            f"The file {path} cannot be read: {problem.strerror}.", "Check its rights."
        ) from None
    return parse_schema(text, path.stem, str(path))


def parse_schema(text: str, name: str, origin: str) -> ExtractionSchema:
    """Return the schema in a YAML text. ``origin`` names it in errors. Raises ``InvalidInput`` with the line or key."""
    import yaml  # noqa: PLC0415 - only where a schema is set

    fault = partial(_make_fault, origin)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as problem:
        raise fault(problem.problem_mark, f"this is no YAML: {problem.problem or problem}") from None
    except yaml.YAMLError as problem:
        raise fault(None, f"this is no YAML: {one_line(str(problem))}") from None
    except RecursionError:
        raise fault(None, "the YAML is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode):
        raise fault(root and root.start_mark, f"expected a mapping with {', '.join(SECTIONS)}")
    sections: dict[str, dict[str, str]] = {}
    for key, node in root.value:
        section = key.value if isinstance(key, yaml.ScalarNode) else ""
        if section not in SECTIONS:
            raise fault(
                key.start_mark, f"the key {_quote(section)} is unknown; expected only {', '.join(SECTIONS)}"
            )
        if section in sections:
            raise fault(key.start_mark, f"the key {section!r} is there twice")
        sections[section] = _read_section(section, node, fault)
    entities, relations, attributes = (sections.get(each, {}) for each in SECTIONS)
    schema = ExtractionSchema(name, entities, relations, attributes)
    if not any((schema.entities, schema.relations, schema.attributes)):
        raise fault(root.start_mark, "there is no type; expected at least one, such as person under entities")
    return schema


def _make_fault(origin: str, mark: Any, problem: str) -> InvalidInput:
    """Return the error at a mark of the YAML reader; None: of the whole text."""
    line = f", line {mark.line + 1}" if mark is not None else ""
    return InvalidInput(
        f"{origin}{line}: {problem}.",
        "Correct the schema and set it again; the collection is as it was. "
        "`leanrag schema show people` shows one that is right.",
    )


def _read_section(section: str, node: Any, fault: _Fault) -> dict[str, str]:
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    entries = list(_entries(section, node, fault))
    if len(entries) > _TYPES:
        raise fault(node.start_mark, f"{section} has {len(entries):,} types; expected at most {_TYPES}")
    for given, description, mark in entries:
        name = " ".join(clean(given).replace("_", " ").lower().split())
        key = name_key(name)
        if not key:
            raise fault(mark, f"a type of {section} has an empty name; expected a word or two")
        if len(name) > _NAME_CHARACTERS:
            raise fault(
                mark,
                f"the name {_quote(name)} in {section} has {len(name):,} characters; "
                f"expected at most {_NAME_CHARACTERS}",
            )
        if key in lines:
            raise fault(mark, f"{name!r} is in {section} twice (also line {lines[key]})")
        said = " ".join(clean(description).split())
        if len(said) > _DESCRIPTION_CHARACTERS:
            raise fault(
                mark,
                f"the description of {name!r} in {section} has {len(said):,} characters; "
                f"expected at most {_DESCRIPTION_CHARACTERS}",
            )
        lines[key] = mark.line + 1
        found[name] = said
    return found


def _entries(section: str, node: Any, fault: _Fault) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the description and the place of each type of a section."""
    import yaml  # noqa: PLC0415 - only where a schema is set

    def read(each: Any) -> str:
        if not isinstance(each, yaml.ScalarNode):
            raise fault(each.start_mark, f"{section}: expected a type and, after a colon, its description")
        return "" if each.tag == "tag:yaml.org,2002:null" else str(each.value)

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield read(key), read(value), key.start_mark
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield read(each), "", each.start_mark
    elif read(node):
        raise fault(node.start_mark, f"{section}: expected a list of types, or types with descriptions")


def list_types(schema: ExtractionSchema) -> str:
    """Return the names of all types, adopted ones included, in a sentence for each kind."""
    held = zip(("Types of entities", "Relations", "Attributes"), map(schema.types, TYPE_KINDS), strict=True)
    return " ".join(f"{title}: {', '.join(types)}." for title, types in held if types)


def write_yaml(schema: ExtractionSchema) -> str:
    """Return the schema as a file that :func:`load_schema` reads, without what was adopted."""
    import yaml  # noqa: PLC0415 - only where a schema is set

    sections = zip(SECTIONS, (schema.entities, schema.relations, schema.attributes), strict=True)
    written = {section: dict(types) for section, types in sections if types}
    text: str = yaml.safe_dump(written, allow_unicode=True, sort_keys=False, width=float("inf"))
    return text.rstrip("\n")


def _quote(text: str) -> str:
    return repr(cut_end(one_line(text), 40))
