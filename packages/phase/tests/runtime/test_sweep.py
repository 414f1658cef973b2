"""Sweeps: settings, grids, resumption, and what is written."""

import csv
from pathlib import Path

import numpy as np
import pytest

from ripieno.errors import InputError
from ripieno.run import read_events, read_manifest
from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.exceptions import BindingError, ValidationError
from scpn_phase_orchestrator.runtime import sweep as sweep_module
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.runtime.sweep import MEASURES, Variation, sweep, with_setting

STRENGTH = Variation("coupling.base_strength", (0.0, 0.6, 2.0))


class TestVariation:
    def test_a_range_includes_both_ends(self) -> None:
        assert Variation.parse("coupling.base_strength=0:2:21").values == tuple(np.linspace(0, 2, 21).tolist())
        assert Variation.parse(" a.b = 1:1:1").values == (1.0,)

    @pytest.mark.parametrize(
        "text", ["a", "a=", "=1,2", "a=1:2", "a=1:2:0", "a=1:2:1.5", "a=x", "a=1,nan", "a=0:inf:3", "a=1:2:9999999"]
    )
    def test_anything_else_is_refused_with_its_text(self, text: str) -> None:
        with pytest.raises(ValueError, match="a variation reads PATH=START:STOP:COUNT"):
            Variation.parse(text)


class TestSettings:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("coupling.base_strength", 1.5),
            ("drivers.physical.zeta", 0.3),
            ("drivers.physical.frequency", 2.0),
            ("layers.storms.omegas.1", -4.0),
            ("layers.0.omegas.0", 4.0),
            ("actuators.drive.rate_limit_per_step", 0.2),
            ("actuators.drive.limits.1", 0.8),
            ("integration.substeps", 3.0),
            ("supervisor.bad_ceiling", 0.4),
        ],
    )
    def test_a_number_is_replaced_in_a_copy(self, s1_path: Path, path: str, value: float) -> None:
        spec = load_binding_spec(s1_path)
        changed = with_setting(spec, path, value)
        node: object = changed
        for part in path.split("."):
            if isinstance(node, dict):
                node = node[part]
            elif isinstance(node, list | tuple):
                names = [getattr(item, "name", str(k)) for k, item in enumerate(node)]
                node = node[names.index(part) if part in names else int(part)]
            else:
                node = getattr(node, part)
        assert node == value
        assert type(node) is (int if path == "integration.substeps" else float)
        assert spec == load_binding_spec(s1_path)

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("coupling.base_strenght", "did you mean 'base_strength'"),
            ("couplings.base_strength", "did you mean 'coupling'"),
            ("layers.storm.omegas.0", "did you mean 'storms'"),
            ("layers.5.omegas.0", "'5' is unknown"),
            ("drivers.physical.zetta", "did you mean 'zeta'"),
            ("name", "must be a number in the spec, it is str"),
            ("coupling", "must be a number in the spec, it is CouplingSpec"),
            ("coupling.base_strength.x", "nothing lies below"),
        ],
    )
    def test_a_path_to_no_number_names_what_is_near(self, s1_path: Path, path: str, words: str) -> None:
        with pytest.raises(BindingError, match=words):
            with_setting(load_binding_spec(s1_path), path, 1.0)


