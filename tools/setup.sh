# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by ./swapstone and ./test: makes .venv from a lock file and installs missing Debian packages.
# Needs: $here, the repository's top. Call: setup python|run|test, each of which includes the one before; or setup_these PROGRAM...
# Prints its steps on standard error, and each command before it runs as root; exits with 2 if the user must do something.
# Every Python starts with -I or -P: otherwise a click.py in the current folder would run instead of the installed module.

# Without the entries of PATH that are relative or empty: a program of the current folder would run instead of the installed one.
setup_path='' setup_rest=$PATH:
while [ -n "$setup_rest" ]; do
    case $setup_rest in /*) setup_path=$setup_path:${setup_rest%%:*} ;; esac
    setup_rest=${setup_rest#*:}
done
PATH=${setup_path#:}

setup() {
    setup_what=$1
    if [ "$setup_what" = test ]; then setup_python_set=test; else setup_python_set=run; fi
    if [ "$setup_what" = test ]; then setup_lock=$here/requirements-dev.lock; else setup_lock=$here/requirements.lock; fi
    # Nothing to do for a list that is the one of the last successful set-up.
    if setup_packages_done && setup_venv_done; then return 0; fi
    setup_begin_alone
    setup_done=
    if ! setup_packages_done; then setup_packages && setup_done=1; fi
    if ! setup_venv_done; then setup_venv && setup_done=1; fi
    if [ -n "$setup_done" ]; then
        cp "$here/packages" "$here/.venv/packages.$setup_what"
        echo "Set-up done." >&2
    fi
    exec 9>&-
}

# Replace this shell by the Python of .venv, with the modules of this checkout: start_python FILE|-m MODULE [ARGUMENT...].
# Modules in the current folder, and those that the user's PYTHON* variables name, are not found.
start_python() {
    unset PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONPLATLIBDIR PYTHONUSERBASE
    export PYTHONPATH="$here/src:$here"
    exec "$here/.venv/bin/python" -P "$@"
}

# Wait until no other process sets up this checkout. File 9 holds the lock until it is closed; no child inherits it.
setup_begin_alone() {
    if ! (: >>"$here/.venv.lock") 2>/dev/null; then
        echo "$here can't be written, and its .venv is not up to date. Run the same command once as the owner of that folder." >&2
        exit 2
    fi
    exec 9>>"$here/.venv.lock"
    command -v flock >/dev/null 2>&1 || return 0
    setup_status=0
    flock -n 9 2>/dev/null || setup_status=$?
    [ "$setup_status" = 1 ] || return 0 # locked; any other status: this file system has no locks
    echo "Another process sets up $here; waiting for it." >&2
    flock 9 || true
}

setup_venv_done() { cmp -s "$setup_lock" "$here/.venv/lock.$setup_python_set" 2>/dev/null; }

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
        py:*) "${SWAPSTONE_PYTHON:-python3}" -I -c "import ${1#py:}" >/dev/null 2>&1 ;;
        rust-source) setup_rust_source ;;
        */*) for setup_file in $1; do [ -e "$setup_file" ] && return 0; done; return 1 ;; # a pattern
        *:*) setup_lowest "${1%%:*}" "${1#*:}" ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Check whether a command has at least a version, such as 1.91.
