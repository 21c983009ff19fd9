"""Deprecated: moved to `tsformer.studies.report.write`."""

from tsformer._deprecation import renamed_in_module

__getattr__ = renamed_in_module(
    __name__,
    {
        "ReportFiles": "tsformer.studies.report.write.ReportFiles",
        "compare_command": "tsformer.studies.report.write.compare_command",
        "write_report": "tsformer.studies.report.write.write_report",
    },
)
