#!/bin/sh
# HealthCheckProgram or Epilog of slurmd: drains a node that fails the doctor, and says why. It undrains nothing: whoever
# repaired the node does that.
#
#   HealthCheckProgram=/opt/stepwatch/deploy/slurm/health-check.sh        (slurm.conf)
#   HealthCheckInterval=300
#   HealthCheckNodeState=IDLE
#   Epilog=/opt/stepwatch/deploy/slurm/health-check.sh
set -u
STEPWATCH="${STEPWATCH_BIN:-/opt/stepwatch/bin/stepwatch}"
NODE="${SLURMD_NODENAME:-$(hostname -s)}"

[ -x "$STEPWATCH" ] || exit 0
if found=$("$STEPWATCH" doctor --only node ${STEPWATCH_DOCTOR_OPTIONS:-} 2>&1); then
    exit 0
fi
reason=$(echo "$found" | sed -n 's/^FAIL *\(\[node_problem\] \)\{0,1\}//p' | head -n 1 | cut -c1-200)
scontrol update nodename="$NODE" state=drain reason="stepwatch: ${reason:-the doctor failed}"
exit 0
