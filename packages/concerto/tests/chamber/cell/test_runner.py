"""Running a cell: what is in the folder, that it can be recomputed, and that the seeds fix it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chamber._planar import PlanarView
from chamber.cell.config import Cell, Condition
from chamber.cell.episode import CellRunner, start_states
from chamber.cell.loading import default_cell_text
from chamber.cell.outcome import EpisodeResult, judge
from chamber.cell.record import read_cell_record
from chamber.cell.runner import run_cell
from chamber.cell.tables import three_tables
from chamber.cell.trace import WALL_STOP, EpisodeTrace
from chamber.cell_report import render_cell_page
from chamber.envs import MPECooperativePushEnv
from chamber.envs.mpe_cooperative_push import DT
from chamber.partners import PartnerBase, register_partner
from concerto.safety.reporting import parse_three_tables
from concerto.safety.stack import SafetySource
from ripieno.errors import InputError
from ripieno.randomness import derive_substream
from ripieno.run import read_events, read_manifest
from ripieno.verify import verify


def with_task(cell: Cell, **changes: Any) -> Cell:
    return cell.model_copy(update={"task": cell.task.model_copy(update=changes)})


def test_folder_holds_what_was_promised_and_verifies(small_run):
    names = {path.name for path in small_run.folder.iterdir()}
    assert names == {
        "run.json", "events.jsonl", "cell.yaml", "episodes.json", "three_tables.json", "three_tables.md", "index.html",
    }  # fmt: skip
    report = verify(small_run.folder, expect=small_run.digest)
    assert report.ok
    assert report.status == "complete"


def test_hash_of_the_cell_is_in_the_manifest_the_log_and_the_page(small_run):
    manifest = read_manifest(small_run.folder)
    assert manifest["config"] == small_run.cell.model_dump(mode="json")
    assert small_run.record.config_sha256 == manifest["config_sha256"]
    assert manifest["config_sha256"] in (small_run.folder / "index.html").read_text()
    assert manifest["seeds"] == {"root_seed": small_run.cell.root_seed}


def test_everything_can_be_recomputed_from_the_event_log_alone(small_run, tmp_path: Path):
    (tmp_path / "events.jsonl").write_bytes((small_run.folder / "events.jsonl").read_bytes())
    record = read_cell_record(tmp_path)
    assert render_cell_page(record) == (small_run.folder / "index.html").read_text()
    report = three_tables(record.cell, record.outcomes)
    assert report == parse_three_tables(small_run.folder / "three_tables.json")
    rows = [EpisodeResult.model_validate(row) for row in json.loads((small_run.folder / "episodes.json").read_text())]
    assert rows == [outcome.result() for outcome in record.outcomes]


def test_equal_seeds_give_equal_events(small_run, tmp_path: Path):
    run_cell(small_run.cell, tmp_path / "again", cell_text=default_cell_text())
    first, second = (list(read_events(folder)) for folder in (small_run.folder, tmp_path / "again"))
    assert first == second
    assert len(first) == 1 + 3 * 2 * small_run.cell.episodes


def test_another_root_seed_gives_other_episodes(small_cell: Cell):
    other = small_cell.model_copy(update={"root_seed": small_cell.root_seed + 1})
    first, second = (
        CellRunner(cell, cell.partners[0]).run(Condition.WITHOUT_STACK, episode_idx=0, initial_state_seed=0)
        for cell in (small_cell, other)
    )
    assert not np.array_equal(first.landmarks_m, second.landmarks_m)


def test_conditions_and_partners_share_their_start_states(small_run):
    starts: dict[int, set[bytes]] = {}
    for outcome in small_run.record.outcomes:
        trace = outcome.trace
        state = np.concatenate([trace.landmarks_m.ravel(), trace.ego_positions_m[0], trace.partner_positions_m[0]])
        starts.setdefault(trace.initial_state_seed, set()).add(state.tobytes())
    assert len(starts) == small_run.cell.episodes
    assert all(len(states) == 1 for states in starts.values())


def test_start_states_are_far_enough_apart_and_the_first_of_their_kind(small_cell: Cell):
    cell = with_task(small_cell, start_separation_m=1.2)
    env = MPECooperativePushEnv(root_seed=cell.root_seed)

    def separation(seed: int) -> float:
        env.reset(seed=seed)
        return float(np.linalg.norm(env.position("ego") - env.position("partner")))

    seeds = start_states(cell)
    assert seeds == tuple(seed for seed in range(max(seeds) + 1) if separation(seed) >= 1.2)


def test_recorded_commands_and_positions_agree_with_the_task(small_run):
    for outcome in small_run.record.outcomes:
        trace = outcome.trace
        assert trace.n_steps == small_run.cell.task.episode_length
        moved = np.clip(trace.partner_positions_m[:-1] + DT * trace.partner_commands_m_s, -1.0, 1.0)
        np.testing.assert_array_equal(trace.partner_positions_m[1:], moved)
        driven = np.clip(trace.ego_positions_m[:-1] + DT * trace.applied_commands_m_s, -1.0, 1.0)
        np.testing.assert_array_equal(trace.ego_positions_m[1:], driven)


def test_without_the_stack_the_nominal_command_is_applied(small_run):
    for outcome in small_run.record.outcomes:
        trace = outcome.trace
        if trace.condition is Condition.WITHOUT_STACK:
            np.testing.assert_array_equal(trace.applied_commands_m_s, trace.nominal_commands_m_s)
            assert trace.sources == ()
            assert len(trace.slack_m_s2) == 0
        else:
            assert len(trace.sources) == len(trace.slack_m_s2) == len(trace.stopping_margin_m) == trace.n_steps
            assert set(trace.sources) <= {*map(str, SafetySource), WALL_STOP}


def test_a_pass_through_is_the_nominal_command_to_the_last_bit(small_run):
    n_passed = 0
    for outcome in small_run.record.outcomes:
        trace = outcome.trace
        passed = np.array([source == SafetySource.PASS_THROUGH for source in trace.sources], dtype=bool)
        if len(passed):
            np.testing.assert_array_equal(trace.applied_commands_m_s[passed], trace.nominal_commands_m_s[passed])
            n_passed += int(passed.sum())
    assert n_passed > 0


def test_a_trace_survives_its_event_to_the_last_bit():
    rng = np.random.default_rng(7)
    numbers = {
        "landmarks_m": (2, 2), "ego_positions_m": (4, 2), "partner_positions_m": (4, 2), "nominal_commands_m_s": (3, 2),
        "applied_commands_m_s": (3, 2), "partner_commands_m_s": (3, 2), "rewards": (3,), "slack_m_s2": (3,),
        "prediction_loss": (3,), "stopping_margin_m": (3,),
    }  # fmt: skip
    arrays = {name: rng.normal(size=shape) * 10.0 ** rng.integers(-12, 12) for name, shape in numbers.items()}
    arrays["prediction_loss"][0] = np.nan
    arrays["stopping_margin_m"][1] = np.inf
    arrays["nominal_commands_m_s"][0] = (-0.0, 1.0)
    trace = EpisodeTrace(
        partner="p", partner_id="0" * 16, condition=Condition.WITH_STACK, root_seed=1, episode_idx=2,
        initial_state_seed=3, sources=("qp", "braking", "qp"), **arrays,
    )  # fmt: skip
    back = EpisodeTrace.from_event(json.loads(json.dumps(trace.to_event())))
    for name in numbers:
        assert getattr(back, name).tobytes() == arrays[name].tobytes(), name
    assert (back.sources, back.condition, back.episode_idx) == (trace.sources, trace.condition, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"rewards": "1.0 x"},
        {"rewards": ""},
        {"condition": "sometimes"},
        {"condition": "with_stack"},  # and no answer of a stack
        {"ego_positions_m": "1 2 3"},
        {"ego_positions_m": "1 2 3 4"},
        {"partner_positions_m": "nan nan"},
        {"root_seed": "1"},
        {"sources": 7},
    ],
)
def test_a_malformed_episode_event_is_refused(small_run, change: dict[str, Any]):
    trace = small_run.record.outcomes[0].trace
    assert trace.condition is Condition.WITHOUT_STACK
    event = trace.to_event()
    with pytest.raises(InputError, match="not an episode event"):
        EpisodeTrace.from_event({**event, **change})


def test_a_folder_without_a_cell_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="is not a run folder"):
        read_cell_record(tmp_path)


def test_the_ego_stops_where_a_wall_would_cut_its_escape_short(small_cell: Cell):
    """The declared motion of the ego holds in every step with the stack: no wall ever changes a command."""
    n_wall_stops = 0
    cell = small_cell.model_copy(update={"episodes": 20})
    pursuer = CellRunner(cell, cell.partners[2])
    for start in start_states(cell):
        trace = pursuer.run(Condition.WITH_STACK, episode_idx=0, initial_state_seed=start)
        np.testing.assert_allclose(np.diff(trace.ego_positions_m, axis=0), DT * trace.applied_commands_m_s, atol=1e-15)
        n_wall_stops += trace.sources.count(WALL_STOP)
        assert judge(cell, trace).n_at_fault == 0
    assert n_wall_stops > 0, "no episode reaches a wall, so this test shows nothing"


@register_partner("test_only_erratic")
class Erratic(PartnerBase):
    """Jumps between the fastest commands there are, now at random and now at the ego: the worst that was declared."""

    def reset(self, *, seed: int | None = None) -> None:
        self._rng = derive_substream("test.erratic", root_seed=seed or 0).default_rng()

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float64]:
        at_the_ego = np.sign(PlanarView.of(obs, "partner").other)
        anywhere = self._rng.choice([-1.0, 1.0], size=2)
        return at_the_ego if self._rng.random() < 0.5 else anywhere


def test_no_contact_is_the_egos_fault_beside_the_worst_partner_that_was_declared(small_cell: Cell):
    cell = small_cell.model_copy(update={"episodes": 100})
    erratic = CellRunner(cell, small_cell.partners[0].model_copy(update={"class_name": "test_only_erratic"}))
    contacts = {condition: [0, 0] for condition in Condition}
    for start in start_states(cell):
        for condition in Condition:
            outcome = judge(cell, erratic.run(condition, episode_idx=0, initial_state_seed=start))
            contacts[condition][0] += outcome.n_at_fault
            contacts[condition][1] += outcome.n_not_at_fault
    assert contacts[Condition.WITH_STACK][0] == 0
    assert contacts[Condition.WITH_STACK][1] > 0
    assert contacts[Condition.WITHOUT_STACK][0] > 30, "the partner is no danger, so this test shows nothing"


def test_no_folder_is_made_for_a_cell_that_cannot_be_run(small_cell: Cell, tmp_path: Path):
    crowded = with_task(small_cell, start_separation_m=2.82).model_copy(update={"episodes": 1})
    with pytest.raises(InputError, match=r"start_separation_m 2\.82 leaves only 0 start states"):
        run_cell(crowded, tmp_path / "run", cell_text="")
    assert not (tmp_path / "run").exists()


def test_a_partner_made_for_another_task_is_refused_before_anything_is_written(small_cell: Cell, tmp_path: Path):
    five = small_cell.partners[0].model_copy(
        update={"class_name": "partner_ablated_zero", "extra": {"action_dim": "5"}}
    )
    cell = small_cell.model_copy(update={"partners": (five,)})
    with pytest.raises(InputError, match="partner 'cooperative' cannot play this task"):
        run_cell(cell, tmp_path / "run", cell_text="")
    assert list(tmp_path.iterdir()) == []


def test_any_partner_that_gives_two_numbers_can_play(small_cell: Cell):
    still = small_cell.partners[0].model_copy(
        update={"class_name": "partner_ablated_zero", "extra": {"action_dim": "2"}}
    )
    trace = CellRunner(small_cell, still).run(Condition.WITH_STACK, episode_idx=0, initial_state_seed=0)
    np.testing.assert_array_equal(trace.partner_positions_m[0], trace.partner_positions_m[-1])


def test_a_crash_leaves_a_failed_run_that_verifies(small_cell: Cell, tmp_path: Path):
    def explode(done: int, words: str) -> None:
        if done == 4:
            raise RuntimeError("the lights went out")

    with pytest.raises(RuntimeError, match="lights"):
        run_cell(small_cell, tmp_path / "run", cell_text="", progress=explode)
    report = verify(tmp_path / "run")
    assert (report.ok, report.status) == (True, "failed")
    assert len(read_cell_record(tmp_path / "run").outcomes) == 4
