"""What the source documents ask of metrics: an agent that runs, stops, and goes on, seen through its numbers."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast import ConflictError, Keep, Recorder, every


class Loop:
    """An agent that counts."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def snapshot(self):
        return {"done": self.done}

    def restore(self, value):
        self.done = value["done"]


def run(session, steps, *, resume=False):
    loop = Loop()
    recorder = Recorder(session, trigger=every(steps=5), keep=Keep(last=3)).connect("loop", loop)
    if resume:
        recorder.resume()
    for step in steps:
        loop.done.append(step)
        recorder.step(step)
    return loop


@pytest.mark.requirement("P6")
def test_saves_resumes_sizes_times_and_recovered_steps_are_counted(place):
    with holdfast.open(place, durability="process") as store:
        run(store.session("s"), range(1, 38))
        first = store.metrics()
        saved = store.session("s").log()

    # The program is started again: what it counts begins anew, what it saved is there.
    with holdfast.open(place, durability="process") as store:
        loop = run(store.session("s"), range(36, 41), resume=True)
        second = store.metrics()
        text = second.prometheus()

    assert loop.done == list(range(1, 41))
    assert first.checkpoint_save_count == 7
    assert first.checkpoint_save_count_by == {("auto", "running"): 7}
    assert first.checkpoint_pruned_count_by == {"retention": 4}
    assert first.checkpoint_save_latency_ms.count == first.checkpoint_save_size_bytes.count == 7
    assert first.checkpoint_save_latency_ms.sum > 0
    assert first.checkpoint_save_size_bytes.sum > sum(each.size_bytes for each in saved)
    assert (first.checkpoint_resume_count, first.steps_recovered) == (0, 0)

    assert (second.checkpoint_resume_count, second.steps_recovered) == (1, 35)
    assert second.checkpoint_save_count == 1
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }
    assert samples["holdfast_checkpoint_save_count_total"] == 1
    assert samples["holdfast_checkpoint_resume_count_total"] == 1
    assert samples["holdfast_steps_recovered_total"] == 35
    assert samples["holdfast_checkpoint_save_size_bytes_sum"] == second.checkpoint_save_size_bytes.sum
    assert samples["holdfast_checkpoint_save_latency_ms_count"] == 1


@pytest.mark.requirement("P6")
def test_conflicts_count_when_they_are_refused_and_when_a_recorder_goes_beside(place):
    with holdfast.open(place, durability="process") as store:
        loop = Loop()
        recorder = Recorder(store.session("s")).connect("loop", loop)
        recorder.save()
        # A person saves something in between.
        store.session("s").save({"loop": {"done": ["by hand"]}}, "by hand")
        saved = recorder.save()
        late = store.session("s")
        late.load("#1")
        with pytest.raises(ConflictError):
            late.save({}, expect="#1")
        figures = store.metrics()

    assert saved.branch == "main-1"
    assert figures.checkpoint_conflict_count == 2
    assert figures.checkpoint_save_failed_count_by == {"branch-moved": 1}
    assert figures.checkpoint_save_count == 3
