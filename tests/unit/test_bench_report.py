"""How the benchmark judges its rows."""

from bench.report import SLACK, Row


def row(ours, official=None, **options):
    figures = {"tinker-ext": ours} | ({} if official is None else {"0.36.0": official})
    return Row("work", options.pop("unit", "ms"), figures, **options)


def test_ratios_are_judged_with_slack_in_the_short_form():
    """M48: half of what is wanted passes on a busy machine, less does not; --full is exact."""
    assert SLACK == 2
    for ours, exact, short in ((10, False, False), (30, True, False), (60, True, True)):
        measured = row(ours, 100, least=5)
        assert measured.misses(exact=True) is exact
        assert measured.misses(exact=False) is short


def test_figures_are_judged_the_other_way_round():
    """M48: memory must not be above its target; a time is judged by --full only."""
    memory = row(15, unit="KB", least=10, absolute=True)
    assert memory.misses(exact=True)
    assert not memory.misses(exact=False)
    assert row(21, unit="KB", least=10, absolute=True).misses(exact=False)
    time = row(900, unit="µs", least=170, absolute=True)
    assert time.misses(exact=True)
    assert not time.misses(exact=False)


def test_a_row_without_target_or_contender_is_not_judged():
    """M48: nothing to compare with is not a miss."""
    assert not row(10, 1).misses(exact=True)
    assert not row(10, least=5).misses(exact=True)
