#!/bin/sh
# Time travel: find the step where an agent went wrong, mend its state there, and run the same program on from it.
#
#   sh time_travel.sh
#
# EDITOR is a script here so that nobody has to type; leave it out, and your own editor opens.
set -eu
here=$(dirname "$0")
agent() { "${PYTHON:-python}" "$here/shopping_agent.py"; }
export HOLDFAST_SESSION=camping

agent                                                     # ends without a tent
bad=$(holdfast bisect 'prices.tent > 1000' --format '{id}')   # the first checkpoint where it is wrong
holdfast diff "$bad~1" "$bad"                             # what that step changed
holdfast show "$bad" --path prices.tent

holdfast fork "$bad" mended --switch                      # a branch from there, which is in use from now on
EDITOR="sed -i s/18900/189.00/" holdfast edit --path prices.tent -m "the tent costs 189.00"

agent                                                     # the same program goes on from the mended state
holdfast diverge main mended                              # the step where the two lines of work part
holdfast tree
