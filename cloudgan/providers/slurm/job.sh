# shellcheck shell=bash
# What every run's job does; the lines above it set the values and `worker`. Slurm places all nodes
# or none, and starts the job again when a node is lost; `keep` replaces a worker that may be
# replaced, as a Job's controller does. The files it writes tell `cloudgan status` what happened.

: "${folder:?}" "${world:?}" "${cpus:?}" "${again:?}" "${deadline_seconds:?}" "${grace_seconds:?}"

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# One on each node: the worker of this rank, until it is done, told to stop, or failed for good.
# shellcheck disable=SC2317  # srun calls it
keep() {
  local work="${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/cloudgan-$SLURM_JOB_ID-$SLURM_PROCID"
  local notes="$folder/worker-$SLURM_PROCID.txt" pause=1 told=0 code
  export work JOB_COMPLETION_INDEX="$SLURM_PROCID"
  trap 'told=1' TERM
  while :; do
    mkdir -p -- "$work"
    echo "started $(now) ${SLURMD_NODENAME:-}" >>"$notes"
    # In the foreground, so that a signal is looked at when the worker has ended; the whole group
    # gets it. Slurm's own --output loses lines when it writes there that it sent a signal.
    (worker) >>"$folder/logs/worker-$SLURM_PROCID.log" 2>&1
    code=$?
    echo "ended $(now) $code" >>"$notes"
    [[ $told == 0 && " $again " == *" $code "* ]] || break
    sleep "$pause" || told=1 # the signal reaches it first
    [[ $told == 0 ]] || break
    pause=$((pause < 30 ? 2 * pause : 60))
  done
  rm -rf -- "$work"
  [[ $code != 0 ]] || exit 0
  if [[ " $again " == *" $code "* ]]; then
    # Nothing failed: with another code than 0 srun would kill those that still save.
    echo "$SLURM_PROCID" >>"$folder/told-$attempt"
    exit 0
  fi
  echo "$SLURM_PROCID $code" >>"$folder/failed-$attempt"
  exit "$code"
}

# end WORD CODE: notes how it ended, whole or not at all, and ends.
end() {
  echo "$SLURM_JOB_ID $1 $2 $(now)" >"$folder/end.new"
  mv -- "$folder/end.new" "$folder/end"
  exit "$2"
}

# Addresses of all workers in the order of their ranks: a node's name where it resolves, else what
# Slurm itself calls it by; another pair of ports where one machine is several nodes.
peers() {
  local host address port found='' first=$((20000 + 2 * (SLURM_JOB_ID % 6000)))
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

trap : TERM # its steps end first, and what became of them is noted
mkdir -p -- "$folder/logs"
attempt="$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}"

# The deadline counts from the job's first start, however often it was put back into the queue.
if ! read -r id began 2>/dev/null <"$folder/began" || [[ $id != "$SLURM_JOB_ID" ]]; then
  began=$(date +%s)
  echo "$SLURM_JOB_ID $began" >"$folder/began"
fi
left=$((began + deadline_seconds - $(date +%s)))
[[ ! -e $folder/stop ]] || end stopped 75
[[ $left -gt 0 ]] || end deadline 75
if [[ ${SLURM_RESTART_COUNT:-0} -gt 0 ]]; then
  scontrol update "JobId=$SLURM_JOB_ID" "TimeLimit=$(((left + 59) / 60))"
fi

CLOUDGAN_PEERS=$(peers)
export CLOUDGAN_PEERS folder attempt again
srun --ntasks="$world" --ntasks-per-node=1 --cpus-per-task="$cpus" --distribution=block \
  --kill-on-bad-exit=1 bash -c "$(declare -f now worker keep); keep"
code=$?

if [[ -e $folder/failed-$attempt ]]; then
  read -r _ code <"$folder/failed-$attempt" # srun's own code may be that of those it killed
  end failed "$code"
fi
[[ $code != 0 || -e $folder/told-$attempt ]] || end finished 0
[[ " 0 $again " == *" $code "* ]] || end failed "$code"
[[ ! -e $folder/stop ]] || end stopped 75
# Slurm says so up to a minute early.
left=$((began + deadline_seconds - $(date +%s) - grace_seconds - 60))
[[ $left -gt 0 ]] || end deadline 75
# Told by somebody else, such as a job of higher priority: a job that was cancelled stays so.
if [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  if scontrol requeue "$SLURM_JOB_ID"; then
    exit 75 # it has not ended
  fi
fi
end stopped 75
