# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by ./swapstone and ./test: makes .venv from a lock file and installs missing Debian packages.
# Needs: $here, the repository's top. Call: setup python|run|test, each of which includes the one before.
# Prints its steps on standard error; exits with 2 if the user must do something.

setup() {
    setup_what=$1
    if [ "$setup_what" = test ]; then setup_python_set=test; else setup_python_set=run; fi
    if [ "$setup_what" = test ]; then setup_lock=$here/requirements-dev.lock; else setup_lock=$here/requirements.lock; fi
    # Nothing to do for a list that is the one of the last successful set-up.
    setup_done=
    if ! setup_packages_done; then setup_packages && setup_done=1; fi
    if ! cmp -s "$setup_lock" "$here/.venv/lock.$setup_python_set" 2>/dev/null; then setup_venv && setup_done=1; fi
    [ -z "$setup_done" ] && return 0
    cp "$here/packages" "$here/.venv/packages.$setup_what"
    echo "Set-up done." >&2
}

# Whether this set-up, or one that includes it, was made with the present list of packages.
setup_packages_done() {
    setup_includes=
    for setup_kind in python run test; do
        [ "$setup_kind" = "$setup_what" ] && setup_includes=1
        [ -n "$setup_includes" ] && cmp -s "$here/packages" "$here/.venv/packages.$setup_kind" 2>/dev/null && return 0
    done
    return 1
}

# Check whether the tools of a line of `packages` are installed.
setup_has() {
    case $1 in
        py:*) "${SWAPSTONE_PYTHON:-python3}" -c "import ${1#py:}" >/dev/null 2>&1 ;;
        rust:*) setup_rust "${1#rust:}" ;;
        */*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Check whether rustc has at least a version, such as 1.91.
setup_rust() {
    setup_version=$(rustc --version 2>/dev/null) || return 1
    setup_version=${setup_version#rustc }
    setup_minor=${setup_version#*.}
    [ "${setup_version%%.*}" -gt "${1%%.*}" ] 2>/dev/null && return 0
    [ "${setup_version%%.*}" = "${1%%.*}" ] && [ "${setup_minor%%.*}" -ge "${1#*.}" ] 2>/dev/null
}

# Set setup_missing to the packages whose probe fails.
setup_find_missing() {
    setup_missing=
    while read -r setup_when setup_package setup_probe _; do
        case $setup_what:$setup_when in
            *:python | run:run | test:run | test:vm | test:server | test:test) ;;
            *) continue ;;
        esac
        setup_has "$setup_probe" || setup_missing="$setup_missing $setup_package"
    done <"$here/packages"
    setup_missing=${setup_missing# }
}

# Replace alternatives (A|B) in setup_missing by the first that the package lists contain, or by the last.
setup_choose() {
    setup_chosen=
    for setup_package in $setup_missing; do
        while [ "$setup_package" != "${setup_package#*|}" ]; do
            [ -n "$(apt-cache madison "${setup_package%%|*}" 2>/dev/null)" ] && break
            setup_package=${setup_package#*|}
        done
        setup_chosen="$setup_chosen ${setup_package%%|*}"
    done
    setup_missing=${setup_chosen# }
}

setup_packages() {
    setup_find_missing
    [ -z "$setup_missing" ] && return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Missing on this machine, which has no apt-get: what Debian calls $setup_missing. Install your system's packages for it." >&2
        exit 2
    fi
    if [ "$(id -u)" = 0 ]; then
        setup_sudo=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        setup_sudo="sudo -n"
    else
        setup_choose
        echo "Some Debian packages are missing. Type this, then the same command again:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $setup_missing" >&2
        exit 2
    fi
    # Update the package list first: it may be empty or outdated.
    setup_apt update -qq
    setup_choose
    echo "Installing Debian packages${setup_sudo:+ through sudo}: $setup_missing" >&2
    setup_apt install -y -qq --no-install-recommends $setup_missing
    setup_find_missing
    for setup_package in $setup_missing; do
        echo "warning: this distribution's $setup_package is not sufficient; what needs it is unavailable:" >&2
        grep -F -- " $setup_package " "$here/packages" >&2
    done
    return 0
}

# Run apt-get with root's rights; print its output if it fails, and exit.
setup_apt() {
    setup_log=${TMPDIR:-/tmp}/swapstone-apt.$$
    if ! $setup_sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$setup_log" 2>&1; then
        tail -n 15 "$setup_log" >&2
        rm -f "$setup_log"
        echo "apt-get failed. Try: ${setup_sudo:+sudo }apt-get $*" >&2
        exit 2
    fi
    rm -f "$setup_log"
}

setup_venv() {
    setup_python=${SWAPSTONE_PYTHON:-python3}
    if ! "$setup_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "Swapstone needs Python 3.11 or newer; $setup_python is not. Name another with SWAPSTONE_PYTHON=/path/to/python3." >&2
        exit 2
    fi
    # An incomplete venv, or one whose Python was removed, is created again.
    if ! "$here/.venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
        echo "Making $here/.venv" >&2
        rm -rf "$here/.venv"
        "$setup_python" -m venv "$here/.venv" || exit 2
    fi
    echo "Installing the Python packages of $(basename "$setup_lock")" >&2
    if ! "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
        --require-hashes -r "$setup_lock" >&2; then
        echo "pip could not install the locked packages; its words are above. A network is needed once." >&2
        exit 2
    fi
    cp "$setup_lock" "$here/.venv/lock.$setup_python_set"
    [ "$setup_what" = test ] && cp "$here/requirements.lock" "$here/.venv/lock.run"
    return 0
}
