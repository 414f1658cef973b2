"""Plans with values that YAML knows and cannot make."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentinputlab.contracts.errors import ValidationError
from workers.official_arenas.campaign.plan import load_plan


@pytest.mark.parametrize("value", ["2026-13-45", "9" * 4400], ids=["no such day", "too many digits"])
def test_a_value_that_cannot_be_made_is_refused_with_the_name_of_the_file(value: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"tasks: {value}\n")
    with pytest.raises(ValidationError, match=r"plan\.yaml is not valid YAML: ValueError") as refusal:
        load_plan(plan)
    assert "sys." not in str(refusal.value)
