"""Object stores: one small interface over local folders, S3, Google Cloud Storage and Azure."""

from frazil.store.interface import ObjectInfo, ObjectStore
from frazil.store.opening import open_store

__all__ = ["ObjectInfo", "ObjectStore", "open_store"]
