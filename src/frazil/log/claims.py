"""Claims: they say which node writes which partition.

A node is a data folder (or a name from the settings). It claims a partition by creating `writer.json`, once and
for good; on one machine the lock of the partition's folder decides which of its processes writes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from frazil.clock import World, iso
from frazil.disk.durable import make_folder, sync_file, sync_folder
from frazil.errors import LogCorrupted, ObjectExists, ObjectNotFound
from frazil.log import layout
from frazil.store import ObjectStore


def node_name(data_dir: Path, configured: str | None, world: World) -> str:
    """Return the lasting name of this node. A random one is stored beside the WAL, and is lost with it."""
    if configured:
        return configured
    path = layout.wal_root(data_dir) / "node"
    make_folder(path.parent)
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    draft = path.with_name(f"node.{world.new_id()}")
    with draft.open("w") as file:
        file.write(f"node-{world.new_id()}\n")
        file.flush()
        sync_file(file.fileno())
    try:
        os.link(draft, path)
        sync_folder(path.parent)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text().strip()


def owner(store: ObjectStore, topic: str, partition: int) -> str | None:
    try:
        data = store.get(layout.claim_key(topic, partition))
    except ObjectNotFound:
        return None
    try:
        return str(json.loads(bytes(data))["node"])
    except (ValueError, KeyError, TypeError) as error:
        key = layout.claim_key(topic, partition)
        raise LogCorrupted(
            f"{key} in {store.url} does not say which node writes {topic}/{partition}: {error}. Restore it from a "
            f'backup, or replace it by {{"node": "NAME"}} with the name of the node whose data folder has its WAL.'
        ) from error


def claim(store: ObjectStore, topic: str, partition: int, node: str, world: World) -> bool:
    """Claim a partition for a node. Return True if it belongs to the node now, or did before."""
    body = {"node": node, "claimed_at": iso(world.clock.now_ms())}
    try:
        store.put_new(layout.claim_key(topic, partition), json.dumps(body).encode())
    except ObjectExists:
        return owner(store, topic, partition) == node
    return True
