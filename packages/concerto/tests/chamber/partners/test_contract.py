"""Identity, freezing and registry of partners."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

import chamber.partners
from chamber.partners import (
    FrozenPartner,
    PartnerBase,
    PartnerSpec,
    list_registered,
    load_partner,
    register_partner,
)
from chamber.partners.interface import assert_frozen

FORBIDDEN = (
    "train", "learn", "update", "update_params", "fit", "set_weights", "load_state_dict", "named_parameters",
)  # fmt: skip
EXTRA = {"partner_ablated_zero": {"action_dim": "2"}}


def build(key: str) -> FrozenPartner:
    return load_partner(PartnerSpec(key, 0, None, None, EXTRA.get(key, {})))


class TestIdentity:
    def test_ids_are_the_documented_ones(self):
        assert PartnerSpec("scripted_heuristic", 0, None, None).partner_id == "73250184e1abaccc"
        assert PartnerSpec("scripted_heuristic", 0, None, "None").partner_id == "32245830cc8f1371"
        mappo = PartnerSpec("frozen_mappo", 42, 100_000, "local://artifacts/mappo_seed42_step100k.pt")
        harl = PartnerSpec("frozen_harl", 7, 50_000, "local://artifacts/happo_seed7_step50k.pt")
        assert (mappo.partner_id, harl.partner_id) == ("4c58205caa5a23ab", "6f8ad68686328705")

    def test_extra_changes_neither_id_nor_hash(self):
        plain = PartnerSpec("scripted_heuristic", 0, None, None)
        tuned = PartnerSpec("scripted_heuristic", 0, None, None, {"target_xy": "1,1"})
        assert plain.partner_id == tuned.partner_id
        assert hash(plain) == hash(tuned)
        assert plain != tuned

    def test_numpy_integers_and_booleans_give_the_id_of_the_plain_number(self):
        plain = PartnerSpec("x", 1, 5, None)
        assert PartnerSpec("x", np.int64(1), np.int32(5), None).partner_id == plain.partner_id
        assert PartnerSpec("x", True, 5, None).partner_id == plain.partner_id
        assert PartnerSpec(np.str_("x"), 1, 5, None).partner_id == plain.partner_id

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            (("x", 0.5, None, None), "seed"),
            (("x", 0, "7", None), "checkpoint_step"),
            ((None, 0, None, None), "class_name"),
            (("x", 0, None, 3), "weights_uri"),
            (("x", 0, None, None, {"a": 1}), r"extra\['a'\]"),
        ],
    )
    def test_other_types_are_refused_by_name(self, fields: tuple[object, ...], name: str):
        with pytest.raises(TypeError, match=name):
            PartnerSpec(*fields)  # type: ignore[arg-type]

    def test_extra_is_a_copy_that_cannot_be_changed(self):
        given = {"uid": "fetch"}
        spec = PartnerSpec("x", 0, None, None, given)
        given["uid"] = "other"
        assert spec.extra == {"uid": "fetch"}
        for change in (
            lambda: spec.extra.update(uid="other"),
            lambda: spec.extra.__setitem__("uid", "other"),
            lambda: spec.extra.pop("uid"),
            lambda: spec.extra.setdefault("new", "1"),
        ):
            with pytest.raises(TypeError, match="cannot be changed"):
                change()
        with pytest.raises(dataclasses.FrozenInstanceError):
            spec.seed = 1  # type: ignore[misc]

    def test_a_specification_survives_pickling_copying_and_replacing(self):
        spec = PartnerSpec("x", 0, 3, "local://w", {"uid": "fetch"})
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert copy.deepcopy(spec) == spec
        assert dataclasses.replace(spec, seed=1).extra == {"uid": "fetch"}
        assert dataclasses.asdict(spec)["extra"] == {"uid": "fetch"}


class TestFreezing:
    @pytest.mark.parametrize("key", [key for key in list_registered() if not key.startswith("test_only")])
    def test_no_partner_can_be_trained_or_opened(self, key: str):
        partner = build(key)
        assert isinstance(partner, FrozenPartner)
        assert_frozen(partner)
        for name in FORBIDDEN:
            assert not hasattr(partner, name)
        with pytest.raises(AttributeError, match=rf"'{type(partner).__name__}' forbids .*'named_parameters'.*ADR-009"):
            partner.named_parameters  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match=r"^foo$"):
            partner.foo  # type: ignore[attr-defined]  # noqa: B018

    @pytest.mark.parametrize("name", FORBIDDEN)
    def test_a_subclass_that_could_be_trained_cannot_be_made(self, name: str):
        with pytest.raises(TypeError, match=f"'{name}'.*ADR-009"):
            type("Leaky", (PartnerBase,), {name: print})

    def test_a_forbidden_name_cannot_be_set_on_an_instance(self):
        partner = build("push_pursuer")
        with pytest.raises(AttributeError, match="ADR-009"):
            partner.train = print  # type: ignore[attr-defined]

    def test_the_frozen_check_can_fail(self):
        class Leaky:
            spec = PartnerSpec("leaky", 0, None, None)

            def reset(self, *, seed: int | None = None) -> None: ...

            def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float64]:
                return np.zeros(2)

            def named_parameters(self) -> list[str]:
                return ["weight"]

        with pytest.raises(TypeError, match="named_parameters"):
            assert_frozen(Leaky())


class TestRegistry:
    def test_documented_names_are_exported(self):
        documented = {
            "CoCarryBlindImpedancePartner", "CoCarryImpedancePartner", "CoInsertBaseInserter",
            "CoInsertReferenceHolder", "FrozenPartner", "HandoverPresenterPartner", "PartnerAblatedZero", "PartnerBase",
            "PartnerSpec", "ScriptedHeuristicPartner", "list_registered", "load_partner", "register_partner",
        }  # fmt: skip
        assert documented == set(chamber.partners.__all__)
        assert all(getattr(chamber.partners, name).__name__ == name for name in documented)
        with pytest.raises(AttributeError, match=r"'chamber\.partners' has no attribute 'nobody'"):
            chamber.partners.nobody  # noqa: B018

    def test_controllers_of_arms_are_imported_when_they_are_asked_for(self):
        program = (
            "import sys, chamber.partners as partners; assert 'chamber.partners.coinsert_impedance' not in sys.modules;"
            "partners.CoInsertReferenceHolder; assert 'chamber.partners.coinsert_impedance' in sys.modules;"
            "assert 'CoInsertBaseInserter' in dir(partners); assert 'numba' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", program], check=True)

    @pytest.mark.parametrize("key", ["scripted_heuristic", "push_cooperative"])
    def test_a_taken_key_is_refused_whether_or_not_its_module_was_imported(self, key: str):
        with pytest.raises(ValueError, match=f"Partner class '{key}' is already registered"):
            register_partner(key)(type("Usurper", (PartnerBase,), {}))

    def test_an_unknown_key_is_refused_with_the_sorted_list_of_known_ones(self):
        with pytest.raises(KeyError, match=r"'nope'.*partner_ablated_zero, push_cooperative, push_pursuer"):
            load_partner(PartnerSpec("nope", 0, None, None))

    def test_each_call_gives_a_fresh_partner_and_a_fresh_list(self):
        assert build("push_pursuer") is not build("push_pursuer")
        list_registered().clear()
        assert list_registered() == sorted(list_registered())
        assert "scripted_heuristic" in list_registered()

    def test_a_registered_class_can_be_loaded(self):
        @register_partner("test_only_partner")
        class Quiet(PartnerBase):
            pass

        partner = load_partner(PartnerSpec("test_only_partner", 0, None, None))
        assert type(partner) is Quiet
        with pytest.raises(NotImplementedError, match="Quiet"):
            partner.act({})

    @pytest.mark.parametrize("key", ["push_cooperative", "push_pursuer", "push_stubborn", "scripted_heuristic"])
    def test_every_key_loads_in_a_fresh_process(self, key: str):
        program = (
            "from chamber.partners.registry import load_partner; from chamber.partners.api import PartnerSpec;"
            f"print(type(load_partner(PartnerSpec({key!r}, 0, None, None))).__module__)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("chamber.partners.")
