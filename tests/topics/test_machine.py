"""Compares random lives of a topic with plain lists: readers get every message once, in order, or learn what is gone.

Messages are sealed, moved, trimmed and removed by retention. Tables are compacted and snapshots expire. Producers
repeat what they sent, and the process dies.
"""

from __future__ import annotations

from hypothesis import settings

from tests.examples import examples
from tests.topics.machine import TopicLife

TestTopicLife = TopicLife.TestCase
TestTopicLife.settings = settings(max_examples=examples(10), stateful_step_count=40, deadline=None)
