"""Settings given in code: what a wrong name is answered with."""

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput


def test_a_wrong_name_in_code_is_not_blamed_on_the_settings_file() -> None:
    with pytest.raises(InvalidInput, match="no setting 'embeder'") as refused:
        load_settings(embeder="fitted")
    assert refused.value.next_step == "Did you mean embedder, embedder_window?"
