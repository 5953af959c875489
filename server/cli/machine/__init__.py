"""Commands about this machine: which clients start the server, which settings hold."""
