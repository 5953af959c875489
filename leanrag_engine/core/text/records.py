"""How a table stands in the text of a document: a line that names it, then one line for each row with the names
of its columns. Table Staff, 2 rows: Name | Role Row 1: Name: Ada; Role: engineer Row 2: Name: Bo; Role: nurse"""

import re

TABLE_NAME = r"Table\b[^\n]{0,300}?, \d+ rows?(?=:|$)"
TABLE_ROW = r"Row \d+: "
TABLE_LINE = re.compile(f"{TABLE_ROW}|{TABLE_NAME}", re.MULTILINE)  # The beginning of each line of a table
