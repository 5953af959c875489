"""What holds of any graph or layer, whoever reads or writes it: whether layers fit together, and what supports their texts."""
