"""`cloudgan schema` and `completion`: what other programs read of the documents and of all commands."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

from pydantic import TypeAdapter

from cloudgan.cli.emit import print_json
from cloudgan.core.command import body_of, command, model_of
from cloudgan.core.errors import UnknownNameError
from cloudgan.core.flags import Options, argument
from cloudgan.core.options import Common, options_of
from cloudgan.launch.operations.launch_options import job_schema
from cloudgan.reports.result import Result
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import QualityRow
from cloudgan.schema.record import Line

_DOCUMENTS: dict[str, Any] = {
    "run.yaml": RunConfig,
    "plan.json": Plan,
    "record.jsonl": Line,
    "launch.json": Launch,
    "cost.json": CostReport,
    "heartbeat.json": Heartbeat,
    "quality.json": QualityRow,
}


class SchemaOptions(Options):
    """Prints the JSON schema of a document, or of what a command prints with --json.

    The documents are job.yaml, run.yaml, plan.json, launch.json, record.jsonl, cost.json, heartbeat.json and
    quality.json.

    Examples:
        cloudgan schema job.yaml
        cloudgan schema status
    """

    name: tuple[str, ...] = argument("a document, or a command such as status", is_repeated=True)


@command
def schema(options: SchemaOptions) -> None:
    """Prints the schema."""
    name = " ".join(options.name)
    if name == "job.yaml":
        return print_json(job_schema())
    if name in _DOCUMENTS:
        return print_json(TypeAdapter(_DOCUMENTS[name]).json_schema())
    from cloudgan.cli.program import functions  # it names this module

    found = {key: kinds for key, one in functions().items() if (kinds := _results(one))}
    if name not in found:
        raise UnknownNameError("document or command", name, ["job.yaml", *_DOCUMENTS, *found])
    kind: Any = functools.reduce(operator.or_, found[name])
    return print_json(TypeAdapter(kind).json_schema(mode="serialization"))


def _results(function: Callable[..., Any]) -> list[type[Result]]:
    """Returns the results of a command: one, or those that it chooses from."""
    hint = get_type_hints(body_of(function)).get("return")
    kinds = [one for one in (get_args(hint) or (hint,)) if isinstance(one, type)]
    return [one for one in kinds if issubclass(one, Result) and one is not Result]


_BASH = """\
# cloudgan completion bash > ~/.local/share/bash-completion/completions/cloudgan
_cloudgan() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} known
  [[ $command == bench && $COMP_CWORD -gt 2 ]] && command="bench ${{COMP_WORDS[2]}}"
  if [[ $COMP_CWORD -eq 1 ]]; then known="{names}"; else
    case $command in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$known" -- "$word"))
  [[ $word != -* && $COMP_CWORD -gt 1 ]] && COMPREPLY+=($(compgen -f -- "$word"))
  [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
}}
complete -F _cloudgan cloudgan
"""
_FISH = "complete -c cloudgan -n '__fish_seen_subcommand_from {name}' -l {flag} -d '{text}'"


class CompletionOptions(Options):
    """Prints the completion of commands and flags for a shell.

    Write it where the shell looks for it, and open a new terminal.

    Examples:
        cloudgan completion bash > ~/.local/share/bash-completion/completions/cloudgan
        cloudgan completion zsh > ~/.zfunc/_cloudgan
        cloudgan completion fish > ~/.config/fish/completions/cloudgan.fish
    """

    shell: Literal["bash", "zsh", "fish"] = argument("your shell")


@command
def completion(options: CompletionOptions) -> None:
    """Prints a script that is made from the flags of all commands."""
    from cloudgan.cli.program import functions  # it names this module

    found = {name: options_of(model_of(function)) for name, function in functions().items()}
    common = options_of(Common)
    if options.shell == "fish":
        for name in found:
            print(f"complete -c cloudgan -n __fish_use_subcommand -a {name.split()[0]}")
        for name, flags in found.items():
            for one in (*flags, *common):
                text = one.help.partition(";")[0].replace("'", "")
                print(_FISH.format(name=name.split()[-1], flag=one.name, text=text))
        return
    cases = []
    for name, flags in found.items():
        words = [
            f"--{one.name}{'' if one.is_switch else '='}"
            for one in (*flags, *common)
            if not one.flag.takes_words
        ]
        cases.append(f"      {name!r}) known='{' '.join([*words, '--help', '--help-all'])}';;")
    inner = [name.split()[1] for name in found if " " in name]
    cases.append(f"      bench) known='{' '.join(inner)}';;")
    names = " ".join(dict.fromkeys(name.split()[0] for name in found))
    zsh = "#compdef cloudgan\nautoload -U +X bashcompinit && bashcompinit\n"
    script = _BASH.format(names=names, cases="\n".join(cases))
    print((zsh if options.shell == "zsh" else "") + inspect.cleandoc(script))
