from __future__ import annotations

import pytest

from frazil.config.model import Config
from frazil.config.sections.topics import TopicConfig
from frazil.errors import InvalidTenant
from frazil.scan.tenants import Tenant, tenant_name, tenant_of


@pytest.mark.parametrize("name", ["a", "Team-1_x.*'()!", "x" * 150, "..."])
def test_names_that_a_tenant_can_have(name: str) -> None:
    assert tenant_name([name]) == name


@pytest.mark.parametrize("name", ["", "a b", "a|b", "a/b", "é", "x" * 151, ".", "..", "a\n"])
def test_and_those_it_cannot(name: str) -> None:
    with pytest.raises(InvalidTenant, match="cannot be a tenant"):
        tenant_name([name])


@pytest.mark.parametrize("told", [["a", "b"], ["a", "a"], ["a", ""]])
def test_two_headers_are_refused(told: list[str]) -> None:
    with pytest.raises(InvalidTenant, match="X-Scope-OrgID is there 2 times"):
        tenant_name(told)


def test_only_topics_that_say_whose_rows_are_whose_are_filtered() -> None:
    config = Config(topics={"shared": TopicConfig(tenant_column="org")})
    assert tenant_of(config, "shared", []) == Tenant("org", "default")
    assert tenant_of(config, "shared", ["red"]) == Tenant("org", "red")
    assert tenant_of(config, "other", ["red"]) is None
    with pytest.raises(InvalidTenant):
        tenant_of(config, "other", ["not one"])
