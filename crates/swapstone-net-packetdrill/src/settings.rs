// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the kernel in a script's shell commands.
//!
//! No command is executed. A command line `sysctl -q net.ipv4.NAME=VALUE`, or one that gives a
//! program `set_sysctls.py` such arguments, is read as data; so are the lines of a file of shell
//! commands beside the script. Only the sysctls of `HARMLESS` are taken, for the network namespace
//! of the runner.

use std::io::Read;
use std::path::Path;

/// A sysctl below `net.ipv4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// One of `HARMLESS`.
    pub name: &'static str,
    /// What is written: numbers, words and blanks.
    pub value: String,
}

/// The sysctls that a script may set. Each is of one network namespace alone (`tcp(7)`).
const HARMLESS: &[&str] = &[
    "tcp_dsack",
    "tcp_early_retrans",
    "tcp_ecn",
    "tcp_ecn_option",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_frto",
    "tcp_min_tso_segs",
    "tcp_mtu_probing",
    "tcp_notsent_lowat",
    "tcp_pacing_ca_ratio",
    "tcp_pacing_ss_ratio",
    "tcp_recovery",
    "tcp_reordering",
    "tcp_retries2",
    "tcp_rmem",
    "tcp_sack",
    "tcp_slow_start_after_idle",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_syncookies",
    "tcp_timestamps",
    "tcp_tso_win_divisor",
    "tcp_window_scaling",
    "tcp_wmem",
];

/// The largest file of shell commands in bytes.
const LARGEST_FILE: u64 = 1 << 16;
/// The longest value.
const LONGEST_VALUE: usize = 80;

/// What a shell command contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// In the order of the text.
    pub sysctls: Vec<Sysctl>,
    /// How many lines say something else, which is left out.
    pub left_out: usize,
}

/// Reads a shell command.
///
/// # Arguments
///
/// * `folder`: of the script. A relative path of a file of shell commands begins there. Of that file
///   only sysctls are taken, and no further file is read.
pub fn commands(text: &str, folder: &Path) -> Commands {
    read(text, Some(folder))
}

fn read(text: &str, folder: Option<&Path>) -> Commands {
    let mut found = Commands::default();
    for line in text.replace("\\\n", " ").lines() {
        let (words, more) = words(line);
        found.left_out += usize::from(more);
        let Some((program, rest)) = words.split_first() else {
            continue;
        };
        let name = program.rsplit('/').next().unwrap_or("");
        let beside = folder.filter(|_| rest.is_empty() && program.contains('/'));
        if matches!(name, "sysctl" | "set_sysctls.py") {
            for word in rest.iter().filter(|word| !word.starts_with('-')) {
                match sysctl(word) {
                    Some(one) => found.sysctls.push(one),
                    None => found.left_out += 1,
                }
            }
        } else if let Some(file) = beside.and_then(|folder| content(folder, program)) {
            let inner = read(&file, None);
            found.sysctls.extend(inner.sysctls);
            found.left_out += inner.left_out;
        } else {
            found.left_out += 1;
        }
    }
    found
}

