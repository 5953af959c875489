"""Names, descriptions and quotations of aggregated entities, made without a model."""
