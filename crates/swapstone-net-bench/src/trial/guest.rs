// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server on a machine without an operating system: the program of `swapstone-net-guest`, booted
//! by QEMU on the TAP of the trial.
//!
//! `-icount` makes the machine's counter count instructions: the guest reports how many it executed
//! from the start of the client to its end. What it prints is untrusted: a line that is missing,
//! damaged or too long fails the trial.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swapstone_net_tap::SYSTEM_PATH;

const QEMU: &str = "qemu-system-riscv64";
/// As crates/swapstone-net-guest/virt.ld has it.
const MEMORY: &str = "256M";
/// One nanosecond of the machine's time for each instruction; idle time passes as on the host.
const COUNTED: &str = "shift=0,sleep=on";
/// The file beside this program.
const FILE: &str = "guest";
const READY: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(10);
/// How long the rest of a message is awaited.
const REST: Duration = Duration::from_millis(300);
const LONGEST_LINE: usize = 4096;
const LONGEST_MESSAGE: usize = 300;
/// Lines that wait to be read; then the machine waits.
const LINES: usize = 16;
const LONGEST_WORD: usize = 64;
const MOST_WORDS: usize = 64;
/// Instructions are numbers that a float represents exactly.
const MOST: u64 = 1 << 53;

/// A running machine. It is killed when its owner is dropped, or dies.
pub struct Guest {
    machine: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
    ready: Value,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

impl Guest {
    /// Boots the machine with a stack, and waits until its server is ready. `program` is that of the
    /// guest; without one it is the file `guest` beside this program.
    pub fn boot(stack: &str, tap: &str, program: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let program = match program {
            Some(path) => PathBuf::from(path),
            None => std::env::current_exe()?.with_file_name(FILE),
        };
        if !program.is_file() {
            return Err(format!(
                "unavailable: the guest {} does not exist; --guest names another file",
                program.display()
            )
            .into());
        }
        let mut command = Command::new(QEMU);
        command
            .args([
                "-M", "virt", "-smp", "1", "-m", MEMORY, "-bios", "none", "-kernel",
            ])
            .arg(program)
            .args(["-append", &format!("stack={stack}"), "-icount", COUNTED])
            .args([
                "-display",
                "none",
                "-monitor",
                "none",
                "-serial",
                "stdio",
                "-no-reboot",
            ])
            .args([
                "-global",
                "virtio-mmio.force-legacy=false",
                "-device",
                "virtio-rng-device",
            ])
            .args([
                "-netdev",
                &format!("tap,id=net,ifname={tap},script=no,downscript=no"),
            ])
            .args(["-device", "virtio-net-device,netdev=net"]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        command
            .env_clear()
            .env("PATH", SYSTEM_PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let parent = std::process::id();
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // The parent may have ended before.
                if u32::try_from(libc::getppid()) != Ok(parent) {
                    return Err(std::io::ErrorKind::NotFound.into());
                }
                Ok(())
            });
        }
        let mut machine = command.spawn().map_err(|error| {
            format!("{QEMU} can't be started: {error}; Debian's qemu-system-misc has it")
        })?;
        let pipes = machine.stdin.take().zip(machine.stdout.take());
        let (input, output) = pipes.ok_or("the guest has no serial line")?;
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || split(output, &sender));
        let mut guest = Self {
            machine,
            input,
            lines,
            ready: Value::Null,
        };
        guest.ready = guest.line("ready", READY)?;
        checked(&guest.ready, &json!({}))?;
        Ok(guest)
    }

    /// Returns the process of the emulator.
    pub fn id(&self) -> u32 {
        self.machine.id()
    }

    /// Returns whether the machine has ended, which it must not before [`Guest::stop`].
    pub fn ended(&mut self) -> bool {
        !matches!(self.machine.try_wait(), Ok(None))
    }

    /// Begins the count of instructions.
    pub fn begin(&mut self) -> Result<(), Box<dyn Error>> {
        self.send(b'b')?;
        self.line("begin", ANSWER)?;
        Ok(())
    }

    /// Ends the machine; returns what it reports, in the form of a server's last line.
    pub fn stop(&mut self) -> Result<Value, Box<dyn Error>> {
        self.send(b'q')?;
        let end = self.line("end", ANSWER)?;
        let limit = Instant::now() + ANSWER;
        while !self.ended() {
            if Instant::now() > limit {
                return Err("the guest does not switch its machine off".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.machine.wait()?;
        if !status.success() {
            return Err(format!("the guest ended in disorder: {status}").into());
        }
        Ok(checked(&self.ready, &end)?)
    }

    /// Sends a byte. If the machine has ended, the missing answer tells it.
    fn send(&mut self, byte: u8) -> Result<(), Box<dyn Error>> {
        match self.input.write_all(&[byte]) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits for the next line, which must be that of an event.
    fn line(&self, event: &str, within: Duration) -> Result<Value, String> {
        let line = match self.lines.recv_timeout(within) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!(
                    "the guest printed no line {event:?} within {} s",
                    within.as_secs()
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("the guest ended without its line {event:?}"));
            }
        };
        match serde_json::from_slice::<Value>(&line) {
            Ok(value) if value["event"] == event => Ok(value),
            _ => Err(format!(
                "the guest printed no line {event:?}, but: {}",
                self.message(line)
            )),
        }
    }

    /// Returns why the guest ended, for a client that was stopped for that.
    pub fn last_words(&self) -> String {
        match self.lines.recv_timeout(REST) {
            Ok(line) => format!("the guest ended: {}", self.message(line)),
            Err(_) => "the guest ended without a message".into(),
        }
    }

    /// Returns a line and those that follow, as printable text.
    fn message(&self, mut text: Vec<u8>) -> String {
        while text.len() < LONGEST_MESSAGE {
            let Ok(line) = self.lines.recv_timeout(REST) else {
                break;
            };
            text.push(b' ');
            text.extend(line);
        }
        printable(&text)
    }
}

fn printable(text: &[u8]) -> String {
    let shown = text.iter().take(LONGEST_MESSAGE).map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    });
    let shown: String = shown.collect();
    let words: Vec<&str> = shown.split_whitespace().collect();
    words.join(" ")
}

