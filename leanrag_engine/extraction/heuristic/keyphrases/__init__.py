"""Terms without a capital letter: noun phrases, and Chinese, Japanese or Korean compounds."""
