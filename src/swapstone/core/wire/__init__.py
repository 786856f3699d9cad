# SPDX-License-Identifier: MIT OR Apache-2.0
"""Encoders and strict decoders of the protocols of docs/wire.md: plans, answers and reports."""

from swapstone.core.wire.agent_answer import (
    AgentAnswer,
    AgentRefusedError,
    AnswerReader,
    ProcessOutcome,
    decode_answers,
    encode_answer,
    encode_answer_header,
)
from swapstone.core.wire.agent_request import (
    NONCE_BYTES,
    LoadGeneratorRequest,
    TrialRequest,
    encode_plan_header,
    encode_request,
)
from swapstone.core.wire.protocol_text import encode_text
from swapstone.core.wire.protocol_words import FACTS
from swapstone.core.wire.workload_report import (
    Memory,
    Pass,
    WorkloadReport,
    decode_workload_report,
    encode_workload_report,
)

__all__ = [
    "FACTS",
    "NONCE_BYTES",
    "AgentAnswer",
    "AgentRefusedError",
    "AnswerReader",
    "LoadGeneratorRequest",
    "Memory",
    "Pass",
    "ProcessOutcome",
    "TrialRequest",
    "WorkloadReport",
    "decode_answers",
    "decode_workload_report",
    "encode_answer",
    "encode_answer_header",
    "encode_plan_header",
    "encode_request",
    "encode_text",
    "encode_workload_report",
]
