# SPDX-License-Identifier: MIT OR Apache-2.0
"""The analysis is imported as a whole: signals wait for it."""

from __future__ import annotations

import importlib
import signal
import threading

import pytest

from swapstone.core.session.analysis_import import load_analysis


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_import_is_delivered_afterwards(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    done = []

    def imported(_: str) -> None:
        signal.raise_signal(number)
        done.append(number)

    earlier = signal.signal(number, signal.default_int_handler)
    monkeypatch.setattr(importlib, "import_module", imported)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_analysis.__wrapped__()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, earlier)
    assert done == [number]


def test_an_ignored_signal_stays_ignored_and_another_thread_may_import(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = []
    monkeypatch.setattr(importlib, "import_module", lambda _: handlers.append(signal.getsignal(signal.SIGINT)))
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        load_analysis.__wrapped__()
        thread = threading.Thread(target=load_analysis.__wrapped__)
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert handlers == [signal.SIG_IGN, signal.SIG_IGN]
