#!/bin/sh
# Copies the wheels of wheels.txt from the run's store to a folder, with rclone.
#
#   sh fetch_wheels.sh WHEELS.TXT FOLDER STORE [SECONDS]
#
# Runs in rclone's image: in an init container of each pod, and on a TPU VM. rclone finds the login of the pod, of the
# node or in the environment by itself, so that no argument holds a secret.
#
# Exit codes: 0; 1 if a retry cannot help (a wrong list, a wheel that is missing or has another size); else 75, after
# SECONDS of retries. The default is 300 because permissions granted just before take effect after 2 to 7 minutes
# (https://cloud.google.com/iam/docs/access-change-propagation, of 2025-10-16, read 2026-11-22), and a pod that was
# started without an identity never gets one (https://github.com/aws/eks-pod-identity-agent/issues/153, read
# 2026-11-25): the next pod tries again. rclone repeats requests, but no login.
set -u
list=$1 folder=$2 store=${3%/} seconds=${4:-300}

fail() {
  code=$1
  shift
  echo "fetch_wheels: $*" >&2
  exit "$code"
}

wrong=$(grep -Evm1 '^[A-Za-z0-9][A-Za-z0-9._+-]*\.whl [0-9a-f]{64} [0-9]+$' "$list")
[ -z "$wrong" ] || fail 1 "wheels.txt: '$wrong' is not of the form NAME.whl SHA256 BYTES"

# A slash at the end: the prefix is a folder, and rclone does not ask whether it is an object.
case $store in
  gs://?*)
    role="roles/storage.objectViewer on the bucket"
    wheels=:gcs:${store#gs://}/wheels/
    export RCLONE_GCS_ENV_AUTH=true
    ;;
  s3://?*)
    role="s3:ListBucket on the bucket and s3:GetObject on its objects"
    wheels=:s3:${store#s3://}/wheels/
    export RCLONE_S3_PROVIDER=AWS RCLONE_S3_ENV_AUTH=true
    ;;
  https://?*/?*)
    role="the role Storage Blob Data Reader on the container"
    host=${store#https://}
    wheels=:azureblob:${host#*/}/wheels/
    host=${host%%/*}
    export RCLONE_AZUREBLOB_ACCOUNT="${host%%.*}"
    export RCLONE_AZUREBLOB_ENDPOINT="${RCLONE_AZUREBLOB_ENDPOINT:-https://$host}"
    if [ -n "${AZURE_STORAGE_SAS_TOKEN:-}" ]; then
      export RCLONE_AZUREBLOB_SAS_URL="$RCLONE_AZUREBLOB_ENDPOINT/?${AZURE_STORAGE_SAS_TOKEN#\?}"
    elif [ -n "${AZURE_STORAGE_KEY:-}" ]; then
      export RCLONE_AZUREBLOB_KEY="$AZURE_STORAGE_KEY"
    else
      export RCLONE_AZUREBLOB_ENV_AUTH=true
    fi
    ;;
  /*)
    role="to read the folder"
    wheels=$store/wheels/
    ;;
  *) fail 1 "the store is '$store'; valid: a folder, gs://, s3:// or https://" ;;
esac

mkdir -p "$folder" || fail 75 "$folder cannot be written"
wanted=$folder/wanted.txt found=$folder/found.txt said=$folder/said.txt
awk '{ print $2 "/" $1 }' "$list" >"$wanted"

# run COMMAND: rclone, for the listed files only and with few retries of its own; this script does the others.
run() {
  rclone "$@" --config=/dev/null --files-from="$wanted" --retries=1 --low-level-retries=3 \
    --contimeout=10s --timeout=30s --transfers=8 2>"$said"
}

# reason: prints rclone's last message, which may have several lines, in one.
reason() {
  awk '/^[0-9\/]+ [0-9:]+ [A-Z]+ *: / { sub(/^[^:]*:[^:]*:[^:]*: /, ""); text = "" } { text = text " " $0 }
    END { gsub(/-----+/, "", text); gsub(/[ \t]+/, " ", text); print substr(text, 2, 700) }' "$said"
}

# Looks for the files before it copies one: rclone skips missing files, and one of another size could fill the disk. One
# request lists all, because a request for each file would wait for minutes where the server fails.
copy() {
  run lsf "$wheels" --fast-list --recursive --files-only --format=sp --separator=' ' >"$found" || return
  wrong=$(awk -v found="$found" '
    BEGIN { while ((getline < found) > 0) size[$2] = $1 }
    { file = $2 "/" $1 }
    !(file in size) { print "wheels/" file " is not in the store; rerun `cloudgan deploy`, which uploads it"; exit }
    size[file] != $3 {
      print "wheels/" file ": expected " $3 " bytes, found " size[file] "; remove it from the store and deploy again"
      exit
    }' "$list")
  [ -z "$wrong" ] || fail 1 "$wrong"
  run copy "$wheels" "$folder" --no-traverse --size-only || return
  while read -r file; do
    [ -f "$folder/$file" ] || { echo "wheels/$file was not copied" >"$said" && return 1; }
  done <"$wanted"
}

began=$(date +%s) pause=1
until copy; do
  left=$((began + seconds - $(date +%s)))
  [ "$left" -gt 0 ] || fail 75 "the wheels could not be copied for $seconds s ($(reason)); the pod needs $role. New" \
    "permissions take effect within minutes"
  pause=$((pause < left ? pause : left))
  echo "$(reason); retrying in $pause s"
  sleep "$pause"
  pause=$((pause < 32 ? pause * 2 : 60))
done
touch "$folder/complete"
