"""The summary after predictions."""

from regard.verbs.predict import AnswersPrinter


def test_the_share_of_right_ones_is_written_as_everywhere(capsys):
    printer = AnswersPrinter(out=None, json=False)
    printer.answered = printer.judged = 10_000
    printer.right = 9_993
    assert printer.finish() == 0
    assert capsys.readouterr().out == "right: 99.93% of 10,000 with a known label\n"
