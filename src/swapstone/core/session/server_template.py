# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server's configuration file, filled in for each trial: the option --template."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model import UserError, refuse
from swapstone.core.model.load_generator import PORT, TEMPLATE

MOST_BYTES = 64 << 10
TEMPLATE_EXAMPLE = "--server 'nginx -c {template}' --template nginx.conf"


def template_text(name: str | None, folder: Path, server: tuple[str, ...], variables: tuple[str, ...]) -> str:
    """Return the text of the file that --template names; empty without the option.

    Args:
        name: of the file.
        folder: where relative paths start.
        server: the server's command, which receives the filled file's path.
        variables: of its environment, ``NAME=VALUE``.

    Raises:
        UserError: the file can't be read, is too large or no UTF-8 text, or has no ``{port}``; or the server doesn't receive it, or
            receives one without the option.
    """
    used = any(TEMPLATE in text for text in (*server, *variables))
    example = f"For example: {TEMPLATE_EXAMPLE}"
    refuse(
        (name is None and used, "--server has {template}, and --template is missing.", example),
        (
            name is not None and not used,
            "--server receives no {template}: the path of the filled file is neither in its command nor in an --env.",
            example,
        ),
    )
    if name is None:
        return ""
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UserError(f"The template {path} can't be read: {why}.", example) from error
    refuse(
        (
            len(content) > MOST_BYTES,
            f"The template {path} has more than {MOST_BYTES >> 10} KiB.",
            "Include other files by their paths.",
        ),
        (
            PORT not in text,
            f"The template {path} has no {{port}}.",
            "Write it where the port of the server is, for example: listen {port};",
        ),
    )
    return text
