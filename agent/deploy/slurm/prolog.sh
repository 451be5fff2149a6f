#!/bin/sh
# Prolog of slurmd: no job starts on a node that fails the doctor. Slurm drains the node when a prolog fails, and
# requeues the job. It runs as root, within some 10 s of the 60 s or more that Slurm allows.
#
#   Prolog=/opt/stepwatch/deploy/slurm/prolog.sh        (slurm.conf)
#
# Only what concerns the node counts here: the job's own environment is not known yet.
set -u
STEPWATCH="${STEPWATCH_BIN:-/opt/stepwatch/bin/stepwatch}"

if [ ! -x "$STEPWATCH" ]; then
    echo "stepwatch prolog: $STEPWATCH is not there; the node is not examined" >&2
    exit 0
fi
if found=$("$STEPWATCH" doctor --only node ${STEPWATCH_DOCTOR_OPTIONS:-} 2>&1); then
    exit 0
fi
# `print` lines reach the job's output where TaskProlog runs this; slurmd's own log has the rest.
echo "$found" | sed -n 's/^FAIL/print [node_problem] FAIL/p'
echo "$found" >&2
exit 1
