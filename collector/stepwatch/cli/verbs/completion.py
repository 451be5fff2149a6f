"""`stepwatch completion`: a script with which a shell completes verbs, options and files."""

from __future__ import annotations

import argparse

EXAMPLE = "stepwatch completion bash > stepwatch.bash && source stepwatch.bash"
SHELLS = ("bash", "zsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(whole_parser(), arguments.shell))
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser with every verb, its options and its files."""
    from stepwatch.cli.main import VERBS, load_verb

    root = argparse.ArgumentParser(prog="stepwatch", allow_abbrev=False)
    root.add_argument("--version", action="store_true", help="print the version")
    verbs = root.add_subparsers(dest="verb")
    verbs.add_parser("help", help="what a verb does").add_argument("of", choices=[*VERBS])
    for name, text in VERBS.items():
        parser = verbs.add_parser(name, help=text, allow_abbrev=False)
        load_verb(name).add_arguments(parser)
        _complete_files(parser)
    return root


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Mark file and folder arguments for completion."""
    import shtab

    for action in parser._actions:
        is_folder = action.metavar == "DIR" or action.dest in ("dir", "ring_dir", "spool", "keep")
        if is_folder or action.metavar == "FILE" or getattr(action.type, "__name__", "") == "Path":
            action.complete = shtab.DIRECTORY if is_folder else shtab.FILE  # type: ignore[attr-defined]
