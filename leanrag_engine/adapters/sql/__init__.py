"""The stores on SQL: tables in ``schema``, what differs between databases in ``dialect``, functions that take
a connection beside them, and ``stores``, which begins transactions on threads and implements the Protocols."""

from .stores import SqlDatabase

__all__ = ["SqlDatabase"]
