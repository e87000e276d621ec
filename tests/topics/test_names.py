from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.model import Config
from frazil.errors import ConfigError, InvalidTopic
from frazil.topics.dead_letter_settings import check_dead_letter_topics
from frazil.topics.names import parse_name

part = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(lambda name: "-part-" not in name)


@pytest.mark.parametrize(
    ("text", "topic", "path", "partition"),
    [
        ("/shop/orders", "shop.orders", "/shop/orders", None),
        ("shop.orders", "shop.orders", "/shop/orders", None),
        ("orders", "orders", "/frazil/orders", None),
        ("/frazil/orders", "orders", "/frazil/orders", None),
        ("frazil.orders", "orders", "/frazil/orders", None),
        ("/shop/orders-part-0", "shop.orders", "/shop/orders", 0),
        ("orders-part-12", "orders", "/frazil/orders", 12),
        ("/shop/orders-part-07", "shop.orders-part-07", "/shop/orders-part-07", None),
        ("/shop/orders-part-x", "shop.orders-part-x", "/shop/orders-part-x", None),
    ],
)
def test_names(text: str, topic: str, path: str, partition: int | None) -> None:
    name = parse_name(text)
    assert (name.topic, name.path, name.partition) == (topic, path, partition)


@given(namespace=part, name=part, partition=st.none() | st.integers(0, 9999))
def test_all_forms_mean_the_same(namespace: str, name: str, partition: int | None) -> None:
    parsed = parse_name(f"/{namespace}/{name}")
    assert (parsed.namespace, parsed.name) == (namespace, name)
    assert parse_name(parsed.topic) == parse_name(parsed.path) == parsed
    if partition is not None:
        assert parse_name(parsed.part(partition)).topic == parsed.topic
        assert parse_name(parsed.part(partition)).partition == partition


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs a name"),
        ("/shop", "two names and two slashes"),
        ("/shop/orders/more", "two names and two slashes"),
        ("shop/orders", "begins with one"),
        ("//orders", "its namespace is ''"),
        ("/shop/", "its name is ''"),
        ("/shop/or ders", "its name is 'or ders'"),
        ("/sh.op/orders", r"its namespace is 'sh\.op'"),
        ("/shop/-orders", "do not begin with a dash"),
        ("a.b.c", "more than one dot"),
        (".orders", "its namespace is ''"),
        ("ümlaut", "its name is 'ümlaut'"),
        ("..", "cannot be a topic"),
        ("/shop/" + "x" * 249, "254 characters"),
        ("orders-part-10000", "at most 10,000"),
        ("/shop/orders-part-1-part-0", "'orders-part-1' is a partition already"),
    ],
)
def test_what_is_no_name_is_explained(text: str, words: str) -> None:
    with pytest.raises(InvalidTopic, match=words):
        parse_name(text)


def test_a_home_of_several_names_has_topics_too() -> None:
    name = parse_name("orders", "my.lake")
    assert (name.topic, name.path) == ("orders", "/my.lake/orders")
    assert parse_name("/my.lake/orders", "my.lake") == parse_name("my.lake.orders", "my.lake") == name


@pytest.mark.parametrize(
    ("letters", "problem"),
    [
        ("a b", "'a b' cannot be a topic"),
        ("shop.bad-part-1", "is one partition of /shop/bad; name the topic"),
        ("/shop/orders", "is the topic itself"),
    ],
)
def test_topics_of_dead_letters_are_looked_at(letters: str, problem: str) -> None:
    settings = {"topics": {"shop.orders": {"subscriptions": {"dead_letter_topic": letters}}}}
    with pytest.raises(ConfigError, match=rf"topics\.shop\.orders\.subscriptions\.dead_letter_topic: .*{problem}"):
        check_dead_letter_topics(Config.model_validate(settings))
    check_dead_letter_topics(Config())
