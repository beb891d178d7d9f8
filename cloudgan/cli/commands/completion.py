"""`cloudgan completion`: completion of commands and flags in a shell."""

from __future__ import annotations

import inspect
from typing import Literal

from cloudgan.core.command import command, model_of
from cloudgan.core.flags import Options, argument
from cloudgan.core.options import Common, options_of

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
