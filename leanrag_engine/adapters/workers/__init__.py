"""Where documents are read: in this process, in processes of its own, or on a cluster."""
