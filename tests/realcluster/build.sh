#!/bin/bash
# Builds the control plane into a cache and prints the path of the program.
#
#   build.sh          builds it where the cache has none for exactly these sources and this Go
#   build.sh --find   prints the path if it was built, else exits with 3
#
# The cache is $REALCLUSTER_CACHE, by default /var/cache/realcluster: outside HOME and the checkout. Go's modules
# and compiled packages are kept there, too, so that a change of the sources costs one link.
set -euo pipefail
cd "$(dirname "$0")"
cache=${REALCLUSTER_CACHE:-/var/cache/realcluster}
if ! command -v go > /dev/null; then
  echo "Go is not installed; the real control plane needs Go 1.26 or newer (https://go.dev/dl)" >&2
  exit 3
fi
key=$({ go version; cat go.mod go.sum ./*.go; } | sha256sum | cut -c1-16)
program=$cache/$key/realcluster
if [ "${1:-}" = --find ]; then
  [ -x "$program" ] || exit 3
elif [ ! -x "$program" ]; then
  mkdir -p "$cache/$key"
  exec 9> "$cache/lock"
  flock 9
  if [ ! -x "$program" ]; then
    echo "building the control plane into $cache: about 11 minutes of processor time and 4 GB, once" >&2
    export GOMODCACHE=$cache/mod GOCACHE=$cache/gocache GOFLAGS="-mod=readonly -buildvcs=false"
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    minor=${version#v1.} minor=${minor%%.*}
    flags="-s -w"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
      flags+=" -X $package.gitTreeState=clean"
    done
    # -trimpath: the compiler's cache then holds for any place of the module cache.
    go build -trimpath -p "${JOBS:-2}" -ldflags "$flags" -o "$program.new" . >&2
    mv "$program.new" "$program"
  fi
fi
echo "$program"
