# shellcheck shell=bash
# Body of every job; the lines above it set the values and define `worker`. Slurm allocates all
# nodes or none and requeues the job when a node is lost; `keep` restarts a worker as a Job's pod
# failure policy does. `cloudgan status` reads the status files that this script writes.

: "${folder:?}" "${world:?}" "${cpus:?}" "${again:?}" "${deadline_seconds:?}" "${grace_seconds:?}"
: "${exclusive:?}"

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# Runs on each node: keeps the worker of this rank until it finishes, is stopped, or fails.
# shellcheck disable=SC2317,SC2329  # srun calls it
keep() {
  local base="${SLURM_TMPDIR:-${TMPDIR:-/tmp}}" work=''
  local notes="$folder/worker-$SLURM_PROCID.txt" pause=1 stopping=0 code
  export work JOB_COMPLETION_INDEX="$SLURM_PROCID"
  trap 'stopping=1' TERM
  while :; do
    # Other users may write to /tmp: mktemp creates a folder with mode 0700 under a random name, or fails.
    if [[ -z $work || ! -d $work || -L $work || ! -O $work ]]; then
      work=$(umask 077 && mktemp -d -- "$base/cloudgan-$SLURM_JOB_ID-$SLURM_PROCID-XXXXXXXXXXXX") || {
        echo "$SLURM_PROCID 1" >>"$folder/failed-$attempt"
        exit 1
      }
    fi
    echo "started $(now) ${SLURMD_NODENAME:-}" >>"$notes"
    # In the foreground, so that the trap runs after the worker has ended; the whole process group
    # gets the signal. Slurm's --output would lose lines when it reports the signal there.
    (worker) >>"$folder/logs/worker-$SLURM_PROCID.log" 2>&1
    code=$?
    echo "ended $(now) $code" >>"$notes"
    [[ $stopping == 0 && " $again " == *" $code "* ]] || break
    sleep "$pause" || stopping=1 # the signal also ends the sleep
    [[ $stopping == 0 ]] || break
    pause=$((pause < 30 ? 2 * pause : 60))
  done
  rm -rf -- "$work"
  [[ $code != 0 ]] || exit 0
  if [[ " $again " == *" $code "* ]]; then
    # Not a failure: a code other than 0 makes srun kill the workers that still save.
    echo "$SLURM_PROCID" >>"$folder/stopped-$attempt"
    exit 0
  fi
  echo "$SLURM_PROCID $code" >>"$folder/failed-$attempt"
  exit "$code"
}

# end OUTCOME CODE: records the outcome atomically and exits.
end() {
  rm -rf -- "$folder/secret"
  echo "$SLURM_JOB_ID $1 $2 $(now)" >"$folder/end.new"
  mv -- "$folder/end.new" "$folder/end"
  exit "$2"
}

# Prints the addresses of all workers by rank: the node's name if it resolves, else Slurm's
# NodeAddr; with other ports if one machine has several nodes. The ports are random; those of TensorFlow
# are not used, because the workers agree on other ones (CLOUDGAN_PORTS).
peers() {
  local host address port found='' first
  first=$((20000 + 2 * ($(od -An -N2 -tu2 /dev/urandom) % 6000)))
  local -A taken=()
  while read -r host; do
    address=$host
    if ! getent hosts "$host" >/dev/null; then
      address=$(scontrol show node "$host" --oneliner | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
    fi
    port=$((first + 2 * ${taken[$address]:-0}))
    taken[$address]=$((${taken[$address]:-0} + 1))
    found+="${found:+,}$address:$port"
  done < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  echo "$found"
}

trap : TERM # the steps end first, and their outcome is recorded
mkdir -p -- "$folder/logs"
attempt="$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}"

# The deadline counts from the first start of the job, also after a requeue.
if ! read -r id began 2>/dev/null <"$folder/began" || [[ $id != "$SLURM_JOB_ID" ]]; then
  began=$(date +%s)
  echo "$SLURM_JOB_ID $began" >"$folder/began"
fi
left=$((began + deadline_seconds - $(date +%s)))
[[ ! -e $folder/stop ]] || end stopped 75
[[ $left -gt 0 ]] || end deadline 75
# TensorFlow's servers execute what any process on the nodes sends them. NO: no other job shares the nodes,
# USER: only jobs of this user (job_share_string in slurm_protocol_defs.c).
if [[ $exclusive == yes ]]; then
  case " $(scontrol show job "$SLURM_JOB_ID" --oneliner) " in
    *" OverSubscribe=NO "* | *" OverSubscribe=USER "*) ;;
    *)
      echo "cloudgan: Slurm gave this job nodes that other users share, and they could reach the ports of" \
        "its workers. Use another partition (--queue), one node, or accept it: --allow-open-ports"
      end failed 2
      ;;
  esac
fi
if [[ ${SLURM_RESTART_COUNT:-0} -gt 0 ]]; then
  scontrol update "JobId=$SLURM_JOB_ID" "TimeLimit=$(((left + 59) / 60))"
fi

CLOUDGAN_PEERS=$(peers)
export CLOUDGAN_PEERS folder attempt again
# The workers are no MPI ranks: those that they start would find the variables of Slurm's world.
srun --mpi=none --export=ALL --ntasks="$world" --ntasks-per-node=1 --cpus-per-task="$cpus" --distribution=block \
  --kill-on-bad-exit=1 bash -c "$(declare -f now worker keep); keep"
code=$?

if [[ -e $folder/failed-$attempt ]]; then
  read -r _ code <"$folder/failed-$attempt" # srun's own code may be that of a killed worker
  end failed "$code"
fi
[[ $code != 0 || -e $folder/stopped-$attempt ]] || end finished 0
[[ " 0 $again " == *" $code "* ]] || end failed "$code"
[[ ! -e $folder/stop ]] || end stopped 75
# Slurm's signal may be up to a minute early.
left=$((began + deadline_seconds - $(date +%s) - grace_seconds - 60))
[[ $left -gt 0 ]] || end deadline 75
# Stopped by Slurm, such as for a job of higher priority. A cancelled job is not requeued.
if [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  if scontrol requeue "$SLURM_JOB_ID"; then
    exit 75 # requeued
  fi
fi
end stopped 75