setup_lowest() {
    setup_version=$("$1" --version 2>/dev/null) || return 1
    setup_version=${setup_version#"$1 "}
    setup_minor=${setup_version#*.}
    [ "${setup_version%%.*}" -gt "${2%%.*}" ] 2>/dev/null && return 0
    [ "${setup_version%%.*}" = "${2%%.*}" ] && [ "${setup_minor%%.*}" -ge "${2#*.}" ] 2>/dev/null
}

# Whether Debian's Rust has its source. A Rust of rustup would not find that of the package: `rustup component add rust-src`.
setup_rust_source() {
    setup_sysroot=$(rustc --print sysroot 2>/dev/null) || return 1
    [ "$setup_sysroot" != /usr ] || [ -e /usr/lib/rustlib/src/rust/library/Cargo.lock ]
}

# Set setup_missing to the packages whose probe fails, and setup_reasons to a line about each.
setup_find_missing() {
    setup_missing='' setup_reasons=''
    while read -r setup_when setup_package setup_probe setup_why; do
        case $setup_what:$setup_when in
            *:"#"* | *:) continue ;;
            programs:*) case " $setup_programs " in *" ${setup_probe%%:*} "*) ;; *) continue ;; esac ;;
            *:python | run:run | test:run | test:use | test:test) ;;
            *) continue ;;
        esac
        setup_has "$setup_probe" && continue
        setup_missing="$setup_missing $setup_package"
        setup_reasons="$setup_reasons    $setup_package: $setup_why
"
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
    printf 'Debian packages are missing:\n%s' "$setup_reasons" >&2
    setup_sudo=''
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null 2>&1; then
            echo "Installing them needs root. Running, to see whether sudo works without a password: sudo -n true" >&2
            sudo -n true 2>/dev/null && setup_sudo="sudo -n"
        fi
        if [ -z "$setup_sudo" ]; then
            setup_choose
            echo "Type this, then the same command again:" >&2
            echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $setup_missing" >&2
            exit 2
        fi
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

# Install the packages of programs, which have the names of their probes without a version: setup_these PROGRAM... It exits if one is
# still missing.
setup_these() {
    setup_what=programs setup_programs=$*
    setup_packages
    [ -z "$setup_missing" ] || exit 2
}

setup_apt_wait_s=300

# Print an apt-get command and run it with root's rights; print its output if it fails, and exit.
# apt-get waits for dpkg's lock by itself, but not for the lock of the package lists.
setup_apt() {
    set -- env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o "DPkg::Lock::Timeout=$setup_apt_wait_s" "$@"
    echo "Running: ${setup_sudo:+$setup_sudo }$*" >&2
    setup_end=$(($(date +%s) + setup_apt_wait_s)) setup_waits=''
    while ! setup_output=$($setup_sudo "$@" 2>&1 9>&-); do
        case $setup_output in
            *"Could not get lock"* | *"Unable to lock"*) [ "$(date +%s)" -lt "$setup_end" ] && setup_wait && continue ;;
        esac
        printf '%s\n' "$setup_output" | tail -n 15 >&2
        echo "apt-get failed. Try: ${setup_sudo:+sudo }$*" >&2
        exit 2
    done
}

setup_wait() {
    [ -n "$setup_waits" ] || echo "Another program holds apt's lock; waiting for up to $setup_apt_wait_s s." >&2
    setup_waits=1
    sleep 1
}

setup_venv() {
    setup_python=${SWAPSTONE_PYTHON:-python3}
    if ! "$setup_python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "Swapstone needs Python 3.11 or newer; $setup_python is not. Name another with SWAPSTONE_PYTHON=/path/to/python3." >&2
        exit 2
    fi
    # An incomplete venv, or one whose Python was removed, is created again.
    if ! "$here/.venv/bin/python" -I -c 'import pip' >/dev/null 2>&1; then
        echo "Making $here/.venv" >&2
        rm -rf "$here/.venv"
        "$setup_python" -I -m venv "$here/.venv" 9>&- || exit 2
    fi
    echo "Installing the Python packages of $(basename "$setup_lock")" >&2
    if ! "$here/.venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
        --only-binary :all: --require-hashes -r "$setup_lock" >&2 9>&-; then
        echo "pip could not install the locked packages; its words are above. A network is needed once." >&2
        exit 2
    fi
    # pip compiles modules one after another. Some packages have test data that can't be compiled.
    "$here/.venv/bin/python" -I -m compileall -qq -j 0 "$here/.venv/lib" 9>&- || true
    cp "$setup_lock" "$here/.venv/lock.$setup_python_set"
    [ "$setup_what" = test ] && cp "$here/requirements.lock" "$here/.venv/lock.run"
    return 0
}
