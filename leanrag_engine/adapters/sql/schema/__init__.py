"""The tables, which any SQL database can hold, and the migrations that create and change them."""
