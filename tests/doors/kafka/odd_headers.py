"""Records that other clients can write, and the one for Python cannot: with header names that are no UTF-8."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka

_PRODUCER = 0
_TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADERS, _END = 1, 3, 4, 7, 10, 0
_COPY = 2
_FLUSH_MS = 60_000


def produce(bootstrap: str, topic: str, value: bytes, header: bytes) -> None:
    """One record to partition 0."""
    found = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs").glob("librdkafka*")
    library = ctypes.CDLL(str(next(found)))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = ctypes.c_void_p
    pointer, number = ctypes.c_void_p, ctypes.c_int
    error = ctypes.create_string_buffer(512)
    settings = pointer(library.rd_kafka_conf_new())
    address = ctypes.c_char_p(bootstrap.encode())
    assert library.rd_kafka_conf_set(settings, b"bootstrap.servers", address, error, 512) == 0, error.value
    producer = pointer(library.rd_kafka_new(number(_PRODUCER), settings, error, 512))
    headers = pointer(library.rd_kafka_headers_new(ctypes.c_size_t(1)))
    library.rd_kafka_header_add(headers, header, ctypes.c_ssize_t(len(header)), b"v", ctypes.c_ssize_t(1))
    sent = library.rd_kafka_producev(
        producer,
        *(number(_TOPIC), ctypes.c_char_p(topic.encode())),
        *(number(_PARTITION), ctypes.c_int32(0)),
        *(number(_FLAGS), number(_COPY)),
        *(number(_VALUE), ctypes.c_char_p(value), ctypes.c_size_t(len(value))),
        *(number(_HEADERS), headers),
        number(_END),
    )
    assert sent == 0
    assert library.rd_kafka_flush(producer, number(_FLUSH_MS)) == 0
    library.rd_kafka_destroy(producer)
