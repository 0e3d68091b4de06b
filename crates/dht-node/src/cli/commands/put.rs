//! `put`: stores a file.

mod source;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dht_core::message::bulk::{MAX_CHUNK_LEN, MIN_CHUNK_LEN};
use dht_core::message::client::PutReport;
use dht_core::register::Key;

use super::{millis, with_client};
use crate::cli::args::{Globals, PutArgs};
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::json::{HexJson, PeerJson, PutJson};
use crate::cli::keys::{KeyJson, parse_key, show_key};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::units::{count, show_bytes};
use crate::client::{Client, PutOptions};
use source::{Source, unreadable};

/// Where the bytes come from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Input {
    Stdin,
    File(PathBuf),
}

pub(super) fn run(globals: &Globals, args: PutArgs, output: Output) -> Result<Exit, Failure> {
    refuse_what_is_not_built(&args)?;
    let (key, input) = key_and_input(&args.words, args.key_hex)?;
    let options = options(args)?;
    // A file that cannot be read is known before anybody is asked.
    if let Input::File(path) = &input {
        check_file(path)?;
    }
    with_client(globals, async |client| {
        let began = Instant::now();
        let report = store(client, &key, &options, &input, output).await?;
        let json = shape(&key, &report, millis(began.elapsed()));
        output.summary(&json, || for_people(&json, &key))?;
        Ok(Exit::Done)
    })
}

async fn store(
    client: &Client,
    key: &Key,
    options: &PutOptions,
    input: &Input,
    output: Output,
) -> Result<PutReport, Failure> {
    let progress = output.progress();
    progress.message("storing");
    match input {
        Input::Stdin => {
            let mut stdin = tokio::io::stdin();
            let told = |sent| progress.bytes(sent, None);
            Ok(client.put(key, options, &mut stdin, told).await?)
        }
        Input::File(path) => store_file(client, key, options, path, &progress).await,
    }
}

/// A file can be read again: should the member vanish half-way, one more attempt with the same
/// operation id goes to whoever answers then. What a pipe gave is gone.
async fn store_file(
    client: &Client,
    key: &Key,
    options: &PutOptions,
    path: &Path,
    progress: &Progress,
) -> Result<PutReport, Failure> {
    let mut first = None;
    loop {
        let mut file = Source::open(path, first).await?;
        let stamp = file.stamp();
        let told = |sent| progress.bytes(sent, stamp.map(|stamp| stamp.len));
        match client.put(key, options, &mut file, told).await {
            Err(error) if first.is_none() && stamp.is_some() && client.move_on(&error).await => {
                first = stamp;
            }
            outcome => return Ok(outcome?),
        }
    }
}

fn key_and_input(words: &[OsString], hex: bool) -> Result<(Key, Input), Failure> {
    let (key, file) = match words {
        [key, file] => (Some(key), file),
        [file] => (None, file),
        _ => return Err(Failure::usage("put takes a key and a file, or a file alone")),
    };
    let input = if file == "-" { Input::Stdin } else { Input::File(PathBuf::from(file)) };
    let text = match (key, &input) {
        (Some(key), _) => key.to_str(),
        (None, Input::Stdin) => {
            return Err(Failure::usage("stdin has no name; give a key: dht-node put KEY -"));
        }
        (None, Input::File(_)) if hex => {
            return Err(Failure::usage("--key-hex needs a key: dht-node put --key-hex KEY FILE"));
        }
        (None, Input::File(path)) => match path.file_name() {
            Some(name) => name.to_str(),
            None => {
                let text = format!("{} ends in no name; give a key", path.display());
                return Err(Failure::usage(text));
            }
        },
    };
    let text = text.ok_or_else(|| {
        Failure::usage("the key is no UTF-8 text; give its bytes with --key-hex KEY FILE")
    })?;
    let key = parse_key(text, hex).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((key, input))
}

fn options(args: PutArgs) -> Result<PutOptions, Failure> {
    let mut options = PutOptions::new();
    if args.content_type.as_deref() == Some("") {
        return Err(Failure::usage("--content-type is empty; leave it out, or name a MIME type"));
    }
    options.content_type = args.content_type;
    for (name, value) in args.meta {
        if let Some(other) = options.meta.insert(name.clone(), value) {
            let text =
                format!("--meta {name} is given twice, once as {other}; give each name once");
            return Err(Failure::usage(text));
        }
    }
    options.chunk_size = match args.chunk_size {
        None => None,
        Some(size) => match u32::try_from(size) {
            Ok(size) if (MIN_CHUNK_LEN..=MAX_CHUNK_LEN).contains(&size) => Some(size),
            _ => {
                let (least, most) = (MIN_CHUNK_LEN, MAX_CHUNK_LEN);
                let text = format!(
                    "--chunk-size is {size}, but must lie between {least} and {most} bytes"
                );
                return Err(Failure::usage(text));
            }
        },
    };
    Ok(options)
}

