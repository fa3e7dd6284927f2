# bash tests/demo.sh, by way of `make demo`: the whole validation on a simulated cluster of eight nodes.
#   FAULT=slow_node    break something first; FAULT=list names the faults
#   NODES=8            size of the cluster
#   REAL=1             the real perftest over software RDMA, in small virtual machines behind the pods of two nodes
# Ends with the exit code of the validation: 0 when the network is fit, not 0 when it is not.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$here/.build/demo
fault=${FAULT:-}
real=${REAL:-}
options=(-e "report_dir=$dir/report")
if [ "$fault" = list ]; then
  exec python -m simulator faults
fi
simulator=simulator
if [ -n "$real" ]; then
  # Emulation moves about 0.1 Gb/s, so few iterations and a threshold to match. Debian's perftest has no CUDA.
  simulator=simulator_rdma
  options+=(-e fabric_nodes=2 -e rdma_test_iterations=5 -e rdma_test_threshold_gbps=0.001 -e '{"fabric_tests": ["rdma"]}' --skip-tags gpudirect)
else
  # A fault that keeps a pod waiting is to show itself soon.
  options+=(-e fabric_nodes=all -e rdma_test_pod_timeout=20 -e gpudirect_test_pod_timeout=20)
  options+=(-e rdma_test_timeout=60 -e gpudirect_test_timeout=60)
fi
stop() { python -m $simulator stop --dir "$dir" >/dev/null 2>&1; }
trap stop EXIT
stop
mkdir -p "$dir"
if [ -n "$real" ]; then
  python -m simulator_rdma start --dir "$dir" --nodes 2 || exit 2
else
  python -m simulator start --dir "$dir" --nodes "${NODES:-8}" ${fault:+--fault "$fault"} || exit 2
fi
export KUBECONFIG=$dir/kubeconfig-fabric
cd "$here" || exit 2
began=$(date +%s)
ansible-playbook playbooks/validate.yml "${options[@]}"
code=$?
echo "The validation took $(($(date +%s) - began)) s and ended with exit code $code${fault:+ (fault: $fault)}."
exit $code
