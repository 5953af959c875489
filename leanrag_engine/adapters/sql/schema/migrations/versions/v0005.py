"""The first schema that is kept. A new store is made from the tables, so that nothing leads here: later steps
start from it. Earlier revisions were never released; a store that has one is refused."""

revision = "0005"
down_revision = None
