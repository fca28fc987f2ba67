"""The tables of settings and of bounds in the documentation say what the code says, both ways."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest
from crdtsyncd import main
from crdtsyncd.config.model import Config
from pydantic_core import PydanticUndefined

DOCS = Path(__file__).resolve().parents[2] / "docs"

SETTING = re.compile(r"^\| `(\w+)` \| (?:`(--[\w-]+)`)?(?:, `--[\w-]+`)? ?\| (.*?) \| ", re.MULTILINE)
BOUND = re.compile(r"^\| `([\w.]+)\.(\w+)` \| ([\d,.]+) ?([\w ]*?) \|", re.MULTILINE)
UNITS = {"KiB": 1024, "MiB": 1024**2, "h": 3600 * 1000}

SETTINGS = {
    name: (option, default) for name, option, default in SETTING.findall((DOCS / "configuration.md").read_text())
}
BOUNDS = BOUND.findall((DOCS / "architecture.md").read_text())


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


@pytest.mark.parametrize("module, name, figure, unit", BOUNDS, ids=str)
def test_every_bound_is_as_documented(module: str, name: str, figure: str, unit: str):
    owner = importlib.import_module(module.rpartition(".")[0]) if module[module.rfind(".") + 1].isupper() else None
    holder = getattr(owner, module.rpartition(".")[2]) if owner else importlib.import_module(module)
    documented = float(figure.replace(",", "")) * UNITS.get(unit, 1)
    assert documented == getattr(holder, name)


def test_there_are_bounds():
    assert len(BOUNDS) > 30
