"""The command that compares the files of a run with their checksums."""

from regard.verbs.commands import command, command_options, one_word


@command(
    "verify RUN [--repair]",
    "are the files of a run whole? exit 0: yes, 1: some are damaged",
    "regard verify runs/text",
    "regard verify runs/text --repair",
)
def verify(words: list[str]) -> int:
    options = command_options("verify", "VerifyOptions", words)
    if options is None:
        return 0
    chosen, words = options
    path = one_word(words, "verify", "run")

    from regard.files import json_text
    from regard.verbs.console import spinner
    from regard.verbs.verify import verify as compare

    with spinner(f"reading {path}"):
        found = compare(path, repair=chosen.repair)
    print(json_text(found.to_json(), indent=2) if chosen.json else found.format())
    if found.whole:
        return 0
    return 1
