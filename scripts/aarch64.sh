#!/usr/bin/env bash
# Runs irc on an emulated aarch64 Linux: scripts/aarch64.sh demo | test [PYTEST ARGUMENTS] |
# python [ARGUMENTS]. Needs apt-get, dpkg and pip, but no root: Debian's packages are unpacked into
# build/aarch64, nothing is installed. QEMU_CPU names the processor (neoverse-v1 unless given). Where
# the emulator or the packages cannot be had, it prints "not run: ..." and ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
root=${IRC_AARCH64_ROOT:-$checkout/build/aarch64}
wheels=(numpy llvmlite lxml onnx ml_dtypes networkx pytest hypothesis mpmath onnxruntime)

stop() {
  echo "not run: $1"
  exit 0
}

# Packages of one architecture, with state of their own: no lock of the system is taken.
apt() {
  local state=$root/apt-$1 arch=$1
  shift
  mkdir -p "$state"/lists/partial "$state"/archives/partial
  touch "$state/status"
  local sources=()
  if [ -e "$state/sources.list" ]; then
    sources=(-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null)
  fi
  apt-get -q -o "APT::Architecture=${arch%-*}" -o "APT::Architectures=${arch%-*}" \
    -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state" \
    -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" "${sources[@]}" "$@" >>"$root/log" 2>&1
}

find_qemu() {
  for qemu in "$root"/qemu/usr/bin/qemu-aarch64 "$root"/qemu/usr/bin/qemu-aarch64-static \
    "$(command -v qemu-aarch64-static)" "$(command -v qemu-aarch64)"; do
    [ -x "$qemu" ] && [[ "$("$qemu" -cpu help 2>/dev/null)" == *"$1"* ]] && return
  done
  return 1
}

# The emulator: the machine's, else that of the backports of its mirror, else that of its release.
# The first that knows neoverse-v1 (QEMU 8.1) is taken.
provide_qemu() {
  find_qemu neoverse-v1 && return
  local release mirror host
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  host=$(dpkg --print-architecture)
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" 2>/dev/null | head -n 1)
  if [ -n "$mirror" ]; then
    mkdir -p "$root/apt-$host-backports"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror" \
      "$release-backports main" >"$root/apt-$host-backports/sources.list"
  fi
  for source in "$host-backports" "$host"; do
    apt "$source" update || continue
    for package in qemu-user qemu-user-static; do
      mkdir -p "$root/download-$source"
      if (cd "$root/download-$source" && apt "$source" download "$package"); then
        dpkg -x "$root/download-$source/$package"_*.deb "$root/qemu"
        find_qemu neoverse-v1 && return
      fi
    done
  done
  find_qemu cortex-a72
}

# Debian's Python for aarch64, and the wheels of its version.
provide_python() {
  [ -e "$root/ready" ] && return
  apt arm64 update || stop "the package lists for arm64 cannot be had (see $root/log)"
  apt arm64 install --download-only --no-install-recommends -y python3 libstdc++6 ||
    stop "Debian's packages of Python for arm64 cannot be had (see $root/log)"
  for package in "$root"/apt-arm64/archives/*.deb; do dpkg -x "$package" "$root/system"; done
  local version
  version=$(basename "$(readlink "$root/system/usr/bin/python3")")
  "${PYTHON:-python3}" -m pip download --quiet --dest "$root/wheels" --only-binary=:all: \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 --implementation cp --python-version "${version#python}" \
    "${wheels[@]}" >>"$root/log" 2>&1 || stop "wheels for aarch64 cannot be had (see $root/log)"
  for wheel in "$root"/wheels/*.whl; do
    "${PYTHON:-python3}" -m zipfile -e "$wheel" "$root/site"
  done
  touch "$root/ready"
}

# sys.executable of the emulated Python is this file, so that its child processes are emulated too
# where the kernel does not know the emulator (binfmt_misc).
write_interpreter() {
  # The loader is called with the folders of its libraries. With the emulator's own prefix (-L) it
  # would take that folder for "/", where programs that walk down from "/" miss the machine's files.
  ln -sfn "$checkout" "$root/site/irc_compiler"
  local libraries=$root/system/lib/aarch64-linux-gnu:$root/system/usr/lib/aarch64-linux-gnu
  cat >"$root/python" <<END
#!/bin/sh
export PYTHONHOME='$root/system/usr' PYTHONPATH="$root/site\${PYTHONPATH:+:\$PYTHONPATH}"
export PYTHONPYCACHEPREFIX='$root/pycache' OPENBLAS_NUM_THREADS=1
export QEMU_CPU="\${QEMU_CPU:-$1}" IRC_CACHE_DIR="\${IRC_CACHE_DIR:-$root/code}"
exec '$qemu' -L / '$root/system/lib/ld-linux-aarch64.so.1' --argv0 '$root/python' \\
  --library-path '$libraries' '$root/system/usr/bin/python3' "\$@"
END
  chmod +x "$root/python"
}

for program in apt-get dpkg "${PYTHON:-python3}"; do
  command -v "$program" >/dev/null || stop "this machine has no $program"
done
mkdir -p "$root"
provide_qemu || stop "no emulator of aarch64 can be had (qemu-user; see $root/log)"
provide_python
find_qemu neoverse-v1 && write_interpreter neoverse-v1 || { find_qemu max; write_interpreter max; }

case "${1:-}" in
  demo) "$root/python" -m irc_compiler demo ;;
  test)
    # Importing every test takes longer under the emulator than running those that are marked.
    files=()
    [[ " ${*:2}" == *" tests/"* ]] || mapfile -t files < <(grep -rl "mark.aarch64" tests)
    "$root/python" -m pytest -q -p no:cacheprovider -m aarch64 "${files[@]}" "${@:2}"
    ;;
  python) "$root/python" "${@:2}" ;;
  *)
    echo "usage: scripts/aarch64.sh demo | test [PYTEST ARGUMENTS] | python [ARGUMENTS]" >&2
    exit 2
    ;;
esac
