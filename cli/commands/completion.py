"""irc completion: a script that completes verbs, options and their choices in a shell."""

from __future__ import annotations

import argparse
import shlex

from ..console import print_result

BASH = """\
_irc() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{verbs} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{values}
    esac
    if [ -z "$words" ]; then
        case "${{COMP_WORDS[1]}}" in
{options}
        esac
        case "$word" in
            -*) ;;
            *) COMPREPLY=($(compgen -f -- "$word")) ;;
        esac
    fi
    COMPREPLY+=($(compgen -W "$words" -- "$word"))
}}
complete -o filenames -F _irc irc
"""

ZSH = """\
#compdef irc
_irc() {{
    local -a verbs
    if (( CURRENT == 2 )); then
        verbs=({verbs})
        _describe verb verbs
        return
    fi
    case "$words[2]" in
{cases}
    esac
}}
# As a file in $fpath this is the function itself; evaluated, it says who completes irc.
if [ "$funcstack[1]" = _irc ]; then
    _irc "$@"
else
    compdef _irc irc
fi
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell to complete in")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print_result(*SHELLS[args.shell]().split("\n"), end="")
    return 0


def bash() -> str:
    """For `eval "$(irc completion bash)"`."""
    options: list[str] = []
    values: list[str] = []
    for verb, actions in _actions().items():
        words = [o for a in actions for o in a.option_strings]
        words += [c for a in actions if not a.option_strings for c in _choices(a)]
        options.append(f'            {verb}) words="{" ".join(words)}" ;;')
        for action in actions:
            if action.option_strings and _choices(action):
                at = "|".join(f'"{verb} {o}"' for o in action.option_strings)
                values.append(f'        {at}) words="{" ".join(_choices(action))}" ;;')
    names = " ".join(_actions())
    return BASH.format(verbs=names, options="\n".join(options), values="\n".join(values))


def zsh() -> str:
    """For `eval "$(irc completion zsh)"`, or a file `_irc` in $fpath."""
    from ..main import COMMANDS

    verbs = " ".join(shlex.quote(f"{name}:{verb.help}") for name, verb in COMMANDS.items())
    cases: list[str] = []
    for verb, actions in _actions().items():
        specs = [s for n, a in enumerate(actions) for s in _zsh_specs(a, n + 1)]
        cases.append(
            f"        {verb}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} ;;"
        )
    return ZSH.format(verbs=verbs, cases="\n".join(cases))


def _zsh_specs(action: argparse.Action, number: int) -> list[str]:
    choices = _choices(action)
    values = f"({' '.join(choices)})" if choices else "_files"
    if not action.option_strings:
        return [shlex.quote(f"{number}:{action.dest}:{values}")]
    help_ = (action.help or "").translate(str.maketrans("[]:", "(),"))
    tail = "" if action.nargs == 0 else f":{action.dest}:{values}"
    return [shlex.quote(f"*{option}[{help_}]{tail}") for option in action.option_strings]


def fish() -> str:
    """For `irc completion fish | source`, or a file `irc.fish` in fish's folder of completions."""
    from ..main import COMMANDS

    lines = ["complete -c irc -f"]
    for name, verb in COMMANDS.items():
        first = f"complete -c irc -n __fish_use_subcommand -a {name}"
        lines.append(f"{first} -d {shlex.quote(verb.help)}")
    for verb, actions in _actions().items():
        start = f"complete -c irc -n '__fish_seen_subcommand_from {verb}'"
        lines += [f"{start} {_fish_words(action)}" for action in actions]
    return "\n".join(lines) + "\n"


def _fish_words(action: argparse.Action) -> str:
    values = f"-a {shlex.quote(' '.join(_choices(action)))}" if _choices(action) else "-F"
    if not action.option_strings:
        return values
    names = [
        f"-{'l' if o.startswith('--') else 's'} {o.lstrip('-')}" for o in action.option_strings
    ]
    if action.nargs != 0:
        names.append(f"{'-x' if _choices(action) else '-r'} {values}")
    return " ".join([*names, "-d", shlex.quote(action.help or action.dest)])


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def _choices(action: argparse.Action) -> list[str]:
    return [str(c) for c in action.choices or ()]


def _actions() -> dict[str, list[argparse.Action]]:
    """The arguments of each verb; positional ones first, as they are numbered."""
    from ..main import COMMANDS, make_parser

    found: dict[str, list[argparse.Action]] = {}
    for name in COMMANDS:
        actions = list(make_parser(name)._actions)
        positional = [a for a in actions if not a.option_strings]
        found[name] = [*positional, *[a for a in actions if a.option_strings]]
    return found
