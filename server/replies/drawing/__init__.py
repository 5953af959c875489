"""One answer as a picture: what of its subgraph is drawn, where, and as SVG or as a page."""
