"""Paths in lines, in every form that JSON has for them; only whole directories."""

from __future__ import annotations

import json

import pytest

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.claude_code import slug
from crdtsync.sessions.moving.paths import PathMap, parsed


def test_paths_are_rewritten_in_every_form_and_listed():
    record = {"cwd": "/home/änn/api", "a": json.dumps({"cmd": "cat /home/änn/api/x.py\ncd /home/änn"}),
              "no": "/home/ännabel/api /srv/home/änn/api /home/änn.old"}  # fmt: skip
    for ascii_only in (True, False):
        paths = PathMap({"/home/änn": "/Users/bob", "/home/änn/api": "/srv/ö"})
        line = json.dumps(record, ensure_ascii=ascii_only).encode() + b"\n"
        (moved,) = paths.lines([line])
        found = json.loads(moved)
        assert found["cwd"] == "/srv/ö"
        assert json.loads(found["a"])["cmd"] == "cat /srv/ö/x.py\ncd /Users/bob"
        assert found["no"] == record["no"]
        assert sum(paths.rewritten.values()) == 3


def test_paths_of_windows_are_rewritten_as_they_are_here():
    record = {"cwd": "C:\\Users\\ann\\api", "a": json.dumps({"p": "c:\\Users\\ann\\api\\new\\x.py\nC:\\Users\\ann\n"}),
              "b": "C:/Users/ann/x /c/Users/ann/y.", "no": "C:\\Users\\anna\\x D:\\Users\\ann"}  # fmt: skip
    paths = PathMap({"C:\\Users\\ann": "/home/bob", "C:\\Users\\ann\\api\\": "/srv/api"})
    (moved,) = paths.lines([json.dumps(record).encode()])
    found = json.loads(moved)
    assert found["cwd"] == "/srv/api"
    assert json.loads(found["a"])["p"] == "/srv/api/new/x.py\n/home/bob\n"
    assert found["b"] == "/home/bob/x /home/bob/y."
    assert found["no"] == record["no"]
    assert paths.rewritten["c:\\Users\\ann\\api\\new\\x.py", "/srv/api/new/x.py"] == 1
    assert paths.path("C:\\Users\\ann\\b\\c") == "/home/bob/b/c"
    assert PathMap({"C:\\a": "D:\\b"}).path("C:\\a\\c") == "D:\\b\\c"


def test_without_anything_to_rewrite_lines_stay_as_they_are():
    assert not PathMap({"/": "/home/bob", "/home/ann": "/home/ann/", "": "/x"})
    assert list(PathMap({}).lines([b"\xff/\n"])) == [b"\xff/\n"]


@pytest.mark.parametrize("word", ["", "/a", "a=/b", "/a=b", "=/b", "/=/b"])
def test_a_map_that_is_none_is_refused(word: str):
    with pytest.raises(InvalidRequest, match="OLD=NEW"):
        parsed([word])


def test_the_folder_of_a_directory_is_the_one_that_claude_code_looks_into():
    assert slug("/tmp/sess/sample/proj") == "-tmp-sess-sample-proj"
    assert slug("/home/änn/my_api.v2") == "-home--nn-my-api-v2"
    assert slug("/x/🎉") == "-x---"
    assert len(slug("/" + "a" * 300).rpartition("-")[0]) == 200
