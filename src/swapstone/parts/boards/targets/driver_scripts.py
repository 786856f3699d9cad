# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shell scripts that run on the machine of the load generators. Each is POSIX sh, and needs the programs of `NEEDED`.

No text of a user is a part of a command that a shell reads. Words of a load generator are written in octal, three digits a byte after a
``w``. What the scripts print has the form of a board's answers: see `swapstone.parts.boards.targets.board_answer`.
"""

from __future__ import annotations

NEEDED = ("sha256sum", "setsid", "env", "sed", "tr", "head", "sleep", "rm", "cat", "chmod", "readlink")
"""Programs that the scripts use; those of busybox do."""

_DECODE = r"""
count=$#
while [ "$count" -gt 0 ]; do
    word=$(printf '%b' "$(printf '%s' "${1#w}" | sed 's/.../\\0&/g')x")
    shift
    set -- "$@" "${word%x}"
    count=$((count - 1))
done
"""

_PART = r"""
part() { printf '\n%s %s\n' '@WORD@' "$1"; }
"""

RUN = rf"""# run DIGEST SECONDS WORD...: execute a load generator until it ends, or the connection or the time does
digest=$1 seconds=$2
shift 2
{_DECODE}
sum=$(sha256sum <"$1") || exit 97
if [ "${{sum%% *}}" != "$digest" ]; then
    echo "swapstone: the file of the load generator has changed" >&2
    exit 97
fi
exec 3<&0 </dev/null
env -i PATH="$PATH" LC_ALL=C setsid "$@" 3<&- &
driver=$!
stop() {{ kill -s KILL -- "-$driver"; kill -s KILL "$driver"; }}
(
    exec >/dev/null 2>&1
    while read -r _ <&3; do :; done
    stop
) &
watch=$!
(
    exec >/dev/null 2>&1 3<&-
    trap 'kill "$nap"; exit' TERM
    sleep "$seconds" &
    nap=$!
    wait "$nap"
    stop
) &
clock=$!
exec 3<&-
wait "$driver"
status=$?
{{ kill -s KILL -- "-$driver"; kill -s KILL "$watch"; kill -s TERM "$clock"; }} 2>/dev/null
exit "$status"
"""

FIND = rf"""# find WORD: print the path of a program and the SHA-256 of its file
{_DECODE}
{_PART}
path=$(command -v -- "$1") && path=$(readlink -f -- "$path") && [ -f "$path" ] && sum=$(sha256sum <"$path") && {{
    part path; printf '%s' "$path"
    part sha256; printf '%s' "${{sum%% *}}"
}}
part end
"""

TAKE = """# take DIGEST: store standard input as a program
umask 077
cat >"${0%/*}/driver-$1" && chmod 700 "${0%/*}/driver-$1"
"""

_KEEP = rf"""
umask 077
folder=@FOLDER@
mkdir "$folder" || exit 3
trap 'rm -rf "$folder"' EXIT
trap 'exit 3' HUP INT TERM
@FILES@
{_PART}
part kernel; uname -srv
part architecture; uname -m
part system; sed -n 's/^PRETTY_NAME="*\([^"]*\)"*$/\1/p' /etc/os-release
part cpu; sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1
part cpus; sed -n 's/^processor[^:]*: //p' /proc/cpuinfo | tr '\n' ' '
part memory; sed -n 's/^MemTotal: *//p' /proc/meminfo
part boot; cat /proc/sys/kernel/random/boot_id
part client; printf '%s' "${{SSH_CONNECTION%% *}}"
part missing
for program in {" ".join(NEEDED)}; do
    command -v "$program" >/dev/null || printf '%s ' "$program"
done
part end
"""


def keeper_script(folder: str, word: str) -> str:
    """Return the script of the session that lasts as long as the connection: it makes a folder, prints facts, and removes it at its end.

    Args:
        folder: absolute path, of letters, digits, ``/`` and ``-``.
        word: that begins the parts of the answers: random letters and digits.
    """
    files = "\n".join(
        f"cat >\"$folder/{name}\" <<'{name.upper()}_ENDS'\n{content}{name.upper()}_ENDS"
        for name, content in (("run", RUN), ("find", FIND), ("take", TAKE))
    )
    return _KEEP.replace("@FOLDER@", folder).replace("@FILES@", files).replace("@WORD@", word)


def octal(word: str) -> str:
    """Return a word as an argument of `RUN` and `FIND`.

    Args:
        word: without zero bytes.
    """
    return "w" + "".join(f"{byte:03o}" for byte in word.encode(errors="surrogateescape"))
