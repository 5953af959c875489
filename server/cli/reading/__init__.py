"""Commands that only read a collection."""

import os

# numpy's threads for large matrices, which reading has not, would cost 5 % of the processor time of `leanrag status`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
