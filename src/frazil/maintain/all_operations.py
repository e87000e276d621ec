"""Lists all maintenance operations, in the order in which one makes work for the next."""

from __future__ import annotations

from frazil.config.sections.maintenance import MaintenanceConfig
from frazil.maintain.compaction.operation import Compaction
from frazil.maintain.expiry import Expiry
from frazil.maintain.manifests import ManifestRewrite
from frazil.maintain.migration import Migration
from frazil.maintain.operations import Operation
from frazil.maintain.orphans import OrphanRemoval
from frazil.maintain.retention.retention import Retention
from frazil.maintain.trimming.trimming import Trimming

NAMES = ("migrate", "retention", "compact", "manifests", "expire", "orphans", "trim")


def all_operations(config: MaintenanceConfig) -> list[Operation]:
    return [
        Migration(),
        Retention(),
        Compaction(config.compaction),
        ManifestRewrite(config.manifests),
        Expiry(config.expiry),
        OrphanRemoval(config.orphans),
        Trimming(),
    ]
