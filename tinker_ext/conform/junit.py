"""A report as JUnit XML, the form in which CI systems show tests."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from tinker_ext.conform.report import ABSENT, FAIL, UNJUDGED, Report, Result


def to_junit(report: Report) -> str:
    """Return one test suite per group: failures, skipped for absent, errors for unjudged."""
    root = ElementTree.Element("testsuites", name=f"tinker-ext conform {report.server}")
    for group, results in groupby(report.results, key=lambda result: result.group):
        suite = ElementTree.SubElement(root, "testsuite", name=group)
        cases = list(results)
        for result in cases:
            _case(suite, result)
        for name, outcome in (("failures", FAIL), ("skipped", ABSENT), ("errors", UNJUDGED)):
            suite.set(name, str(sum(result.outcome == outcome for result in cases)))
        suite.set("tests", str(len(cases)))
        suite.set("time", f"{sum(result.seconds for result in cases):.3f}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.group,
        name=result.name,
        time=f"{result.seconds:.3f}",
    )
    kinds = {FAIL: "failure", ABSENT: "skipped", UNJUDGED: "error"}
    if result.outcome in kinds:
        evidence = _printable(result.evidence)
        note = ElementTree.SubElement(case, kinds[result.outcome], message=evidence)
        note.text = _printable(f"rule: the server {result.title}\nfound: {result.evidence}")
        if result.consequence:
            note.text += _printable(f"\nclients: {result.consequence}")


def _printable(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(c if c in "\t\n" or c >= " " else "�" for c in text)