/// Returns the text of a file of shell commands; `None` if it is no small regular file `*.sh` at a
/// relative path. A link may stand there, if it leads to such a file.
fn content(folder: &Path, name: &str) -> Option<String> {
    if !name.ends_with(".sh") || Path::new(name).is_absolute() {
        return None;
    }
    let mut path = folder.join(name);
    if let Ok(target) = std::fs::read_link(&path) {
        if !target.to_str()?.ends_with(".sh") || target.is_absolute() {
            return None;
        }
        path = path.parent()?.join(target);
    }
    if !std::fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(LARGEST_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Splits the first simple command of a line into words: up to a redirection or a comment, with quoted
/// text, and products in `$((...))`, which are multiplied. Also returns whether a further command follows.
fn words(line: &str) -> (Vec<String>, bool) {
    let mut words = Vec::new();
    let mut more = false;
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(inner) = rest.strip_prefix("$((")
            && let Some((product, after)) = inner.split_once("))")
        {
            let mut factors = product
                .split('*')
                .map(|factor| factor.trim().parse::<u64>());
            let product = factors.try_fold(1u64, |all, factor| all.checked_mul(factor.ok()?));
            let text = product.map_or("?".into(), |number| number.to_string());
            word.get_or_insert_default().push_str(&text);
            rest = after;
            continue;
        }
        rest = &rest[first.len_utf8()..];
        match first {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ';' | '|' | '&' | '<' | '>' if !quoted => {
                more = !matches!(first, '<' | '>') && !rest.trim().is_empty();
                break;
            }
            '#' if !quoted && word.is_none() => break,
            blank if blank.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted {
        word.get_or_insert_default().push('"');
    }
    words.extend(word);
    (words, more)
}

/// Decodes `net.ipv4.NAME=VALUE`, also with slashes and below `/proc/sys`.
fn sysctl(word: &str) -> Option<Sysctl> {
    let (key, value) = word.split_once('=')?;
    let key = key
        .strip_prefix("/proc/sys/")
        .unwrap_or(key)
        .replace('/', ".");
    let key = key.strip_prefix("net.ipv4.")?;
    let name = HARMLESS.iter().find(|name| **name == key)?;
    let plain = |each: char| each.is_ascii_alphanumeric() || matches!(each, ' ' | '-' | ',');
    (value.len() <= LONGEST_VALUE && value.chars().all(plain)).then(|| Sysctl {
        name,
        value: value.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (Vec<String>, usize) {
        let found = commands(text, Path::new("/nowhere"));
        let shown = found
            .sysctls
            .iter()
            .map(|one| format!("{}={}", one.name, one.value));
        (shown.collect(), found.left_out)
    }

    #[test]
    fn sysctls_of_both_notations_are_read_and_nothing_else_is() {
        let text = "sysctl -q net.ipv4.tcp_ecn=2 net/ipv4/tcp_sack=0 > /dev/null\n\
                    ../common/set_sysctls.py \\\n /proc/sys/net/ipv4/tcp_fastopen=0x402\n";
        let all = ["tcp_ecn=2", "tcp_sack=0", "tcp_fastopen=0x402"];
        assert_eq!(taken(text), (all.map(String::from).to_vec(), 0));
        assert_eq!(
            taken("sysctl -q kernel.core_pattern=x; reboot"),
            (vec![], 2)
        );
        let one = vec!["tcp_ecn=1".into()];
        assert_eq!(taken("sysctl net.ipv4.tcp_ecn=1 && rm x"), (one.clone(), 1));
        assert_eq!(taken("sysctl net.ipv4.tcp_ecn=1 >/x 2>&1;"), (one, 0));
        assert_eq!(taken("sysctl net.ipv4.ip_forward=1"), (vec![], 1));
        assert_eq!(taken("sysctl net.ipv4.../../kernel/tainted=1"), (vec![], 1));
        assert_eq!(taken("sysctl \"net.ipv4.tcp_ecn=1\n2\""), (vec![], 2));
        assert_eq!(taken("rm -rf /\n/etc/passwd\n# sysctl\n"), (vec![], 2));
    }

    #[test]
    fn values_are_quoted_texts_and_products() {
        let text = "sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"";
        assert_eq!(taken(text).0, ["tcp_rmem=4096 540000 15728640"]);
        assert_eq!(taken("sysctl net.ipv4.tcp_wmem=$((1+1))"), (vec![], 1));
        let large = "sysctl net.ipv4.tcp_wmem=$((99999999999*99999999999))";
        assert_eq!(taken(large), (vec![], 1));
        let long = format!("sysctl net.ipv4.tcp_wmem={}", "9".repeat(81));
        assert_eq!(taken(&long), (vec![], 1));
    }

    #[test]
    fn a_file_beside_the_script_is_read_once_and_through_one_relative_link() {
        let folder = std::env::temp_dir().join(format!("settings-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in")).unwrap();
        let text = "sysctl -q net.ipv4.tcp_sack=0\n./all.sh\n";
        std::fs::write(folder.join("all.sh"), text).unwrap();
        std::fs::write(folder.join("secret"), text).unwrap();
        let link =
            |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        link("all.sh", "link.sh");
        link("link.sh", "twice.sh");
        link("secret", "other.sh");
        link(folder.join("all.sh").to_str().unwrap(), "absolute.sh");
        let read = |text: &str| {
            let found = commands(text, &folder.join("in"));
            (found.sysctls.len(), found.left_out)
        };
        assert_eq!((read("../all.sh"), read("../link.sh")), ((1, 1), (1, 1)));
        for refused in [
            "../twice.sh",
            "../other.sh",
            "../absolute.sh",
            "../secret",
            "../in",
            "../none.sh",
        ] {
            assert_eq!(read(refused), (0, 1), "{refused}");
        }
        assert_eq!(read(folder.join("all.sh").to_str().unwrap()), (0, 1));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
