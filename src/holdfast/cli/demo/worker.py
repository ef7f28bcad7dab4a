"""The process that runs the plan: `python -m holdfast.cli.demo.worker STORE SESSION`. It says each event as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import holdfast
from holdfast.agents import Executor
from holdfast.cli.demo.research import research_plan


def main(target: str, session: str) -> int:
    """Run the plan, or go on with it."""

    def say(event: Any) -> None:
        print(json.dumps(event.to_dict()), flush=True)  # noqa: T201 - how it speaks to the demo

    with holdfast.open(target) as store:
        executor = Executor(store.session(session), workers=1, keep=None)
        # One subscription: what two would hear comes in no order.
        executor.events.subscribe("*", say)
        result = executor.run(research_plan())
        executor.events.flush(60)
    return 0 if result.success else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
