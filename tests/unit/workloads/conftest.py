# SPDX-License-Identifier: MIT OR Apache-2.0
import pytest

from tests.unit.workloads.programs import Programs


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Return programs built into a folder of their own. Those of the suites are in the build cache, which all tests share."""
    return Programs(tmp_path_factory.mktemp("programs"))
