"""Each build says which it is: from a checkout, from a source distribution, and from files alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.version import Version

from tools.version import NEXT, version

ROOT = Path(__file__).resolve().parents[2]
WHO = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *WHO, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project of its own, with one commit and this module."""
    root = tmp_path / "checkout"
    (root / "tools").mkdir(parents=True)
    (root / "crdtsync").mkdir()
    (root / "crdtsync" / "__init__.py").touch()
    shutil.copy(ROOT / "tools" / "version.py", root / "tools")
    lines = (ROOT / "pyproject.toml").read_text()
    hatch = lines[lines.index("[tool.hatch.version]") : lines.index("[tool.hatch.build]")]
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
        f'[project]\nname = "crdtsync"\ndynamic = ["version"]\n\n{hatch}'
    )
    git(root.parent, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "one")
    return root


def built(root: Path, kind: str) -> Path:
    """What hatchling makes of a directory."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind], cwd=root, check=True, capture_output=True)
    return max((root / "dist").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def version_of(wheel: Path) -> Version:
    return Version(wheel.name.split("-")[1].replace("_", "+"))


def test_each_commit_is_a_newer_version_than_the_one_before(checkout):
    found = [version_of(built(checkout, "wheel"))]
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "two")
    found.append(version_of(built(checkout, "wheel")))
    assert found[0] < found[1] < Version(NEXT)


def test_a_source_distribution_keeps_the_version_without_git(checkout, tmp_path):
    wanted = version_of(built(checkout, "wheel"))
    with tarfile.open(built(checkout, "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert version_of(built(source, "wheel")) == wanted


def test_a_release_counts_from_the_commit_that_the_last_one_names(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    for n in range(3):
        git(checkout, "commit", "--quiet", "--allow-empty", "--message", str(n))
    assert Version(version(checkout)).dev == 4, "all, for no release is known"
    (checkout / "docs" / "releases").mkdir(parents=True)
    for name in ("0.1.0", "0.0.9"):
        page = f"# {name}\n\n- **commit**: `{commit if name == '0.1.0' else '0' * 40}`\n"
        (checkout / "docs" / "releases" / f"{name}.md").write_text(page)
    assert Version(version(checkout)).dev == 3


def test_what_differs_from_the_commit_says_so_and_a_tag_is_the_release_itself(checkout):
    git(checkout, "tag", f"v{NEXT}")
    assert version(checkout) == NEXT
    (checkout / "pyproject.toml").write_text("# changed\n")
    assert version(checkout).endswith(".dirty")


def test_files_without_git_or_inside_of_another_checkout_still_build(checkout):
    inner = checkout / "inner"
    shutil.copytree(checkout / "tools", inner / "tools")
    assert version(inner) == f"{NEXT}.dev0"
