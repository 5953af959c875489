"""From G(i) to G(i+1): clustering, aggregation, inter-cluster relations."""
