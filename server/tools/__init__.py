"""The tools: arguments, calls to the engine, one reply each."""