/// Sends the lines of an output, without their ends. A line that is too long is cut.
fn split(mut output: impl Read, lines: &SyncSender<Vec<u8>>) {
    let (mut buffer, mut line) = ([0; 512], Vec::new());
    loop {
        let size = match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => size,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in &buffer[..size] {
            if byte == b'\n' || line.len() == LONGEST_LINE {
                if lines.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            } else if byte != b'\r' {
                line.push(byte);
            }
        }
    }
    if !line.is_empty() {
        let _ = lines.send(line);
    }
}

/// Returns what the guest reports in the form of a server's last line. `end` is empty while it runs.
///
/// # Errors
///
/// A field is missing, or has another form than the guest's.
fn checked(ready: &Value, end: &Value) -> Result<Value, String> {
    let stack = word(&ready["stack"], "stack")?;
    let mut served = json!({
        "capabilities": {
            "name": stack,
            "version": word(&ready["version"], "version")?,
            "congestion_control": word(&ready["congestion_control"], "congestion_control")?,
        },
        "settings": {
            "receive_buffer": number(ready, "receive_buffer")?,
            "send_buffer": number(ready, "send_buffer")?,
            "mtu": number(ready, "mtu")?,
            "offload": false,
        },
        "device": {
            "fixes": words(ready, "fixes")?,
            "options": words(ready, "options")?,
        },
    });
    if end.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(served);
    }
    if word(&end["stack"], "stack")? != stack {
        return Err("the guest reports two stacks".into());
    }
    for field in ["requests", "failed", "instructions"] {
        served[field] = number(end, field)?.into();
    }
    if served["failed"] != 0 {
        let why = end["first_failure"].as_str().unwrap_or_default();
        served["first_failure"] = printable(why.as_bytes()).into();
    }
    Ok(served)
}

fn word<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    let fits = |text: &&str| {
        (1..=LONGEST_WORD).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._=".contains(&byte))
    };
    let found = value.as_str().filter(fits);
    found.ok_or_else(|| format!("the guest does not report its {field}"))
}

fn words(line: &Value, field: &str) -> Result<Vec<String>, String> {
    let all = line[field].as_array().filter(|all| all.len() <= MOST_WORDS);
    let all = all.ok_or_else(|| format!("the guest does not report its {field}"))?;
    all.iter()
        .map(|each| word(each, field).map(str::to_owned))
        .collect()
}

