"""Say how many things there are."""


def count_things(count: int, one: str, many: str = "") -> str:
    """Return e.g. ``1 document`` or ``2 documents``."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
