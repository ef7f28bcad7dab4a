"""An agent run as thoughts, context, tool calls and progress, with a checkpoint after each."""