fn number(line: &Value, field: &str) -> Result<u64, String> {
    let found = line[field].as_u64().filter(|number| *number <= MOST);
    found.ok_or_else(|| format!("the guest does not report {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{"event": "ready", "stack": "lwip", "version": "2.2.1", "congestion_control": "newreno", "fixes": ["least-mss"], "options": ["ooseq=1"], "receive_buffer": 65536, "send_buffer": 65536, "mtu": 1500}"#;
    const LAST: &str = r#"{"event": "end", "stack": "lwip", "requests": 2000, "failed": 0, "first_failure": "", "instructions": 80000000}"#;

    /// Starts a shell instead of a machine.
    fn shell(script: &str) -> Result<Guest, Box<dyn Error>> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Guest::start(command)
    }

    fn refused(script: &str) -> String {
        shell(script).err().expect("it is refused").to_string()
    }

    #[test]
    fn a_guest_reports_its_stack_and_its_instructions() {
        let script = format!(
            "echo '{FIRST}'; head -c 1 >/dev/null; echo '{{\"event\": \"begin\"}}'; head -c 1 >/dev/null; echo '{LAST}'"
        );
        let mut guest = shell(&script).unwrap();
        assert!(!guest.ended());
        guest.begin().unwrap();
        let served = guest.stop().unwrap();
        assert_eq!(served["capabilities"]["name"], "lwip");
        assert_eq!(served["device"]["fixes"], json!(["least-mss"]));
        assert_eq!(served["device"]["options"], json!(["ooseq=1"]));
        assert_eq!(served["instructions"], 80_000_000);
        assert_eq!(served["failed"], 0);
    }

    #[test]
    fn a_panic_is_a_message_without_control_characters() {
        let found = refused(
            "printf 'swapstone-net-guest: panicked at src/a.rs:1:\\r\\nno \\033[31mroom\\n'; exit 1",
        );
        assert_eq!(
            found,
            "the guest printed no line \"ready\", but: swapstone-net-guest: panicked at src/a.rs:1: no ?[31mroom"
        );
        let mut guest = shell(&format!("echo '{FIRST}'; echo 'panicked'; exit 1")).unwrap();
        while !guest.ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(guest.last_words(), "the guest ended: panicked");
    }

    #[test]
    fn damaged_output_is_refused() {
        assert_eq!(
            refused("exit 0"),
            "the guest ended without its line \"ready\""
        );
        let long = refused("head -c 100000 /dev/zero; exit 1");
        assert!(long.len() < 400, "{long}");
        let flood = refused("yes x");
        assert!(flood.len() < 400, "{flood}");
        let cut = refused(&format!("echo '{}'", &FIRST[..60]));
        assert!(
            cut.starts_with("the guest printed no line \"ready\""),
            "{cut}"
        );
        let other = refused(&format!("echo '{}'", FIRST.replace("lwip", "l wip")));
        assert_eq!(other, "the guest does not report its stack");
        let none = refused(&format!("echo '{}'", FIRST.replace("fixes", "x")));
        assert_eq!(none, "the guest does not report its fixes");
    }

    #[test]
    fn an_end_of_another_form_is_refused() {
        let of = |text: &str| {
            checked(
                &serde_json::from_str(FIRST).unwrap(),
                &serde_json::from_str(text).unwrap(),
            )
        };
        assert!(of(LAST).is_ok());
        for (from, to, why) in [
            ("lwip", "smoltcp", "the guest reports two stacks"),
            ("80000000", "-1", "the guest does not report instructions"),
            (
                "80000000",
                "1e300",
                "the guest does not report instructions",
            ),
            ("2000", "\"2000\"", "the guest does not report requests"),
        ] {
            assert_eq!(of(&LAST.replace(from, to)).unwrap_err(), why);
        }
        assert_eq!(
            checked(&json!([]), &json!(3)).unwrap_err(),
            "the guest does not report its stack"
        );
        let failed = LAST
            .replace("\"failed\": 0", "\"failed\": 2")
            .replace("\"\"", "\"a\\u001bb\"");
        assert_eq!(of(&failed).unwrap()["first_failure"], "a?b");
    }

    #[test]
    fn damaged_lines_are_refused_or_accepted_without_a_panic() {
        // xorshift (Marsaglia, 2003)
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as usize
        };
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let values = [FIRST, LAST].map(|text| {
                let mut line = text.as_bytes().to_vec();
                for _ in 0..below(4) {
                    let (at, other) = (below(line.len()), below(line.len()));
                    match below(3) {
                        0 => line[at] = below(256) as u8,
                        1 => drop(line.remove(at)),
                        _ => line.insert(at, line[other]),
                    }
                }
                serde_json::from_slice::<Value>(&line)
            });
            let [Ok(first), Ok(last)] = values else {
                continue;
            };
            match checked(&first, &last) {
                Ok(served) => {
                    accepted += 1;
                    let text = served.to_string();
                    assert!(
                        text.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                        "{text}"
                    );
                }
                Err(why) => {
                    refused += 1;
                    assert!(why.starts_with("the guest "), "{why}");
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} and {refused}");
    }

    #[test]
    fn a_guest_that_fails_at_its_end_is_refused() {
        let script = format!("echo '{FIRST}'; head -c 1 >/dev/null; echo '{LAST}'; exit 3");
        let error = shell(&script).unwrap().stop().unwrap_err().to_string();
        assert_eq!(error, "the guest ended in disorder: exit status: 3");
    }
}
