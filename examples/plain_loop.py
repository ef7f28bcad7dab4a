"""A loop of your own that saves itself every tenth step, and goes on where it was.

    python plain_loop.py            # 25 steps, or what is left of them
    python plain_loop.py 60         # go on to step 60

Stop it whenever you like, kill -9 included, and start it again: it loses at most the nine steps since the last
checkpoint. `holdfast list --session plain-loop` shows what it saved.
"""

from __future__ import annotations

import sys

import holdfast
from holdfast.agents import AgentState


def work(state: AgentState) -> None:
    """One step: here an agent would call a model and its tools."""
    question = {"role": "user", "content": f"what is {state.step_number} squared?"}
    answer = {"role": "assistant", "content": str(state.step_number**2)}
    state.conversation_history += [question, answer]
    state.tool_usage_counts["multiply"] = state.tool_usage_counts.get("multiply", 0) + 1
    state.budget_spent_usd += 0.001


def main(last_step: int) -> None:
    """Go on from the newest checkpoint, or begin."""
    with holdfast.open() as store:
        state = AgentState(agent_id="squares")
        recorder = holdfast.Recorder(
            store.session("plain-loop", agent="squares"),
            trigger=holdfast.every(steps=10) | holdfast.every(seconds=300),
            keep=holdfast.Keep(at_most=5),
        )
        recorder.connect("agent", state)
        report = recorder.resume()
        print(report or "a new loop")
        first = 1 if report is None else state.step_number + 1
        for step in range(first, last_step + 1):
            state.step_number = step
            work(state)
            saved = recorder.step(step, cost_usd=state.budget_spent_usd)
            if saved is not None:
                print(f"step {step}: saved {saved.id[:12]} ({saved.trigger})")
        state.status = "completed"
        recorder.save(f"reached step {last_step}", status=state.status)
        print(f"done at step {state.step_number}, ${state.budget_spent_usd:.3f} spent")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
