# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part bisect: which commits change a repository's programs, and by how much?"""
