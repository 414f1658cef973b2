"""A proposal from a CSV: of the disk, over https, or the recording that comes with the package."""

import math

import pytest

from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.dataset import (
    MAX_DATASET_BYTES,
    fetch_https,
    propose_from_dataset,
    read_dataset,
)

CSV = b"time_s,a\n" + b"".join(b"%.2f,%.4f\n" % (k / 20, math.sin(2 * math.pi * k / 20)) for k in range(400))


def test_the_bundled_recording_has_a_heart_a_finger_and_a_breath():
    spec = propose_from_dataset("heartbeat.csv").spec
    omegas = {
        identifier: omega
        for layer in spec.layers
        for identifier, omega in zip(layer.oscillator_ids, layer.omegas, strict=True)
    }
    assert omegas["chest"] == pytest.approx(2 * math.pi * 1.2, rel=0.01)
    assert omegas["finger"] == pytest.approx(2 * math.pi * 1.2, rel=0.01)
    assert omegas["breath"] == pytest.approx(2 * math.pi * 0.25, rel=0.01)
    assert spec.objectives.bad_layers == []
    assert len(spec.objectives.good_layers) == len(spec.layers)


def test_a_file_of_that_name_wins_over_the_bundled_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heartbeat.csv").write_bytes(CSV)
    assert read_dataset("heartbeat.csv") == ("heartbeat.csv", CSV)


def test_a_file_gives_a_proposal_with_its_name(tmp_path):
    (tmp_path / "my data (1).csv").write_bytes(CSV)
    proposal = propose_from_dataset(str(tmp_path / "my data (1).csv"))
    assert proposal.spec.name == "my_data__1_"
    assert proposal.spec.layers[0].omegas[0] == pytest.approx(2 * math.pi, rel=0.01)


@pytest.mark.parametrize("kind", ["missing", "folder", "too long", "link"])
def test_what_cannot_be_read_is_refused(kind, tmp_path):
    path = tmp_path / "x.csv"
    if kind == "folder":
        path.mkdir()
    elif kind == "too long":
        path.write_bytes(b"1" * (MAX_DATASET_BYTES + 1))
    elif kind == "link":
        (tmp_path / "y.csv").write_bytes(CSV)
        path.symlink_to(tmp_path / "y.csv")
    with pytest.raises(
        BindingError, match="at most 524288 bytes" if kind == "too long" else "cannot read the data set"
    ):
        read_dataset(str(path))


def test_a_file_of_exactly_the_limit_is_read(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1" * MAX_DATASET_BYTES)
    assert len(read_dataset(str(tmp_path / "x.csv"))[1]) == MAX_DATASET_BYTES


def test_text_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(BindingError, match="line 2"):
        propose_from_dataset(str(tmp_path / "x.csv"))


@pytest.mark.parametrize("url", ["http://127.0.0.1/x.csv", "ftp://127.0.0.1/x.csv", "file:///etc/passwd"])
def test_only_https_is_fetched(url):
    with pytest.raises(BindingError, match="over https only"):
        read_dataset(url)


class TestHttps:
    def test_a_data_set_is_fetched(self, https_server, trust):
        https_server.body = CSV
        assert fetch_https(f"{https_server.url}/x.csv", context=trust) == CSV

    def test_a_server_that_nobody_vouches_for_is_refused(self, https_server):
        with pytest.raises(BindingError, match="certificate verify failed"):
            fetch_https(f"{https_server.url}/x.csv")

    def test_too_long_an_answer_is_refused(self, https_server, trust):
        https_server.body = b"1" * (MAX_DATASET_BYTES + 1)
        with pytest.raises(BindingError, match="at most 524288 bytes"):
            fetch_https(f"{https_server.url}/x.csv", context=trust)

    @pytest.mark.parametrize("target", ["http://127.0.0.1/x.csv", "ftp://127.0.0.1/x.csv", "file:///etc/passwd"])
    def test_a_redirect_away_from_https_is_refused(self, https_server, trust, target):
        https_server.status, https_server.headers = 302, {"Location": target}
        with pytest.raises(BindingError, match=r"no https address|Redirection"):
            fetch_https(f"{https_server.url}/x.csv", context=trust)
        assert len(https_server.requests) == 1

    def test_a_missing_file_is_named(self, https_server, trust):
        https_server.status = 404
        with pytest.raises(BindingError, match="answered 404"):
            fetch_https(f"{https_server.url}/x.csv", context=trust)
