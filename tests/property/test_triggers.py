"""Triggers against plain descriptions of when they are due, over any steps, events and clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.recording.triggers import Moment, compile_trigger, every, manual, on, when

SPAN = 300.0


class Rules:
    """The rules of a trigger, driven as a recorder drives them."""

    def __init__(self, trigger):
        self.clock = 0.0
        self.truth = False
        self.moment = Moment(lambda: self.clock, dict)
        self.rule = compile_trigger(trigger, self.moment)
        self.step_before = None

    def check(self, *, step=None, beat=False, event=None, truth=False):
        moment = self.moment
        moment.step, moment.event, self.truth = step, event, truth
        moment.before = (
            self.step_before if None not in (self.step_before, step) and self.step_before <= step else None
        )
        if step is not None:
            self.step_before = step
        moment.beats += beat
        moment.pass_time()
        return self.rule.check(moment)

    def save(self):
        return self.rule.clear(self.moment)


@given(st.integers(1, 12), st.lists(st.integers(-50, 200), max_size=60))
def test_steps_are_due_where_a_multiple_lies_between_two_checks(count, steps):
    rules = Rules(every(steps=count))
    before = None
    for step in steps:
        due = rules.check(step=step) is not None
        if due:
            rules.save()
        first = step if before is None or step < before else before + 1
        assert due == any(number % count == 0 for number in range(first, step + 1))
        before = step


@given(st.lists(st.floats(-(10**6), 10**6) | st.floats(0, 400), max_size=60))
def test_whatever_the_clock_does_there_is_no_storm_and_no_silence(jumps):
    rules = Rules(every(seconds=SPAN))
    since = 0.0
    for jump in jumps:
        rules.clock += jump
        # A clock that goes back tells nothing about the time that has passed: none is counted.
        since += max(0.0, jump)
        due = rules.check() is not None
        if abs(since - SPAN) > 1e-3:
            assert due == (since >= SPAN)
        if due:
            rules.save()
            since = 0.0
            # At once again, it is not due, however far the clock had jumped.
            assert rules.check() is None


@given(st.lists(st.tuples(st.floats(0, 200), st.booleans()), max_size=60))
def test_a_throttle_is_never_due_twice_within_its_span_and_loses_no_event(moments):
    rules = Rules(on("a.b").throttle(SPAN))
    last_due, waiting = None, False
    for pause, happens in moments:
        rules.clock += pause
        waiting |= happens
        due = rules.check(event="a.b" if happens else None) is not None
        free = last_due is None or rules.moment.now - last_due >= SPAN - 1e-6
        assert due == (waiting and free)
        if due:
            last_due, waiting = rules.moment.now, False
            rules.save()


TRIGGERS = st.recursive(
    st.sampled_from(
        [
            every(steps=3),
            every(seconds=50),
            every(beats=2),
            on("a.*"),
            on("a.b"),
            when(lambda *_: False),
            manual,
        ]
    ),
    lambda inner: (
        st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a: a.throttle(40), inner)
    ),
    max_leaves=6,
)

CHECKS = st.lists(
    st.tuples(
        st.floats(-100, 100),
        st.fixed_dictionaries(
            {},
            optional={
                "step": st.integers(0, 30),
                "beat": st.just(True),
                "event": st.sampled_from(["a.b", "a.c", "x"]),
            },
        ),
        st.booleans(),
    ),
    max_size=40,
)


@given(TRIGGERS, CHECKS)
def test_what_is_due_stays_due_until_it_is_saved(trigger, checks):
    rules = Rules(trigger)
    for pause, what, saves in checks:
        rules.clock += pause
        reason = rules.check(**what)
        assert rules.check() == reason
        if saves:
            rules.save()
            # Nothing is left of it, but for what a clock may have brought.
            assert rules.check() is None


@given(TRIGGERS, CHECKS)
def test_a_save_that_fails_leaves_all_as_it_was(trigger, checks):
    steady, failing = Rules(trigger), Rules(trigger)
    for pause, what, fails in checks:
        for rules in (steady, failing):
            rules.clock += pause
        if fails:
            failing.rule.put_back(failing.save())
        assert steady.check(**what) == failing.check(**what)


@given(TRIGGERS, TRIGGERS, CHECKS)
def test_any_and_all_are_what_they_say_of_their_parts(one, other, checks):
    parts = Rules(one), Rules(other)
    either, both = Rules(one | other), Rules(one & other)
    for pause, what, saves in checks:
        for rules in (*parts, either, both):
            rules.clock += pause
        due = [rules.check(**what) is not None for rules in parts]
        assert (either.check(**what) is not None) == any(due)
        assert (both.check(**what) is not None) == all(due)
        if saves:
            for rules in (*parts, either, both):
                rules.save()
