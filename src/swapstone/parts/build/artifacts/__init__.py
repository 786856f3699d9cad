# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build programs and images. Each is stored in the cache under the digest of all its inputs."""
