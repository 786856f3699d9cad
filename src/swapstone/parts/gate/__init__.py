# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part gate: does a change of a repository make its programs worse?"""
