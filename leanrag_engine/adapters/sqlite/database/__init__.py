"""The database itself: schema, connections, migrations, full text, error mapping."""
