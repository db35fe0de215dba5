"""What came out of a study: a table for the terminal, figures, and a page for anyone.

All of them read the one result that `coview.study` writes as ``study.json`` and nothing else.
"""

from coview.report.figures import write_figures
from coview.report.page import write_report
from coview.report.text import study_table, verdicts

__all__ = ["study_table", "verdicts", "write_figures", "write_report"]
