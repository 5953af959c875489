"""Say how many things there are."""


def count_things(count: int, one: str, many: str = "") -> str:
    """Return e.g. ``1 document``, ``2 documents`` or ``2 summaries``."""
    regular = f"{one[:-1]}ies" if one.endswith(("ry", "ty")) else f"{one}s"
    return f"{count:,} {one if count == 1 else many or regular}"
