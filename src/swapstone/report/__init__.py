"""What an analysis looks like to people and to other programs. Nothing here measures or decides.

`text.render`, `markdown.render` and `html.render` are for people, `export` is for programs, `pages.render` shows what checking the
published pages found. Import the module that is needed: the template engine takes time to load.
"""

from swapstone.report.context import ReportContext

__all__ = ["ReportContext"]
