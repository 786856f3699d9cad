# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports and exports of an analysis. Nothing here measures or decides.

A report is a `document.Document`. Topics (`topics`) build its sections, renderers (`render`) print it, and `record_report`,
`study_index` and `side_by_side_table` make the documents. `export` has the formats for programs.
"""
