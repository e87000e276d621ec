"""Labels are parsed as Loki's clients write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.loki.labels import LabelsError, labels_text, parse

texts = st.text(st.characters(codec="utf-8"), max_size=12)


def pairs(text: str) -> dict[str, str]:
    return dict(parse(text).pairs)


@given(labels=st.dictionaries(texts.filter(bool), texts, max_size=5))
def test_what_is_written_is_read(labels: dict[str, str]) -> None:
    found = parse(labels_text(labels))
    assert dict(found.pairs) == labels
    assert [name for name, _ in found.pairs] == sorted(labels)


@given(text=st.text(st.sampled_from("{}\",=\\ab`' \n1x"), max_size=12) | texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(LabelsError):
        found = pairs(text)
        assert pairs(labels_text(found)) == found


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("{}", {}),
        (" { } ", {}),
        ('{foo="bar"}', {"foo": "bar"}),
        ('{foo="bar",}', {"foo": "bar"}),
        ('\t{ foo = "bar" ,\n baz="x\\"y" }\n', {"foo": "bar", "baz": 'x"y'}),
        ("{a='it\\'s', b=`c:\\dir\"`}", {"a": "it's", "b": 'c:\\dir"'}),
        ('{a="", b="}"}', {"a": "", "b": "}"}),
        (r'{a="\a\b\f\n\r\t\v\\"}', {"a": "\a\b\f\n\r\t\v\\"}),
        (r'{a="\x41\102\u00e9\U0001F600"}', {"a": "AB\u00e9\U0001f600"}),
        (r'{a="\xc3\xa9"}', {"a": "\u00e9"}),
        (r'{a="\xff!"}', {"a": "\N{REPLACEMENT CHARACTER}!"}),
        (r'{a="\ud800"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        ('{"k8s.pod.name"="a", _b1="c"}', {"k8s.pod.name": "a", "_b1": "c"}),
    ],
)
def test_ways_to_write_labels(text: str, labels: dict[str, str]) -> None:
    assert pairs(text) == labels


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo", "'{' is expected, not 'f', at character 1 "),
        ("{", "the name of a label is expected, not the end, at character 2 "),
        ("{,}", "the name of a label is expected, not ',', at character 2 "),
        ('{1a="b"}', "the name of a label is expected, not '1', at character 2 "),
        ('{a.b="c"}', "'=' is expected, not '.', at character 3 "),
        ('{a!="b"}', "'=' is expected, not '!', at character 3 "),
        ('{a=~"b"}', "a value in quotes is expected, not '~', at character 4 "),
        ("{a=b}", "a value in quotes is expected, not 'b', at character 4 "),
        ('{a="b', "a value in quotes is expected, not '\"', at character 4 "),
        ('{a="b\n"}', "a value in quotes is expected"),
        ('{a="b" c="d"}', "',' or '}' is expected, not 'c', at character 8 "),
        ('{a="b"} x', "nothing is expected after '}', not 'x', at character 9 "),
        ('{a="b", a="c"}', "label 'a' comes twice, at character 9 "),
        ('{""="c"}', "a label has no name at character 2 "),
        (r'{a="\q"}', r"an escape that is none, \q, in the quotes at character 4 "),
        (r'{a="\x4"}', r"an escape that is none, \x, in the quotes at character 4 "),
        (r'{a="\400"}', r"an escape that is none, \4, in the quotes at character 4 "),
        (r"""{a="\'"}""", r"an escape that is none, \', in the quotes at character 4 "),
        (r'{a="\U00110000"}', "an escape of 110000, which is no character, in the quotes at character 4 "),
    ],
)
def test_wrong_labels_are_explained(text: str, problem: str) -> None:
    with pytest.raises(LabelsError) as caught:
        parse(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ('{job="j", app="a", service_name="s", container="c"}', "s"),
        ('{job="j", container="c"}', "c"),
        ('{service_name="", app="a"}', "a"),
        ('{host="h"}', None),
    ],
)
def test_services(text: str, service: str | None) -> None:
    assert parse(text).service == service


def test_long_labels_are_read_too() -> None:
    assert parse('{a="' + "x" * 100_000 + '", level="warn"}').level == "warn"
