//! The source's archive: from the cache, or else through the machine's own apt-get, into folders of our own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::sha256;

const NEXT: &str = "A network is needed once, and apt-get: what was fetched is kept. Or set LWIP_DIR to a folder of lwIP 2.2.1.";

/// What `source.toml` says.
pub struct Source {
    package: String,
    suite: String,
    version: String,
    file: String,
    sha256: String,
}

impl Source {
    /// Read it: lines of the form `name = "value"`.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let field = |name: &str| {
            text.lines()
                .filter_map(|line| line.split_once('='))
                .find(|(left, _)| left.trim() == name)
                .map(|(_, right)| right.trim().trim_matches('"').to_string())
                .ok_or(format!("{} has no {name}", path.display()))
        };
        Ok(Self {
            package: field("package")?,
            suite: field("suite")?,
            version: field("version")?,
            file: field("file")?,
            sha256: field("sha256")?,
        })
    }

    /// What tells one version's unpacked folder from another's.
    pub fn digest(&self) -> &str {
        &self.sha256
    }
}

/// The archive, whose digest is right. Two builds at once are safe: each fetches for itself and renames what it has verified.
pub fn archive(source: &Source) -> Result<PathBuf, String> {
    let home = cache()?.join("swapstone/sources");
    let kept = home.join(format!("{}-{}", &source.sha256[..16], source.file));
    if !kept.is_file() {
        let work = home.join(format!(".fetching-lwip-{}", std::process::id()));
        fs::create_dir_all(&work).map_err(|error| {
            format!(
                "{} can't be written: {error}. Set XDG_CACHE_HOME to a folder that you can write.",
                work.display()
            )
        })?;
        let result = fetch(source, &work).and_then(|fetched| {
            verify(&fetched, source)?;
            fs::rename(&fetched, &kept).map_err(|error| format!("{}: {error}", kept.display()))
        });
        let _ = fs::remove_dir_all(&work);
        result?;
    }
    verify(&kept, source)?;
    Ok(kept)
}

fn cache() -> Result<PathBuf, String> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or_else(|| {
            "There is no HOME. Set XDG_CACHE_HOME to a folder that you can write.".into()
        })
}

fn verify(path: &Path, source: &Source) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = sha256::hex(&bytes);
    if found == source.sha256 {
        return Ok(());
    }
    Err(format!(
        "{} is not the archive that source.toml names: its SHA-256 is {found}, not {}. Remove it and build again. Don't use it.",
        path.display(),
        source.sha256
    ))
}

/// Ask the archives that this machine has its own packages from. Their mirrors carry other releases of the distribution too.
fn fetch(source: &Source, work: &Path) -> Result<PathBuf, String> {
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(folder))
            .map_err(|error| format!("{}: {error}", work.display()))?;
    }
    let at = work.display();
    // The digest in source.toml vouches for the archive, so a machine that is too old to know the release's keys may still fetch it.
    let configuration = format!(
        "Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\nDir::State::status \"/dev/null\";\nDir::Cache \"{at}/cache\";\n\
         Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"-\";\nAcquire::Languages \"none\";\n\
         Acquire::Retries \"2\";\nAPT::Sandbox::User \"\";\n#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n"
    );
    let settings = work.join("apt.conf");
    fs::write(&settings, configuration)
        .map_err(|error| format!("{}: {error}", settings.display()))?;
    let listed = run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(CREATED_BY) $(COMPONENT) $(REPO_URI)",
    ]))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mirrors: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("Packages main "))
        .collect();
    let mut said = String::from("apt-get knows no archive of packages");
    for mirror in mirrors {
        let line = format!("deb-src [trusted=yes] {mirror} {} main\n", source.suite);
        fs::write(work.join("sources.list"), line).map_err(|error| error.to_string())?;
        let apt = |arguments: &[&str]| {
            run(Command::new("apt-get")
                .arg("-qq")
                .arg("-c")
                .arg(&settings)
                .args(arguments)
                .current_dir(work))
        };
        let updated = apt(&["update"])?;
        let wanted = format!("{}={}", source.package, source.version);
        let mut fetched = apt(&[
            "source",
            "--download-only",
            "--tar-only",
            "--only-source",
            &wanted,
        ])?;
        if !work.join(&source.file).is_file() {
            // A later revision of the package has the same archive.
            fetched = apt(&[
                "source",
                "--download-only",
                "--tar-only",
                "--only-source",
                &source.package,
            ])?;
        }
        if work.join(&source.file).is_file() {
            return Ok(work.join(&source.file));
        }
        said = last_words(if updated.status.success() {
            &fetched
        } else {
            &updated
        });
    }
    Err(format!(
        "apt-get can't fetch the sources {}: {said}. {NEXT}",
        source.file
    ))
}

/// Unpack an archive; returns the one folder that is in it.
pub fn unpack(archive: &Path, folder: &Path) -> Result<PathBuf, String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let result = run(Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(folder))?;
    if !result.status.success() {
        return Err(format!(
            "tar can't unpack {}: {}. On Debian: apt-get install tar xz-utils",
            archive.display(),
            last_words(&result)
        ));
    }
    let mut found = fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path());
    found
        .find(|path| path.is_dir())
        .ok_or_else(|| format!("{} holds no folder", archive.display()))
}

fn run(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} can't be run: {error}. {NEXT}"))
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .rfind(|line| line.starts_with("E:"))
        .or_else(|| lines().next_back())
        .unwrap_or("it said nothing")
        .to_string()
}
