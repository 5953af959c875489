"""What every package of the engine shares: settings, errors, values, ports, and text as characters and words."""
