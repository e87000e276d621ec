"""Says which labels a stored row has in Loki's eyes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from frazil.formats.loki.labels import SERVICE_LABELS

SERVICE_NAME = "service_name"
UNKNOWN_SERVICE = "unknown_service"
DETECTED_LEVEL = "detected_level"

INDEX_ATTRIBUTES = (
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
)
"""Loki makes these attributes of resources labels of streams, unless it is told others."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")


def metadata_name(key: str) -> str:
    """Returns the name of an attribute as a label."""
    name = _NO_NAME.sub("_", key)
    return f"key_{name}" if name[:1].isdecimal() else name


@dataclass(frozen=True)
class LabelRules:
    """Has the settings of a tenant."""

    index_attributes: tuple[str, ...] = INDEX_ATTRIBUTES
    service_labels: tuple[str, ...] = SERVICE_LABELS
    """A stream without `service_name` gets the first of these that it has; if there are none here, it gets none."""
    discover_levels: bool = True
    """Whether lines have `detected_level`."""

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
        if self.service_labels and SERVICE_NAME not in labels:
            name = next((labels[name] for name in self.service_labels if name in labels), UNKNOWN_SERVICE)
            labels[SERVICE_NAME] = name
        return labels

    def is_metadata(self, key: str) -> bool:
        """Returns whether an attribute of a resource is structured metadata."""
        return key not in self._indexed

    def keys_of(self, label: str) -> list[str]:
        """Returns all keys of resource attributes from which a label of a stream can come."""
        return [label, *(key for key in self.index_attributes if key != label and metadata_name(key) == label)]
