# SPDX-License-Identifier: MIT OR Apache-2.0
from collections.abc import Iterator

import pytest

from tests.unit.workloads.programs import Programs


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Return programs built into a folder that is also the build cache."""
    folder = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield Programs(folder)
