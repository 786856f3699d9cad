# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parts: each folder with a file ``part.toml`` is one. `swapstone.core.manifests` reads them; nothing else lists them."""
