# shellcheck shell=bash
# Startup script of a TPU VM, run at each boot; the lines above set the values. It trains in a container
# with the wheels of the run's store, uploads its log, and deletes the TPU: at the end, at the deadline,
# or when a stop file appears in the store. It works without the launcher. On a slice of several VMs each runs
# it: the first one writes the status, and each that fails; the end of one of these ends them all.
# Google runs it as root, like any startup-script of Compute Engine (from memory, not tested on a TPU).

: "${run:?}" "${queued_resource:?}" "${image:?}" "${bucket:?}" "${prefix?}" "${again:?}"
: "${grace_seconds:?}" "${hosts:?}" "${environment[*]:?}" "${worker[*]:?}" "${fetch[*]-}" "${install[*]-}"

name=${queued_resource##*/}
folder="${CLOUDGAN_FOLDER:-/var/lib/cloudgan}" # the upper-case variables are for tests
metadata="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance"
storage="${STORAGE_EMULATOR_HOST:-https://storage.googleapis.com}"
tpu="${CLOUDGAN_TPU_API:-https://tpu.googleapis.com}"
poll_seconds="${CLOUDGAN_POLL_SECONDS:-2}"
pause_seconds="${CLOUDGAN_PAUSE_SECONDS:-15}" # between two attempts
ending_seconds="${CLOUDGAN_ENDING_SECONDS:-60}" # after the grace period, for the last uploads
port="${CLOUDGAN_PORT:-2222}" # of the workers

log() { echo "cloudgan: $(date -u +%Y-%m-%dT%H:%M:%SZ) $*"; }

# instance NAME: prints a value of the metadata server.
instance() {
  curl -fsS --noproxy '*' --retry 5 --retry-connrefused --max-time 20 \
    -H 'Metadata-Flavor: Google' "$metadata/$1"
}

# google ARGUMENTS: runs curl as the VM's service account; the token is not on its command line.
google() {
  local token
  token=$(instance service-accounts/default/token | sed -n 's/.*"access_token": *"\([^"]*\)".*/\1/p')
  curl -sS --max-time 60 --header @- "$@" <<<"Authorization: Bearer $token"
}

# object NAME: prints the URL of an object of the run's folder in the store.
object() {
  echo "$storage/storage/v1/b/$bucket/o/$prefix${1//\//%2F}"
}

# object_exists NAME: tests whether the run's folder has this object.
object_exists() {
  google -f -o "$folder/answer" "$(object "$1")" 2>/dev/null
}

# delete_object NAME: deletes an object of the run's folder, if it exists.
delete_object() {
  google -o "$folder/answer" -X DELETE "$(object "$1")"
}

# upload NAME FILE: uploads a file to the run's folder in the store.
upload() {
  google -f --retry 3 -o "$folder/answer" -X POST -H 'Content-Type: application/octet-stream' \
    --data-binary "@$2" "$storage/upload/storage/v1/b/$bucket/o?uploadType=media&name=$prefix$1"
}

# write_status PHASE CODE: uploads the status file, which `cloudgan status` reads.
write_status() {
  log "$1, $2"
  ((index == 0)) || [[ $1 == ended ]] || return 0
  printf '{"phase": "%s", "exit_code": %s, "stop_reason": "%s", "booted_at": %s, "deadline_seconds": %s, "written_at": %s}\n' \
    "$1" "$2" "$(cat "$folder/stop_reason" 2>/dev/null)" "$booted_at" "$deadline_seconds" "$(date +%s)" \
    >"$folder/status"
  upload "$name.json" "$folder/status" || log "cannot upload the status"
}

# request_stop REASON: makes the worker save a checkpoint and end.
request_stop() {
  if (set -o noclobber && echo "$1" >"$folder/stop_reason") 2>/dev/null; then
    log "stop requested: $1"
  fi
}

# forward_stop: signals the worker once; a second signal would end it without a checkpoint.
forward_stop() {
  [[ -e $folder/stop_reason && ! -e $folder/signalled ]] || return 0
  if docker kill --signal=TERM "cloudgan-$run" >/dev/null 2>&1; then
    touch "$folder/signalled"
  fi
}

# delete_tpu: deletes the TPU of this VM; retries until it is gone.
delete_tpu() {
  local code
  while :; do
    code=$(google -o "$folder/answer" -w '%{http_code}' -X DELETE "$tpu/v2/$queued_resource?force=true")
    log "deletion of this TPU: HTTP $code"
    [[ $code != 404 ]] || return 0
    sleep "$pause_seconds"
  done
}

# Enforces the deadline, even on a worker that ignores the signal.
deadline() {
  local left=$((booted_at + deadline_seconds - grace_seconds - $(date +%s)))
  trap 'kill $(jobs -p); exit' TERM
  sleep "$((left > 0 ? left : 0))" &
  wait $!
  request_stop deadline
  sleep "$((grace_seconds + ending_seconds))" &
  wait $!
  delete_tpu
}

# Watches for preemption notices (30 s ahead) and for the stop file of `cloudgan cancel`.
watch() {
  local round=0
  while :; do
    [[ $(instance preempted 2>/dev/null) != TRUE ]] || request_stop preempted
    if ((round++ % 5 == 0)) && object_exists stop; then
      request_stop stopped
    fi
    forward_stop
    sleep "$poll_seconds"
  done
}

# run_container NAME ARGUMENTS: runs a container with this VM's TPU and network.
run_container() {
  local container=$1 code
  shift
  docker run --rm --init --name "$container" --privileged --net=host --shm-size=16g \
    -v "$folder/config:/cloudgan/config:ro" -v "$folder/work:/cloudgan/scratch" \
    -v "$folder/site:/cloudgan/site" -v "$folder/secret:/cloudgan/secret:ro" \
    "${environment[@]}" "$@" &
  wait $!
  code=$?
  # A signal to this script ends `wait`, not the container.
  while kill -0 $! 2>/dev/null; do
    wait $!
    code=$?
  done
  return "$code"
}

# retry NAME ARGUMENTS: runs a container again after each retriable exit code.
retry() {
  local code
  while :; do
    [[ ! -e $folder/stop_reason ]] || return 75
    run_container "$@"
    code=$?
    log "$1 ended with $code"
    [[ " $again " == *" $code "* ]] || return "$code"
    sleep "$pause_seconds"
  done
}

# meet: sets who this VM and the others of the slice are, and fetches their common secret. Names and formats are
# those that JAX reads (jax/_src/clusters/cloud_tpu_cluster.py of jax 0.10.2: a list of hosts, or of NAME:ID:IP).
meet() {
  local peers="localhost:$port"
  if ((hosts > 1)); then
    peers=$(instance attributes/worker-network-endpoints | tr ',' '\n' | sed "s/.*://; s/\$/:$port/" | paste -sd,)
    (umask 077 && google -f --retry 5 -o "$folder/secret/key" "$(object secret)?alt=media") || return
  fi
  environment+=(-e "JOB_COMPLETION_INDEX=$index" -e "CLOUDGAN_PEERS=$peers")
}

prepare() {
  local file
  for file in run.yaml wheels.txt fetch_wheels.sh install_wheels.py; do
    instance "attributes/cloudgan-${file//[._]/-}" >"$folder/config/$file" 2>/dev/null ||
      rm "$folder/config/$file"
  done
  case ${image%%/*} in
    *-docker.pkg.dev)
      instance service-accounts/default/token | sed -n 's/.*"access_token": *"\([^"]*\)".*/\1/p' |
        docker login -u oauth2accesstoken --password-stdin "https://${image%%/*}"
      ;;
  esac
}

train() {
  write_status installing null
  prepare
  meet || {
    log "no secret of the run in its store: a worker cannot know the others"
    return 1
  }
  if [[ -s $folder/config/wheels.txt ]]; then
    retry "cloudgan-fetch-$run" "${fetch[@]}" || return
    retry "cloudgan-install-$run" "${install[@]}" || return
  fi
  write_status training null
  retry "cloudgan-$run" "${worker[@]}"
}

mkdir -p "$folder/config" "$folder/work" "$folder/site" "$folder/secret"
rm -f "$folder/stop_reason" "$folder/signalled" # of the previous boot
exec > >(tee -a "$folder/startup.log") 2>&1
is_first=$([[ -s $folder/booted_at ]] || echo yes)
[[ -z $is_first ]] || date +%s >"$folder/booted_at"
booted_at=$(cat "$folder/booted_at")
index=0
((hosts == 1)) || index=$(instance attributes/agent-worker-number)
log "run $run on $queued_resource, worker $index of $hosts"
deadline_seconds=$(instance attributes/cloudgan-deadline-seconds)
deadline &
deadline_pid=$!
[[ -z $is_first ]] || delete_object stop # of a previous TPU
watch &
watcher=$!
trap 'request_stop shutdown' TERM # the VM shuts down
train
code=$?
kill "$watcher"
[[ $(cat "$folder/stop_reason" 2>/dev/null) != shutdown ]] || exit 0 # the VM reboots after maintenance
speaks=$((index == 0 || code != 0)) # for the slice
((!speaks)) || write_status ended "$code"
gzip -c "$folder/startup.log" >"$folder/startup.log.gz"
upload "logs/$index/startup-$booted_at.log.gz" "$folder/startup.log.gz"
((!speaks)) || delete_tpu
kill "$deadline_pid"
