"""The pages of settings and of bounds in the documentation say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from crdtsyncd import main
from crdtsyncd.config.model import Config
from pydantic_core import PydanticUndefined

from tools.reference import bounds

DOCS = Path(__file__).resolve().parents[2] / "docs"

SETTING = re.compile(r"^\| `(\w+)` \| (?:`(--[\w-]+)`)?(?:, `--[\w-]+`)? ?\| (.*?) \| ", re.MULTILINE)

SETTINGS = {
    name: (option, default)
    for name, option, default in SETTING.findall((DOCS / "reference/configuration.md").read_text())
}


def test_every_setting_is_documented_and_no_other():
    assert sorted(SETTINGS) == sorted(Config.model_fields)


def test_every_option_is_documented_with_its_setting():
    of_settings = {
        option.name: option.opts[0]
        for option in main.cli.params
        if isinstance(option, click.Option) and option.name in Config.model_fields
    }
    assert {name: option for name, (option, _) in SETTINGS.items() if option} == of_settings


def test_every_fixed_default_is_as_documented():
    for name, field in Config.model_fields.items():
        if field.default is not PydanticUndefined:
            text = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            assert SETTINGS[name][1].split("`")[1] == text, name


def test_every_bound_is_as_documented():
    assert bounds.bounds() == bounds.PAGE.read_text(encoding="utf-8")


def test_every_row_of_the_page_of_bounds_is_looked_at_once():
    rows = [line for line in bounds.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(bounds.names()) == len(set(bounds.names()))
    assert len(rows) > 200


def test_a_bound_that_changed_makes_the_page_stale(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crdtsync.wire.limits.KEY_BYTES_MAX", 2048)
    stale = bounds.PAGE.read_text(encoding="utf-8")
    assert bounds.bounds() == stale.replace("`limits.KEY_BYTES_MAX` | 1,024", "`limits.KEY_BYTES_MAX` | 2,048")
    assert bounds.bounds() != stale
