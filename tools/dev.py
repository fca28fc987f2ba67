"""The chores of this project, behind ``./dev``: keeps ``.venv`` in step with the lock file, then runs one chore.

Standard library only, for it runs before anything is installed. The environment is described by a stamp that is written
last: a set-up that was interrupted has none and is done again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
FRAMEWORKS = ROOT / "tests" / "adapters"  # a folder for each extra whose packages are not in .venv
PROJECT = ROOT / "pyproject.toml"
STAMP = VENV / "crdtsync-stamp"

# What resolves the lock file; a throw-away copy, so that a broken lock file can still be made anew.
UV = "uv==0.13.9"

CHECKED_BY_MYPY = ("crdtsync", "daemon/crdtsyncd", "tools", "tests", "benchmarks", "fuzz")
# Which tests, in pytest's words; a test of tools or of endurance is marked as slow.
LANES = {"--quick": ["-m", "not slow and not soak"], "--slow": ["-m", "slow and not soak"]}
CACHES = (
    ".cache",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "build",
    "dist",
)


class ChoreError(Exception):
    """A chore cannot go on; the message is one sentence for the person at the keyboard."""


# ---------------------------------------------------------------------------------------------------------- set-up


class Stamp(NamedTuple):
    """What the environment in ``.venv`` was made from: its packages, and the project installed into it."""

    packages: str
    project: str

    @classmethod
    def wanted(cls) -> Stamp:
        """What it should be made from now; the place and the Python count too, for neither can change under a venv."""
        try:
            lock, project = LOCK.read_bytes(), PROJECT.read_bytes()
        except FileNotFoundError as error:
            message = f"{error.filename} is missing; restore it with git, or make the lock file with: ./dev lock"
            raise ChoreError(message) from error
        place = f"{ROOT}\n{sys.version_info[:2]}\n".encode()
        return cls(hashlib.sha256(place + lock).hexdigest(), hashlib.sha256(project).hexdigest())

    @classmethod
    def found(cls) -> Stamp | None:
        """What it was made from, or None when there is no finished environment."""
        try:
            packages, project = STAMP.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        return cls(packages, project)

    def write(self) -> None:
        """Declare the environment finished; the last act of a set-up."""
        partial = STAMP.with_suffix(".partial")
        partial.write_text(f"{self.packages}\n{self.project}\n", encoding="ascii")
        partial.replace(STAMP)


def ensure_environment() -> None:
    """Make ``.venv`` match the lock file and the project; free when it already does."""
    wanted = Stamp.wanted()
    if Stamp.found() == wanted:
        return
    with _alone():
        found = Stamp.found()  # another call may have done it meanwhile
        if found == wanted:
            return
        steps: list[tuple[str, Callable[[], None]]] = [("installing crdtsync itself, editable", _install_project)]
        if found is None or found.packages != wanted.packages:
            lines = LOCK.read_text(encoding="utf-8").splitlines()
            packages = sum("==" in line for line in lines)
            steps = [
                (f"making .venv with Python {sys.version.split()[0]}", _make_venv),
                (f"installing {packages} packages from {LOCK.name}", _install_packages),
                *steps,
            ]
            _say("setting up .venv, once for each change of the lock file; about a minute")
        STAMP.unlink(missing_ok=True)
        for number, (title, step) in enumerate(steps, 1):
            with _timed(f"[{number}/{len(steps)}] {title}"):
                step()
        wanted.write()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock on the checkout, so that of two calls at once the second waits for the first one's set-up."""
    checkout = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(checkout, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another ./dev, which is setting up .venv")
            fcntl.flock(checkout, fcntl.LOCK_EX)
        yield
    finally:
        os.close(checkout)


def _make_venv() -> None:
    if VENV.exists():
        shutil.rmtree(VENV)
    # Run from the old .venv, sys.executable has just been removed.
    base = getattr(sys, "_base_executable", sys.executable)
    # The lock file brings pip along, so the venv needs none of its own: Debian has venv without ensurepip.
    _quietly([base, "-m", "venv", "--without-pip", str(VENV)], "could not make .venv")


def _install_packages() -> None:
    pip = _some_pip()
    _quietly(
        [*pip, "install", "--require-hashes", "--no-deps", "--progress-bar=off", "-r", str(LOCK)],
        "could not install the packages (is there a network?)",
    )


def _some_pip() -> list[str]:
    """A pip that can install into ``.venv`` before that has one."""
    base = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([base, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [base, "-m", "pip", "--python", str(PYTHON)]
    if importlib.util.find_spec("ensurepip") is not None:
        _quietly([str(PYTHON), "-m", "ensurepip", "--default-pip"], "could not install pip into .venv")
        return [str(PYTHON), "-m", "pip"]
    message = "this Python has neither pip nor ensurepip; install one of them (Debian: apt-get install python3-venv)"
    raise ChoreError(message)


def _install_project() -> None:
    _quietly(
        [str(PYTHON), "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        "could not install the project into .venv",
    )


def _quietly(command: Sequence[str], complaint: str) -> None:
    """Run a step of the set-up; show what it said only when it fails."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-20:])
        raise ChoreError(f"{complaint}; {Path(command[0]).name} said:\n{tail}")


# ---------------------------------------------------------------------------------------------------------- chores


def _replace(command: Sequence[str], *, directory: Path | None = None) -> NoReturn:
    """Become a command of the environment: signals and the exit status are its own."""
    if directory is not None:
        os.chdir(directory)
    environment = _environment()
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        raise ChoreError(f"{command[0]!r} is neither in .venv nor on PATH")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program, list(command), environment)


def _environment() -> dict[str, str]:
    environment = {**os.environ, "VIRTUAL_ENV": str(VENV)}
    environment["PATH"] = os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", os.defpath)])
    environment.pop("PYTHONHOME", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would each compile what one can keep
    return environment


def up(arguments: list[str]) -> NoReturn:
    """Start a small fleet of daemons here to try things out: ./dev up --help."""
    _replace(["python", "-m", "crdtsyncd.devfleet", *arguments])


def test(arguments: list[str]) -> NoReturn:
    """Run the tests, all but soak; --quick: without the slow ones, --slow: those alone; the rest goes to pytest."""
    chosen = [word for argument in arguments for word in LANES.get(argument, [argument])]
    _replace(["python", "-m", "pytest", "-n", "auto", "--dist", "worksteal", *chosen], directory=ROOT)


def soak(arguments: list[str]) -> NoReturn:
    """Run the tests that take minutes or more; arguments go to pytest."""
    _replace(
        ["python", "-m", "pytest", "-m", "soak", "--timeout=0", "-o", "faulthandler_timeout=0", *arguments],
        directory=ROOT,
    )


def nemesis(arguments: list[str]) -> NoReturn:
    """Five hosts under cuts, kills, broken disks and clocks: ./dev nemesis --minutes 10."""
    _replace(["python", "-m", "tests.nemesis", *arguments], directory=ROOT)


def crash(arguments: list[str]) -> NoReturn:
    """Kill a daemon, fail its disk, cut its power, at every point: ./dev crash --help."""
    _replace(["python", "-m", "tests.crash", *arguments], directory=ROOT)


def load(arguments: list[str]) -> NoReturn:
    """1,000 agents, 10,000 spaces, some who never read: ./dev load --help."""
    _replace(["python", "-m", "tests.load", *arguments], directory=ROOT)


MENDED_BY = {"generated files": "./dev generate", "ruff format": "./dev fmt", "ruff check": "./dev fmt"}


def lint(arguments: list[str]) -> int:
    """Check generated files, format, style, types and import rules; run them all, then say which failed."""
    _refuse(arguments)
    checked = [name for name in CHECKED_BY_MYPY if any((ROOT / name).rglob("*.py"))]
    checks = {
        "generated files": ["python", "tools/async_to_sync.py", "--check"],
        "ruff format": ["ruff", "format", "--check", "."],
        "ruff check": ["ruff", "check", "."],
        "mypy": ["mypy", *checked],
        "lint-imports": ["lint-imports"],
    }
    failed = []
    for title, command in checks.items():
        with _timed(title, ends=False):
            if subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode != 0:
                failed.append(title)
    mends = sorted({MENDED_BY[title] for title in failed if title in MENDED_BY})
    hint = f" (first try {' and '.join(mends)})" if mends else ""
    _say(f"lint failed: {', '.join(failed)}{hint}" if failed else "lint passed")
    return 1 if failed else 0


def fmt(arguments: list[str]) -> int:
    """Format the code, and mend what ruff can mend."""
    _refuse(arguments)
    fixed = subprocess.run(["ruff", "check", "--fix", "."], cwd=ROOT, env=_environment(), check=False)
    formatted = subprocess.run(["ruff", "format", "."], cwd=ROOT, env=_environment(), check=False)
    return fixed.returncode or formatted.returncode


def generate(arguments: list[str]) -> NoReturn:
    """Make the blocking client's methods from the asyncio client's, after those were changed."""
    _refuse(arguments)
    _replace(["python", "tools/async_to_sync.py"], directory=ROOT)


def bench(arguments: list[str]) -> NoReturn:
    """Run the benchmarks: ./dev bench --help."""
    _replace(["python", "-m", "benchmarks", *arguments], directory=ROOT)


def fuzz(arguments: list[str]) -> NoReturn:
    """Run the fuzzers: ./dev fuzz --help."""
    _replace(["python", "-m", "fuzz", *arguments], directory=ROOT)


def simulate(arguments: list[str]) -> NoReturn:
    """Play random histories of simulated fleets: ./dev simulate --help."""
    _replace(["python", "-m", "tests.simulator", *arguments], directory=ROOT)


def docs(arguments: list[str]) -> int:
    """Check links and reference pages (--write makes those anew), and build the site; --serve shows it as you write."""
    if arguments == ["--serve"]:
        _replace(["python", "tools/build_site.py", "--serve"])
    failed = []
    for title, command in {
        "links and reference": ["-m", "tools.check_docs", *arguments],
        "site": ["tools/build_site.py"],
    }.items():
        with _timed(title, ends=False):
            if subprocess.run(["python", *command], cwd=ROOT, env=_environment(), check=False).returncode != 0:
                failed.append(title)
    _say(f"docs failed: {', '.join(failed)}" if failed else "docs passed")
    return 1 if failed else 0


def pictures(arguments: list[str]) -> NoReturn:
    """Take the pictures of the page for people anew, from real daemons; the names of screens choose some."""
    _replace(["python", "-m", "tests.pictures", *arguments], directory=ROOT)


def build(arguments: list[str]) -> NoReturn:
    """Build the wheel into dist/ (-d DIR for another place)."""
    _replace(["python", "-m", "hatchling", "build", "-t", "wheel", *arguments], directory=ROOT)


def lock(arguments: list[str]) -> int:
    """Resolve pyproject.toml into requirements.lock, and frameworks' extras into theirs; --upgrade: newest versions."""
    maker = ROOT / ".venv-lock"
    shutil.rmtree(maker, ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)
    try:
        with _timed(f"installing {UV} for this once"):
            _quietly([base, "-m", "venv", "--without-pip", str(maker)], "could not make a venv")
            _quietly(
                [base, "-m", "pip", "--python", str(maker / "bin" / "python"), "install", UV],
                f"could not install {UV}",
            )
        # No header, index or comment: the file says what, not from where. System certificates, as pip uses them.
        options = ["--system-certs", "--no-header", "--no-annotate", "--no-emit-index-url", "--generate-hashes"]
        options += ["--universal", "--python-version", "3.11"]
        command = [str(maker / "bin" / "uv"), "pip", "compile", "--quiet", *options]
        for target, sources in _locks().items():
            with _timed(f"resolving {PROJECT.name} into {target}", ends=False):
                done = subprocess.run([*command, *sources, "--output-file", target, *arguments], cwd=ROOT, check=False)
            if done.returncode != 0:
                return done.returncode
        return 0
    finally:
        shutil.rmtree(maker, ignore_errors=True)


def _locks() -> dict[str, list[str]]:
    """Each lock file, and what uv makes it from: one for .venv, and one for each framework."""
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    apart = [extra for extra in extras if (FRAMEWORKS / extra).is_dir()]
    chosen = [word for extra in extras if extra not in apart for word in ("--extra", extra)]
    locks = {LOCK.name: ["--group", "dev", *chosen, PROJECT.name]}
    rivals = [folder.name for folder in sorted(FRAMEWORKS.iterdir()) if (folder / "requirements.in").exists()]
    for name in (name for name in rivals if name not in extras):  # what the agent layer is compared with
        place = (FRAMEWORKS / name).relative_to(ROOT)
        locks[f"{place}/requirements.lock"] = ["--extra", "context", PROJECT.name, f"{place}/requirements.in"]
    for extra in apart:
        place = (FRAMEWORKS / extra).relative_to(ROOT)
        locks[f"{place}/requirements.lock"] = ["--extra", extra, PROJECT.name, f"{place}/requirements.in"]
        unused = FRAMEWORKS / extra / "unused.txt"  # what the framework asks for, and nothing that is tested imports
        for name in unused.read_text(encoding="utf-8").split() if unused.exists() else ():
            locks[f"{place}/requirements.lock"] += ["--no-emit-package", name]
    return locks


def clean(arguments: list[str]) -> int:
    """Remove caches and build results; --all also .venv and .venv-adapters."""
    if arguments not in ([], ["--all"]):
        raise ChoreError(f"clean takes --all or nothing, not {' '.join(arguments)!r}")
    for name in [*CACHES, *([".venv", ".venv-adapters"] if arguments else [])]:
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for top in ROOT.iterdir():
        if top.is_dir() and not top.name.startswith("."):
            for cache in sorted(top.rglob("__pycache__")):
                shutil.rmtree(cache, ignore_errors=True)
    return 0


def run(arguments: list[str]) -> NoReturn:
    """Run any command in the environment, where you are: ./dev run CMD…."""
    if not arguments:
        raise ChoreError("run needs a command: ./dev run python -c 'import crdtsync'")
    _replace(arguments)


def shell(arguments: list[str]) -> int:
    """Say how to use the environment from your own shell."""
    _refuse(arguments)
    print(f"source {VENV}/bin/activate    # bash, zsh; leave with: deactivate")
    print(f"source {VENV}/bin/activate.fish")
    return 0


def help_(arguments: list[str]) -> int:
    """List the chores."""
    _refuse(arguments)
    print("usage: ./dev CHORE [ARGUMENT...]\n")
    for name, chore in CHORES.items():
        print(f"  {name:8} {(chore.__doc__ or '').splitlines()[0].rstrip('.')}")
    print("\nThe first one sets up .venv from requirements.lock; so does each change of that file.")
    return 0


CHORES: dict[str, Callable[[list[str]], int]] = {
    "up": up,
    "test": test,
    "soak": soak,
    "nemesis": nemesis,
    "crash": crash,
    "load": load,
    "lint": lint,
    "fmt": fmt,
    "generate": generate,
    "bench": bench,
    "fuzz": fuzz,
    "simulate": simulate,
    "docs": docs,
    "pictures": pictures,
    "lock": lock,
    "build": build,
    "clean": clean,
    "run": run,
    "shell": shell,
    "help": help_,
}
NEED_NO_ENVIRONMENT = ("help", "clean", "lock")


# --------------------------------------------------------------------------------------------------------- talking


def _refuse(arguments: list[str]) -> None:
    if arguments:
        raise ChoreError(f"this chore takes no arguments, and got {' '.join(arguments)!r}")


def _say(message: str, *, end: str = "\n") -> None:
    print(f"dev: {message}", end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _timed(title: str, *, ends: bool = True) -> Iterator[None]:
    """Say what is going on and how long it took; ``ends=False`` when it prints lines of its own."""
    _say(f"{title} ... ", end="" if ends else "\n")
    start = time.monotonic()
    outcome = "failed after"
    try:
        yield
        outcome = "took"
    finally:
        verdict = f"{outcome} {time.monotonic() - start:.1f} s"
        print(verdict if ends else f"dev: {title} {verdict}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run the chore that the arguments name, and return its exit status."""
    name, *rest = arguments or ["help"]
    if name in ("-h", "--help"):
        name = "help"
    chore = CHORES.get(name)
    try:
        if chore is None:
            raise ChoreError(f"there is no chore {name!r}; ./dev help lists them")
        if name not in NEED_NO_ENVIRONMENT:
            ensure_environment()
        return chore(rest)
    except ChoreError as error:
        _say(str(error))
        return 2 if chore is None else 1
    except KeyboardInterrupt:
        _say("interrupted; what was half done is done again by the next call")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
