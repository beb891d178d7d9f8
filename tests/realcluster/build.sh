#!/bin/bash
# Builds the programs of this folder into a cache: `realcluster`, the control plane, and `kueue`.
#
#   build.sh                  builds what the cache lacks for exactly these sources and this Go
#   build.sh --find PROGRAM   prints the path of one that was built, else exits with 3
#
# The cache is $REALCLUSTER_CACHE, by default /var/cache/realcluster: outside HOME and the checkout. Go's modules
# and compiled packages are kept there, too, so that a change of the sources costs one link.
set -euo pipefail
cd "$(dirname "$0")"
cache=${REALCLUSTER_CACHE:-/var/cache/realcluster}
export GOTOOLCHAIN=local # no other Go than the installed one
needed=$(sed -n 's/^go //p' go.mod) gigabytes=7

missing() {  # WHAT
  echo "$1; the real control plane needs Go $needed or newer (https://go.dev/dl) and $gigabytes GB in $cache" >&2
  exit 3
}

found=$(cd / && go env GOVERSION 2> /dev/null) || missing "Go is not installed"
printf 'go%s\n' "$needed" "${found#go}" | sort --check=quiet --version-sort || missing "Go ${found#go} is too old"
declare -A sources=([realcluster]="go.mod go.sum $(echo ./*.go)" [kueue]="kueue/go.mod kueue/go.sum")

place_of() {  # PROGRAM: its folder is named by the hash of its sources
  # shellcheck disable=SC2086
  echo "$cache/$({ go version; cat ${sources[$1]}; } | sha256sum | cut -c1-16)"
}

build() {  # PACKAGE PROGRAM FLAGS
  # -trimpath: the compiler's cache then holds for any place of the module cache.
  go build -trimpath -p "${JOBS:-2}" -ldflags "-s -w $3" -o "$2.new" "$1" >&2
  mv "$2.new" "$2"
}

if [ "${1:-}" = --find ]; then
  program=$(place_of "$2")/$2
  [ -x "$program" ] || exit 3
  echo "$program"
  exit
fi
mkdir -p "$cache"
if [ ! -x "$(place_of kueue)/kueue" ]; then # the last that is built; what earlier builds left is in the cache
  free=$(df --output=avail -B G "$cache" | tail -1 | tr -d ' G') used=$(du -s -B G "$cache" | cut -d G -f 1)
  [ $((free + used)) -gt "$gigabytes" ] || missing "$free GB are free there, and $used GB were built before"
fi
exec 9> "$cache/lock"
flock 9
export GOMODCACHE=$cache/mod GOCACHE=$cache/gocache GOFLAGS="-mod=readonly -buildvcs=false"

place=$(place_of realcluster)
if [ ! -x "$place/realcluster" ]; then
  echo "building the control plane into $cache: about 11 minutes of processor time and 4 GB, once" >&2
  mkdir -p "$place"
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.} minor=${minor%%.*}
  flags=
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    flags+=" -X $package.gitTreeState=clean"
  done
  build . "$place/realcluster" "$flags"
fi

place=$(place_of kueue)
if [ ! -x "$place/kueue" ]; then
  echo "building Kueue into $cache: some minutes of processor time and 1 GB, once" >&2
  mkdir -p "$place"
  cd kueue # a module of its own: it names an older Kubernetes
  go mod download sigs.k8s.io/kueue # in an empty cache it has no folder yet
  cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config/components" "$place"
  build sigs.k8s.io/kueue/cmd/kueue "$place/kueue" ""
fi
