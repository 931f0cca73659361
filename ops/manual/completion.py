"""Completion of the command line for bash, zsh and fish.

**Invariant:** no program is run to complete a word, the daemon's own least of all, and what a help
says is quoted: a shell never takes it for a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from ops.manual.surface import Command, Option

_NOTE: Final = """\
# Written by python -m tests.ops.manual: change the parsers instead. It belongs into
# {}
"""
_BASH_PLACE: Final = "/usr/share/bash-completion/completions/authorizerd"
_ZSH_PLACE: Final = "/usr/share/zsh/site-functions/_authorizerd"
_FISH_PLACE: Final = "/usr/share/fish/vendor_completions.d/authorizerd.fish"

_BASH: Final = """\
_authorizerd() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=authorizerd index words
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "$command ${{COMP_WORDS[index]}}" in
            {commands}) command="$command ${{COMP_WORDS[index]}}" ;;
        esac
    done
    case "$command $before" in
{values}
    esac
    case $command in
{words}
    esac
    if [[ $command != authorizerd && $command != "authorizerd replay" && $word != -* ]]; then
        return # a file, perhaps
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _authorizerd authorizerd
"""
_BASH_OFFER: Final = 'COMPREPLY=($(compgen -W "{}" -- "$word"))'


def bash_completion(commands: Sequence[Command]) -> str:
    """Return a bash script; where it offers nothing bash offers files."""
    below = [" ".join(command.words) for command in commands if len(command.words) > 1]
    values = [
        f"        {_alternatives(keys)}) {_BASH_OFFER.format(' '.join(choices))}; return ;;"
        for choices, keys in _keys_by_choices(commands).items()
    ]
    plain = [key for key, option in _keys(commands) if option.value and not option.choices]
    values.append(f"        {_alternatives(plain)}) return ;;")
    words = [
        f'        "{" ".join(command.words)}") words="{" ".join(_words(command))}" ;;'
        for command in commands
    ]
    return _NOTE.format(_BASH_PLACE) + _BASH.format(
        commands=_alternatives(below), values="\n".join(values), words="\n".join(words)
    )


def _keys(commands: Sequence[Command]) -> Iterator[tuple[str, Option]]:
    """Yield each flag behind its command, as they are typed."""
    for command in commands:
        for option in command.options:
            for name in option.names:
                yield " ".join((*command.words, name)), option


def _keys_by_choices(commands: Sequence[Command]) -> dict[tuple[str, ...], list[str]]:
    keys: dict[tuple[str, ...], list[str]] = {}
    for key, option in _keys(commands):
        if option.choices:
            keys.setdefault(option.choices, []).append(key)
    return keys


def _alternatives(keys: Sequence[str]) -> str:
    return " | ".join(f'"{key}"' for key in keys)


def _words(command: Command) -> list[str]:
    return [*command.commands, *(name for option in command.options for name in option.names)]


def zsh_completion(commands: Sequence[Command]) -> str:
    """Return a zsh function, one for each command behind it."""
    functions = [_zsh_function(command, commands) for command in commands]
    return "\n".join(
        ["#compdef authorizerd", _NOTE.format(_ZSH_PLACE), *functions, '_authorizerd "$@"', ""]
    )


def _zsh_function(command: Command, commands: Sequence[Command]) -> str:
    specifications = [each for option in command.options for each in _zsh_option(option)]
    lines = [f"_{_joined(command.words)}() {{"]
    if command.commands:
        lines.append("    local context state line")
        helps = {each.words[-1]: each.help for each in commands if each.words[:-1] == command.words}
        listed = [shlex.quote(f"{name}:{helps.get(name, '')}") for name in command.commands]
        lines += ["    local -a commands=(", *(f"        {each}" for each in listed), "    )"]
        specifications += ["'1: :{_describe command commands}'", "'*:: :->below'"]
    lines.append(" \\\n        ".join(["    _arguments -C", *specifications]))
    if command.commands:
        lines.append("    [[ $state == below ]] && case $words[1] in")
        lines += [
            f"        {name}) _{_joined((*command.words, name))} ;;" for name in command.commands
        ]
        lines.append("    esac")
    return "\n".join([*lines, "}"]) + "\n"


def _zsh_option(option: Option) -> Iterator[str]:
    text = "".join(f"\\{each}" if each in "[]:\\" else each for each in option.help)
    value = option.value.replace(":", " ")
    action = f"({' '.join(option.choices)})" if option.choices else "_files"
    for name in option.names:
        yield shlex.quote(f"*{name}[{text}]" + (f":{value}:{action}" if option.value else ""))
    if not option.names:
        yield shlex.quote(f":{value}:{action}")


def fish_completion(commands: Sequence[Command]) -> str:
    """Return fish's ``complete`` lines."""
    lines = [line for command in commands for line in _fish_lines(command, commands)]
    return _NOTE.format(_FISH_PLACE) + "\n".join(lines) + "\n"


def _fish_lines(command: Command, commands: Sequence[Command]) -> Iterator[str]:
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.words[1:]]
    names = " ".join(command.commands)
    here = [*seen, f"not __fish_seen_subcommand_from {names}"] if names else seen
    condition = _fish_quoted("; and ".join(here))
    for each in commands:
        if each.words[:-1] == command.words:
            yield (
                f"complete -c authorizerd -f -n {condition} -a {each.words[-1]}"
                f" -d {_fish_quoted(each.help)}"
            )
    for option in command.options:
        if option.names:
            yield f"complete -c authorizerd -n {condition}{_fish_option(option)}"


def _fish_option(option: Option) -> str:
    names = "".join(
        f" -l {name.removeprefix('--')}" if name.startswith("--") else f" -s {name[1:]}"
        for name in option.names
    )
    value = " -r" if option.value else ""
    choices = f" -f -a {_fish_quoted(' '.join(option.choices))}" if option.choices else ""
    return f"{names}{value}{choices}" + (f" -d {_fish_quoted(option.help)}" if option.help else "")


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _joined(words: Sequence[str]) -> str:
    return "_".join(words).replace("-", "_")
