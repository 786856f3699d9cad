# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/docs-examples: which blocks of a page run again, at which width, and what takes their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import docs_examples
from tools.docs_examples import examples, record_of, remade

PAGE = """# Page

```toml
# spec.toml
a = 1
```

```console
$ swapstone compare libc=glibc,musl --out rec
old answer
```

```console
$ swapstone compare libc=glibc,musl --out rec
{wide}
```

```console
$ swapstone compare ./a ./b
...
cut
```

```console
$ swapstone verify rec
stays
```

```sh
touch not-run
```
""".replace("{wide}", "w" * 81)


def test_whole_outputs_of_comparisons_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def printed(command: str, folder: Path, columns: int) -> str:
        assert (folder / "spec.toml").read_text() == "# spec.toml\na = 1\n"
        ran.append((command, columns))
        return f"new {len(ran)}\n"

    monkeypatch.setattr(docs_examples, "printed", printed)
    page = remade("docs/x.md", PAGE, tmp_path)
    assert ran == [("swapstone compare libc=glibc,musl --out rec", 80), ("swapstone show rec", 120)]
    assert "$ swapstone compare libc=glibc,musl --out rec\nnew 1\n```" in page
    assert "$ swapstone compare libc=glibc,musl --out rec\nnew 2\n```" in page
    assert "...\ncut\n" in page and "stays\n" in page and "old answer" not in page
    assert not (tmp_path / "not-run").exists()


def test_without_examples_a_page_stays(tmp_path: Path) -> None:
    assert remade("docs/x.md", "# Page\n", tmp_path) == "# Page\n"


def test_the_record_of_a_command() -> None:
    assert record_of("swapstone compare 'a b' c --out rec") == "rec"
    assert record_of("swapstone compare a b") == "last"


def test_every_page_with_shell_blocks_exists() -> None:
    for name in (*docs_examples.SHELL_BLOCKS, *docs_examples.PREPARED):
        assert any(each.command for each in examples((docs_examples.TOP / name).read_text())), name
