"""Whom a node dials: all, or a few, and still all are connected, also when some do not answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

import pytest
from crdtsyncd.cluster import dial_planner
from crdtsyncd.cluster.dial_planner import DialPlanner
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.core.peers.dial_choice import FULL_MESH_NODES_MAX, chosen, chosen_of_groups

Links = dict[str, set[str]]


def ids(count: int, seed: int = 1) -> list[str]:
    random = Random(seed)
    return sorted(random.randbytes(16).hex() for _ in range(count))


def links_of(nodes: Collection[str], is_usable: Callable[[str], bool] = lambda _node: True) -> Links:
    """The connections of each when all that are usable have dialled whom they chose."""
    found: Links = {node: set() for node in nodes if is_usable(node)}
    for me in list(found):
        for other in chosen(me, nodes, is_usable) & found.keys():
            found[me].add(other)
            found[other].add(me)
    return found


def reached(start: str, links: Links) -> dict[str, int]:
    """All that are connected with a node, and over how many connections."""
    found, border, hops = {start: 0}, {start}, 0
    while border:
        hops += 1
        border = {other for me in border for other in links[me]} - found.keys()
        found |= dict.fromkeys(border, hops)
    return found


def test_up_to_sixteen_nodes_are_all_connected():
    nodes = ids(FULL_MESH_NODES_MAX)
    assert {len(others) for others in links_of(nodes).values()} == {15}


def test_another_bound_holds_for_whom_a_node_dials():
    nodes = ids(20)
    assert len(DialPlanner(lambda _node: False, full_max=20).choose(nodes[0], nodes, [])) == 19
    assert len(DialPlanner(lambda _node: False, full_max=19).choose(nodes[0], nodes, [])) < 19
    assert len(DialPlanner(lambda _node: False, full_max=2).choose(nodes[0], nodes[:3], [])) == 1, "a ring of three"


@pytest.mark.parametrize("count, degree_max, hops_max", [(17, 6, 3), (30, 6, 4), (100, 8, 5), (300, 10, 6)])
def test_more_have_few_connections_and_few_hops(count, degree_max, hops_max):
    nodes = ids(count)
    links = links_of(nodes)
    assert max(map(len, links.values())) <= degree_max
    for node in nodes[:5]:
        found = reached(node, links)
        assert len(found) == count
        assert max(found.values()) <= hops_max


@given(st.integers(17, 40), st.data())
def test_whoever_is_down_the_others_stay_connected(count, data):
    nodes = ids(count)
    down = data.draw(st.sets(st.sampled_from(nodes), max_size=count - 1))
    up = [node for node in nodes if node not in down]
    assert {*reached(up[0], links_of(nodes, lambda node: node not in down))} == {*up}


def test_who_cannot_be_reached_dials_some_of_those_who_can():
    nodes = ids(30)
    assert 2 <= len(chosen("7" * 32, nodes, lambda _node: True)) <= 4


def test_the_nodes_of_a_space_are_connected_among_themselves():
    nodes = ids(40)
    few = {nodes[0], nodes[7], nodes[20]}
    assert few - {nodes[7]} <= chosen_of_groups(nodes[7], [nodes, few], lambda _node: True)


def test_who_does_not_answer_is_replaced_and_taken_back():
    nodes, linked, now = ids(30), set[str](), [0.0]
    mesh = DialPlanner(linked.__contains__, lambda: now[0])
    first = mesh.choose(nodes[0], nodes, [])
    linked |= first - {nodes[1]}
    mesh.choose(nodes[0], nodes, [])
    now[0] += dial_planner.ANSWER_TIMEOUT_S
    assert mesh.choose(nodes[0], nodes, []) == first | {nodes[2]}
    linked.add(nodes[1])
    assert mesh.choose(nodes[0], nodes, []) == first
