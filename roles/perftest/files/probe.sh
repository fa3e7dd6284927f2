# Prints what an RDMA test needs to know of the container that it runs in. POSIX sh; changes nothing.
#   sh -c "$(cat probe.sh)" probe TOOL [cuda]
# TOOL is the benchmark (ib_write_bw); "cuda" also asks nvidia-smi for the GPUs.
# One record a line, fields separated by tabs; plugins/plugin_utils/probe.py reads them. Only shell built-ins
# where there are many files (a GID table has 256 entries a port), so that it costs a few milliseconds.
# FABRIC_PROBE_ROOT goes before every path; it is empty but in tests.
R=${FABRIC_PROBE_ROOT-}
T=${1:-ib_write_bw}
TAB='	'
export LC_ALL=C

say() {
  l=$1; shift
  for f in "$@"; do l=$l$TAB$f; done
  printf '%s\n' "$l"
}

# value FILE: its first line in $v, empty when it cannot be read (an unset GID entry gives EINVAL).
value() {
  v=
  { IFS= read -r v < "$1"; } 2>/dev/null
  :
}

say probe 1

for d in "$R"/sys/class/infiniband/*/; do
  [ -d "$d" ] || continue
  d=${d%/}; dev=${d##*/}
  value "$d/fw_ver"; fw=$v
  value "$d/hca_type"; hca=$v
  value "$d/board_id"; board=$v
  value "$d/device/numa_node"; numa=$v
  pci=$(cd -P "$d/device" 2>/dev/null && pwd)
  say device "$dev" "$fw" "$hca" "$board" "$numa" "${pci#"$R"}"
  for p in "$d"/ports/*/; do
    [ -d "$p" ] || continue
    p=${p%/}; port=${p##*/}
    value "$p/state"; state=$v
    value "$p/phys_state"; phys=$v
    value "$p/rate"; rate=$v
    value "$p/link_layer"; link=$v
    value "$p/lid"; lid=$v
    say port "$dev" "$port" "$state" "$phys" "$rate" "$link" "$lid"
    for g in "$p"/gids/*; do
      value "$g"
      case $v in '' | 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
      gid=$v; i=${g##*/}
      value "$p/gid_attrs/types/$i"; type=$v
      value "$p/gid_attrs/ndevs/$i"; ndev=$v
      say gid "$dev" "$port" "$i" "$gid" "$type" "$ndev"
    done
  done
done

for u in "$R"/sys/class/infiniband_verbs/uverbs*; do
  [ -d "$u" ] || continue
  value "$u/ibdev"
  granted=no
  [ -e "$R/dev/infiniband/${u##*/}" ] && granted=yes
  say uverbs "${u##*/}" "$v" "$granted"
done
rdma_cm=no
[ -e "$R/dev/infiniband/rdma_cm" ] && rdma_cm=yes
say rdma_cm "$rdma_cm"

for n in "$R"/sys/class/net/*/; do
  [ -d "$n" ] || continue
  n=${n%/}
  value "$n/address"; mac=$v
  value "$n/mtu"; mtu=$v
  value "$n/type"; type=$v
  value "$n/operstate"; oper=$v
  value "$n/dev_port"; dport=$v
  ibdevs=
  for b in "$n"/device/infiniband/*; do
    [ -e "$b" ] && ibdevs=$ibdevs${ibdevs:+,}${b##*/}
  done
  say net "${n##*/}" "$mac" "$mtu" "$type" "$oper" "$dport" "$ibdevs"
done

{
  while IFS= read -r l; do
    case $l in "Max locked memory"*)
      # Max locked memory <soft> <hard> bytes
      set -f; # shellcheck disable=SC2086
      set -- $l; set +f
      say memlock "$4" "$5" ;;
    esac
  done < "$R/proc/self/limits"
  while IFS= read -r l; do
    case $l in CapEff:*) say cap_eff "${l#CapEff:}" ;; Uid:*) say uid "${l#Uid:}" ;; esac
  done < "$R/proc/self/status"
} 2>/dev/null

if command -v "$T" >/dev/null 2>&1; then
  version=$("$T" --version 2>/dev/null)
  cuda=no dmabuf=no
  # The usage text says what this build can do: --use_cuda is in it only when built with CUDA.
  case $("$T" --help 2>&1) in *--use_cuda_dmabuf*) cuda=yes dmabuf=yes ;; *--use_cuda*) cuda=yes ;; esac
  say tool "$T" "${version#Version: }" "$cuda" "$dmabuf"
fi
command -v stdbuf >/dev/null 2>&1 && say stdbuf yes

if [ "${2-}" = cuda ]; then
  nvidia-smi -L 2>&1 | while IFS= read -r l; do say gpu "$l"; done
  nvidia-smi topo -m 2>&1 | while IFS= read -r l; do say topo "$l"; done
fi
say end
