"""The ten subsystems: what each does, and that each comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agents.lives import lived

import holdfast
from holdfast.agents.heartbeat.subsystems import (
    ORDER,
    Affect,
    Ethics,
    Goals,
    Identity,
    InnerLife,
    InterAgent,
    Metacognition,
    Sensory,
    TheoryOfMind,
    WorkingMemory,
    ten,
)


def test_there_are_ten_in_the_order_they_come_back_in():
    expected = """affect goals metacognition theory_of_mind interagent sensory ethics inner_life identity
    working_memory"""
    assert list(ten()) == list(ORDER) == expected.split()


@pytest.mark.parametrize("name", ORDER)
@given(seed=st.integers(0, 2**32))
def test_a_subsystem_comes_back_from_a_store_as_it_was_and_goes_on_the_same(name, seed):
    whole = lived(seed)
    fresh = ten("somebody else")[name]
    with holdfast.open("memory:") as store:
        session = store.session("x")
        session.save(whole[name].snapshot())
        fresh.restore(session.load())

    assert fresh.snapshot() == whole[name].snapshot()
    # What comes next depends on what a snapshot might have left out: counters, orders, memories of ids.
    other = whole | {name: fresh}
    assert lived(seed + 1, other)[name].snapshot() == lived(seed + 1, whole)[name].snapshot()


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("change", ["unknown", "no dict", "wrong type"])
def test_what_does_not_fit_is_refused_and_changes_nothing(name, change):
    part = lived(7)[name]
    before = part.snapshot()
    bad = {
        "unknown": {**before, "from_the_future": 1},
        "no dict": [before],
        "wrong type": dict.fromkeys(before, (object, 1)),
    }[change]

    with pytest.raises(holdfast.StateError, match=name) as refused:
        part.restore(bad)
    assert refused.value.code == "type-mismatch"
    assert part.snapshot() == before


@pytest.mark.parametrize("name", ORDER)
def test_an_older_snapshot_without_some_parts_is_taken(name):
    ten()[name].restore({})


def test_affect_moves_within_bounds_and_decays_toward_its_baseline():
    affect = Affect({"valence": 0.1}, decay=0.5)
    assert affect.intensity == 0
    assert affect.feel("valence", 2) == 1.0
    assert affect.foremost == "valence"
    affect.settle()
    assert affect.dimensions["valence"] == pytest.approx(0.55)
    for _ in range(60):
        affect.settle()
    assert affect.intensity == pytest.approx(0, abs=1e-9)
    assert affect.feel("valence", -2) == -1.0
    affect.adapt(0.1)
    assert affect.baseline["valence"] < 0.1
    with pytest.raises(holdfast.InvalidInputError, match="courage"):
        affect.feel("courage", 1)


def test_goals_are_worked_on_by_priority_and_complete_their_parents():
    goals = Goals()
    trip = goals.add("a trip", priority=0.9)
    train, hotel = goals.add("train", parent=trip.id), goals.add("hotel", parent=trip.id, priority=0.7)
    assert goals.current is hotel  # its parent waits for it
    goals.advance(hotel.id, 0.5)
    assert trip.progress == 0.25
    goals.complete(hotel.id)
    assert goals.current is train
    goals.advance(train.id, 1)
    assert trip.status == "completed"
    assert not goals.active()
    other = goals.add("another")
    goals.abandon(other.id, "too far")
    assert (goals.advance(other.id, 1).progress, other.note) == (0.0, "too far")
    assert goals.forget_done() == 4
    assert goals.add("new").id == "g5"  # an id is never used again


def test_what_an_open_goal_is_part_of_is_not_forgotten():
    goals = Goals()
    top = goals.add("top")
    middle = goals.add("middle", parent=top.id)
    low = goals.add("low", parent=middle.id)
    goals.abandon(top.id)
    goals.abandon(middle.id)
    assert goals.forget_done() == 0
    goals.advance(low.id, 1)
    assert goals.forget_done() == 3


def test_confidence_is_corrected_by_how_often_it_was_right():
    mind = Metacognition(limit=20)
    for n in range(10):
        mind.resolve(mind.predict(f"claim {n}", 0.95), came_true=n < 5)
    assert 0.5 < mind.calibrated(0.95) < 0.7
    assert mind.calibrated(0.15) == pytest.approx(0.15)
    assert mind.brier == pytest.approx((5 * 0.05**2 + 5 * 0.95**2) / 10)
    for n in range(30):
        mind.predict(f"more {n}", 0.5)
    assert len(mind.open) == 20
    with pytest.raises(holdfast.InvalidInputError, match="p11"):
        mind.resolve("p11", came_true=True)  # the oldest open one made room


def test_others_have_beliefs_and_the_one_not_met_for_longest_is_forgotten():
    minds = TheoryOfMind(limit=2)
    minds.believes("ann", "rain", 0.9)
    minds.believes("bob", "rain", 0.1)
    assert minds.disagreements("rain") == (["ann"], ["bob"])
    assert minds.surprised_by("ann", "rain", held=False) == pytest.approx(0.9)
    ann = minds.about("ann")
    assert ann is not None
    assert (ann.trust < 0.5, minds.confidence("ann", "rain")) == (True, 0.0)
    minds.meet("cid")
    assert (minds.about("bob"), len(minds)) == (None, 2)


def test_a_message_is_taken_once_and_sent_until_it_is_delivered():
    bridge = InterAgent(limit=2)
    assert bridge.receive("ann", "hello", id="1")
    assert not bridge.receive("ann", "hello", id="1")
    assert bridge.receive("bob", "hello", id="1")
    taken = bridge.take()
    assert taken is not None
    assert (taken.peer, taken.body) == ("ann", "hello")
    assert not bridge.receive("ann", "hello", id="1"), "taken messages are remembered too"
    first, second = bridge.send("ann", 1), bridge.send("ann", 2)
    bridge.delivered(first.id)
    assert [each.id for each in bridge.undelivered] == [second.id]
    bridge.send("ann", 3)
    bridge.send("ann", 4)
    assert (bridge.dropped, [each.body for each in bridge.undelivered]) == (1, [3, 4])


def test_messages_without_an_id_never_take_each_others_place():
    bridge = InterAgent()
    for n in range(2500):
        bridge.receive("ann", n)
        if n % 3:
            bridge.take()
    assert bridge.dropped == len(range(0, 2500, 3)) - len(bridge.waiting)
    assert len({each.id for each in bridge.waiting}) == len(bridge.waiting) == 500


def test_a_channel_gets_used_to_repetition_and_notices_what_is_new():
    senses = Sensory()
    first = senses.sense("door", "knock", 0.8).salience
    second = senses.sense("door", "knock", 0.8).salience
    assert second < first
    assert senses.sense("door", "crash", 0.8).salience == first
    assert [each.value for each in senses.salient(0.7)] == ["knock", "crash"]
    for _ in range(10):
        senses.sense("door", "crash", 0.8)
    used_to = senses.channel("door").habituation
    for _ in range(20):
        senses.settle()
    assert senses.channel("door").habituation < used_to / 2
    assert senses.clear() == []


def test_vetoes_and_weighty_concerns_forbid_an_action_and_everything_below_it():
    ethics = Ethics(tolerance=1.0)
    ethics.principle("privacy", "do not tell what is not yours", weight=2.0)
    ethics.veto("files.delete", "not without asking")
    assert not ethics.judge("files.delete.all").allowed
    assert ethics.judge("files.deleted").allowed
    ethics.concern("privacy", "mail", "there is an address in it", severity=0.3)
    assert ethics.judge("mail.send").allowed
    ethics.concern("privacy", "mail.send", "and a name", severity=0.3)
    verdict = ethics.judge("mail.send")
    assert not verdict.allowed
    assert verdict.weight == pytest.approx(1.2)
    assert verdict.reasons == ("there is an address in it", "and a name")
    assert ethics.resolve("mail.send") == 1
    ethics.lift("files.delete")
    assert ethics.judge("files.delete").allowed
    with pytest.raises(holdfast.InvalidInputError, match="honesty"):
        ethics.concern("honesty", "mail", "?")


def test_questions_draw_more_when_they_come_again_and_answers_become_reflections():
    inner = InnerLife(limit=2)
    why = inner.wonder("why?", pull=0.4)
    inner.wonder("how?", pull=0.5)
    assert inner.wonder("why?", pull=0.4) is why
    assert [each.question for each in inner.wonders] == ["why?", "how?"]
    inner.answer(why.id, "because", beat=3)
    assert (inner.reflections[0].about, inner.answered) == ("why?", 1)
    inner.reflect("two")
    inner.reflect("three")
    assert [each.text for each in inner.reflections] == ["three", "two"]


def test_counters_of_an_identity_only_go_up():
    who = Identity("scout")
    assert who.count("total_heartbeats") == 1
    assert who.count("cups_of_tea", 2) == who.total("cups_of_tea") == 2
    with pytest.raises(holdfast.InvalidInputError, match="total_heartbeats"):
        who.count("total_heartbeats", -1)
    with pytest.raises(holdfast.StateError):
        who.restore({"counters": {"total_heartbeats": -4}})
    assert who.total("total_heartbeats") == 1


def test_working_memory_keeps_what_is_most_salient_and_lets_the_rest_fade():
    memory = WorkingMemory(2, decay=0.5)
    memory.hold("weak", 0.1)
    memory.hold("strong", 0.9)
    assert memory.hold("weaker", 0.05) is None
    middle = memory.hold("middle", 0.5, kind="plan")
    assert middle is not None
    assert [item.content for item in memory.items()] == ["strong", "middle"]
    memory.attend(middle.id, 0.5)
    assert [item.content for item in memory.items()] == ["middle", "strong"]
    assert [item.content for item in memory.items("plan")] == ["middle"]
    for _ in range(10):
        memory.settle()
    assert len(memory) == 0


def test_a_smaller_memory_takes_the_most_salient_of_a_larger_one():
    large, small = WorkingMemory(5), WorkingMemory(2)
    for n in range(5):
        large.hold(n, n / 10)
    small.restore(large.snapshot())
    assert [item.content for item in small.items()] == [4, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Affect(decay=2),
        lambda: WorkingMemory(0),
        lambda: WorkingMemory().hold("x", True),
        lambda: Goals().add("x", priority=float("nan")),
        lambda: Metacognition(limit=True),
        lambda: Sensory().sense("door", 1, "loud"),  # type: ignore[arg-type]
        lambda: Goals().add("x", parent="g9"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_with_a_hint(call):
    with pytest.raises(holdfast.InvalidInputError) as refused:
        call()
    assert refused.value.hint
