"""Writes docs/shell/cloudgan.1 from the models of the commands; `make golden` runs it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from cli.write_commands import EXIT_CODES
from cloudgan.cli.help import every_flag
from cloudgan.cli.program import functions
from cloudgan.core.command import model_of

PAGE = Path(__file__).parents[2] / "docs" / "shell" / "cloudgan.1"
_HEAD = r"""
.TH CLOUDGAN 1
.SH NAME
cloudgan \- trains calorimeter GANs on any cloud, and prices and validates every run
.SH SYNOPSIS
.B cloudgan
.I COMMAND
[\fIARGUMENTS\fR] [\fIFLAGS\fR]
.SH DESCRIPTION
cloudgan trains generative adversarial networks that simulate calorimeter showers, on this machine, a Kubernetes or
Slurm cluster, Google Cloud, AWS or Azure. \fBcloudgan demo\fR is a tour without an account;
\fBcloudgan\fR \fICOMMAND\fR \fB\-\-help\fR is one screen, \fBcloudgan help\fR \fITOPIC\fR one on a topic.
.SH COMMANDS
""".lstrip()


def page() -> str:
    """Returns the manual page of the program."""
    parts = [_HEAD]
    for name, function in sorted(functions().items()):
        model = model_of(function)
        usage = next(
            line
            for line in every_flag(f"cloudgan {name}", model).splitlines()
            if line.startswith("Usage:")
        )
        about = inspect.getdoc(model).partition("\n")[0]
        parts.append(f".TP\n.B {_escaped(usage.removeprefix('Usage: '))}\n{_escaped(about)}\n")
    parts.append(".SH EXIT STATUS\n")
    for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", EXIT_CODES, re.MULTILINE):
        parts.append(f".TP\n.B {code}\n{_escaped(meaning)}\n")
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
