"""Generates metrics with everything that may be in them."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)

from frazil.formats.otlp import metrics
from tests.formats.telemetry.strategies import attributes, counts, resources, scopes, some_times, texts, times

whole = st.integers(-(2**63), 2**63 - 1)
many = st.integers(0, 2**63 - 1)
signed = st.integers(-(2**31), 2**31 - 1)
maybe_floats = st.none() | st.floats()
temporalities = st.integers(0, 3)

exemplars = st.lists(
    st.one_of(
        st.builds(
            Exemplar,
            time_unix_nano=st.integers(0, 2**64 - 1),
            span_id=st.binary(max_size=9),
            trace_id=st.binary(max_size=17),
            filtered_attributes=attributes,
        ),
        st.builds(Exemplar, as_double=st.floats()),
        st.builds(Exemplar, as_int=whole),
    ),
    max_size=2,
)
common = {"time_unix_nano": times, "start_time_unix_nano": some_times, "flags": counts, "attributes": attributes}
measures = {**common, "count": many, "sum": maybe_floats, "min": maybe_floats, "max": maybe_floats}

numbers = st.one_of(
    st.builds(NumberDataPoint, **common, exemplars=exemplars),
    st.builds(NumberDataPoint, **common, exemplars=exemplars, as_double=st.floats()),
    st.builds(NumberDataPoint, **common, exemplars=exemplars, as_int=whole),
)
histograms = st.builds(
    HistogramDataPoint,
    **measures,
    bucket_counts=st.lists(many, max_size=4),
    explicit_bounds=st.lists(st.floats(), max_size=3),
    exemplars=exemplars,
)
buckets = st.none() | st.builds(
    ExponentialHistogramDataPoint.Buckets, offset=signed, bucket_counts=st.lists(many, max_size=4)
)
exponential = st.builds(
    ExponentialHistogramDataPoint,
    **measures,
    scale=signed,
    zero_count=many,
    zero_threshold=st.floats(),
    positive=buckets,
    negative=buckets,
    exemplars=exemplars,
)
quantiles = st.builds(SummaryDataPoint.ValueAtQuantile, quantile=st.floats(), value=st.floats())
summaries = st.builds(
    SummaryDataPoint, **common, count=many, sum=st.floats(), quantile_values=st.lists(quantiles, max_size=3)
)

told = {"name": texts, "description": texts, "unit": texts, "metadata": attributes}
any_metric = st.one_of(
    st.builds(Metric, **told),
    st.builds(Metric, **told, gauge=st.builds(Gauge, data_points=st.lists(numbers, max_size=2))),
    st.builds(
        Metric,
        **told,
        sum=st.builds(
            Sum,
            data_points=st.lists(numbers, max_size=2),
            aggregation_temporality=temporalities,
            is_monotonic=st.booleans(),
        ),
    ),
    st.builds(
        Metric,
        **told,
        histogram=st.builds(
            Histogram, data_points=st.lists(histograms, max_size=2), aggregation_temporality=temporalities
        ),
    ),
    st.builds(
        Metric,
        **told,
        exponential_histogram=st.builds(
            ExponentialHistogram, data_points=st.lists(exponential, max_size=2), aggregation_temporality=temporalities
        ),
    ),
    st.builds(Metric, **told, summary=st.builds(Summary, data_points=st.lists(summaries, max_size=2))),
)
scope_metrics = st.builds(
    ScopeMetrics, scope=st.none() | scopes, metrics=st.lists(any_metric, max_size=3), schema_url=texts
)
resource_metrics = st.builds(
    ResourceMetrics,
    resource=st.none() | resources,
    scope_metrics=st.lists(scope_metrics, max_size=2),
    schema_url=texts,
)
requests = st.builds(metrics.REQUEST, resource_metrics=st.lists(resource_metrics, max_size=2))
