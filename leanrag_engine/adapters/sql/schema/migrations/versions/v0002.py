"""The first schema that is kept. A new store is made from the tables, so that nothing leads here: later steps
start from it. Revision 0001 was never released; a store that has it is refused."""

revision = "0002"
down_revision = None
