# bash tests/demo.sh, by way of `make demo`: the whole validation on a simulated cluster of eight nodes.
#   FAULT=slow_node    break something first; FAULT=list names the faults
#   NODES=8            size of the cluster
# Ends with the exit code of the validation: 0 when the network is fit, not 0 when it is not.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$here/.build/demo
fault=${FAULT:-}
if [ "$fault" = list ]; then
  exec python -m simulator faults
fi
stop() { python -m simulator stop --dir "$dir" >/dev/null 2>&1; }
trap stop EXIT
stop
mkdir -p "$dir"
python -m simulator start --dir "$dir" --nodes "${NODES:-8}" ${fault:+--fault "$fault"} || exit 2
export KUBECONFIG=$dir/kubeconfig-fabric
cd "$here" || exit 2
began=$(date +%s)
ansible-playbook playbooks/validate.yml -e fabric_nodes=all
code=$?
echo "The validation took $(($(date +%s) - began)) s and ended with exit code $code${fault:+ (fault: $fault)}."
exit $code
