"""Pages with words by hand: what is made from the code is mended, and the words stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from crdtsyncd.config.model import Config
from pydantic_core import PydanticUndefined

from tools import reference
from tools.reference import bounds, command_line, configuration, errors


def test_a_table_made_anew_keeps_the_words_by_hand_and_mends_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for made, right, wrong in (
        (command_line, "| `--forever` | Keep it until", "| `--for-ever` | Hold it until"),
        (configuration, "| `peers_max` |  | `256` | how", "| `peers_max` | `--none` | `255` | how"),
        (errors, "| `NoSpace` | `no_space` | 4 | The", "| `NoSpace` | `no_room` | 5 | Some"),
    ):
        text = made.PAGE.read_text(encoding="utf-8")
        assert text.count(right) == 1
        stale = tmp_path / made.PAGE.name
        stale.write_text(text.replace(right, wrong), encoding="utf-8")
        monkeypatch.setattr(made, "PAGE", stale)
        assert reference.pages()[reference.ROOT / "docs/reference" / stale.name] == text


def test_every_setting_says_what_it_is_for():
    assert [name for name, field in Config.model_fields.items() if not field.description] == []


def test_every_default_that_depends_on_the_machine_is_in_words():
    undefined = {name for name, field in Config.model_fields.items() if field.default is PydanticUndefined}
    assert undefined == configuration.COMPUTED.keys()


def test_every_row_of_the_page_of_bounds_is_looked_at_once():
    rows = [line for line in bounds.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(bounds.names()) == len(set(bounds.names()))
    assert len(rows) > 200


def test_a_bound_that_changed_makes_the_page_stale(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crdtsync.wire.limits.KEY_BYTES_MAX", 2048)
    stale = bounds.PAGE.read_text(encoding="utf-8")
    assert bounds.bounds() == stale.replace("`limits.KEY_BYTES_MAX` | 1,024", "`limits.KEY_BYTES_MAX` | 2,048")
    assert bounds.bounds() != stale


@pytest.mark.parametrize("name", ["crdtsync.wire.limits.GONE_MAX", "crdtsync.wire.gone.GONE_MAX"])
def test_a_bound_that_the_code_does_not_have_is_named(name: str) -> None:
    with pytest.raises(SystemExit, match=rf"bounds\.md names {name}, which the code does not have: move its row"):
        bounds.value_of(name)


def test_a_bound_is_told_in_the_words_of_its_constant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    told = "| `limits.KEY_BYTES_MAX` | 1,024 bytes | Bytes of a key, in UTF-8 |"
    text = bounds.PAGE.read_text(encoding="utf-8")
    assert text.count(told) == 1
    stale = tmp_path / "bounds.md"
    stale.write_text(text.replace(told, "| `limits.KEY_BYTES_MAX` | 1 bytes | of a key, as somebody once said |"))
    monkeypatch.setattr(bounds, "PAGE", stale)
    assert bounds.bounds() == text


def test_a_bound_without_words_in_the_code_keeps_those_of_the_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "meaning", lambda _name: "")
    assert bounds.bounds() == bounds.PAGE.read_text(encoding="utf-8")


def test_the_words_of_a_bound_of_a_class_are_found():
    assert bounds.meaning("crdtsync.core.alarms.Alarms.ALARMS_MAX") == "Alarms that are raised at once"
    assert bounds.meaning("crdtsyncd.loop.housekeeping.INTERVAL_S") == ""
