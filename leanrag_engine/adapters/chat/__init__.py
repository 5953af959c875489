"""Chat models, through litellm."""
