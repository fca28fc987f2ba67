"""A named tuple that is made quickly behaves as one of the standard library."""

from __future__ import annotations

import pickle
import typing
from typing import Any, Generic, TypeVar, get_type_hints

import pytest

from crdtsync.named_tuple import NamedTuple

T = TypeVar("T")


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 2
    name: str | None = None

    @property
    def total(self) -> int:
        return self.x + self.y

    def moved(self, by: int) -> Point:
        return self._replace(x=self.x + by)


class Usual(typing.NamedTuple):
    x: int
    y: int = 2
    name: str | None = None


class Box(NamedTuple, Generic[T]):
    held: T


class Empty(NamedTuple):
    pass


@pytest.mark.parametrize("given, named", [((1,), {}), ((1, 5), {}), ((), {"x": 1, "name": "n"}), ((1, 5, "n"), {})])
def test_it_holds_what_one_of_the_standard_library_holds(given: Any, named: Any) -> None:
    made: Any = Point(*given, **named)
    usual = Usual(*given, **named)
    assert made == usual
    assert hash(made) == hash(usual)
    assert (made.x, made.y, made.name) == (usual.x, usual.y, usual.name)
    assert made._asdict() == usual._asdict()
    assert repr(made) == repr(usual).replace("Usual", "Point")
    assert pickle.loads(pickle.dumps(made)) == made
    assert type(pickle.loads(pickle.dumps(made))) is Point


@pytest.mark.parametrize("given, named", [((), {}), ((1, 2, "n", 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2})])
def test_it_refuses_what_one_of_the_standard_library_refuses(given: Any, named: Any) -> None:
    with pytest.raises(TypeError) as usual:
        Usual(*given, **named)
    with pytest.raises(TypeError) as refused:
        Point(*given, **named)
    assert str(refused.value) == str(usual.value).replace("Usual", "Point")


def test_its_fields_are_named_as_usual() -> None:
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__"):
        assert getattr(Point, name) == getattr(Usual, name)
    assert get_type_hints(Point) == get_type_hints(Usual)
    assert Point.__doc__ == "A place."
    assert (Point.__module__, Point.__qualname__) == (__name__, "Point")


def test_it_has_the_methods_of_its_class_and_room_for_no_more() -> None:
    assert Point(1).total == 3
    assert Point(1).moved(4) == (5, 2, None)
    with pytest.raises(AttributeError):
        Point(1).other = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        Point(1).x = 1  # type: ignore[misc]


def test_one_is_made_of_any_values_and_of_another_one() -> None:
    assert Point._make(iter((1, 2, "n"))) == Point(1, 2, "n")
    with pytest.raises(TypeError, match="3 fields"):
        Point._make((1, 2))
    with pytest.raises(ValueError, match="other"):
        Point(1)._replace(other=2)  # type: ignore[call-arg]


def test_it_is_matched_by_place() -> None:
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)
        case _:
            pytest.fail("not matched")


def test_it_may_be_generic_or_empty() -> None:
    assert Box[int](3).held == Box(3).held == 3
    assert (Empty(), Empty._fields) == ((), ())


def test_a_default_before_none_is_refused() -> None:
    make: Any = type(NamedTuple)
    with pytest.raises(AssertionError, match="Wrong"):
        make("Wrong", (NamedTuple,), {"__annotations__": {"x": "int", "y": "int"}, "x": 1})
