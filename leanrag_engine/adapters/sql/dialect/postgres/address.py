"""Read the address of a PostgreSQL database, and write it without its password."""

from importlib.util import find_spec

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from leanrag_engine.core.errors import InvalidInput


def parse_address(given: str) -> URL:
    """Return ``given`` for SQLAlchemy. Raises ``InvalidInput``, without the password, for another address or without the driver."""
    if find_spec("psycopg") is None:
        raise InvalidInput(
            "A PostgreSQL database needs the package psycopg, which is not installed.",
            'Install it with `pip install "leanrag-mcp[postgres]"`.',
        )
    try:
        url = make_url(given)
    except ArgumentError:
        url = None
    usable = url is not None and url.database and "@" not in f"{url.host}{url.database}"
    if url is None or not usable or url.get_backend_name() not in ("postgresql", "postgres"):
        raise InvalidInput(
            "The setting database_url is no address of a PostgreSQL database.",
            "Give one such as postgresql://user:password@host:5432/database; in the password @ is %40, / is %2F.",
        )
    return url.set(drivername="postgresql+psycopg")


def hide_password(url: URL) -> str:
    """Return the address without password and options."""
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    return f"postgresql://{user}{url.host or ''}{port}/{url.database}"