class TestSweep:
    def test_rows_are_what_simulate_gives(self, s1_path: Path, tmp_path: Path) -> None:
        result = sweep(s1_path, [STRENGTH], out=tmp_path / "out", seeds=[1, 2], steps=40, progress=False)
        assert result.failures == ()
        assert [(row["coupling.base_strength"], row["seed"]) for row in result.rows] == [
            (value, seed) for value in STRENGTH.values for seed in (1, 2)
        ]
        spec = with_setting(load_binding_spec(s1_path), "coupling.base_strength", 2.0)
        expected = simulate(spec, steps=40, seed=2)
        assert expected.verdict is not None
        assert result.rows[-1]["score"] == expected.verdict.score
        assert result.rows[-1]["r_good"] == pytest.approx(
            np.mean(expected.r_good_history[-expected.verdict.judged_steps :]), rel=1e-12
        )
        assert result.rows[-1]["actions"] == expected.action_total
        assert result.rows[-1]["lock_bad"] == expected.verdict.bad_lock

    def test_the_run_folder_verifies_and_holds_table_and_figure(self, s1_path: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        grid = [STRENGTH, Variation("drivers.physical.zeta", (0.0, 0.2))]
        result = sweep(s1_path, grid, out=out, steps=20, policy_enabled=False, progress=False)
        assert result.folder == out / "run"
        assert verify(out / "run").status is VerifyStatus.COMPLETE
        rows = list(csv.DictReader((out / "run" / "results.csv").read_text().splitlines()))
        assert len(rows) == 6
        assert list(rows[0]) == ["seed", "coupling.base_strength", "drivers.physical.zeta", *MEASURES]
        assert [float(row["score"]) for row in rows] == [row["score"] for row in result.rows]
        assert (out / "run" / "figure.svg").read_text().startswith("<")
        page = (out / "run" / "index.html").read_text()
        achieved = sum(row["outcome"] == "achieved" for row in result.rows)
        assert f"achieved on every seed by {achieved} of 6 combinations" in page
        assert page.count("<svg") == 1
        assert "<image" not in page  # the page may load nothing, and a bitmap counts as loading
        assert "lock is the coherence of a bad layer beyond what unrelated phases show by chance" in page
        assert page.count("<tr><td") >= 6
        assert "<td>no</td>" in page  # not supervised
        assert len(list(read_events(out / "run"))) == 6
        assert read_manifest(out / "run")["config"]["variations"]["drivers.physical.zeta"] == [0.0, 0.2]

    def test_a_spec_without_bad_layers_has_no_lock_and_no_curve_of_it(self, s1_path: Path, tmp_path: Path) -> None:
        only_good = tmp_path / "good.yaml"
        text = s1_path.read_text()
        assert "bad_layers: [1]" in text
        only_good.write_text(text.replace("bad_layers: [1]", "bad_layers: []"))
        result = sweep(only_good, [STRENGTH], out=tmp_path / "out", steps=5, policy_enabled=False, progress=False)
        assert [row["lock_bad"] for row in result.rows] == [None] * 3
        page = (tmp_path / "out" / "run" / "index.html").read_text()
        assert "R of the good layers</text>" in page
        assert "highest lock of the bad layers</text>" not in page

    def test_an_interrupted_sweep_goes_on_where_it_was_stopped(
        self, s1_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, calls = sweep_module.simulate, 0

        def stop_at_the_third(*arguments: object, **more: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise KeyboardInterrupt
            return real(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(sweep_module, "simulate", stop_at_the_third)
        out = tmp_path / "out"
        with pytest.raises(KeyboardInterrupt):
            sweep(s1_path, [STRENGTH], out=out, seeds=[1, 2], steps=5, progress=False)
        assert not (out / "run").exists()
        result = sweep(s1_path, [STRENGTH], out=out, seeds=[1, 2], steps=5, progress=False)
        assert result.resumed == 2
        assert calls == 3 + 4
        assert len(result.rows) == 6

    def test_a_finished_sweep_is_not_overwritten(self, s1_path: Path, tmp_path: Path) -> None:
        sweep(s1_path, [STRENGTH], out=tmp_path, steps=2, progress=False)
        with pytest.raises(ValueError, match="this sweep is finished; name another folder"):
            sweep(s1_path, [STRENGTH], out=tmp_path, steps=2, progress=False)

    def test_a_folder_of_other_work_is_refused(self, s1_path: Path, tmp_path: Path) -> None:
        broken = Variation("layers.storms.omegas.0", (1.0, 1000.0))
        first = sweep(s1_path, [broken], out=tmp_path, steps=2, progress=False)
        assert first.folder is None
        with pytest.raises(InputError, match="belongs to other work"):
            sweep(s1_path, [STRENGTH], out=tmp_path, steps=2, progress=False)

    def test_a_cell_that_fails_is_named_and_the_others_count(self, s1_path: Path, tmp_path: Path) -> None:
        broken = Variation("layers.storms.omegas.0", (1.0, 1000.0))
        result = sweep(s1_path, [broken], out=tmp_path, steps=2, progress=False)
        assert len(result.rows) == 1
        ((label, error),) = result.failures
        assert label == "layers.storms.omegas.0 = 1000, seed 42"
        assert "too long for a natural frequency" in error

    def test_worker_processes_give_the_same_rows(self, s1_path: Path, tmp_path: Path) -> None:
        serial = sweep(s1_path, [STRENGTH], out=tmp_path / "a", steps=20, progress=False)
        spread = sweep(
            s1_path, [STRENGTH], out=tmp_path / "b", steps=20, executor="processes", workers=2, progress=False
        )
        assert serial.rows == spread.rows

    @pytest.mark.parametrize(
        ("variations", "error", "words"),
        [
            ([], ValueError, "at least one variation"),
            ([STRENGTH, STRENGTH], ValueError, "varied twice"),
            ([Variation("coupling.base_strength", (-1.0,))], ValidationError, "with coupling.base_strength = -1"),
            ([Variation("coupling.strength", (1.0,))], BindingError, "did you mean 'base_strength'"),
        ],
    )
    def test_what_cannot_be_run_is_refused_before_anything_runs(
        self, s1_path: Path, tmp_path: Path, variations: list[Variation], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error, match=words):
            sweep(s1_path, variations, out=tmp_path / "out", steps=2, progress=False)
        assert not (tmp_path / "out").exists()

    def test_a_spec_that_changes_under_way_fails_its_cells(self, s1_path: Path, tmp_path: Path) -> None:
        spec_path = tmp_path / "spec.yaml"
        spec_path.write_bytes(s1_path.read_bytes())
        cell = {
            "spec": str(spec_path),
            "spec_sha256": "0" * 64,
            "policy": None,
            "policy_sha256": None,
            "settings": {},
            "seed": 1,
            "steps": 1,
            "policy_enabled": True,
            "method": None,
            "substeps": None,
        }
        with pytest.raises(BindingError, match="was changed after the sweep began"):
            sweep_module.run_cell(cell)
