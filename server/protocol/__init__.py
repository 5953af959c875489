"""The rest of the protocol: resources, prompts, completions, tasks."""
