"""Dependencies send nothing of their own accord: neither figures of use, nor requests for newer tables."""

import os

SWITCHES = {
    # Reports each session, and keeps a device id and a database in the home folder; read as it is imported.
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Chroma's: version 1.5 has the setting and sends nothing.
    "ANONYMIZED_TELEMETRY": "False",
    # litellm would download its table of prices as it is imported, and that of headers at the first call of some models.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
}


def turn_off_reporting() -> None:
    """Set the variables that the environment does not set, for this process and those that it starts. To be
    called before any of these libraries is imported."""
    for variable, value in SWITCHES.items():
        os.environ.setdefault(variable, value)
