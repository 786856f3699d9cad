# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by ./swapstone and ./test: makes .venv from a lock file and installs missing Debian packages.
# Needs: $here, the repository's top. Call: setup run|test
# Prints its steps on standard error; exits with 2 if the user must do something.

setup() {
    setup_what=$1
    if [ "$setup_what" = run ]; then setup_lock=$here/requirements.lock; else setup_lock=$here/requirements-dev.lock; fi
    # Nothing to do if both lists are those of the last successful set-up. A test set-up includes that of a run.
    for setup_kind in run test; do
        [ "$setup_what" = test ] && [ "$setup_kind" = run ] && continue
        cmp -s "$here/packages" "$here/.venv/packages.$setup_kind" 2>/dev/null || continue
        cmp -s "$setup_lock" "$here/.venv/lock.$setup_what" 2>/dev/null && return 0
    done
    setup_packages
    setup_venv
    cp "$here/packages" "$here/.venv/packages.$setup_what"
    echo "Set-up done." >&2
}

# Check whether the tools of a line of `packages` are installed.
setup_has() {
    case $1 in
        py:*) "${SWAPSTONE_PYTHON:-python3}" -c "import ${1#py:}" >/dev/null 2>&1 ;;
        */*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

setup_packages() {
    setup_missing=
    while read -r setup_when setup_package setup_probe _; do
        case $setup_when in
            run) ;;
            vm | server | test) [ "$setup_what" = test ] || continue ;;
            *) continue ;;
        esac
        setup_has "$setup_probe" || setup_missing="$setup_missing $setup_package"
    done <"$here/packages"
    [ -z "$setup_missing" ] && return 0
    setup_missing=${setup_missing# }
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Missing on this machine, which has no apt-get: what Debian calls $setup_missing. Install your system's packages for it." >&2
        exit 2
    fi
    if [ "$(id -u)" = 0 ]; then
        setup_sudo=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        setup_sudo="sudo -n"
    else
        echo "Some Debian packages are missing. Type this, then the same command again:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $setup_missing" >&2
        exit 2
    fi
    echo "Installing Debian packages${setup_sudo:+ through sudo}: $setup_missing" >&2
    # Update the package list first: it may be empty or outdated.
    if ! { $setup_sudo apt-get update -qq &&
        $setup_sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $setup_missing; } \
        >"${TMPDIR:-/tmp}/swapstone-apt.$$" 2>&1; then
        tail -n 15 "${TMPDIR:-/tmp}/swapstone-apt.$$" >&2
        rm -f "${TMPDIR:-/tmp}/swapstone-apt.$$"
        echo "apt-get failed. Try: $setup_sudo apt-get install -y --no-install-recommends $setup_missing" >&2
        exit 2
    fi
    rm -f "${TMPDIR:-/tmp}/swapstone-apt.$$"
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
    cp "$setup_lock" "$here/.venv/lock.$setup_what"
    [ "$setup_what" = test ] && cp "$here/requirements.lock" "$here/.venv/lock.run"
    return 0
}
