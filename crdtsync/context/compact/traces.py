"""Traces of Python: paths and frames that many have in common are written once.

    Traceback (most recent call last):
      File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
        raise JSONDecodeError("Expecting value", s, err.value) from None
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)

becomes, with ``A`` for ``/usr/lib/python3.11/``,

    Traceback:
     A/json/decoder.py:355 raw_decode: raise JSONDecodeError("Expecting value", s, err.value) from None
    json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)

and the second trace that comes through the same frames names only the last of them: there it happened.
"""

from __future__ import annotations

import re
from collections import Counter

_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d+)(?:, in ([^\n]{1,200}))?')
_MARKS = re.compile(r"[ ~^]+")
_HEAD = "Traceback (most recent call last):"
_LETTERS = "ABCDEFGH"
_FOLDER_CHARS_MIN, _FOLDER_TIMES_MIN = 12, 3


class Traces:
    """The common parts of the traces of one text, so far."""

    def __init__(self, text: str) -> None:
        self._is_used = False
        self._seen: set[str] = set()
        counted = Counter(folder for path, _, _ in _FRAME.findall(text) for folder in _folders(path))
        often = [folder for folder, times in counted.items() if times >= _FOLDER_TIMES_MIN]
        often.sort(key=lambda folder: (-len(folder) * counted[folder], folder))
        taken: list[str] = []
        for folder in often:
            if not any(folder.startswith(one) or one.startswith(folder) for one in taken):
                taken.append(folder)
        self._letters = dict(zip(taken, _LETTERS, strict=False))

    @property
    def said(self) -> str:
        """Which letters stand for which folders; "" if no trace was shortened."""
        named = "; ".join(f"{letter}={folder}" for folder, letter in self._letters.items())
        return f"traces: {named or 'each frame in a line'}" if self._is_used else ""

    def shortened(self, event: str) -> str:
        """``event``, a line of a log with what continues it; without a trace it stays as it is."""
        if _HEAD not in event and '\n  File "' not in event:
            return event
        self._is_used = True
        lines: list[str] = []
        frames: list[list[str]] = []
        for line in event.replace(_HEAD, "Traceback:").split("\n"):
            found = _FRAME.fullmatch(line.strip())
            if found is not None:
                frames.append([self._frame(*found.groups())])
            elif frames and line.startswith("    "):
                frames[-1] += [] if _MARKS.fullmatch(line) else [line.strip()]
            else:
                lines += self._new(frames)
                frames = []
                lines.append(line)
        return "\n".join(lines + self._new(frames))

    def _frame(self, path: str, line: str, function: str | None) -> str:
        folder = next((one for one in self._letters if path.startswith(one)), "")
        short = f"{self._letters[folder]}/{path[len(folder) :]}" if folder else path
        return f" {short}:{line} {function}" if function else f" {short}:{line}"

    def _new(self, frames: list[list[str]]) -> list[str]:
        """The frames that no earlier trace has, and the last one."""
        shown, skipped = [], 0
        for i, (frame, *code) in enumerate(frames):
            if frame in self._seen:
                if i < len(frames) - 1:
                    skipped += 1
                else:
                    shown.append(frame)
                continue
            self._seen.add(frame)
            shown.append(": ".join([frame, *code]))
        return ([f" […{skipped} as before]"] if skipped else []) + shown


def _folders(path: str) -> list[str]:
    """The folders that ``path`` is in, each with its last slash, from the third on."""
    ends = [at + 1 for at, char in enumerate(path) if char == "/"]
    return [path[:end] for end in ends[2:] if end >= _FOLDER_CHARS_MIN]
