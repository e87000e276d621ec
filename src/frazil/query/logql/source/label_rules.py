"""Says which labels a stored row has in Loki's eyes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from frazil.config.sections.loki import INDEX_ATTRIBUTES, LokiConfig
from frazil.formats.loki.labels import SERVICE_LABELS

SERVICE_NAME = "service_name"
UNKNOWN_SERVICE = "unknown_service"
SERVICE_ATTRIBUTE = "service.name"
DETECTED_LEVEL = "detected_level"

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")


def metadata_name(key: str) -> str:
    """Returns the name of an attribute as a label."""
    name = _NO_NAME.sub("_", key)
    return f"key_{name}" if name[:1].isdecimal() else name


@dataclass(frozen=True)
class LabelRules:
    """Has the settings of a tenant."""

    index_attributes: tuple[str, ...] = INDEX_ATTRIBUTES
    discover_services: bool = True
    """Whether a stream without `service_name` gets one, from the first of the labels that Loki looks at."""
    discover_levels: bool = True
    """Whether lines have `detected_level`."""

    @classmethod
    def of(cls, config: LokiConfig, tenant: str) -> LabelRules:
        labels = config.labels_of(tenant)
        return cls(tuple(labels.index_attributes), labels.discover_services, labels.discover_levels)

    @cached_property
    def _indexed(self) -> frozenset[str]:
        return frozenset(self.index_attributes)

    def of_push(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Returns the labels of a stream that came by Loki's push with these."""
        return self._with_service({name: value for name, value in labels.items() if value})

    def of_resource(self, attributes: Mapping[str, str]) -> dict[str, str]:
        """Returns the labels of a stream that came by OTLP with these attributes of its resource."""
        found = {metadata_name(key): value for key, value in attributes.items() if value and key in self._indexed}
        return self._with_service(found)

    def _with_service(self, labels: dict[str, str]) -> dict[str, str]:
        if self.discover_services and SERVICE_NAME not in labels:
            name = next((labels[name] for name in SERVICE_LABELS if name in labels), UNKNOWN_SERVICE)
            labels[SERVICE_NAME] = name
        return labels

    @property
    def service_is_column(self) -> bool:
        """Returns whether `service_name` is what the column of that name has, where that is not empty."""
        return self.discover_services and SERVICE_ATTRIBUTE in self._indexed

    def is_metadata(self, key: str) -> bool:
        """Returns whether an attribute of a resource is structured metadata."""
        return key not in self._indexed

    def keys_of(self, label: str) -> list[str]:
        """Returns all keys of resource attributes from which a label of a stream can come."""
        return [label, *(key for key in self.index_attributes if key != label and metadata_name(key) == label)]
