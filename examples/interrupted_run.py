"""A run that can be stopped at any moment: Ctrl-C and SIGTERM end it with a checkpoint, and the next one goes on.

    python interrupted_run.py       # press Ctrl-C, and run it again

The signal is not answered in the middle of a step: the step is finished and saved with status `interrupted`, and the
program ends with the exit code that shells know for the signal. A second Ctrl-C does not wait.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import holdfast


@dataclass
class Survey:
    """What the run has found out so far. A dataclass is a source as it is."""

    visited: list[int] = field(default_factory=list)
    total: int = 0


def main(steps: int, seconds: float) -> None:
    """Go on until everything is visited."""
    with holdfast.open() as store:
        survey = Survey()
        session = store.session("interrupted-run")
        recorder = holdfast.Recorder(session, trigger=holdfast.every(steps=20)).connect("survey", survey)
        report = recorder.resume()
        if report is not None and report.checkpoint is not None:
            print(
                f"going on after step {len(survey.visited)}, which ended {report.checkpoint.status}",
                flush=True,
            )
        with recorder.interrupts(deadline=5.0):
            for step in range(len(survey.visited) + 1, steps + 1):
                print(f"step {step}", flush=True)
                survey.visited.append(step)
                survey.total += step
                recorder.step(step)
                # Wakes up at once where the signal comes in the pause.
                recorder.sleep(seconds)
        recorder.save("everything is visited", status="completed")
        print(f"visited {len(survey.visited)}, total {survey.total}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40, float(sys.argv[2]) if len(sys.argv) > 2 else 0.1)
