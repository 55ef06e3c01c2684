# Sourced by the scripts beside it: one line a step, and the whole log when it fails.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$checkout/.venv

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# step WHAT COMMAND...: runs the command quietly and says how long it took.
step() {
  local what=$1 log started status=0
  shift
  log=$(mktemp)
  started=$(date +%s)
  printf '%s ... ' "$what"
  "$@" </dev/null >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then
    printf '%s s\n' "$(($(date +%s) - started))"
  else
    printf 'failed (exit status %s)\n' "$status"
    cat "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

# through_sudo: root in the name of somebody else, to whom the files shall belong.
through_sudo() {
  [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ]
}

# "${owner[@]}" COMMAND...: as the person who called sudo, otherwise as we are.
owner=()
if through_sudo; then
  owner=(setpriv --reuid "$SUDO_UID" --regid "${SUDO_GID:-$SUDO_UID}")
  if home=$(getent passwd "$SUDO_UID" | cut -d: -f6) && [ -n "$home" ]; then
    # With the person's groups: a sound card belongs to one of them.
    owner+=(--init-groups)
  else
    owner+=(--clear-groups)
  fi
  owner+=(env "HOME=${home:-/tmp}")
fi

# as_root COMMAND...: as root, by sudo when we are not.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root and there is no sudo; as root, run: $*"
  fi
}
