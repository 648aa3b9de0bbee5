"""Numbers for Prometheus, in a registry of their own; labels are routes and states, never ids or texts."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Metrics:
    """What is counted."""

    registry: CollectorRegistry
    requests: Counter
    seconds: Histogram
    in_flight: Gauge
    batch: Histogram
    decisions: Counter


def new_metrics() -> Metrics:
    """Counters at zero."""
    registry = CollectorRegistry()
    return Metrics(
        registry,
        Counter("plant_requests", "Answered requests", ("method", "route", "status"), registry=registry),
        Histogram("plant_request_seconds", "Time to answer", ("route",), buckets=SECONDS, registry=registry),
        Gauge("plant_requests_in_flight", "Requests that are being answered", registry=registry),
        Histogram("plant_batch_notes", "Notes that the coder read together", buckets=SIZES, registry=registry),
        Counter("plant_decisions", "Decisions of people", ("verdict",), registry=registry),
    )
