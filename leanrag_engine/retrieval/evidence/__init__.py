"""From seeds to the evidence of one query, as far as its filters allow."""
