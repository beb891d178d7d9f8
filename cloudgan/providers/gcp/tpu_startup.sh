# shellcheck shell=bash
# What the machine of a TPU does by itself, at each boot; the lines above set the values. It trains in
# a container with the wheels of the run's store, ships its log, and gives the TPU back: at its end,
# at its deadline, or when somebody left a stop file in the store. No laptop is needed for that.
# Google runs it as root, as any startup-script of Compute Engine's (from memory, tried on no TPU).

: "${run:?}" "${queued_resource:?}" "${image:?}" "${bucket:?}" "${prefix?}" "${again:?}"
: "${grace_seconds:?}" "${environment[*]:?}" "${worker[*]:?}" "${fetch[*]-}"

name=${queued_resource##*/}
folder="${CLOUDGAN_FOLDER:-/var/lib/cloudgan}" # the variables in capitals are for tests
metadata="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance"
storage="${STORAGE_EMULATOR_HOST:-https://storage.googleapis.com}"
tpu="${CLOUDGAN_TPU_API:-https://tpu.googleapis.com}"
poll_seconds="${CLOUDGAN_POLL_SECONDS:-2}"
pause_seconds="${CLOUDGAN_PAUSE_SECONDS:-15}" # before something is tried again
ending_seconds="${CLOUDGAN_ENDING_SECONDS:-60}" # beside the grace, for the last files

say() { echo "cloudgan: $(date -u +%Y-%m-%dT%H:%M:%SZ) $*"; }

# instance NAME: what the metadata server knows of this machine.
instance() {
  curl -fsS --noproxy '*' --retry 5 --retry-connrefused --max-time 20 \
    -H 'Metadata-Flavor: Google' "$metadata/$1"
}

# google ARGUMENTS: curl as the node's own service account; the token is in no list of processes.
google() {
  local token
  token=$(instance service-accounts/default/token | sed -n 's/.*"access_token": *"\([^"]*\)".*/\1/p')
  curl -sS --max-time 60 --header @- "$@" <<<"Authorization: Bearer $token"
}

# is_there NAME: whether the run's folder in the store has this object.
is_there() {
  google -f -o "$folder/answer" "$storage/storage/v1/b/$bucket/o/${prefix//\//%2F}${1//\//%2F}" \
    2>/dev/null
}

# forget NAME: removes an object of the run's folder; none is fine.
forget() {
  google -o "$folder/answer" -X DELETE \
    "$storage/storage/v1/b/$bucket/o/${prefix//\//%2F}${1//\//%2F}"
}

# put NAME FILE: puts a file into the run's folder in the store.
put() {
  google -f --retry 3 -o "$folder/answer" -X POST -H 'Content-Type: application/octet-stream' \
    --data-binary "@$2" "$storage/upload/storage/v1/b/$bucket/o?uploadType=media&name=$prefix$1"
}

# note PHASE CODE: what `cloudgan status` reads while there is no heartbeat, and after the end.
note() {
  say "$1, $2"
  printf '{"phase": "%s", "exit_code": %s, "told": "%s", "began": %s, "deadline_seconds": %s, "at": %s}\n' \
    "$1" "$2" "$(cat "$folder/told" 2>/dev/null)" "$began" "$deadline_seconds" "$(date +%s)" \
    >"$folder/note"
  put "$name.json" "$folder/note" || say "the store took no note"
}

# tell REASON: the worker shall save and end.
tell() {
  if (set -o noclobber && echo "$1" >"$folder/told") 2>/dev/null; then
    say "told to end: $1"
  fi
}

# pass_on: signals the worker once: the second signal would end it without saving.
pass_on() {
  [[ -e $folder/told && ! -e $folder/signalled ]] || return 0
  if docker kill --signal=TERM "cloudgan-$run" >/dev/null 2>&1; then
    touch "$folder/signalled"
  fi
}

# leave: deletes the TPU that this machine is part of; asks until it is gone, and this with it.
leave() {
  local code
  while :; do
    code=$(google -o "$folder/answer" -w '%{http_code}' -X DELETE "$tpu/v2/$queued_resource?force=true")
    say "asked for the deletion of this TPU: HTTP $code"
    [[ $code != 404 ]] || return 0
    sleep "$pause_seconds"
  done
}

# The dead-man switch: it also ends a worker that does not obey.
deadline() {
  local left=$((began + deadline_seconds - grace_seconds - $(date +%s)))
  trap 'kill $(jobs -p); exit' TERM
  sleep "$((left > 0 ? left : 0))" &
  wait $!
  tell deadline
  sleep "$((grace_seconds + ending_seconds))" &
  wait $!
  leave
}

# Spot machines are told half a minute before; a stop file is what `cloudgan cancel` writes.
watch() {
  local round=0
  while :; do
    [[ $(instance preempted 2>/dev/null) != TRUE ]] || tell preempted
    if ((round++ % 5 == 0)) && is_there stop; then
      tell stopped
    fi
    pass_on
    sleep "$poll_seconds"
  done
}

# contain NAME COMMAND: runs a command in the image, with the TPU and the network of this machine.
contain() {
  local container=$1 code
  shift
  docker run --rm --init --name "$container" --privileged --net=host --shm-size=16g \
    -v "$folder/config:/cloudgan/config:ro" -v "$folder/work:/cloudgan/scratch" \
    -v "$folder/site:/cloudgan/site" "${environment[@]}" "$image" "$@" &
  wait $!
  code=$?
  # A signal to this script ends `wait`, not the container.
  while kill -0 $! 2>/dev/null; do
    wait $!
    code=$?
  done
  return "$code"
}

# keep NAME COMMAND: again as long as its exit code says that this may help.
keep() {
  local code
  while :; do
    [[ ! -e $folder/told ]] || return 75
    contain "$@"
    code=$?
    say "$1 ended with $code"
    [[ " $again " == *" $code "* ]] || return "$code"
    sleep "$pause_seconds"
  done
}

prepare() {
  mkdir -p "$folder/config" "$folder/work" "$folder/site"
  local file
  for file in run.yaml wheels.txt fetch_wheels.py; do
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
  note installing null
  prepare
  if [[ -s $folder/config/wheels.txt ]]; then
    keep "cloudgan-wheels-$run" "${fetch[@]}" || return
  fi
  note training null
  keep "cloudgan-$run" "${worker[@]}"
}

mkdir -p "$folder"
rm -f "$folder/told" "$folder/signalled" # of the boot before
exec > >(tee -a "$folder/startup.log") 2>&1
is_first=$([[ -s $folder/began ]] || echo yes)
[[ -z $is_first ]] || date +%s >"$folder/began"
began=$(cat "$folder/began")
say "run $run on $queued_resource"
deadline_seconds=$(instance attributes/cloudgan-deadline-seconds)
deadline &
dead_man=$!
[[ -z $is_first ]] || forget stop # it was meant for the machines before
watch &
watcher=$!
trap 'tell shutdown' TERM # the machine goes down
train
code=$?
kill "$watcher"
[[ $(cat "$folder/told" 2>/dev/null) != shutdown ]] || exit 0 # after maintenance it boots again
note ended "$code"
gzip -c "$folder/startup.log" >"$folder/startup.log.gz"
put "logs/0/startup-$began.log.gz" "$folder/startup.log.gz"
leave
kill "$dead_man"
