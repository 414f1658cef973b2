"""Finding the spec that somebody means."""

from __future__ import annotations

from pathlib import Path

import pytest

from scpn_phase_orchestrator import domainpacks
from scpn_phase_orchestrator.domainpacks import pack_names, resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s1_path: Path) -> Path:
    """A folder of packs, and an empty current folder."""
    root = tmp_path / "packs"
    for name in ("power_grid", "power_safety_nchannel", "traffic_flow"):
        (root / name).mkdir(parents=True)
        (root / name / "binding_spec.yaml").write_bytes(s1_path.read_bytes())
    (root / "unfinished").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return root


def test_packs_are_the_folders_with_a_spec(packs: Path) -> None:
    assert pack_names(packs) == ["power_grid", "power_safety_nchannel", "traffic_flow"]


def test_a_name_a_folder_and_a_file_are_understood(packs: Path) -> None:
    spec = packs / "power_grid" / "binding_spec.yaml"
    for meant in ("power_grid", spec.parent, str(spec)):
        assert resolve_spec_path(meant, root=packs) == spec


def test_what_is_here_wins_over_a_pack_of_the_same_name(packs: Path, s1_path: Path) -> None:
    Path("power_grid").mkdir()
    assert resolve_spec_path("power_grid", root=packs) == packs / "power_grid" / "binding_spec.yaml"
    Path("power_grid/binding_spec.yaml").write_bytes(s1_path.read_bytes())
    assert resolve_spec_path("power_grid", root=packs) == Path("power_grid/binding_spec.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "powergrid",
            "no pack, file or folder is named 'powergrid'; did you mean 'power_grid'? 'spo packs' lists all packs",
        ),
        ("Power_Grid", "did you mean 'power_grid'?"),
        ("zzz", "no pack, file or folder is named 'zzz'; 'spo packs' lists all packs"),
        ("unfinished", "no pack, file or folder is named 'unfinished'"),
        ("power_grid/", "no pack"),
        ("missing.yaml", "no spec file or folder at 'missing.yaml'"),
        ("some/where", "no spec file or folder at 'some/where'"),
        ("../packs/../packs/power_grid/x", "no spec file or folder at"),
        ("empty", "folder 'empty' holds no binding_spec.yaml"),
        ("dangling", "'dangling' is a link that leads nowhere"),
        ("", "folder '' holds no binding_spec.yaml"),
        ("n" * 5000, "is no usable path"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_nowhere_is_refused_with_a_hint(name: str, message: str, packs: Path) -> None:
    Path("empty").mkdir()
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(BindingError) as caught:
        resolve_spec_path(name, root=packs)
    assert message in str(caught.value)


def test_the_bundled_packs_stand_in_the_package() -> None:
    assert domainpacks.packs_root() == Path(domainpacks.__file__).parent
