"""What the engines compute, against closed forms, SciPy's DOP853 at rtol 1e-10, and their own order of convergence."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from scpn_phase_orchestrator.upde.bifurcation import find_critical_coupling
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine
from scpn_phase_orchestrator.upde.order_params import compute_order_parameter
from scpn_phase_orchestrator.upde.stuart_landau import PreparedAmplitudeCoupling, StuartLandauEngine
from scpn_phase_orchestrator.upde.uniform import UniformUPDEEngine

TAU = 2 * np.pi
NONE = np.zeros((2, 2))
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def on_circle(angles):
    """Distance from 0 on the circle, signed."""
    return (np.asarray(angles) + np.pi) % TAU - np.pi


def kuramoto(phases, omegas, knm, duration, n_steps, method="rk4", zeta=0.0, psi=0.0, alpha=None, **settings):
    engine = UPDEEngine(len(phases), duration / n_steps, method, **settings)
    return engine.run(phases, omegas, PreparedCoupling.from_matrices(knm, alpha), zeta, psi, n_steps=n_steps)


def stuart_landau(
    state, omegas, mu, prepared, duration, n_steps, method="rk4", drive=(0.0, 0.0), epsilon=1.0, **settings
):
    engine = StuartLandauEngine(len(omegas), duration / n_steps, method, **settings)
    for _ in range(n_steps):
        state = engine.advance(state, omegas, mu, prepared, *drive, epsilon)
    return state


class Network:
    """Eight oscillators with lags, a drive, and attraction and repulsion."""

    n = 8
    rng = np.random.default_rng(11)
    phases = rng.uniform(0, TAU, n)
    amplitudes = rng.uniform(0.5, 1.5, n)
    omegas = rng.normal(0, 1.5, n)
    mu = rng.uniform(0.2, 1.5, n)
    knm = rng.uniform(-0.2, 0.5, (n, n))
    knm_r = rng.uniform(-0.1, 0.4, (n, n))
    np.fill_diagonal(knm, 0.0)
    np.fill_diagonal(knm_r, 0.0)
    alpha = rng.uniform(-1, 1, (n, n))
    zeta, psi, epsilon = rng.uniform(0, 0.5, n), rng.uniform(0, TAU, n), 0.7

    @classmethod
    def angles(cls, theta):
        return theta[None, :] - theta[:, None] - cls.alpha

    @classmethod
    def phase_velocity(cls, theta):
        return cls.omegas + (cls.knm * np.sin(cls.angles(theta))).sum(axis=1) + cls.zeta * np.sin(cls.psi - theta)

    @classmethod
    def velocity(cls, _, state):
        theta, r = state[: cls.n], state[cls.n :]
        growth = (cls.mu - r**2) * r
        growth += cls.epsilon * (cls.knm_r * np.maximum(r, 0)[None, :] * np.cos(cls.angles(theta))).sum(axis=1)
        return np.concatenate([cls.phase_velocity(theta), growth])

    @classmethod
    @cache
    def reference(cls, duration, rtol):
        """Both kinds of engine share the phases: one solution of phases and amplitudes."""
        start = np.concatenate([cls.phases, cls.amplitudes])
        solution = solve_ivp(cls.velocity, (0, duration), start, method="DOP853", rtol=rtol, atol=rtol / 100)
        assert (solution.y[cls.n :] > 0).all()
        return solution.y[:, -1]

    @classmethod
    def kuramoto_error(cls, duration, method, n_steps, *, reference_rtol=1e-10, **settings):
        drive = (cls.zeta, cls.psi, cls.alpha)
        reached = kuramoto(cls.phases, cls.omegas, cls.knm, duration, n_steps, method, *drive, **settings)
        return np.abs(on_circle(reached - cls.reference(duration, reference_rtol)[: cls.n])).max()

    @classmethod
    def stuart_landau_error(cls, duration, method, n_steps, *, reference_rtol=1e-10, **settings):
        prepared = PreparedAmplitudeCoupling.from_matrices(cls.knm, cls.knm_r, cls.alpha)
        start = np.concatenate([cls.phases, cls.amplitudes])
        drive = (cls.zeta, cls.psi)
        gap = stuart_landau(
            start, cls.omegas, cls.mu, prepared, duration, n_steps, method, drive, cls.epsilon, **settings
        ) - cls.reference(duration, reference_rtol)
        gap[: cls.n] = on_circle(gap[: cls.n])
        return np.abs(gap).max()


ERRORS = [Network.kuramoto_error, Network.stuart_landau_error]


@pytest.mark.parametrize("error", ERRORS)
def test_fine_steps_agree_with_dop853(error):
    assert error(4.0, "rk4", 4000) < 1e-9
    assert error(4.0, "rk45", 40, atol=1e-11, rtol=1e-11) < 1e-9


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("method", "order", "n_steps"), [("euler", 1, 100), ("rk4", 4, 20), ("rk45", 5, 16)])
def test_error_falls_with_the_order_of_the_method(error, method, order, n_steps):
    """A tolerance that accepts everything leaves rk45 one internal step of fifth order per call.

    Its terms of sixth order are large: on the way to small steps the measured order comes from above.
    """
    settings = {"atol": 1e6} if method == "rk45" else {}
    errors = [error(0.5, method, n_steps * 2**halving, reference_rtol=1e-13, **settings) for halving in range(3)]
    measured = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (measured > order - 0.1).all()
    assert (measured < order + (0.7 if method == "rk45" else 0.1)).all()
    assert abs(measured[1] - order) <= abs(measured[0] - order) + 1e-3


@pytest.mark.parametrize("error", ERRORS)
def test_substeps_are_worth_as_many_steps(error):
    for method in ("euler", "rk4"):
        assert error(4.0, method, 25, substeps=8) == pytest.approx(error(4.0, method, 200), rel=1e-3)


@pytest.mark.parametrize("error", ERRORS)
def test_rk45_keeps_to_its_tolerance_whatever_step_is_asked_for(error):
    for n_steps in (1, 7, 100):
        assert error(4.0, "rk45", n_steps, atol=1e-8, rtol=1e-8) < 1e-6


class TestTwoOscillators:
    """φ = θ₂ − θ₁ obeys φ' = Δω − 2K sin φ; u = tan(φ/2) obeys a Riccati equation with a closed form."""

    def difference(self, gap, strength, start, duration, n_steps=2000, method="rk4"):
        phases = kuramoto([0.0, start], [0.0, gap], strength * PAIR, duration, n_steps, method)
        return phases[1] - phases[0]

    @pytest.mark.parametrize("gap", [0.5, -0.9, 1.5])
    def test_locking_follows_the_closed_form(self, gap):
        a, start, duration = 1.6, 0.3, 2.0
        rate = np.sqrt(a**2 - gap**2)
        offset = np.arctanh((a - gap * np.tan(start / 2)) / rate) if abs(gap * np.tan(start / 2) - a) < rate else None
        if offset is not None:
            u = (a - rate * np.tanh(offset + rate * duration / 2)) / gap
        else:  # the branch with coth starts beyond the tanh branch
            offset = np.arctanh(rate / (a - gap * np.tan(start / 2)))
            u = (a - rate / np.tanh(offset + rate * duration / 2)) / gap
        assert on_circle(self.difference(gap, a / 2, start, duration) - 2 * np.arctan(u)) == pytest.approx(0, abs=1e-10)

    @pytest.mark.parametrize("gap", [1.7, -3.0])
    def test_drifting_follows_the_closed_form(self, gap):
        a, start, duration = 1.6, 0.3, 5.0
        beat = np.sqrt(gap**2 - a**2)
        offset = np.arctan((gap * np.tan(start / 2) - a) / beat)
        u = (a + beat * np.tan(offset + beat * duration / 2)) / gap
        assert on_circle(self.difference(gap, a / 2, start, duration) - 2 * np.arctan(u)) == pytest.approx(0, abs=1e-9)

    def test_equal_frequencies_close_the_half_angle_exponentially(self):
        expected = 2 * np.arctan(np.tan(1.2) * np.exp(-1.6 * 1.5))
        assert self.difference(0.0, 0.8, 2.4, 1.5) == pytest.approx(expected, abs=1e-11)

    def test_locked_difference_is_the_arcsine(self):
        assert on_circle(self.difference(1.0, 0.8, 0.0, 40.0)) == pytest.approx(np.arcsin(1 / 1.6), abs=1e-10)

    @pytest.mark.parametrize(("gap", "locks"), [(1.59, True), (1.61, False), (-1.59, True), (-1.61, False)])
    def test_locking_ends_where_the_gap_is_twice_the_coupling(self, gap, locks):
        settled = self.difference(gap, 0.8, 0.0, 400.0, 8000)
        later = self.difference(gap, 0.8, 0.0, 410.0, 8200)
        assert (abs(on_circle(later - settled)) < 1e-9) == locks

    def test_the_beat_has_its_known_period(self):
        gap, a = 2.0, 1.2
        period = TAU / np.sqrt(gap**2 - a**2)
        assert on_circle(self.difference(gap, a / 2, 0.7, period) - 0.7) == pytest.approx(0.0, abs=1e-10)

    def test_lag_slows_a_pair_in_step(self):
        """In step, both turn at ω − K sin α (Sakaguchi and Kuramoto 1986)."""
        phases = kuramoto([0.4, 0.4], [1.0, 1.0], 0.8 * PAIR, 3.0, 300, alpha=np.full((2, 2), 0.5))
        np.testing.assert_allclose(phases, 0.4 + 3.0 * (1.0 - 0.8 * np.sin(0.5)), atol=1e-12)


