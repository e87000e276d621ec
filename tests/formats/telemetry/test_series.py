"""Points of one series have the same labels and the same id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.telemetry.attributes import MAP
from frazil.formats.telemetry.hashing import hash_text, hash_texts
from frazil.formats.telemetry.series import SharedLabels, jobs_and_instances, labels, series_id, series_ids

# There are few keys, so that some become the same label, or a reserved one.
keys = st.sampled_from(["a", "b", "a.b", "a_b", "a-b", "job", "instance", "__name__", "._name__", "é", "ü", ""])
values = st.none() | st.text(max_size=20) | st.text(min_size=50, max_size=80)
pairs = st.dictionaries(keys, values, max_size=5).map(lambda found: list(found.items()))
resources = st.dictionaries(
    st.sampled_from(["service.name", "service.namespace", "service.instance.id", "other"]), values
).map(lambda found: list(found.items()))
names = st.just("") | st.text(max_size=12)


@given(given=st.lists(st.tuples(names, resources), min_size=1, max_size=3), data=st.data())
def test_many_ids_are_those_of_each(
    given: list[tuple[str, list[tuple[str, str | None]]]], data: st.DataObject
) -> None:
    points = data.draw(st.lists(st.tuples(st.integers(0, len(given) - 1), pairs), max_size=8))
    jobs, instances = jobs_and_instances(pa.array([resource for _, resource in given], MAP))
    owners = SharedLabels(pa.array([name for name, _ in given]), jobs, instances)
    maps = pa.array([[], *(each for _, each in points)], MAP)[1:]
    found = series_ids(owners, np.array([place for place, _ in points], np.int64), maps)
    assert found.to_pylist() == [series_id(labels(given[place][0], each, given[place][1])) for place, each in points]


@given(texts=st.lists(st.text(max_size=20) | st.text(min_size=50, max_size=80)))
def test_a_column_is_hashed_as_each_of_its_texts(texts: list[str]) -> None:
    assert hash_texts(pa.array(["before", *texts])[1:]).tolist() == [hash_text(text) for text in texts]


def test_a_null_is_as_no_text_whatever_lies_beneath() -> None:
    texts = pa.array(["one", "two", ""])
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *texts.buffers()[1:]])
    assert hidden.to_pylist() == ["one", None, ""]
    assert hash_texts(hidden).tolist() == [hash_text("one"), 0, 0]


def test_an_attribute_is_never_the_name_of_a_metric() -> None:
    owners = SharedLabels(pa.array([""]), pa.nulls(1, pa.string()), pa.nulls(1, pa.string()))
    found = series_ids(owners, np.zeros(1, np.int64), pa.array([[("__name__", "x"), ("a", "1")]], MAP))
    assert found.to_pylist() == [series_id(labels("", [("__name__", "x"), ("a", "1")]))] == [series_id({"a": "1"})]


def test_ids_stay_the_same_for_ever() -> None:
    """Ids are stored in tables: another hash would split every series in two."""
    assert series_id({}) == 0
    assert series_id({"__name__": "up"}) == 4941134171926570252
    assert series_id({"__name__": "http_requests_total", "job": "shop/api", "method": "GET"}) == 5139311798211070521
    assert series_id({"__name__": "up", "text": "x" * 1000}) == 208973328537030801


@given(given=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=5), data=st.data())
def test_the_order_of_labels_does_not_matter(given: dict[str, str], data: st.DataObject) -> None:
    assert series_id(dict(data.draw(st.permutations(list(given.items()))))) == series_id(given)


def test_label_sets_that_are_alike_have_different_ids() -> None:
    alike = [{f"{name}{a}": str(b)} for name in "xyz" for a in range(60) for b in range(60)]
    alike += [{"a": f"{a:08}{b:08}"} for a in range(100) for b in range(100)]
    alike += [{"a": f"{a:02}", "b": f"{b:02}"} for a in range(100) for b in range(100)]
    alike += [{"a": "b"}, {"b": "a"}, {"ab": "c"}, {"a": "bc"}, {"a": "b", "c": "d"}, {"a": "d", "c": "b"}]
    distinct = {tuple(sorted(each.items())) for each in alike}
    assert len({series_id(each) for each in alike}) == len(distinct)


def test_labels() -> None:
    resource = [("service.name", "api"), ("service.namespace", "shop"), ("service.instance.id", "7"), ("host", "h")]
    assert labels("up", [("http.method", "GET"), ("1st", "x")], resource) == {
        "__name__": "up",
        "job": "shop/api",
        "instance": "7",
        "http_method": "GET",
        "key_1st": "x",
    }


def test_what_metric_and_resource_say_replaces_attributes() -> None:
    own = [("__name__", "x"), ("job", "y"), ("instance", "z")]
    resource = [("service.name", "api"), ("service.instance.id", "7")]
    assert labels("up", own, resource) == {"__name__": "up", "job": "api", "instance": "7"}
    assert labels("up", own) == {"__name__": "up", "job": "y", "instance": "z"}


def test_attributes_that_become_one_label_are_joined_in_the_order_of_their_keys() -> None:
    assert labels("up", [("a_b", "3"), ("a.b", "2"), ("a-b", "1")])["a_b"] == "1;2;3"


def test_a_label_without_a_value_is_none() -> None:
    assert labels("up", [("a", ""), ("b", None)], [("service.name", ""), ("service.namespace", "shop")]) == {
        "__name__": "up"
    }
