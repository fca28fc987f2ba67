"""The pins of certificates, also of such as nobody should have made."""

from __future__ import annotations

from pathlib import Path

import pytest
from crdtsyncd.security.node_key import load_or_make_key, pin_of, verifies

ELLIPTIC_CURVE_KEY = bytes.fromhex("06072a8648ce3d0201")
UNKNOWN_KEY = bytes.fromhex("06072a8648ce1d0201")


def test_a_certificate_of_an_unknown_kind_of_key_lets_nobody_in(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path)
    assert pin_of(key.certificate) == key.pin
    odd = key.certificate.replace(ELLIPTIC_CURVE_KEY, UNKNOWN_KEY)
    assert odd != key.certificate
    for certificate, why in ((odd, "Unknown key type"), (b"none", "parsing")):
        with pytest.raises(ValueError, match=why):
            pin_of(certificate)
        assert not verifies(certificate, key.sign(b"bound"), b"bound")
    assert verifies(key.certificate, key.sign(b"bound"), b"bound")