class TestDrivenOscillator:
    """One oscillator under a drive: Adler's equation θ' = ω + ζ sin(Ψ − θ)."""

    def test_it_locks_behind_the_drive_by_the_arcsine(self):
        phase = kuramoto([2.0], [0.6], [[0.0]], 40.0, 4000, zeta=1.0, psi=0.3)
        assert on_circle(phase[0] - 0.3 - np.arcsin(0.6)) == pytest.approx(0.0, abs=1e-10)

    def test_it_slips_with_the_known_period_beyond_locking(self):
        period = TAU / np.sqrt(2.0**2 - 1.0)
        phase = kuramoto([2.0], [2.0], [[0.0]], period, 4000, zeta=1.0, psi=0.3)
        assert on_circle(phase[0] - 2.0) == pytest.approx(0.0, abs=1e-10)


class TestLorentzianPopulation:
    """Ott and Antonsen (2008, Chaos 18): R' = −γR + (K/2) R (1 − R²) on the manifold that synchrony lies on."""

    width = 0.5
    count = 4000
    omegas = width * np.tan(np.pi * ((np.arange(count) + 0.5) / count - 0.5))

    def orders(self, strength, start, durations):
        engine = UniformUPDEEngine(self.count, 0.02, "rk4")
        phases, reached, found = start, 0.0, []
        for until in durations:
            phases = engine.run(phases, self.omegas, strength, n_steps=round((until - reached) / 0.02))
            reached = until
            found.append(compute_order_parameter(phases)[0])
        return np.array(found)

    def test_order_falls_from_synchrony_as_the_mean_field_says(self):
        """The hundredth part of the population that lies far out is coarse, which leaves half a percent of noise."""
        strength, times = 2.0, np.array([0.2, 0.5, 1.0, 2.0, 4.0])
        growth, limit = strength / 2 - self.width, 1 - 2 * self.width / strength
        expected = np.sqrt(limit / (1 + (limit - 1) * np.exp(-2 * growth * times)))
        np.testing.assert_allclose(self.orders(strength, np.zeros(self.count), times), expected, atol=6e-3)

    @pytest.mark.parametrize("strength", [1.25, 2.0, 4.0])
    def test_order_settles_at_the_root_of_one_minus_the_ratio(self, strength):
        settled = self.orders(strength, np.zeros(self.count), np.arange(30.0, 32.0, 0.2)).mean()
        assert settled == pytest.approx(np.sqrt(1 - 2 * self.width / strength), abs=4e-3)

    def test_order_vanishes_below_the_critical_coupling(self):
        assert self.orders(0.5, np.zeros(self.count), [20.0])[0] < 0.02


