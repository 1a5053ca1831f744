"""M40: the request log answers questions of tests."""

from tinker_ext.mock.log import RequestLog, matches


def test_patterns():
    """M40: short names, wildcards and full paths."""
    path = "/services/x/api/v1/sessions/s1/finish"
    assert matches(path, "sessions/*")
    assert matches(path, "/api/v1/sessions/s1/finish")
    assert matches(path, "*")
    assert not matches(path, "sessions")


def test_questions():
    """M40: filter by path, method, status and fault; the oldest entries go first."""
    log = RequestLog(size=3)
    for number, status in enumerate((200, 503, 200, 0)):
        faults = ("status",) if status == 503 else ()
        log.record(float(number), "POST", f"/api/v1/op{number % 2}", status, (1, 2), faults)
    assert [e.n for e in log.requests()] == [2, 3, 4]
    assert [e.n for e in log.requests("op1")] == [2, 4]
    assert [e.n for e in log.requests(status=0)] == [4]
    assert [e.n for e in log.requests(fault="status")] == [2]
    assert log.requests(method="GET") == []
    assert log.counts == {"op0": 2, "op1": 2}


def test_effects_keep_their_order_and_attempts():
    """M20: effects are numbered per model; repeats count on the effect they repeat."""
    log = RequestLog(size=1)
    log.effect("m", 1, "forward_backward", "r1", "d1")
    log.effect("m", 2, "optim_step", "r2", "d2")
    log.effect("other", 1, "optim_step", "r3", "d3")
    log.repeated("m", "r1")
    assert [(e.order, e.seq, e.attempts) for e in log.training("m")] == [(0, 1, 2), (1, 2, 1)]
    assert len(log.training()) == 3
    log.clear()
    assert len(log.training()) == 3
