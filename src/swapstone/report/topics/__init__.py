# SPDX-License-Identifier: MIT OR Apache-2.0
"""Topics: each builds the sections of one aspect of a report, for every format. docs/extending.md has a recipe for a new one."""

from __future__ import annotations

from swapstone.report.topics.board_sensors import BOARD_SENSORS
from swapstone.report.topics.comparisons import COMPARISONS
from swapstone.report.topics.explanations import EXPLANATIONS
from swapstone.report.topics.factorial import FACTORIAL
from swapstone.report.topics.failure_rates import FAILURE_RATES
from swapstone.report.topics.float_abi import FLOAT_ABI
from swapstone.report.topics.goodput import GOODPUT
from swapstone.report.topics.kernel_services import KERNEL_SERVICES
from swapstone.report.topics.latency import LATENCY
from swapstone.report.topics.lists import ENVIRONMENT, FAILED_TRIALS, LINK_LAYOUTS, NULL_RESULTS
from swapstone.report.topics.load_latency import LOAD_LATENCY
from swapstone.report.topics.netstack import NETSTACK
from swapstone.report.topics.published_figures import PUBLISHED_FIGURES
from swapstone.report.topics.result_rows import RESULTS
from swapstone.report.topics.servers import SERVERS
from swapstone.report.topics.service_tables import SERVICE_TABLES
from swapstone.report.topics.swap import SWAP
from swapstone.report.topics.throughput import THROUGHPUT
from swapstone.report.topics.topic import Topic
from swapstone.report.topics.trade_off import TRADE_OFF

__all__ = ["TOPICS", "Topic"]

TOPICS: tuple[Topic, ...] = (
    TRADE_OFF,
    LATENCY,
    THROUGHPUT,
    KERNEL_SERVICES,
    SERVICE_TABLES,
    SWAP,
    SERVERS,
    LOAD_LATENCY,
    NETSTACK,
    GOODPUT,
    FLOAT_ABI,
    FACTORIAL,
    COMPARISONS,
    RESULTS,
    EXPLANATIONS,
    PUBLISHED_FIGURES,
    NULL_RESULTS,
    LINK_LAYOUTS,
    FAILURE_RATES,
    FAILED_TRIALS,
    BOARD_SENSORS,
    ENVIRONMENT,
)
"""Every topic, in the order in which a report prints them."""