def test_flat_population_turns_at_the_kuramoto_coupling():
    """Kc = 2/(π g(0)) = 4γ/π for frequencies spread evenly over [−γ, γ]; the order jumps to π/4 (Pazó 2005)."""
    omegas = np.linspace(-1, 1, 300)
    critical = find_critical_coupling(omegas, dt=0.1, n_transient=3000, n_measure=500, onset=0.5, tol=0.01)
    assert critical == pytest.approx(4 / np.pi, rel=0.02)


class TestLimitCycle:
    """r' = (μ − r²) r has the closed form r² = μ / (1 + (μ/r₀² − 1) e^{−2μt})."""

    def radius(self, mu, start, duration, method="rk4", n_steps=1000):
        none = PreparedAmplitudeCoupling.from_matrices([[0.0]], [[0.0]])
        state = stuart_landau(np.array([0.3, start]), np.array([2.0]), np.array([mu]), none, duration, n_steps, method)
        assert on_circle(state[0] - 0.3 - 2.0 * duration) == pytest.approx(0.0, abs=1e-10)
        return state[1]

    @pytest.mark.parametrize("mu", [1.0, 2.5, -0.7])
    @pytest.mark.parametrize("start", [0.01, 0.9, 3.0])
    def test_radius_follows_the_closed_form(self, mu, start):
        expected = np.sqrt(mu / (1 + (mu / start**2 - 1) * np.exp(-2 * mu * 1.5)))
        assert self.radius(mu, start, 1.5) == pytest.approx(expected, rel=1e-9)

    def test_radius_at_the_bifurcation_falls_algebraically(self):
        assert self.radius(0.0, 0.8, 5.0) == pytest.approx(0.8 / np.sqrt(1 + 2 * 0.64 * 5.0), rel=1e-10)

    @pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
    @pytest.mark.parametrize("start", [0.05, 4.0])
    def test_radius_settles_at_the_root_of_mu(self, method, start):
        assert self.radius(1.7, start, 30.0, method, 3000) == pytest.approx(np.sqrt(1.7), rel=1e-5)

    @pytest.mark.parametrize("mu", [0.0, -0.5])
    def test_radius_dies_without_growth(self, mu):
        assert self.radius(mu, 1.0, 200.0, n_steps=4000) < 0.06

    @pytest.mark.parametrize(("start", "expected"), [([0.2, 0.2], 1.3), ([0.0, np.pi], 0.7)])
    def test_a_pair_grows_in_step_and_shrinks_in_antiphase(self, start, expected):
        """In step r² = μ + εL, in antiphase r² = μ − εL."""
        prepared = PreparedAmplitudeCoupling.from_matrices(NONE, 0.5 * PAIR)
        state = np.array([*start, 1.0, 1.0])
        moved = stuart_landau(state, np.zeros(2), np.ones(2), prepared, 40.0, 4000, epsilon=0.6)
        np.testing.assert_allclose(moved[2:] ** 2, expected, rtol=1e-10)
