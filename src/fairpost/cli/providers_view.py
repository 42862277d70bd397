"""Output of `fairpost simulate providers`: a line for each case, then the violations."""

from collections.abc import Sequence

from fairpost.cli.output import note, print_table
from fairpost.dev.simulate.providers import WHALES, Case, Result


def show_results(results: Sequence[Result], *, again: str = "fairpost simulate providers --only '{}'") -> None:
    """Print the results. `again` is a command that repeats a single case."""
    print_table(
        ["provider", "account", "pool", ">worst wait", ">idle capacity", ">left for review", ">violations"],
        ([*_case(each.case), _wait(each), _idle(each), _left(each), len(each.violations) or "–"] for each in results),
    )
    broken = [each for each in results if each.violations]
    if broken:
        print_table(
            ["provider", "account", "check", "whose", ">at", ">times", "worst"],
            (
                [*_case(each.case)[:2], v.check, v.whose, f"{v.at_s:,.1f} s", f"{v.times:,}", v.about]
                for each in broken
                for v in each.violations
            ),
            title="\nviolations",
        )
        note(f"\nTo repeat one: {again.format(broken[0].case.name)}")


def show_cases(cases: Sequence[Case]) -> None:
    print_table(
        ["provider", "account", "pool", "what it does"],
        ([*_case(case), case.provider.about] for case in cases),
    )


def _case(case: Case) -> list[str]:
    pool = [f"{case.beside + 1} accounts" if case.beside else "1 account"]
    pool += [f"{case.engines} engines"] if case.engines > 1 else []
    pool += ["packed"] if case.is_packed else []
    pool += [WHALES[case.whale]] if case.whale in WHALES else []
    return [case.behaviour, case.form, ", ".join(pool)]


def _wait(result: Result) -> str:
    return "–" if result.worst_wait_s is None else f"{result.worst_wait_s:,.1f} s"


def _idle(result: Result) -> str:
    return f"{result.idle_share:.1%}"


def _left(result: Result) -> str:
    words = [f"{result.doubts:,}"] if result.doubts or not result.stopped else []
    return " + ".join([*words, *([f"{result.stopped} account"] if result.stopped else [])])
