"""Makes scans of topics, and remembers between them what never changes: plans, footers, decoded rows."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import CallError
from frazil.lake.catalog.lake import Lake
from frazil.log import layout
from frazil.scan.execution.cut import Memory
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.execution.scanned_topic import ScannedTopic, SealedCut
from frazil.scan.execution.topic_scan import TopicScan
from frazil.scan.interface import ScanRequest
from frazil.scan.log_extents import Tails

MEMORY_BYTES = 512 * MIB
"""By default so much is remembered, of all topics together."""


class TopicScanner:
    """Is long-lived. Any thread may use it.

    `tails` returns the tails of writers in this process that have no WAL. Their rows are visible, but provisional:
    they may come again at other offsets. Who follows a topic by offsets must not see them.
    """

    def __init__(
        self,
        config: Config,
        lake: Lake | None = None,
        tails: Tails | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._config = config
        self._lake = lake or Lake(config)
        self._owns_lake = lake is None
        self._tails = tails
        self._memory = Memory(memory_bytes)
        self._topics: OrderedDict[str, ScannedTopic] = OrderedDict()
        self._lock = threading.Lock()

    def scan(self, request: ScanRequest, stopped: threading.Event | None = None) -> TopicScan:
        """Makes the cut at once, and reads when the scan is read. Setting `stopped` ends the reading early."""
        if request.limit is not None and request.limit < 0:
            raise CallError(f"A scan cannot have {request.limit} rows: take a limit of 0 or more.")
        return self._topic(request.topic).scan(request, stopped)

    def pin(self, request: ScanRequest) -> PinnedScan:
        """Makes a cut of which repeated reads give the same rows, as far as the request names them."""
        return self._topic(request.topic).pin(request)

    def decode_new(self, seconds: float) -> None:
        """Decodes what has come to topics that were scanned in the last `seconds`."""
        since = time.monotonic() - seconds
        with self._lock:
            used = [topic for topic in self._topics.values() if topic.asked >= since]
        for topic in used:
            topic.decode_new()
        self._bound_tails()

    def sealed(self, topic: str) -> SealedCut:
        """Makes a cut without the tail, for whoever knows the tail already."""
        return self._topic(topic).sealed()

    def close(self) -> None:
        with self._lock:
            self._topics.clear()
        if self._owns_lake:
            self._lake.close()

    def _topic(self, name: str) -> ScannedTopic:
        layout.check_topic(name)
        with self._lock:
            topic = self._topics.get(name)
            if topic is None:
                topic = ScannedTopic(self._config, name, self._lake, self._tails, self._memory)
                self._topics[name] = topic
            self._topics.move_to_end(name)
            while len(self._topics) > 1 and sum(each.nbytes for each in self._topics.values()) > self._memory.plans:
                self._topics.popitem(last=False)
        self._bound_tails()
        return topic

    def _bound_tails(self) -> None:
        """Makes the decoded tails of all topics together fit; those whose topic was used longest ago go first."""
        with self._lock:
            topics = list(self._topics.values())
        taken = sum(topic.tail_bytes for topic in topics)
        for topic in topics:
            if taken <= self._memory.tails:
                return
            before = topic.tail_bytes
            topic.shrink_tail(max(0, before - (taken - self._memory.tails)))
            taken -= before - topic.tail_bytes