fn refuse_what_is_not_built(args: &PutArgs) -> Result<(), Failure> {
    let instead = "put replaces what is there, and keeps it";
    if args.if_absent {
        return Err(Failure::not_built("--if-absent", instead));
    }
    if args.if_match.is_some() {
        return Err(Failure::not_built("--if-match", instead));
    }
    if args.ttl.is_some() {
        return Err(Failure::not_built("--ttl", instead));
    }
    Ok(())
}

fn check_file(path: &Path) -> Result<(), Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        let text = format!(
            "{} is a directory; store it as one file: tar c DIR | dht-node put KEY -",
            path.display()
        );
        return Err(Failure::new(Kind::Io, text));
    }
    // Opening a pipe would wait for its writer, who would then see its reader go away.
    if metadata.is_file() {
        return std::fs::File::open(path).map(drop).map_err(|error| unreadable(path, &error));
    }
    Ok(())
}

fn shape(key: &Key, report: &PutReport, elapsed_ms: u64) -> PutJson {
    PutJson {
        key: KeyJson::of(key.as_bytes()),
        id: key.id(),
        size: report.size,
        hash: HexJson(report.hash),
        version: report.version.clone(),
        chunks: report.chunks,
        acks: report.acks,
        wanted: report.wanted,
        replicas: report.replicas.iter().map(PeerJson::of).collect(),
        hops: report.hops,
        elapsed_ms,
    }
}

fn for_people(json: &PutJson, key: &Key) -> String {
    // A put waits for a majority; that the others are still on their way is no loss.
    let copies = if json.acks >= json.wanted {
        format!("{} on disk", count(json.wanted.into(), "copy"))
    } else {
        format!("{} of {} copies on disk so far", json.acks, json.wanted)
    };
    format!(
        "stored {} as {}: {}, {copies}, {}, {} ms\n",
        show_bytes(json.size),
        show_key(key.as_bytes()),
        count(json.chunks, "chunk"),
        count(json.hops.into(), "hop"),
        json.elapsed_ms,
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn complaint(flags: &[&str]) -> String {
        let words = ["dht-node", "put", "k", "-"].iter().chain(flags);
        let Some(Command::Put(args)) = Cli::try_parse_from(words).expect("known flags").command
        else {
            panic!("put")
        };
        match options(args) {
            Err(Failure::Told { kind: Kind::Usage, message }) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_that_cannot_be_meant_are_refused() {
        assert!(complaint(&["--content-type", ""]).contains("--content-type"));
        assert!(complaint(&["--meta", "a=b", "--meta", "a=c"]).contains("--meta a is given twice"));
        for size in ["1", "9MiB", "1TiB"] {
            let said = complaint(&["--chunk-size", size]);
            assert!(said.contains("between 65536 and 8388608 bytes"), "{said}");
        }
    }

    fn read(words: &[&str], hex: bool) -> Result<(String, Input), Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let (key, input) = key_and_input(&words, hex)?;
        Ok((String::from_utf8_lossy(key.as_bytes()).into_owned(), input))
    }

    #[test]
    fn the_key_is_given_or_the_name_of_the_file() {
        let file = |path: &str| Input::File(PathBuf::from(path));
        let right = [
            (vec!["a/b.jpg"], false, "b.jpg", file("a/b.jpg")),
            (vec!["k", "a/b.jpg"], false, "k", file("a/b.jpg")),
            (vec!["k", "-"], false, "k", Input::Stdin),
            (vec!["6b", "-"], true, "k", Input::Stdin),
            (vec!["-", "-"], false, "-", Input::Stdin),
        ];
        for (words, hex, key, input) in right {
            assert_eq!(read(&words, hex).expect("right"), (key.to_owned(), input), "{words:?}");
        }
        for (words, hex) in
            [(vec!["-"], false), (vec!["/"], false), (vec!["", "-"], false), (vec!["f"], true)]
        {
            let failed = read(&words, hex).expect_err("wrong");
            assert!(matches!(failed, Failure::Told { kind: Kind::Usage, .. }), "{words:?}");
        }
    }

    #[test]
    fn a_directory_or_a_missing_file_is_named() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for path in [folder.path(), &folder.path().join("missing")] {
            let Err(Failure::Told { kind, message }) = check_file(path) else { panic!("wrong") };
            assert_eq!(kind.exit(), Exit::Failed);
            assert!(message.contains(&path.display().to_string()), "{message}");
        }
    }
}
