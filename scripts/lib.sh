# shellcheck shell=bash
# What the scripts share: telling what is done and how long it took, the cache folder, Debian packages.
#
# Sourced, never run. Messages go to stderr, so that a script's stdout carries nothing but its result (a path, mostly).

MVM_SCRIPTS_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck disable=SC2034  # for the scripts that source this
MVM_SOURCE_DIR="$(dirname "$MVM_SCRIPTS_DIR")"

# ---- Telling ------------------------------------------------------------------------------------------------------

_step_text=""
_step_began=0

now_ms() {
  local seconds=${EPOCHREALTIME%[.,]*} micros=${EPOCHREALTIME#*[.,]}
  echo $((seconds * 1000 + 10#$micros / 1000))
}

say() { printf '%s\n' "$*" >&2; }

# step TEXT: the step before this one is done; say how long it took, and what comes now.
step() {
  step_done
  _step_text=$1
  _step_began=$(now_ms)
  say "==> $1"
}

# step_done: say how long the open step took, if there is one.
step_done() {
  [[ -n $_step_text ]] || return 0
  local took=$(($(now_ms) - _step_began))
  say "    $(printf '%d.%d s' $((took / 1000)) $((took % 1000 / 100)))"
  _step_text=""
}

# die TEXT…: one error line that names the step it happened in, and exit 1.
die() {
  say "${0##*/}: ${_step_text:+$_step_text: }$*"
  exit 1
}

# ---- Cache --------------------------------------------------------------------------------------------------------

# cache_dir [PART]: prints (and makes) the user's cache folder for mvm, or a part of it.
cache_dir() {
  local dir="${XDG_CACHE_HOME:-$HOME/.cache}/mvm${1:+/$1}"
  mkdir -p "$dir"
  printf '%s\n' "$dir"
}

# content_key FILE-OR-TEXT…: prints a short hash of the contents of the files, and of the texts, given.
content_key() {
  local item
  for item in "$@"; do
    if [[ -f $item ]]; then
      sha256sum <"$item"
    else
      printf '%s\n' "$item"
    fi
  done | sha256sum | cut -c1-16
}

# lock_cache NAME: one run at a time of what NAME names; a second one waits, and then finds the first one's result.
# The lock is held on a file descriptor of this shell, so it ends with the script however that ends.
lock_cache() {
  exec {_cache_lock}>"$(cache_dir locks)/$1"
  flock "$_cache_lock"
}

# publish DIR-BEING-MADE FINAL-DIR: the folder appears under its final name whole, or not at all.
publish() {
  [[ ! -e $2 ]] || rm -rf -- "$2"
  mv -T -- "$1" "$2"
}

# ---- Debian packages ----------------------------------------------------------------------------------------------

# as_root COMMAND…: runs it, through sudo where we are not root.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -- "$@"
  else
    die "root is needed for: $* (not root here, and no sudo)"
  fi
}

# packages_of GROUP…: prints the packages of these groups of packages.txt; an unknown group is an error.
packages_of() {
  local group
  for group in "$@"; do
    awk -v want="$group" '
      /^# group: / { open = ($3 == want); found = found || open; next }
      /^[^#]/ && NF && open { print $1 }
      END { exit !found }
    ' "$MVM_SCRIPTS_DIR/packages.txt" || die "packages.txt has no group '$group'"
  done | sort -u
}

_apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >&2
}

# apt_knows PACKAGE: whether apt has a version of it to offer.
apt_knows() { apt-cache show --no-all-versions "$1" >/dev/null 2>&1; }

# refresh_package_lists: at most once a script, and only where something asked for is unknown.
refresh_package_lists() {
  [[ -z ${_lists_refreshed:-} ]] || return 0
  _lists_refreshed=1
  # apt does not wait for its lock on the lists, and two labs may start at the same time.
  local lock
  exec {lock}>"$(cache_dir locks)/package-lists"
  flock "$lock"
  _apt_get update || die "apt-get update failed"
  exec {lock}>&-
}

# need_packages GROUP…: installs what is missing of these groups; says nothing where nothing is.
need_packages() {
  command -v apt-get >/dev/null || die "these scripts know Debian's apt only; install by hand what
  $MVM_SCRIPTS_DIR/packages.txt lists under: $*"
  local wanted package missing=()
  wanted=$(packages_of "$@")
  for package in $wanted; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  step "Installing Debian packages: ${missing[*]}"
  for package in "${missing[@]}"; do
    apt_knows "$package" || refresh_package_lists
  done
  _apt_get install -y --no-install-recommends "${missing[@]}" ||
    { refresh_package_lists && _apt_get install -y --no-install-recommends "${missing[@]}"; } ||
    die "apt-get install failed"
  step_done
}

_candidate() { apt-cache policy "$1" | sed -n '/(none)/d; s/^  Candidate: //p'; }

# package_version PACKAGE: prints the version that apt would fetch.
package_version() {
  local version
  version=$(_candidate "$1")
  [[ -n $version ]] || { refresh_package_lists && version=$(_candidate "$1"); }
  [[ -n $version ]] || die "no package $1 in this system's Debian sources"
  printf '%s\n' "$version"
}

_dependency_like() { apt-cache depends --important "$1" 2>/dev/null | sed -nE "/$2/ s/^ *Depends: //p;"; }

# dependency_like PACKAGE PATTERN: prints the one dependency of PACKAGE that matches; that is how a metapackage such as
# linux-image-amd64 is followed to the package of the day.
dependency_like() {
  local found
  found=$(_dependency_like "$@")
  [[ -n $found ]] || { refresh_package_lists && found=$(_dependency_like "$@"); }
  [[ -n $found ]] || die "package $1 does not depend on anything like $2"
  printf '%s\n' "$found"
}

# unpack_package PACKAGE DIR: downloads the package and unpacks it into DIR, without installing it.
unpack_package() {
  local package=$1 dir=$2 downloads
  downloads=$(mktemp -d "$(cache_dir)/download.XXXXXX")
  # Without this option apt, as root, complains that its own user may not write here.
  if ! (cd "$downloads" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package" >&2); then
    rm -rf -- "$downloads"
    die "could not download package $package"
  fi
  mkdir -p "$dir"
  dpkg -x "$downloads"/*.deb "$dir"
  rm -rf -- "$downloads"
}

# debian_sources SUITE: the file in which this system names its Debian archive; mmdebstrap reads it as it is.
debian_sources() {
  local file
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [[ -s $file ]] && grep -q "$1" "$file"; then
      echo "$file"
      return
    fi
  done
  die "this system's apt sources name no Debian $1"
}

# modules_in_load_order ROOT VERSION MODULE…: prints the files under ROOT/lib/modules/VERSION that have to be loaded, in
# that order, for these modules; each once; built-in ones not at all.
modules_in_load_order() {
  local root=$1 version=$2 module
  shift 2
  depmod -b "$root" "$version"
  for module in "$@"; do
    # An options line of the host's own configuration is none of the guest's business: -C.
    modprobe -C /dev/null -d "$root" -S "$version" --show-depends "$module" >"$root/depends" 2>/dev/null ||
      die "kernel $version has no module $module"
    sed -n 's/^insmod \([^ ]*\).*/\1/p' "$root/depends"
  done | awk '!seen[$0]++'
  rm -f -- "$root/depends"
}

# plain_module FROM TO: copies a module, decompressing it where it is packed (Debian 13 packs them, 12 does not).
plain_module() {
  case $1 in
    *.ko) cp -- "$1" "$2" ;;
    *.ko.xz) xz -dc -- "$1" >"$2" ;;
    *.ko.gz) gzip -dc -- "$1" >"$2" ;;
    *.ko.zst) zstd -qdc -- "$1" >"$2" ;;
    *) die "do not know how to unpack module $1" ;;
  esac
}

trap step_done EXIT
