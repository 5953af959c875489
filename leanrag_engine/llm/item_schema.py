"""Check one answer against its published JSON schema, and say in words what is wrong, where, and what was expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leanrag_engine.core.model import Json, JsonObject, JsonSchema
from leanrag_engine.core.text.shortening import cut_end, one_line

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_SHOWN = 40  # Characters of a wrong value that a message repeats
_LIMITS = frozenset({"pattern", "maxLength", "minItems", "maxItems", "minimum", "maximum"})
"""Keywords that the services of chat models reject or ignore in the schema of a reply."""

TEXT: JsonSchema = {"type": "string", "pattern": r"\S"}
"""The schema of a text that is not empty."""


def object_schema(properties: Mapping[str, JsonSchema], optional: Collection[str] = ()) -> JsonSchema:
    """Return the schema of an object with these properties and no others; all but the ``optional`` are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def find_faults(schema: JsonSchema, item: JsonObject) -> list[str]:
    """Return what is wrong with ``item``, each fault as ``path: problem; expected …``, in the order of the paths."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - only where an agent submits

    errors = sorted(
        Draft202012Validator(schema).iter_errors(item), key=lambda each: format_path(each.absolute_path)
    )
    # Each missing key is an error of its own, which names its object alone: all of them give the same faults.
    return list(dict.fromkeys(fault for error in errors for fault in _faults(error)))


def _faults(error: ValidationError) -> Iterator[str]:
    path, found = format_path(error.absolute_path), error.instance
    expected: Any = error.schema if isinstance(error.schema, Mapping) else {}
    if error.validator == "required":
        for name in expected["required"]:
            if name not in found:
                wanted = describe_schema(expected["properties"][name])
                yield f"{_below(path, name)} is missing; expected {wanted}"
    elif error.validator == "additionalProperties":
        for name in found:
            if name not in expected["properties"]:
                yield f"{_below(path, name)} is unknown; expected only {', '.join(expected['properties'])}"
    else:
        yield f"{path or 'the item'} is {_show(found)}; expected {describe_schema(expected)}"


def join_faults(faults: Sequence[str], most: int = 8) -> str:
    """Return the first ``most`` faults as one message, with the number of the others."""
    more = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return f"{'; '.join(faults[:most])}{more}."


def format_path(parts: Sequence[str | int]) -> str:
    """Return a path in an item as programs write it: ``relations[0].target``."""
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _below(path, part)
    return path


def _below(path: str, name: str) -> str:
    name = cut_end(one_line(name), _SHOWN)
    return f"{path}.{name}" if path else name


def _show(value: Json) -> str:
    if isinstance(value, str):
        return f'"{cut_end(one_line(value), _SHOWN)}"' if value.strip() else "empty"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, Mapping) else str(value)


def describe_schema(schema: JsonSchema) -> str:
    """Return in words what a value of the schema is: ``an integer from 1 to 10``."""
    match schema.get("type"):
        case "string":
            most = f" of at most {schema['maxLength']} characters" if "maxLength" in schema else ""
            return f"a text{most}{', not empty' if 'pattern' in schema else ''}"
        case "integer":
            return f"an integer from {schema['minimum']} to {schema['maximum']}"
        case "number":
            return f"a number from {schema['minimum']} to {schema['maximum']}"
        case "array":
            most = f"at most {schema['maxItems']} of them, " if "maxItems" in schema else ""
            return f"a list, {most}each {describe_schema(schema['items'])}"
    return f"an object with {', '.join(schema.get('properties', {}))}"


def service_schema(schema: Any) -> Any:
    """Return a schema as services of chat models accept it: every property required, and no limits of sizes."""
    if isinstance(schema, list):
        return [service_schema(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: service_schema(value) for key, value in schema.items() if key not in _LIMITS}
    return plain | ({"required": [*schema["properties"]]} if "properties" in schema else {})
