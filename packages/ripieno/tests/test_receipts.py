"""A sealed object says when it was changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canonical import content_hash
from ripieno.errors import InputError, IntegrityError
from ripieno.receipts import check_sealed, seal

OBJECTS = st.dictionaries(st.text("abc", max_size=3), st.one_of(st.integers(), st.text(max_size=3), st.none()))


@given(OBJECTS)
def test_a_seal_is_the_hash_of_the_rest(value: dict[str, object]) -> None:
    sealed = seal(value)
    assert sealed == {**value, "receipt_sha256": content_hash(value)}
    check_sealed(sealed)


@given(OBJECTS, st.text("abc", max_size=3), st.integers())
def test_any_other_member_breaks_the_seal(value: dict[str, object], key: str, item: int) -> None:
    changed = {**seal(value), key: item}
    if changed == seal(value):
        check_sealed(changed)
    else:
        with pytest.raises(IntegrityError, match="does not fit"):
            check_sealed(changed)


def test_a_missing_or_second_seal_is_refused() -> None:
    with pytest.raises(IntegrityError, match="missing"):
        check_sealed({"a": 1})
    with pytest.raises(InputError, match="already"):
        seal(seal({"a": 1}))
